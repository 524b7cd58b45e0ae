package node

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/core"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/node/metrics"
)

// TestAClockFollowsAFile sets the clock of a running node, as the laboratory does.
func TestAClockFollowsAFile(t *testing.T) {
	c := testConfig(t)
	c.TestClockFile = filepath.Join(t.TempDir(), "clock")
	n := start(t, c, Options{})
	defer stop(t, n)
	shows := func(text string, low, high time.Duration) {
		t.Helper()
		if err := os.WriteFile(c.TestClockFile+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(c.TestClockFile+".new", c.TestClockFile); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the clock is as "+text+" says", func() bool {
			d := time.Until(n.clock.Wall())
			return d >= low && d <= high
		})
	}
	shows("2h\n", 119*time.Minute, 3*time.Hour)
	for _, m := range []nornv1.Method{nornv1.Method_METHOD_PING, nornv1.Method_METHOD_HELLO} {
		a := n.Call(t.Context(), access.Self(), m, &nornv1.Ping{}) // it is the time of this cluster, which has no other
		said := a.Message.(interface{ GetNow() *timestamppb.Timestamp }).GetNow().AsTime()
		if d := time.Until(said); d < 119*time.Minute {
			t.Errorf("%v says that it is %v from now", m, d)
		}
	}
	shows("-2h 1000", -3*time.Hour, -119*time.Minute)
	shows("1h 0 20s", 59*time.Minute, 61*time.Minute)
	if n.clock.Suspends() != 20*time.Second {
		t.Error("it does not know that the machine may be suspended")
	}
	shows("-2h 0", -3*time.Hour, -119*time.Minute)
	if n.clock.Suspends() != 0 {
		t.Error("the machine may still be suspended")
	}
	shows("much", -3*time.Hour, -119*time.Minute) // not understood: as before
	shows("", -time.Minute, time.Minute)
}

// TestAClockThatIsOffIsLogged: once when it begins and once when it ends, and not
// with each turn of one that is set all the time.
func TestAClockThatIsOffIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, m := slog.New(slog.NewTextHandler(&out, nil)), metrics.New()
		said := func(off, good int) {
			t.Helper()
			if a, b := strings.Count(out.String(), "msg=clock.off"), strings.Count(out.String(), "msg=clock.good"); a != off || b != good {
				t.Errorf("it was said %d times that it is off, %d that it is good, want %d and %d", a, b, off, good)
			}
		}
		turn := func(bad int) {
			for range 3 {
				m.Clock(log, &core.Stats{ClockBad: bad, ClockFault: "no time"})
			}
		}
		turn(0)
		said(0, 0)
		turn(5)
		said(1, 0)
		if !strings.Contains(out.String(), `reason="no time" partitions=5`) {
			t.Error(out.String())
		}
		for range 10 {
			turn(0)
			turn(4)
		}
		said(1, 0)
		time.Sleep(metrics.ClockEvery)
		turn(4)
		said(1, 0)
		turn(0)
		said(1, 1)
	})
}

// TestMissingNodesAreNoFaultOfTheClock: nobody is told to set a clock because too few of the
// others answer. What is found out then is said.
func TestMissingNodesAreNoFaultOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, m := slog.New(slog.NewTextHandler(&out, nil)), metrics.New()
		turn := func(s *core.Stats) string {
			time.Sleep(metrics.ClockEvery)
			out.Reset()
			m.Clock(log, s)
			return out.String()
		}
		if said := turn(&core.Stats{ClockBad: 5, ClockFault: "only 1 of 3", ClockAlone: true}); !strings.Contains(said, "msg=clock.alone") || strings.Contains(said, "set the clock") || strings.Contains(said, "NTP") {
			t.Error(said)
		}
		if said := turn(&core.Stats{ClockBad: 5, ClockFault: "an hour"}); !strings.Contains(said, "msg=clock.off") {
			t.Error(said)
		}
		if said := turn(&core.Stats{}); !strings.Contains(said, "msg=clock.good") {
			t.Error(said)
		}
	})
}
