package transport

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Frames that are each within the limit are too much together: one more is
// refused, alone, and gets through once there is room.
func TestLargeFramesShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, ln := serve(t, Config{MaxReadBytes: 1 << 20}, &handler{handle: echoFrame})
		a, b, other := rawTo(t, ln), rawTo(t, ln), dialTo(t, ln, ClientConfig{})
		body := bytes.Repeat([]byte("x"), 900<<10)
		large := AppendFrame(nil, Frame{Request: 2, Method: 3, Body: body})
		half := len(large) * 2 / 3
		a.Write(large[:half])
		synctest.Wait()
		b.Write(large)
		if f := receive(t, b); f.Request != 2 || f.Method != 3 || f.Flags != FlagResponse|FlagError || !strings.Contains(string(f.Body), ErrCrowded.Error()) {
			t.Fatalf("got %+v", f)
		}
		send(t, b, Frame{Request: 3, Body: []byte("small")})
		if f := receive(t, b); f.Request != 3 || string(f.Body) != "small" {
			t.Fatalf("the same connection: %+v", f)
		}
		if got, err := callText(t.Context(), other, strings.Repeat("y", 60<<10)); len(got) != 60<<10 {
			t.Fatalf("another connection: %v", err)
		}
		a.Write(large[half:])
		if f := receive(t, a); !bytes.Equal(f.Body, body) {
			t.Fatalf("the first large frame: %d bytes", len(f.Body))
		}
		synctest.Wait()
		b.Write(large)
		if f := receive(t, b); !bytes.Equal(f.Body, body) {
			t.Fatalf("with room again: %d bytes, flags %x", len(f.Body), f.Flags)
		}
		synctest.Wait()
		a.Write(large[:half])
		synctest.Wait()
		if srv.budget.taken.Load() == 0 {
			t.Fatal("half a large frame costs nothing")
		}
		a.Close()
		synctest.Wait()
		if n := srv.budget.taken.Load(); n != 0 {
			t.Errorf("%d bytes are never given back", n)
		}
	})
}

// TestSlowLargeFramesGiveWay: a client with some connections began a large frame on each, and
// nobody else could send one for half a minute, and again.
func TestSlowLargeFramesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, ln := serve(t, Config{MaxReadBytes: 2 << 20}, &handler{handle: echoFrame})
		idle, slow, b := rawTo(t, ln), rawTo(t, ln), rawTo(t, ln)
		body := bytes.Repeat([]byte("x"), 900<<10)
		large := AppendFrame(nil, Frame{Request: 2, Method: 3, Body: body})
		half := len(large) * 2 / 3
		slow.Write(large[:half])
		idle.Write(large[:half])
		time.Sleep(idleFrame / 2)
		slow.Write(large[half : half+1])
		synctest.Wait()
		b.Write(large)
		if f := receive(t, b); f.Flags != FlagResponse|FlagError {
			t.Fatalf("both are quick still: %x", f.Flags)
		}
		time.Sleep(idleFrame / 2)
		b.Write(large)
		if f := receive(t, b); !bytes.Equal(f.Body, body) {
			t.Fatalf("beside one that has stopped: %.80q", f.Body)
		}
		synctest.Wait()
		if n := srv.Conns(); n != 2 {
			t.Fatalf("%d connections are left, want that of the slow one and of the other", n)
		}
		slow.Write(large[half+1:])
		if f := receive(t, slow); !bytes.Equal(f.Body, body) {
			t.Fatalf("the one that came: %d bytes", len(f.Body))
		}
		synctest.Wait()
		if n := srv.budget.taken.Load(); n != 0 {
			t.Fatalf("%d bytes are never given back", n)
		}
		// Two that go on and on, a byte at a time, for more than there is room.
		c := rawTo(t, ln)
		slow.Write(large[:half])
		c.Write(large[:half])
		for i := range 2 * int(slowFrame/idleFrame) {
			time.Sleep(idleFrame / 2)
			slow.Write(large[half+i : half+i+1])
			c.Write(large[half+i : half+i+1])
		}
		synctest.Wait()
		b.Write(large)
		if f := receive(t, b); !bytes.Equal(f.Body, body) {
			t.Fatalf("beside two that trickle: %.80q", f.Body)
		}
		synctest.Wait()
		if n := srv.Conns(); n != 2 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// TestALargeFrameIsLessThanAQuarter of what all of them may have.
func TestALargeFrameIsLessThanAQuarter(t *testing.T) {
	if n := room(lengthBytes + DefaultMaxFrame); n > DefaultMaxReadBytes/4 {
		t.Errorf("one connection may have %d of %d bytes", n, DefaultMaxReadBytes)
	}
	if n := DefaultMaxOutboxBytes + DefaultMaxOutboxBytes/4; n > DefaultMaxUntakenBytes/4 {
		t.Errorf("one connection may have answers of %d of %d bytes waiting", n, DefaultMaxUntakenBytes)
	}
}

// Whatever comes, what the reader has is what it is charged for.
func TestReaderIsChargedForItsBuffer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		near, far := Pipe(64 << 20)
		defer near.Close()
		var pool buffers
		given := &budget{limit: int64(rapid.SampledFrom([]int{0, 1 << 20, 100 << 20}).Draw(rt, "limit"))}
		r := &frameReader{src: near, pool: &pool, budget: given, maxFrame: DefaultMaxFrame, frameTimeout: 1 << 40}
		frames := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1000, 60_000, 70_000, 300_000, 5_000_000}), 1, 6).Draw(rt, "frames")
		want := 0
		for i, size := range frames {
			far.Write(AppendFrame(nil, Frame{Request: uint64(i) + 1, Body: make([]byte, size)}))
		}
		far.Close()
		for want < len(frames) {
			f, ok, err := r.next()
			if ok || err != nil {
				if want++; f.Request != uint64(want) || ok && len(f.Body) != frames[want-1] {
					rt.Fatalf("frame %d: %d of %d bytes, %v", f.Request, len(f.Body), frames[want-1], err)
				}
				continue
			}
			if err := r.fill(); err != nil {
				rt.Fatal(err)
			}
			if have := max(0, cap(r.buf.b)-busyBuffer); r.charged != have || given.taken.Load() != int64(have) {
				rt.Fatalf("charged %d of %d for %d", r.charged, given.taken.Load(), have)
			}
		}
		r.release()
		if given.taken.Load() != 0 {
			rt.Fatalf("%d bytes are never given back", given.taken.Load())
		}
	})
}
