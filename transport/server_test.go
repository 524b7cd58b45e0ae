package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchComesOnceForWhatWasBuffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		h := &handler{
			open:   func(*Conn) { events = append(events, "open") },
			handle: func(_ *Conn, f Frame) { events = append(events, fmt.Sprint("handle ", f.Request)) },
			batch:  func(*Conn) { events = append(events, "batch") },
			cancel: func(_ *Conn, request uint64) { events = append(events, fmt.Sprint("cancel ", request)) },
		}
		_, ln := serve(t, Config{}, h)
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: 1}, Frame{Request: 2}, Frame{Request: 1, Flags: FlagCancel}, Frame{Request: 3})
		synctest.Wait()
		send(t, nc, Frame{Request: 4})
		synctest.Wait()
		send(t, nc, Frame{Request: 4, Flags: FlagCancel})
		synctest.Wait()
		nc.Close()
		synctest.Wait()
		want := "open,handle 1,handle 2,cancel 1,handle 3,batch,handle 4,batch,cancel 4"
		if got := strings.Join(events, ","); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if r := h.reasons(); len(r) != 1 || r[0] != io.EOF {
			t.Errorf("closed with %v", r)
		}
	})
}

func TestAttachmentAndIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns []*Conn
		h := &handler{open: func(c *Conn) {
			if c.Attachment() != nil || c.RemoteAddr() == nil || c.TLS() != nil {
				t.Errorf("a new connection: %v %v %v", c.Attachment(), c.RemoteAddr(), c.TLS())
			}
			c.SetAttachment(fmt.Sprint("conn ", c.ID()))
			conns = append(conns, c)
		}}
		srv, ln := serve(t, Config{}, h)
		rawTo(t, ln)
		synctest.Wait()
		rawTo(t, ln)
		synctest.Wait()
		if len(conns) != 2 || conns[0].ID() == conns[1].ID() || srv.Conns() != 2 {
			t.Fatalf("%d connections", srv.Conns())
		}
		conns[0].SetAttachment(7) // another type is fine
		if conns[0].Attachment() != 7 || conns[1].Attachment() != "conn 2" {
			t.Errorf("%v %v", conns[0].Attachment(), conns[1].Attachment())
		}
	})
}

func TestRepliesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		_, ln := serve(t, Config{}, &handler{open: func(c *Conn) { conn = c }})
		nc := rawTo(t, ln)
		synctest.Wait()
		go func() {
			for i := range 10_000 {
				conn.Reply(uint64(i)+1, 1, 0, Bytes("some body"))
			}
		}()
		for i := range 10_000 {
			if f := receive(t, nc); f.Request != uint64(i)+1 {
				t.Fatalf("reply %d is for request %d", i, f.Request)
			}
		}
	})
}

func TestReplyThatCannotBeSent(t *testing.T) {
	_, ln := serve(t, Config{MaxFrame: 1000}, &handler{handle: func(c *Conn, f Frame) {
		switch f.Method {
		case 1:
			c.Reply(f.Request, f.Method, 0, Bytes(make([]byte, 2000)))
		case 2:
			c.Reply(f.Request, f.Method, 0, failing{})
		default:
			echoFrame(c, f)
		}
	}})
	nc := rawTo(t, ln)
	send(t, nc, Frame{Request: 1, Method: 1}, Frame{Request: 2, Method: 2}, Frame{Request: 3, Method: 3, Body: []byte("x")})
	for i, want := range []string{ErrFrameTooLarge.Error(), "broken body", "x"} {
		f := receive(t, nc)
		if isError := f.Flags&FlagError != 0; f.Request != uint64(i)+1 || isError != (i < 2) || !strings.Contains(string(f.Body), want) {
			t.Errorf("answer %d: %+v %s", i, f, f.Body)
		}
	}
}

// tracked counts what becomes of its replies.
type tracked struct {
	encoded, dropped *int
	n                int
}

func (b tracked) Size() int { return b.n }
func (b tracked) AppendTo(dst []byte) ([]byte, error) {
	*b.encoded++
	return append(dst, make([]byte, b.n)...), nil
}
func (b tracked) Dropped() { *b.dropped++ }

func TestDroppedRepliesAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		h := &handler{open: func(c *Conn) { conn = c }}
		_, ln := serve(t, Config{}, h)
		nc := rawTo(t, ln)
		synctest.Wait()
		var encoded, dropped int
		reply := func(n int) bool { return conn.Reply(1, 1, 0, tracked{&encoded, &dropped, n}) }
		// The first fills the pipe: its write call hangs. The others wait.
		if !reply(DefaultPipeBuffer + 1) {
			t.Fatal("refused")
		}
		synctest.Wait()
		for range 10 {
			if !reply(100) {
				t.Fatal("refused")
			}
		}
		synctest.Wait()
		if dropped != 0 {
			t.Fatal("dropped too early")
		}
		nc.Close()
		synctest.Wait()
		if encoded != 1 || dropped != 10 {
			t.Errorf("%d encoded, %d dropped; want 1 and 10", encoded, dropped)
		}
		if reply(1) || dropped != 10 {
			t.Error("a closed connection took a reply")
		}
		if len(h.reasons()) != 1 {
			t.Error("Closed was not called")
		}
	})
}

func TestSlowReaderFillsItsOutbox(t *testing.T) {
	for name, cfg := range map[string]Config{"bytes": {MaxOutboxBytes: 1 << 20}, "frames": {MaxOutboxFrames: 100}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var conns []*Conn
				h := &handler{open: func(c *Conn) { conns = append(conns, c) }, handle: echoFrame}
				_, ln := serve(t, cfg, h)
				rawTo(t, ln)
				synctest.Wait()
				other := dialTo(t, ln, ClientConfig{})
				synctest.Wait()
				accepted := 0
				for conns[0].Reply(1, 1, 0, Bytes(make([]byte, 20_000))) {
					if accepted++; accepted > 1000 {
						t.Fatal("the outbox has no end")
					}
				}
				if got, err := callText(t.Context(), other, "unharmed"); got != "unharmed" {
					t.Error(err)
				}
				synctest.Wait()
				if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], ErrSlowReader) {
					t.Errorf("after %d replies closed with %v", accepted, r)
				}
			})
		})
	}
}

func TestSlowReaderTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		h := &handler{open: func(c *Conn) { conn = c }}
		_, ln := serve(t, Config{HelloTimeout: time.Hour, WriteTimeout: 5 * time.Second}, h)
		rawTo(t, ln)
		synctest.Wait()
		conn.Reply(1, 1, 0, Bytes(make([]byte, 3*DefaultPipeBuffer)))
		time.Sleep(4 * time.Second) // fake time
		synctest.Wait()
		if r := h.reasons(); len(r) != 0 {
			t.Fatalf("closed too early: %v", r)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], ErrSlowReader) {
			t.Errorf("closed with %v", r)
		}
	})
}

func TestSlowButSteadyReaderLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{handle: func(c *Conn, f Frame) { c.Reply(f.Request, 1, 0, Bytes(make([]byte, 8<<20))) }}
		_, ln := serve(t, Config{WriteTimeout: 5 * time.Second}, h)
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: 1})
		buf := make([]byte, 128<<10)
		for got := 0; got < 8<<20; {
			time.Sleep(2 * time.Second) // fake time: over two minutes for one frame
			n, err := io.ReadFull(nc, buf)
			if err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			got += n
		}
	})
}

func TestInFlightLimitPausesReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		handled, batched := 0, 0
		h := &handler{
			handle: func(c *Conn, _ Frame) { conn = c; handled++ },
			batch:  func(*Conn) { batched = handled },
		}
		_, ln := serve(t, Config{MaxInFlight: 4}, h)
		nc := rawTo(t, ln)
		for i := range 10 {
			send(t, nc, Frame{Request: uint64(i) + 1})
		}
		for want := 4; want <= 10; want++ {
			synctest.Wait()
			if handled != want || batched != want {
				t.Fatalf("%d handled, %d of them batched, want %d", handled, batched, want)
			}
			conn.Reply(uint64(want-3), 1, 0, nil)
		}
		// Paused or not, the end is seen.
		for i := range 10 {
			send(t, nc, Frame{Request: uint64(i) + 11})
		}
		synctest.Wait()
		conn.Close(nil)
		synctest.Wait()
		if r := h.reasons(); len(r) != 1 || r[0] != ErrConnClosed {
			t.Errorf("closed with %v", r)
		}
	})
}

func TestFullOutboxPausesReadingFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		h := &handler{handle: func(c *Conn, f Frame) {
			handled++
			c.Reply(f.Request, 1, 0, Bytes(make([]byte, 100_000)))
		}}
		_, ln := serve(t, Config{MaxOutboxBytes: 1 << 20}, h)
		nc := rawTo(t, ln)
		for i := range 100 {
			send(t, nc, Frame{Request: uint64(i) + 1})
		}
		synctest.Wait()
		if handled < 5 || handled > 12 {
			t.Errorf("%d requests handled for a peer that takes nothing", handled)
		}
		for i := range 100 {
			if f := receive(t, nc); f.Request != uint64(i)+1 {
				t.Fatalf("answer %d is for %d", i, f.Request)
			}
		}
	})
}

func TestShutdownWaitsForReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		var request uint64
		h := &handler{handle: func(c *Conn, f Frame) { conn, request = c, f.Request }}
		srv := NewServer(Config{}, h)
		ln := NewMemListener(0)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(t.Context(), ln) }()
		c := dialTo(t, ln, ClientConfig{})
		answered := make(chan string, 1)
		go func() {
			err := c.Call(t.Context(), 1, nil, func(_ uint16, b []byte) error { answered <- string(b); return nil })
			if err != nil {
				t.Error(err)
			}
		}()
		idle := rawTo(t, ln)
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- srv.Shutdown(t.Context()) }()
		synctest.Wait()
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
		if _, err := ln.Dial(t.Context(), ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("still listening: %v", err)
		}
		if b, err := io.ReadAll(idle); len(b) != 0 || err != nil {
			t.Errorf("the idle connection got %q, %v", b, err)
		}
		select {
		case err := <-ended:
			t.Fatalf("shut down with a request open: %v", err)
		default:
		}
		if !conn.Reply(request, 1, 0, Bytes("goodbye")) {
			t.Error("no replies while shutting down")
		}
		if got := <-answered; got != "goodbye" {
			t.Errorf("got %q", got)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if conn.Reply(request, 1, 0, nil) {
			t.Error("a reply after the end")
		}
		for _, r := range h.reasons() {
			if !errors.Is(r, ErrServerClosed) {
				t.Errorf("closed with %v", r)
			}
		}
	})
}

func TestShutdownGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{} // never answers
		srv := NewServer(Config{}, h)
		ln := NewMemListener(0)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(t.Context(), ln) }()
		c := dialTo(t, ln, ClientConfig{})
		result := make(chan error, 1)
		go func() { _, err := callText(t.Context(), c, "x"); result <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		<-served
		wantCallError(t, <-result, true, ErrConnClosed)
		if n := len(h.reasons()); n != 1 || srv.Conns() != 0 {
			t.Errorf("%d Closed calls, %d connections", n, srv.Conns())
		}
		if err := srv.Serve(t.Context(), NewMemListener(0)); !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve after the end: %v", err)
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(Config{}, &handler{handle: echoFrame})
		ln := NewMemListener(0)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ctx, ln) }()
		c := dialTo(t, ln, ClientConfig{})
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
		if got, err := callText(t.Context(), c, "alive"); got != "alive" {
			t.Errorf("connections should live on: %v", err)
		}
		srv.Close()
		<-c.Done()
	})
}

func TestFinishLetsTheReplyLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("bad token")
		h := &handler{handle: func(c *Conn, f Frame) {
			c.Reply(f.Request, f.Method, FlagError, Bytes("who are you?"))
			c.Finish(why)
		}}
		_, ln := serve(t, Config{}, h)
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: 1}, Frame{Request: 2})
		if f := receive(t, nc); string(f.Body) != "who are you?" {
			t.Errorf("got %q", f.Body)
		}
		if rest, err := io.ReadAll(nc); len(rest) != 0 || err != nil {
			t.Errorf("then %q, %v", rest, err)
		}
		nc.Close()
		synctest.Wait()
		if r := h.reasons(); len(r) != 1 || r[0] != why {
			t.Errorf("closed with %v", r)
		}
	})
}

func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{handle: echoFrame}
		srv, ln := serve(t, Config{MaxConns: 2}, h)
		first := dialTo(t, ln, ClientConfig{})
		dialTo(t, ln, ClientConfig{})
		synctest.Wait()
		var refused []*Client
		for range maxRefusing + 10 {
			refused = append(refused, dialTo(t, ln, ClientConfig{}))
		}
		synctest.Wait()
		told := 0
		for _, c := range refused {
			<-c.Done()
			if errors.Is(c.Err(), ErrRemote) && strings.Contains(c.Err().Error(), ErrTooManyConns.Error()) {
				told++
			}
		}
		if told < maxRefusing || srv.Conns() != 2 {
			t.Errorf("%d were told, %d connections", told, srv.Conns())
		}
		if got, err := callText(t.Context(), first, "unharmed"); got != "unharmed" {
			t.Error(err)
		}
		first.Close()
		<-first.Done()
		synctest.Wait()
		if got, err := callText(t.Context(), dialTo(t, ln, ClientConfig{}), "room"); got != "room" {
			t.Error(err)
		}
	})
}

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
