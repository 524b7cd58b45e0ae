package node

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// besieged is a node with a listener in memory, shared by all inputs of a fuzz
// target, and a client that holds a claim on it.
type besieged struct {
	n     *Node
	ln    *transport.MemListener
	other *caller
	held  *nornv1.Grant
}

func newBesieged(f *testing.F) *besieged {
	b := &besieged{n: start(f, testConfig(f), Options{}), ln: transport.NewMemListener(0)}
	served := make(chan error, 1)
	go func() { served <- b.n.server.Serve(context.Background(), b.ln) }()
	f.Cleanup(func() {
		stop(f, b.n)
		if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
			f.Error(err)
		}
	})
	b.other = connect(f, b.n)
	b.other.enqueue(&nornv1.TaskSpec{Queue: "a-queue-that-nobody-guesses"})
	b.held = b.other.claim(&nornv1.ClaimRequest{Queues: []string{"a-queue-that-nobody-guesses"}, LeaseSeconds: 24 * 3600})[0]
	return b
}

// connect gives a connection that has said hello.
func (b *besieged) connect(t *testing.T) net.Conn {
	nc, err := b.ln.Dial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return greet(t, nc)
}

// unharmed shows that the other client still has its connection and claim.
func (b *besieged) unharmed(t *testing.T) {
	t.Helper()
	reply := &nornv1.RenewReply{}
	err := call(t.Context(), b.other.c, nornv1.Method_METHOD_RENEW, renewal(t, b.held), reply)
	if err != nil || reply.Results[0].Error != nil {
		t.Fatalf("the other client: %v, %v", err, reply)
	}
}

// FuzzBytes sends arbitrary bytes to a real node, after a hello and without
// one.
func FuzzBytes(f *testing.F) {
	f.Add(true, transport.AppendFrame(nil, transport.Frame{Request: 1, Method: 3, Body: []byte("\x0a\x05\x12\x03bad")}))
	f.Add(true, transport.AppendFrame(transport.AppendFrame(nil, transport.Frame{Request: 7, Method: 4, Body: []byte("\x0a\x01q\x21\x00\x00\x00\x00\x00\x00\x4e\x40")}), transport.Frame{Request: 7, Flags: transport.FlagCancel}))
	f.Add(false, helloFrame(f))
	f.Add(false, []byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(true, []byte{0, 0, 0, 9})
	b := newBesieged(f)
	f.Fuzz(func(t *testing.T, hello bool, sent []byte) {
		nc, err := b.ln.Dial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nc.Close() }()
		if hello {
			greet(t, nc)
		}
		go func() {
			_, _ = nc.Write(sent) // it may be cut off while we write
			_ = nc.(interface{ CloseWrite() error }).CloseWrite()
		}()
		if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
			t.Logf("the connection ended with %v", err)
		}
		b.unharmed(t)
	})
}

// FuzzMethods sends arbitrary bodies of arbitrary methods to a real node: each
// gets exactly one answer, and the connection goes on.
func FuzzMethods(f *testing.F) {
	entry := func(method uint16, body string) []byte {
		return append(binary.BigEndian.AppendUint16(nil, method), append([]byte{byte(len(body))}, body...)...)
	}
	for n := range nornv1.Method_name {
		f.Add(entry(uint16(n), "\x0a\x01q"))
		f.Add(entry(uint16(n), "\x0a\x14aaaaaaaaaaaaaaaaaaaa\x10\x01"))
	}
	f.Add(append(entry(3, "\x0a\x06\x12\x01q\x1a\x01p"), entry(4, "\x0a\x01q\x21\x00\x00\x00\x00\x00\x00\x4e\x40")...))
	f.Add(append(entry(1023, ""), entry(20, "\x0a\x01q\x12\x02\x08\x01\x1a\x06paused")...))
	b := newBesieged(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		var sent []byte
		requests := uint64(0)
		for len(script) >= 3 && requests < 64 {
			method := binary.BigEndian.Uint16(script) & transport.MethodMask
			size := min(int(script[2]), len(script)-3)
			requests++
			sent = transport.AppendFrame(sent, transport.Frame{Request: requests, Method: method, Body: script[3 : 3+size]})
			script = script[3+size:]
		}
		for i := range requests { // what waits shall not
			sent = transport.AppendFrame(sent, transport.Frame{Request: i + 1, Flags: transport.FlagCancel})
		}
		nc := b.connect(t)
		defer func() { _ = nc.Close() }()
		if _, err := nc.Write(sent); err != nil {
			t.Fatal(err)
		}
		answered := make(map[uint64]bool)
		for range requests {
			fr := readFrame(t, nc)
			if fr.Request == 0 || fr.Request > requests || answered[fr.Request] || fr.Flags&transport.FlagResponse == 0 {
				t.Fatalf("got %+v", fr)
			}
			answered[fr.Request] = true
			var e nornv1.Error
			if fr.Flags&transport.FlagError != 0 && (gproto.Unmarshal(fr.Body, &e) != nil || e.Kind == 0 || e.Message == "") {
				t.Fatalf("an error without a reason: %v", &e)
			}
		}
		if _, err := nc.Write(frameOf(t, 1000, nornv1.Method_METHOD_PING, &nornv1.Ping{})); err != nil {
			t.Fatal(err)
		}
		if fr := readFrame(t, nc); fr.Request != 1000 || fr.Flags != transport.FlagResponse {
			t.Fatalf("the connection is harmed: %+v", fr)
		}
		b.unharmed(t)
	})
}
