package node

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/core"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestFewCopiesAreSaid: a node that is alone acknowledged `quorum` with one copy of three, and
// neither its log nor its clients said so. Where one copy is meant nothing is said.
func TestFewCopiesAreSaid(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		c := testConfig(t)
		c.Replicas = replicas
		var log lines
		n := start(t, c, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		p := connect(t, n)
		p.enqueue(&nornv1.TaskSpec{Queue: "q"})
		var reply nornv1.PingReply
		if err := p.call(nornv1.Method_METHOD_PING, &nornv1.Ping{}, &reply); err != nil {
			t.Fatal(err)
		}
		if got := reply.GetPlacement(); got.GetReplicas() != uint32(replicas) || got.GetCopies() != 1 {
			t.Errorf("%d replicas: clients hear of %d copies of %d", replicas, got.GetCopies(), got.GetReplicas())
		}
		stop(t, n)
		if got, want := strings.Count(log.String(), "cluster.few_copies"), map[int]int{3: 1}[replicas]; got != want {
			t.Errorf("%d replicas: it is logged %d times, want %d", replicas, got, want)
		}
	}
}

// TestCopiesAreSaidWhenTheyChange: once for each number, and when there are enough.
func TestCopiesAreSaidWhenTheyChange(t *testing.T) {
	var log strings.Builder
	n := &Node{log: slog.New(slog.NewTextHandler(&log, nil))}
	was := &core.Available{}
	for _, step := range []struct{ copies, replicas, few, enough int }{
		{0, 0, 0, 0}, {1, 3, 1, 0}, {1, 3, 1, 0}, {2, 3, 2, 0}, {3, 3, 2, 1}, {3, 3, 2, 1}, {3, 5, 3, 1}, {3, 3, 3, 2},
	} {
		is := &core.Available{Copies: step.copies, Replicas: step.replicas}
		sayCopies(n, was, is)
		was = is
		if few, enough := strings.Count(log.String(), "cluster.few_copies"), strings.Count(log.String(), "cluster.copies"); few != step.few || enough != step.enough {
			t.Errorf("at %d of %d: said %d and %d times, want %d and %d", step.copies, step.replicas, few, enough, step.few, step.enough)
		}
	}
}
