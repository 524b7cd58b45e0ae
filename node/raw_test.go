package node

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// frameOf encodes a request by hand.
func frameOf(t testing.TB, request uint64, m nornv1.Method, body gproto.Message) []byte {
	t.Helper()
	b, err := gproto.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return transport.AppendFrame(nil, transport.Frame{Request: request, Method: uint16(m), Body: b})
}

func helloFrame(t testing.TB) []byte {
	return frameOf(t, 1, nornv1.Method_METHOD_HELLO, &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
}

// readFrame reads one frame byte by byte; only for small ones.
func readFrame(t testing.TB, nc io.Reader) transport.Frame {
	t.Helper()
	return readFrameBy(t, nc, transport.ParseFrame)
}

func readFrameBy(t testing.TB, nc io.Reader, parse func([]byte, int) (transport.Frame, int, error)) transport.Frame {
	t.Helper()
	var b []byte
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(nc, one); err != nil {
			t.Fatalf("after %d bytes: %v", len(b), err)
		}
		b = append(b, one[0])
		if f, n, err := parse(b, proto.MaxFrame); err != nil {
			t.Fatal(err)
		} else if n > 0 {
			return f
		}
	}
}

// greet says hello over a bare connection.
func greet(t testing.TB, nc net.Conn) net.Conn {
	t.Helper()
	t.Cleanup(func() { _ = nc.Close() })
	if _, err := nc.Write(helloFrame(t)); err != nil {
		t.Fatal(err)
	}
	if f := readFrame(t, nc); f.Flags != transport.FlagResponse {
		t.Fatalf("hello was answered with %+v", f)
	}
	return nc
}

// socket connects to a node without any client around it. Buffers are small, so
// that what is not read is felt soon.
func socket(t testing.TB, n *Node) *net.TCPConn {
	t.Helper()
	nc, err := net.DialTimeout("tcp", n.Addr().String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	tcp := nc.(*net.TCPConn)
	if err := tcp.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	return tcp
}

// soon waits for a condition that another goroutine brings about.
func soon(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

// open sends a request whose answer is not waited for here.
func (p *caller) open(m nornv1.Method, req gproto.Message) (answer chan error, cancel context.CancelFunc) {
	answer = make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { answer <- call(ctx, p.c, m, req, &nornv1.WriteReply{}) }()
	return answer, cancel
}
