package worker

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestASessionLeavesANodeThatIsCutOff before its heartbeats are known to be in vain, also
// behind one address, says so once, and stays where all are cut off.
func TestASessionLeavesANodeThatIsCutOff(t *testing.T) {
	for name, tt := range map[string]struct {
		addrs []string
		cut   [2]bool
	}{
		"one address":   {[]string{"vip:1"}, [2]bool{true, false}},
		"two addresses": {[]string{"a:1", "b:1"}, [2]bool{true, false}},
		"an outage":     {[]string{"a:1", "b:1"}, [2]bool{true, true}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var nodes [2]*fakenode.Node
			for i, cut := range tt.cut {
				place := fakenode.Placement()
				place.CutOff = cut
				nodes[i] = fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
					switch r.Method {
					case nornv1.Method_METHOD_HELLO:
						return fakenode.Answer{Message: &nornv1.HelloReply{Version: proto.MaxVersion, ClusterId: "one", Limits: &nornv1.Limits{MaxInFlight: 100}, Placement: place}}
					case nornv1.Method_METHOD_PING:
						return fakenode.Answer{Message: &nornv1.PingReply{Placement: place}}
					}
					return fakenode.Answer{Lose: true}
				})
			}
			var dials atomic.Int32
			c, err := client.Dial(t.Context(), tt.addrs, client.WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				n := int(dials.Add(1)-1) % 2
				if at := strings.IndexByte("ab", addr[0]); at >= 0 {
					n = at
				}
				return nodes[n].Dial(ctx, addr)
			}))
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			w := New(c, Config{Logger: slog.New(slog.NewTextHandler(&said, nil))})
			w.Handle("q", func(context.Context, *Task) error { return nil })
			ran := make(chan error, 1)
			go func() { ran <- w.Run(context.Background()) }()
			time.Sleep(3500 * time.Millisecond) // after 4 s any node is left that answers nothing
			if on := len(nodes[1].Seen(nornv1.Method_METHOD_SESSION)) > 0; !tt.cut[1] && !on {
				t.Errorf("%s: it is not with the other node; it said\n%s", name, said.String())
			}
			if n := len(nodes[0].Seen(nornv1.Method_METHOD_SESSION)) * len(nodes[1].Seen(nornv1.Method_METHOD_SESSION)); tt.cut[1] && n > 0 {
				t.Errorf("%s: it was with both", name)
			}
			w.StopNow()
			c.Close()
			<-ran
			if n := strings.Count(said.String(), "looking for another"); n > 1 || n == 0 && tt.cut[1] {
				t.Errorf("%s: it said so %d times\n%s", name, n, said.String())
			}
		})
	}
}
