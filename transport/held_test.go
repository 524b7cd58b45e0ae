package transport

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
)

// small gives two ends of a connection of the system whose buffers hold a few KiB.
func small(t *testing.T) (a, b *Link) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	x, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	y, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.(*net.UnixConn).SetWriteBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	return NewLink(x, LinkConfig{}), NewLink(y, LinkConfig{})
}

// calling is a body that does something while it is written.
type calling func()

func (c calling) Size() int                           { return 1 }
func (c calling) AppendTo(dst []byte) ([]byte, error) { c(); return append(dst, 'x'), nil }

// TestAFlushThatGoesHalfWay: the writer sends the rest, and nothing twice. What is queued
// while a flush is under way leaves too.
func TestAFlushThatGoesHalfWay(t *testing.T) {
	a, b := small(t)
	if a.out.direct == nil {
		t.Fatal("a connection of the system that is not written to directly")
	}
	const frames, size = 15, 4 << 10 // less than a flush writes at once, and more than it can
	for i := range frames {
		if err := a.Hold(Frame{}, Bytes(bytes.Repeat([]byte{byte(i)}, size))); err != nil {
			t.Fatal(err)
		}
	}
	a.Flush()
	came := make(chan []byte, frames+2)
	over := make(chan error, 2)
	go func() { over <- a.Read(&linkHandler{}) }()
	go func() {
		over <- b.Read(&linkHandler{frame: func(f Frame) error { came <- bytes.Clone(f.Body); return nil }})
	}()
	for i := range frames {
		if got := within(t, came); len(got) != size || got[0] != byte(i) || got[size-1] != byte(i) {
			t.Fatalf("frame %d has %d bytes, %d to %d", i, len(got), got[0], got[len(got)-1])
		}
	}
	a.out.waitUntil(func() bool { return !a.out.running })
	if err := a.Hold(Frame{}, calling(func() {
		if err := a.Send(Frame{}, Bytes("meanwhile")); err != nil {
			t.Error(err)
		}
	})); err != nil {
		t.Fatal(err)
	}
	a.Flush()
	for _, want := range []string{"x", "meanwhile"} {
		if got := within(t, came); string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	a.Close(nil)
	b.Close(nil)
	<-over
	<-over
}

// late is a context that ends just as its caller gets a slot.
type late struct {
	context.Context
	granted func()
	asked   bool
}

func (l *late) Done() <-chan struct{} {
	l.granted()
	l.asked = true
	done := make(chan struct{})
	close(done)
	return done
}

func (l *late) Err() error {
	if l.asked {
		return context.Canceled
	}
	return nil
}

// TestASlotThatComesTooLateIsGivenBack: else a connection would have one less for good.
func TestASlotThatComesTooLateIsGivenBack(t *testing.T) {
	const size = 100
	c := &Client{limit: 1, open: make(map[uint64]opened), cfg: ClientConfig{MaxOutboxBytes: size}}
	for range 50 { // select takes any case that is ready
		c.take(Short, size) // by another call
		k := &call{size: size}
		err := c.admit(&late{Context: t.Context(), granted: func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.slots--
			c.reserved -= size
			c.grant()
		}}, k)
		if err == nil {
			c.remove(k)
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if c.slots != 0 || c.reserved != 0 || c.anyWaits() {
			t.Fatalf("%d slots and %d bytes are taken, %v wait", c.slots, c.reserved, c.waiting)
		}
	}
}
