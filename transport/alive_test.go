package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestALargeFrameMayComeSlowly: what counts is that it comes, and not how long it takes.
func TestALargeFrameMayComeSlowly(t *testing.T) {
	for name, tt := range map[string]struct {
		rate, stops int // bytes a second, and after so many nothing more comes
		want        error
		after       time.Duration
		says        string
	}{
		"slow":                {rate: 50_000},
		"too slow":            {rate: 10_000, want: ErrFrameTimeout, after: 30 * time.Second, says: "of its 8388622 bytes have come"},
		"stops":               {rate: 1 << 20, stops: 3 << 20, want: ErrFrameTimeout, after: 33 * time.Second, says: "3145728 of its 8388622 bytes have come"},
		"stops within a step": {rate: 1 << 20, stops: 3<<20 + 1000, want: ErrFrameTimeout, after: 33 * time.Second, says: "1018 of them in the last 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				whole := AppendFrame(nil, Frame{Request: 1, Method: 2, Body: make([]byte, 8<<20)})
				moved, got := atomic.Int32{}, atomic.Int32{}
				h := &handler{handle: func(*Conn, Frame) { got.Add(1) }}
				_, ln := serve(t, Config{Moving: func(*Conn) { moved.Add(1) }}, h)
				nc := rawTo(t, ln)
				send(t, nc, Frame{Request: 7, Method: 1})
				synctest.Wait()
				began := time.Now()
				go func() {
					if tt.stops > 0 {
						whole = whole[:tt.stops]
					}
					for len(whole) > 0 {
						n, err := nc.Write(whole[:min(len(whole), tt.rate/10)])
						if err != nil {
							return
						}
						whole = whole[n:]
						time.Sleep(100 * time.Millisecond)
					}
				}()
				if tt.want == nil {
					time.Sleep(time.Hour)
					synctest.Wait()
					if got.Load() != 2 || moved.Load() < 100 {
						t.Errorf("%d frames came, moving was said %d times; closed with %v", got.Load(), moved.Load(), h.reasons())
					}
					return
				}
				if _, err := readOne(nc); err == nil {
					t.Error("it was answered")
				}
				if took := time.Since(began); took < tt.after-time.Second || took > tt.after+time.Second {
					t.Errorf("after %v, want %v", took, tt.after)
				}
				nc.Close()
				synctest.Wait()
				time.Sleep(time.Second) // whoever sends sees it
				if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], tt.want) || !strings.Contains(r[0].Error(), tt.says) {
					t.Errorf("closed with %v", r)
				}
			})
		})
	}
}

// bucket passes a connection on at so many bytes a second, each way, until the test ends.
func bucket(t *testing.T, to string, rate int) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		end()
		ln.Close()
		<-done
	})
	go func() {
		defer close(done)
		near, err := ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			near.Close()
			return
		}
		context.AfterFunc(ctx, func() { near.Close(); far.Close() })
		over := make(chan struct{}, 2)
		pass := func(dst, src net.Conn) {
			defer func() { over <- struct{}{} }()
			b := make([]byte, 16<<10)
			tick := time.NewTicker(time.Duration(len(b)) * time.Second / time.Duration(rate))
			defer tick.Stop()
			for {
				n, err := src.Read(b)
				if _, failed := dst.Write(b[:n]); err != nil || failed != nil {
					near.Close()
					far.Close()
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		}
		go pass(far, near)
		go pass(near, far)
		<-over
		<-over
	}()
	return ln.Addr().String()
}

// listen starts a server on a port of this machine.
func listen(t *testing.T, h Handler) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, served := NewServer(Config{}, h), make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-served
	})
	return ln.Addr().String()
}

// TestAliveOnASlowLine: what goes before the request, and before its answer, takes many
// times as long as an answer may. The system has taken all of the one long before.
func TestAliveOnASlowLine(t *testing.T) {
	const patience, size, rate = time.Second, 5 << 20, 2_500_000
	for name, up := range map[string]bool{"up": true, "down": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &handler{handle: func(c *Conn, f Frame) {
				if f.Method == 2 && !up {
					c.Reply(f.Request, f.Method, 0, Bytes(make([]byte, size)))
					return
				}
				c.Reply(f.Request, f.Method, 0, Bytes("ok"))
			}}
			c, err := Dial(t.Context(), bucket(t, listen(t, h), rate), ClientConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { c.Close(); <-c.Done() }()
			large := make(chan error, 1)
			go func() {
				var body Body
				if up {
					body = Bytes(make([]byte, size))
				}
				large <- c.Call(t.Context(), 2, body, nil)
			}()
			for len(large) == 0 {
				if err := c.Alive(t.Context(), patience, true, 1, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-large; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAFrozenServerIsSilent though its system takes what is sent, and more is sent all the
// time.
func TestAFrozenServerIsSilent(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() // and reads nothing
	c, err := Dial(t.Context(), ln.Addr().String(), ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			short, end := context.WithTimeout(ctx, time.Millisecond)
			_ = c.Call(short, 2, Bytes("more"), nil)
			end()
			<-tick.C
		}
	}()
	const patience = 200 * time.Millisecond
	began := time.Now()
	err = c.Alive(t.Context(), patience, true, 1, nil, nil)
	if took := time.Since(began); !errors.Is(err, ErrSilent) || took < patience || took > 3*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	var broken *CallError
	if !errors.As(err, &broken) || !broken.Sent {
		t.Errorf("%#v", err)
	}
	cancel()
	<-sending
	c.End(io.ErrNoProgress)
	<-c.Done()
	if !errors.Is(c.Err(), io.ErrNoProgress) || !errors.Is(c.Err(), ErrConnClosed) {
		t.Errorf("ended with %v", c.Err())
	}
}
