package transport

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
	for i, want := range []string{"the limit of a frame", "broken body", "x"} {
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

func TestDroppedRepliesOfAnUnfinishedBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		h := &handler{open: func(c *Conn) { conn = c }}
		_, ln := serve(t, Config{}, h)
		nc := rawTo(t, ln)
		synctest.Wait()
		var encoded, dropped int
		reply := func(n int) { conn.Reply(1, 1, 0, tracked{&encoded, &dropped, n}) }
		reply(DefaultPipeBuffer)
		synctest.Wait()
		for range 10 { // the next batch: five chunks of two
			reply(100_000)
		}
		receive(t, nc)
		synctest.Wait() // its first chunk is in the pipe, the second hangs
		for range 3 {
			reply(100)
		}
		if encoded != 5 {
			t.Fatalf("%d encoded", encoded)
		}
		nc.Close()
		synctest.Wait()
		if dropped != 9 {
			t.Errorf("%d dropped, 5 of 14 reached a write call", dropped)
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
					if accepted++; accepted > 10_000 { // most of them are refused in a few bytes
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

// TestAReplyWithoutRoomIsRefused: whoever has asked for more than may wait for it gets an error
// for what has no room, and everything else, in order; also a small reply that comes
// after it.
func TestAReplyWithoutRoomIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		h := &handler{open: func(c *Conn) { conn = c }}
		_, ln := serve(t, Config{MaxOutboxBytes: 1 << 20}, h)
		nc := rawTo(t, ln)
		synctest.Wait()
		const large, rest = 15, 100
		var encoded, dropped int
		for i := range large {
			conn.HoldReply(uint64(i)+1, 1, 0, tracked{&encoded, &dropped, 100_000})
		}
		for i := range rest {
			conn.HoldReply(uint64(large+i)+1, 1, 0, tracked{&encoded, &dropped, smallReply - prefixBytes - deadlineBytes})
		}
		conn.FlushLater()
		given, refused := 0, 0
		for i := range large + rest {
			f := receive(t, nc)
			if f.Request != uint64(i)+1 {
				t.Fatalf("answer %d is for %d", i, f.Request)
			}
			switch {
			case f.Flags == FlagResponse:
				given++
			case i < large && f.Flags == FlagResponse|FlagError && strings.Contains(string(f.Body), ErrBacklog.Error()):
				refused++
			default:
				t.Fatalf("request %d is answered with flags %x, %q", f.Request, f.Flags, f.Body)
			}
		}
		if given != 10+rest || refused != large-10 || encoded != given || dropped != refused {
			t.Errorf("%d answers, %d refused; %d encoded, %d dropped", given, refused, encoded, dropped)
		}
		nc.Close()
	})
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

// TestARefusedReplyIsDroppedOnce: also when the connection ends before the error that went in
// its place.
func TestARefusedReplyIsDroppedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		h := &handler{open: func(c *Conn) { conn = c }}
		_, ln := serve(t, Config{MaxFrame: 300_000}, h)
		nc := rawTo(t, ln)
		synctest.Wait()
		var encoded, dropped, refused int
		hold := func(to *int, size int) { conn.HoldReply(1, 1, 0, tracked{&encoded, to, size}) }
		conn.Reply(1, 1, 0, Bytes(make([]byte, DefaultPipeBuffer-1000)))
		synctest.Wait()         // the pipe is nearly full
		hold(&dropped, 100_000) // a chunk holds two: the first one hangs
		hold(&dropped, 100_000)
		hold(&refused, 300_000) // over the limit, with its head
		hold(&dropped, 100_000)
		conn.FlushLater()
		synctest.Wait()
		nc.Close()
		synctest.Wait()
		if encoded != 4 || refused != 1 || dropped != 1 {
			t.Errorf("%d encoded; %d times the refused one was dropped, %d times one of the others", encoded, refused, dropped)
		}
	})
}
