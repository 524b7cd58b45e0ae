package worker

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// slowConn brings so many bytes a second.
type slowConn struct {
	net.Conn
	rate int
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 16<<10)])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(c.rate))
	return n, err
}

// TestASessionOnASlowLineStays with its node while a large frame comes, behind which are the
// answers to its heartbeats; and turns to another node when nothing comes.
func TestASessionOnASlowLineStays(t *testing.T) {
	for name, large := range map[string]int{"a large frame": 8 << 20, "nothing": 0} {
		synctest.Test(t, func(t *testing.T) {
			script := func(r fakenode.Request) fakenode.Answer {
				if r.Method != nornv1.Method_METHOD_SESSION {
					return fakenode.Answer{}
				}
				if len(r.Message.(*nornv1.SessionRequest).GetMessages()) == 0 || large == 0 {
					time.Sleep(time.Hour)
				}
				return fakenode.Answer{Message: &nornv1.SessionReply{Messages: []*nornv1.DispatcherMessage{
					{Body: &nornv1.DispatcherMessage_HeartbeatReply{HeartbeatReply: &nornv1.SessionHeartbeatReply{Text: string(make([]byte, large))}}},
				}}}
			}
			nodes := map[string]*fakenode.Node{"a:1": fakenode.New(t, script), "b:1": fakenode.New(t, script)}
			c, err := client.Dial(t.Context(), []string{"a:1", "b:1"}, client.WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				nc, err := fakenode.Dialer(nodes)(ctx, addr)
				return &slowConn{nc, 250_000}, err
			}))
			if err != nil {
				t.Fatal(err)
			}
			w := New(c, Config{})
			w.Handle("q", func(context.Context, *Task) error { return nil })
			ran := make(chan error, 1)
			go func() { ran <- w.Run(context.Background()) }()
			time.Sleep(15 * time.Second)
			turned := len(nodes["a:1"].Seen(nornv1.Method_METHOD_SESSION)) > 0 && len(nodes["b:1"].Seen(nornv1.Method_METHOD_SESSION)) > 0
			if turned != (large == 0) {
				t.Errorf("%s: turned to another node: %v", name, turned)
			}
			w.StopNow()
			c.Close()
			<-ran
		})
	}
}
