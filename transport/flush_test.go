package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sockets gives two ends of a connection of the system, which is written to
// directly.
func sockets(t *testing.T, cfg LinkConfig) (a, b *Link) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	x, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	y, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return NewLink(x, cfg), NewLink(y, cfg)
}

// TestFlushNeverBlocks: frames that were held leave in their order with those that
// were sent, from two goroutines, though the other side does not read for a while
// and no buffer of the system holds them all.
func TestFlushNeverBlocks(t *testing.T) {
	const each, size = 4000, 4 << 10 // 32 MiB
	a, b := sockets(t, LinkConfig{MaxOutboxBytes: 1 << 30, MaxOutboxFrames: 1 << 30, WriteTimeout: time.Minute})
	if a.out.direct == nil {
		t.Fatal("a connection of the system that is not written to directly")
	}
	var senders sync.WaitGroup
	for who := range uint16(2) {
		senders.Go(func() {
			body := make(Bytes, size)
			for i := range each {
				frame := Bytes(binary.BigEndian.AppendUint32(append(Bytes(nil), body...), uint32(i)))
				var err error
				if i%3 == 0 {
					err = a.Send(Frame{Method: who}, frame)
				} else {
					err = a.Hold(Frame{Method: who}, frame)
				}
				if err != nil {
					t.Errorf("frame %d: %v", i, err)
				}
				if i%5 == 0 || i == each-1 {
					a.Flush()
				}
			}
		})
	}
	senders.Wait() // nobody has read anything by now

	var next [2]uint32
	h := &linkHandler{frame: func(f Frame) error {
		if got := binary.BigEndian.Uint32(f.Body[size:]); got != next[f.Method] {
			return fmt.Errorf("frame %d of sender %d instead of %d", got, f.Method, next[f.Method])
		}
		if next[f.Method]++; next[0]+next[1] == 2*each {
			b.Close(nil)
		}
		return nil
	}}
	over := make(chan error, 1)
	go func() { over <- a.Read(&linkHandler{}) }()
	_ = b.Read(h)
	<-over
	if next != [2]uint32{each, each} {
		t.Errorf("%d frames of each came", next)
	}
}

// TestHeldFramesWaitForTheirFlush, on a connection that cannot be written to
// directly: TLS is none.
func TestHeldFramesWaitForTheirFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, hb, ea, eb := links(LinkConfig{})
		if a.out.direct != nil {
			t.Fatal("a pipe has no socket")
		}
		if err := a.Hold(Frame{}, Bytes("held")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(hb.bodies) != 0 {
			t.Error("it left before its flush")
		}
		a.Flush()
		a.Flush() // nothing is left
		synctest.Wait()
		if len(hb.bodies) != 1 {
			t.Errorf("%d frames after the flush", len(hb.bodies))
		}
		a.Close(nil)
		b.Close(nil)
		<-ea
		<-eb
		a.Flush()
		if err := a.Hold(Frame{}, nil); err == nil {
			t.Error("a frame was taken after the end")
		}
	})
}

// TestHeldFramesOfAClosedLinkAreTold as those that were sent are.
func TestHeldFramesOfAClosedLinkAreTold(t *testing.T) {
	a, b := sockets(t, LinkConfig{})
	told := 0
	if err := a.Hold(Frame{}, fate{size: 10, real: 10, dropped: &told}); err != nil {
		t.Fatal(err)
	}
	a.Close(nil)
	_ = a.Read(&linkHandler{})
	b.Close(nil)
	_ = b.Read(&linkHandler{})
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// TestADeadlineThatHasPassedHoldsNothingUp: the writer leaves one behind, and a
// flush long after it goes out at once.
func TestADeadlineThatHasPassedHoldsNothingUp(t *testing.T) {
	a, b := sockets(t, LinkConfig{})
	came := make(chan struct{}, 2)
	h := &linkHandler{frame: func(Frame) error { came <- struct{}{}; return nil }}
	over := make(chan error, 2)
	go func() { over <- a.Read(&linkHandler{}) }()
	go func() { over <- b.Read(h) }()
	if err := a.Send(Frame{}, Bytes("by the writer")); err != nil {
		t.Fatal(err)
	}
	<-came
	a.out.waitUntil(func() bool { return !a.out.running })
	if err := a.nc.SetWriteDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := a.Hold(Frame{}, Bytes("directly")); err != nil {
		t.Fatal(err)
	}
	a.Flush()
	if a.out.timed {
		t.Error("the flush was left to the writer")
	}
	<-came
	a.Close(nil)
	<-over
	<-over
}

// TestManyFlushesAreShared: whoever has replies for many connections writes to a few of them,
// and other goroutines to the rest.
func TestManyFlushesAreShared(t *testing.T) {
	for _, n := range []int{0, 1, maxFlushes, maxFlushes + 1, 5*maxFlushes - 1} {
		synctest.Test(t, func(t *testing.T) {
			all, flushed, caller := make([]flushes, n), make([]atomic.Int32, n), true
			own, hangs := 0, make(chan struct{})
			for i := range all {
				all[i] = func() {
					if i >= n-maxFlushes && caller {
						own++
					} else {
						<-hangs
					}
					flushed[i].Add(1)
				}
			}
			FlushAll(all)
			clear(all) // they are the caller's again
			caller = false
			close(hangs)
			synctest.Wait()
			for i := range flushed {
				if got := flushed[i].Load(); got != 1 {
					t.Errorf("of %d: connection %d was flushed %d times", n, i, got)
				}
			}
			if own > maxFlushes || n <= maxFlushes && own != n {
				t.Errorf("of %d the caller has flushed %d", n, own)
			}
		})
	}
}

// flushes is a connection.
type flushes func()

func (f flushes) Flush() { f() }

// TestALoneRequestIsWrittenByItsCaller: the goroutine that makes it is not kept waiting for
// another one. With a second one open the writer has them share writes.
func TestALoneRequestIsWrittenByItsCaller(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const silent = 7
	srv := NewServer(Config{}, &handler{handle: func(c *Conn, f Frame) {
		if f.Method != silent {
			echoFrame(c, f)
		}
	}})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	c, err := Dial(t.Context(), ln.Addr().String(), ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, method uint16) error { return c.Call(ctx, method, Bytes("question"), nil) }
	for range 3 {
		if err := call(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if c.out.timed {
			t.Fatal("its writer has written it")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	open := make(chan error, 1)
	go func() { open <- call(ctx, silent) }()
	for c.InFlight() == 0 {
		runtime.Gosched()
	}
	if err := call(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	c.out.waitUntil(func() bool { return !c.out.running })
	if !c.out.timed {
		t.Error("a second request was written by its caller, too")
	}
	cancel()
	<-open
	c.Close()
	<-c.Done()
	srv.Close()
	<-served
}
