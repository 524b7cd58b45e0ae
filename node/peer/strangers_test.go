package peer

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"

	"github.com/prometheus/client_golang/prometheus"
	gproto "google.golang.org/protobuf/proto"
)

// TestStrangersDoNotFillTheLog: each under another name, there is a line a second. Who does not
// know the secret is counted.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		watch := logins.New(slog.New(slog.DiscardHandler))
		a := w.add(who(1, 0), func(c *Config) { c.Secrets, c.Logins = []string{"s"}, watch })
		defer a.stop()
		began := time.Now()
		for i := range 500 {
			from := register.Member{Node: fmt.Sprint("stranger", i), Incarnation: register.Incarnation{9, byte(i), byte(i >> 8)}}
			b, err := gproto.Marshal(&nornv1.PeerHello{MinVersion: MinVersion, MaxVersion: MaxVersion, From: node(from), To: node(who(1, 0)), Cluster: testCluster[:], Lane: 1, Secret: []byte("guess")})
			if err != nil {
				t.Fatal(err)
			}
			nc, err := w.dial(t.Context(), "n1")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_, _ = nc.Write(transport.AppendSummed(nil, transport.Frame{Request: 1, Method: uint16(nornv1.PeerMethod_PEER_METHOD_HELLO), Body: b}))
			_ = nc.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, _ = io.Copy(io.Discard, nc)
		}
		most := int(time.Since(began)/time.Second) + 2
		settle(2 * time.Second)
		if n := a.log.count("peer.refused"); n == 0 || n > most {
			t.Errorf("%d lines, at most %d", n, most)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(watch)
		all, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := false
		for _, m := range all[0].GetMetric() {
			counted = counted || strings.Contains(m.String(), "wrong_secret") && m.GetCounter().GetValue() == 500
		}
		if !counted {
			t.Error(all)
		}
	})
}
