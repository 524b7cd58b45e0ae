package peer

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestMethodsAreForwarded: those of the client port that the core answers.
// Messages of another method do not leave, and do not come in.
func TestMethodsAreForwarded(t *testing.T) {
	not := []nornv1.Method{
		nornv1.Method_METHOD_UNSPECIFIED, nornv1.Method_METHOD_HELLO, nornv1.Method_METHOD_PING,
		nornv1.Method_METHOD_SCHEDULES, nornv1.Method_METHOD_CHANGE_SCHEDULES, // the register answers each node
		nornv1.Method_METHOD_WORK, nornv1.Method_METHOD_BULK, // their parts are
		nornv1.Method_METHOD_ACCESS, nornv1.Method_METHOD_WHO_AM_I, nornv1.Method_METHOD_ATTENTION, nornv1.Method_METHOD_RANK_QUEUES, // the node answers them beside the core
	}
	for _, n := range not {
		if of := message.MethodOf(n); of != nil && of.Forwarded {
			t.Errorf("%s is forwarded", n)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(nornv1.Method_name)) {
		n := nornv1.Method(number)
		if slices.Contains(not, n) || n >= nornv1.Method_METHOD_SESSION && n <= nornv1.Method_METHOD_SET_WORKER {
			continue // nothing answers them yet; a session is one node's own
		}
		of, name := message.MethodOf(n), n.String()
		if of == nil || !of.Forwarded {
			t.Errorf("%s is not forwarded", name)
			continue
		}
		f := &message.Forward{Number: 1, Method: uint16(n), Body: of.Request()}
		method, b := encoded(t, f)
		if got, err := Decode(method, b); err != nil || !alike(f, got) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		f.Body = &nornv1.Ping{}
		if _, _, _, err := encode(f); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s of a ping: %v", name, err)
		}
		if _, _, _, err := encode(&message.Forwarded{Method: uint16(n), Message: of.Request()}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s answered by a request: %v", name, err)
		}
	}
	for _, m := range []message.PeerMessage{&message.Forward{Method: 999, Body: &nornv1.Ping{}}, &message.Forwarded{Method: 4}, &message.Repair{}, nil} {
		if _, _, _, err := encode(m); !errors.Is(err, ErrUnknown) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	b, err := gproto.Marshal(&nornv1.PeerForward{Method: 999})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(nornv1.PeerMethod_PEER_METHOD_FORWARD, b); !errors.Is(err, ErrUnknown) {
		t.Errorf("a method that is not known: %v", err)
	}
}

// TestAnOlderNodeRefusesAScopedRequest: it knows field 2 alone, and would carry the request out
// without its scope.
func TestAnOlderNodeRefusesAScopedRequest(t *testing.T) {
	_, b := encoded(t, &message.Forward{Number: 1, Method: uint16(nornv1.Method_METHOD_GET), Body: &nornv1.GetRequest{}, Scope: &guard.Scope{Name: "ci"}})
	var m nornv1.PeerForward
	if err := gproto.Unmarshal(b, &m); err != nil || m.GetMethod() != 0 || m.GetScopedMethod() != uint32(nornv1.Method_METHOD_GET) || m.GetScope().GetName() != "ci" {
		t.Errorf("%v, %v", &m, err)
	}
}
