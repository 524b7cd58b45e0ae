package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Everything at once: callers that give up, connections that die, replies from
// another goroutine. Run it with -race.
func TestStress(t *testing.T) {
	type open struct {
		c *Conn
		f Frame
	}
	work := make(chan open, 10_000)
	h := &handler{handle: func(c *Conn, f Frame) {
		f.Body = append([]byte(nil), f.Body...)
		work <- open{c, f}
	}}
	srv, ln := serve(t, Config{MaxInFlight: 50}, h)
	var bodies []*dropOnce
	var answering sync.WaitGroup
	answering.Go(func() {
		n := 0
		for o := range work {
			if n++; n%5000 == 0 {
				o.c.Close(nil)
			}
			b := &dropOnce{Bytes: o.f.Body}
			if !o.c.Reply(o.f.Request, o.f.Method, 0, b) && b.fate.Add(1) != 1 {
				t.Error("refused and dropped")
			}
			bodies = append(bodies, b)
		}
	})
	var callers sync.WaitGroup
	for conn := range 4 {
		c := dialTo(t, ln, ClientConfig{MaxInFlight: 20 * (conn + 1)})
		for i := range 30 {
			callers.Go(func() {
				body := []byte(fmt.Sprintf("%d/%d", conn, i))
				want := string(body)
				for round := range 200 {
					ctx, cancel := context.WithCancel(t.Context())
					if round%3 == i%3 {
						ctx, cancel = context.WithTimeout(t.Context(), time.Duration(round)*time.Microsecond)
					}
					var got string
					err := c.Call(ctx, 1, Bytes(body), func(_ uint16, b []byte) error { got = string(b); return nil })
					cancel()
					var ce *CallError
					if err == nil && got != want || err != nil && !errors.As(err, &ce) {
						t.Errorf("got %q, %v; want %q", got, err, want)
					}
					copy(body, body) // the race detector would see a late reader
				}
			})
		}
	}
	callers.Wait()
	close(work)
	answering.Wait()
	srv.Close()
	for _, b := range bodies {
		if n := b.fate.Load(); n > 1 {
			t.Errorf("a reply was refused or dropped %d times", n)
		}
	}
}

// dropOnce counts how often it was said never to have been written.
type dropOnce struct {
	Bytes
	fate atomic.Int32
}

func (b *dropOnce) Dropped() { b.fate.Add(1) }
