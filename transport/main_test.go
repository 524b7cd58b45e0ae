package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handler is a Handler of functions; nil ones do nothing.
type handler struct {
	open   func(*Conn)
	handle func(*Conn, Frame)
	batch  func(*Conn)
	cancel func(*Conn, uint64)

	mu     sync.Mutex // guards closed
	closed []error
}

func (h *handler) Open(c *Conn) {
	if h.open != nil {
		h.open(c)
	}
}

func (h *handler) Handle(c *Conn, f Frame) {
	if h.handle != nil {
		h.handle(c, f)
	}
}

func (h *handler) Batch(c *Conn) {
	if h.batch != nil {
		h.batch(c)
	}
}

func (h *handler) Cancel(c *Conn, request uint64) {
	if h.cancel != nil {
		h.cancel(c, request)
	}
}

func (h *handler) Closed(_ *Conn, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = append(h.closed, err)
}

// reasons are the errors Closed was called with so far.
func (h *handler) reasons() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]error(nil), h.closed...)
}

// answer is a handle function that echoes.
func echoFrame(c *Conn, f Frame) {
	c.Reply(f.Request, f.Method, 0, Bytes(append([]byte(nil), f.Body...)))
}

// serve starts a server in memory, closed with the test.
func serve(t testing.TB, cfg Config, h Handler) (*Server, *MemListener) {
	t.Helper()
	ln := NewMemListener(0)
	srv := NewServer(cfg, h)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return srv, ln
}

// dialTo connects a client, closed with the test.
func dialTo(t testing.TB, ln *MemListener, cfg ClientConfig) *Client {
	t.Helper()
	cfg.Dialer = ln.Dial
	c, err := Dial(context.Background(), "memory", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		<-c.Done()
	})
	return c
}

// rawTo connects without a client, closed with the test.
func rawTo(t testing.TB, ln *MemListener) net.Conn {
	t.Helper()
	nc, err := ln.Dial(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// send writes frames to a raw connection.
func send(t testing.TB, nc net.Conn, frames ...Frame) {
	t.Helper()
	var b []byte
	for _, f := range frames {
		b = AppendFrame(b, f)
	}
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
}

// receive reads one frame from a raw connection.
func receive(t testing.TB, nc net.Conn) Frame {
	t.Helper()
	f, err := readOne(nc)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readOne(nc io.Reader) (Frame, error) {
	b := make([]byte, lengthBytes)
	if _, err := io.ReadFull(nc, b); err != nil {
		return Frame{}, err
	}
	b = append(b, make([]byte, binary.BigEndian.Uint32(b))...)
	if _, err := io.ReadFull(nc, b[lengthBytes:]); err != nil {
		return Frame{}, err
	}
	f, _, err := ParseFrame(b, 1<<30)
	return f, err
}

// within fails the test when nothing comes from ch; only for tests on sockets.
func within[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(60 * time.Second):
		t.Fatal("nothing came")
		panic("not reached")
	}
}

// call is Call with a string each way.
func callText(ctx context.Context, c *Client, text string) (string, error) {
	var got string
	err := c.Call(ctx, 7, Bytes(text), func(_ uint16, b []byte) error {
		got = string(b)
		return nil
	})
	return got, err
}

// wantCallError checks an error of Call.
func wantCallError(t testing.TB, err error, sent bool, is error) {
	t.Helper()
	var ce *CallError
	if !errors.As(err, &ce) || ce.Sent != sent || !errors.Is(err, is) {
		t.Errorf("got %v; want a CallError with Sent %v that is %v", err, sent, is)
	}
}
