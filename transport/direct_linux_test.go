package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tcpPair is a connection over loopback, closed with the test.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

// TestDirectReader: reading a socket directly gives what its connection would, in bytes and in errors.
func TestDirectReader(t *testing.T) {
	near, far := tcpPair(t)
	in := inputOf(near)
	if _, ok := in.(*directReader); !ok {
		t.Fatalf("a TCP connection is read by a %T", in)
	}
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		for rest := sent; len(rest) > 0; { // what is full is written later
			raw := socketOf(far)
			_ = raw.Write(func(fd uintptr) bool {
				n := writeNow(fd, rest)
				rest = rest[n:]
				return n > 0
			})
		}
		_ = far.CloseWrite()
	}()
	got, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("read %d bytes, %v; want %d", len(got), err, len(sent))
	}

	b := make([]byte, 10)
	if n, err := in.Read(b); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

func TestDirectReaderErrors(t *testing.T) {
	b := make([]byte, 10)
	near, far := tcpPair(t)
	in := inputOf(near)
	_ = near.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, err := in.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a deadline: %d, %v", n, err)
	}
	_ = near.SetReadDeadline(time.Time{})
	_ = far.SetLinger(0)
	_ = far.Close() // resets it
	n, err := in.Read(b)
	if n != 0 || !errors.Is(err, syscall.ECONNRESET) || !strings.HasPrefix(err.Error(), "read tcp "+near.LocalAddr().String()+"->"+near.RemoteAddr().String()+": read: ") {
		t.Errorf("after a reset: %d, %v", n, err)
	}

	near, _ = tcpPair(t)
	in = inputOf(near)
	ended := make(chan error, 1)
	go func() {
		_, err := in.Read(make([]byte, 10))
		ended <- err
	}()
	_ = near.Close()
	if err := within(t, ended); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed meanwhile: %v", err)
	}
}

// TestDirectReaderAllocatesNothing, as reading through the connection does.
func TestDirectReaderAllocatesNothing(t *testing.T) {
	near, far := tcpPair(t)
	in, b := inputOf(near), make([]byte, 64)
	all := testing.AllocsPerRun(100, func() {
		if _, err := far.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(in, b); err != nil {
			t.Fatal(err)
		}
	})
	if all > 0 {
		t.Errorf("%v allocations for a read", all)
	}
}

// begun is a connection of which the beginning was read already. Its socket may be written to.
type begun struct {
	*net.TCPConn
	said io.Reader
}

func (c begun) Read(b []byte) (int, error) { return io.MultiReader(c.said, c.TCPConn).Read(b) }

// TestWhatWasReadBeforeIsNotPassedOver: a connection that holds the beginning of what has come, as
// that of a proxy with its header, is not read behind its back.
func TestWhatWasReadBeforeIsNotPassedOver(t *testing.T) {
	near, far := tcpPair(t)
	c := begun{near, strings.NewReader("first")}
	if socketOf(c) == nil {
		t.Fatal("it has no socket")
	}
	if _, err := far.Write([]byte(", second")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len("first, second"))
	if _, err := io.ReadFull(inputOf(c), b); err != nil || string(b) != "first, second" {
		t.Errorf("read %q, %v", b, err)
	}
}

// TestLinkGoesOnDirectly: a link that is given what was read of its connection before reads that
// first, wherever it was cut, and the socket itself from there on.
func TestLinkGoesOnDirectly(t *testing.T) {
	all := AppendSummed(nil, Frame{Body: []byte("first")})
	one := len(all)
	all = AppendSummed(all, Frame{Body: []byte("second")})
	for _, cut := range []int{0, 1, 5, one, one + 1, len(all)} {
		near, far := tcpPair(t)
		if _, err := far.Write(all); err != nil {
			t.Fatal(err)
		}
		begun := make([]byte, cut)
		if _, err := io.ReadFull(near, begun); err != nil {
			t.Fatal(err)
		}
		l, h, ended := NewLink(near, LinkConfig{Begun: begun}), &linkHandler{}, make(chan error, 1)
		_ = far.CloseWrite()
		go func() { ended <- l.Read(h) }()
		if err := within(t, ended); err != io.EOF || strings.Join(h.bodies, ", ") != "first, second" {
			t.Errorf("after %d bytes: %q, %v", cut, h.bodies, err)
		}
		if _, ok := l.in.input.(*directReader); !ok {
			t.Errorf("after %d bytes it is read by a %T", cut, l.in.input)
		}
	}
}

// TestInputOfMemory: what has no socket is read as it is.
func TestInputOfMemory(t *testing.T) {
	a, b := Pipe(0)
	defer a.Close()
	defer b.Close()
	if in := inputOf(a); in != io.Reader(a) {
		t.Errorf("read by a %T", in)
	}
}
