package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// The tests of this file run in bubbles, over pipes: what takes minutes there
// takes none, and no time-out depends on how busy the machine is.

// pipes is a listener of pipes.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// inBubble serves over pipes until the test ends.
func inBubble(t *testing.T, b Backend, o Options) (dial func() net.Conn, s *Server) {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	s = NewServer(b, o)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // at once
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("served until %v", err)
		}
	})
	return func() net.Conn {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		t.Cleanup(func() { _ = ours.Close() })
		return ours
	}, s
}

// TestSlowClientsAreCutOff: heads, bodies, handshakes and silence that never end.
func TestSlowClientsAreCutOff(t *testing.T) {
	for what, tc := range map[string]struct {
		send string
		most time.Duration
	}{
		"silence":          {"", 10 * time.Second},
		"half a line":      {"GET /api/v1/pi", 10 * time.Second},
		"half a head":      {"GET /api/v1/ping HTTP/1.1\r\nHost: localhost\r\n", 10 * time.Second},
		"half a handshake": {"\x16\x03\x01", 20 * time.Second},
		"half a body":      {"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", 41 * time.Second},
		"half a piece":     {"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", 41 * time.Second},
		"nothing after it": {"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 2*time.Minute + time.Second},
	} {
		for name, o := range map[string]Options{"plain": {}, "TLS": {TLS: certificate(t)}} {
			t.Run(what+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var called atomic.Int64
					dial, s := inBubble(t, answering(&called), o)
					c, began := dial(), time.Now()
					if _, err := io.WriteString(c, tc.send); err != nil && name == "plain" {
						t.Error(err)
					}
					_, _ = io.Copy(io.Discard, c) // until it is closed, which may be an error
					if took := time.Since(began); took > tc.most || called.Load() != 0 {
						t.Errorf("cut off after %v, with %d calls", took, called.Load())
					}
					synctest.Wait()
					if n := s.metrics.open.Load(); n != 0 {
						t.Errorf("%d connections are open", n)
					}
				})
			})
		}
	}
}

// TestWhoDoesNotReadIsCutOff asks for something and reads nothing.
func TestWhoDoesNotReadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := &nornv1.ListReply{Tasks: []*nornv1.Task{{Payload: make([]byte, 256<<10)}}}
		b := &backend{registry: prometheus.NewRegistry(), call: func(context.Context, nornv1.Method, gproto.Message) (gproto.Message, *proto.Error, func()) {
			return big, nil, func() {}
		}}
		dial, s := inBubble(t, b, Options{})
		c := dial()
		if _, err := io.WriteString(c, "GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := s.metrics.open.Load(); n != 1 {
			t.Fatalf("%d connections are open", n)
		}
		<-time.After(31 * time.Second)
		synctest.Wait()
		if n := s.metrics.open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

// TestAWaitMayBeLongerThanAnyTimeout holds requests back for as long as a claim may
// wait, which is longer than the time-outs of head, body and answer.
func TestAWaitMayBeLongerThanAnyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{registry: prometheus.NewRegistry(), call: func(ctx context.Context, _ nornv1.Method, _ gproto.Message) (gproto.Message, *proto.Error, func()) {
			select {
			case <-time.After(proto.MaxWait):
				return &nornv1.ClaimReply{}, nil, func() {}
			case <-ctx.Done():
				return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CANCELLED, "gone"), func() {}
			}
		}}
		dial, _ := inBubble(t, b, Options{})
		c := dial()
		answers := bufio.NewReader(c)
		for i := range 3 { // on one connection: what one request leaves behind must not meet the next
			if _, err := io.WriteString(c, "POST /api/v1/tasks/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{\"wait_seconds\":300}"); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(answers, nil)
			if err != nil || r.StatusCode != http.StatusOK {
				t.Fatalf("request %d: %v, %v", i, r, err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}
	})
}

// TestNoAnswerIsNotWaitedForForEver: a node that does not answer at all is given
// up, and the outcome is unknown.
func TestNoAnswerIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := &backend{registry: prometheus.NewRegistry(), call: func(ctx context.Context, _ nornv1.Method, _ gproto.Message) (gproto.Message, *proto.Error, func()) {
			<-ctx.Done()
			return nil, &proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED, Message: "unknown"}, func() {}
		}}
		dial, _ := inBubble(t, b, Options{})
		c := dial()
		if _, err := io.WriteString(c, "GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != http.StatusGatewayTimeout || time.Since(began) > patience+time.Second {
			t.Errorf("after %v: %v, %v", time.Since(began), r, err)
		}
	})
}

// TestASlowReaderGetsALargeUpdate: somebody reads 16 KiB a second, which is enough for an
// answer in JSON. An update of a stream was one write with one time-out, so that a large
// one was cut off again and again, wherever the reader went on.
func TestASlowReaderGetsALargeUpdate(t *testing.T) {
	page := &nornv1.LogReply{State: nornv1.State_STATE_COMPLETED, Updates: []*nornv1.Update{{Token: 7, Seq: 1, Data: make([]byte, 1<<20)}}}
	for accept, last := range map[string]string{"application/json": "}", "text/event-stream": "event: end"} {
		synctest.Test(t, func(t *testing.T) {
			b := &backend{registry: prometheus.NewRegistry(), call: func(_ context.Context, _ nornv1.Method, m gproto.Message) (gproto.Message, *proto.Error, func()) {
				if m.(*nornv1.LogRequest).GetAfter() {
					return &nornv1.LogReply{State: page.State}, nil, func() {}
				}
				return page, nil, func() {}
			}}
			dial, _ := inBubble(t, b, Options{})
			c := dial()
			if _, err := io.WriteString(c, "GET /api/v1/tasks/37dGamhT6KhgeCdJ3yaFwZAimIC/log HTTP/1.0\r\nHost: localhost\r\nAccept: "+accept+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for {
				if _, err := io.CopyN(&all, c, 16<<10); err != nil {
					break // it has ended
				}
				<-time.After(time.Second)
			}
			if text := all.String(); len(text) < 1<<20 || !strings.Contains(text[len(text)-200:], last) {
				t.Errorf("%s: %d bytes, which end in %q", accept, len(text), text[max(0, len(text)-40):])
			}
		})
	}
}
