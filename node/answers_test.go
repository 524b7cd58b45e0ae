package node

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// TestManyLargeAnswersAreAnswers: a client that asks for more than may wait for it, within its
// credit and faster than it can take the answers, was cut off without a word, with everything
// else that it had open; and again when it came back and asked once more. What has no room
// is refused, and the rest is answered.
func TestManyLargeAnswersAreAnswers(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	p := connect(t, n)
	id := p.enqueue(&nornv1.TaskSpec{Queue: "q", Payload: make([]byte, proto.MaxPayload)})[0]
	get, err := gproto.Marshal(&nornv1.GetRequest{Id: taskID(t, id)})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	greet(t, nc)
	const asked = 80
	var b []byte
	for i := range asked {
		b = transport.AppendFrame(b, transport.Frame{Request: uint64(i) + 100, Method: uint16(nornv1.Method_METHOD_GET), Body: get})
	}
	for range maxReads { // nothing is read yet
		n.reading <- struct{}{}
	}
	if _, err := nc.Write(b); err != nil {
		t.Fatal(err)
	}
	soon(t, "all wait for their turn", func() bool { return n.queued.Load() == asked })
	for range maxReads {
		<-n.reading
	}
	soon(t, "all are read, though the client has taken nothing", func() bool { return n.queued.Load() == 0 })
	given, refused, seen := 0, 0, make(map[uint64]bool)
	for range asked {
		f := readWhole(t, nc)
		if seen[f.Request] {
			t.Fatalf("request %d is answered twice", f.Request)
		}
		seen[f.Request] = true
		if f.Flags&transport.FlagError == 0 {
			given++
			continue
		}
		e := &nornv1.Error{}
		if err := gproto.Unmarshal(f.Body, e); err != nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || e.RetryAfterSeconds <= 0 || e.Effect != nornv1.Effect_EFFECT_UNKNOWN {
			t.Fatalf("answered with %v (%v)", e, err)
		}
		refused++
	}
	if given < 50 || refused == 0 {
		t.Errorf("%d of %d have an answer, %d are refused", given, asked, refused)
	}
}

// readWhole reads a frame that is large.
func readWhole(t testing.TB, nc io.Reader) transport.Frame {
	t.Helper()
	b := make([]byte, 4)
	_, err := io.ReadFull(nc, b)
	if err == nil {
		b = append(b, make([]byte, binary.BigEndian.Uint32(b))...)
		_, err = io.ReadFull(nc, b[4:])
	}
	if err != nil {
		t.Fatal(err)
	}
	f, n, err := transport.ParseFrame(b, proto.MaxFrame)
	if err != nil || n != len(b) {
		t.Fatalf("%d of %d bytes: %v", n, len(b), err)
	}
	return f
}
