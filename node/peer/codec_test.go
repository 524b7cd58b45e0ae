package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

func drawFact(t *rapid.T) crdt.Fact {
	return crdt.Fact{
		Task: id.ID(rapid.SliceOfN(rapid.Byte(), id.Size, id.Size).Draw(t, "task")),
		Key:  crdt.Key{Kind: crdt.Kind(rapid.Byte().Draw(t, "kind")), A: rapid.Uint64().Draw(t, "a"), B: rapid.Uint64().Draw(t, "b")},
		Body: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"),
	}
}

func drawPartition(t *rapid.T) ring.Partition {
	return ring.Partition(rapid.IntRange(0, ring.MaxPartitions-1).Draw(t, "partition"))
}

func drawMessage(t *rapid.T) core.PeerMessage {
	switch rapid.IntRange(0, 2).Draw(t, "type") {
	case 0:
		return &core.Facts{Write: rapid.Uint64().Draw(t, "write"), Parts: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) core.PartFacts {
			return core.PartFacts{Partition: drawPartition(t), Facts: rapid.SliceOfN(rapid.Custom(drawFact), 0, 5).Draw(t, "facts")}
		}), 0, 5).Draw(t, "parts")}
	case 1:
		return &core.FactsTaken{Write: rapid.Uint64().Draw(t, "write"), Refused: rapid.SliceOfN(rapid.Custom(drawPartition), 0, 5).Draw(t, "refused")}
	}
	m := &antientropy.Message{Kind: antientropy.KindAnswer, Session: rapid.Uint64().Draw(t, "session"), Facts: rapid.SliceOfN(rapid.Custom(drawFact), 0, 5).Draw(t, "facts")}
	if rapid.Bool().Draw(t, "request") {
		m = &antientropy.Message{Kind: antientropy.KindRequest, Push: m.Facts, Wants: make([]antientropy.Want, rapid.IntRange(0, 4).Draw(t, "wants"))}
	}
	return &core.Repair{Partition: drawPartition(t), Message: m}
}

// same compares messages by their bytes: lists of no elements are nil or not.
func encoded(t interface{ Fatal(...any) }, m core.PeerMessage) (nornv1.PeerMethod, []byte) {
	method, p, _, err := encode(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return method, b
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		method, p, _, err := encode(m)
		if err != nil {
			t.Fatal(err)
		}
		prefix := []byte("before")
		b, err := p.AppendTo(bytes.Clone(prefix))
		if err != nil || !bytes.HasPrefix(b, prefix) {
			t.Fatalf("%v, %q", err, b)
		}
		b = b[len(prefix):]
		if len(b) > p.Size() {
			t.Fatalf("%d bytes, said to be %d at most", len(b), p.Size())
		}
		if _, exact := p.(*factsPacket); exact && len(b) != p.Size() {
			t.Fatalf("%d bytes of facts, said to be %d", len(b), p.Size())
		}
		got, err := Decode(method, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, again := encoded(t, got); !bytes.Equal(again, b) || reflect.TypeOf(got) != reflect.TypeOf(m) {
			t.Fatalf("another message: %+v, not %+v", got, m)
		}
		if f, ok := m.(*core.Facts); ok {
			for i, part := range got.(*core.Facts).Parts {
				for j, fact := range part.Facts {
					if want := f.Parts[i].Facts[j]; fact.Task != want.Task || fact.Key != want.Key || !bytes.Equal(fact.Body, want.Body) {
						t.Fatalf("fact %d of part %d: %v, not %v", j, i, fact, want)
					}
				}
			}
		}
	})
}

// TestTheBytesAreThoseOfTheirProto: what is written by hand is what generated
// code writes, and what that writes is read.
func TestTheBytesAreThoseOfTheirProto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		method, b := encoded(t, m)
		var p gproto.Message
		switch method {
		case nornv1.PeerMethod_PEER_METHOD_FACTS:
			p = &nornv1.PeerFacts{}
		case nornv1.PeerMethod_PEER_METHOD_FACTS_TAKEN:
			p = &nornv1.PeerFactsTaken{}
		default:
			p = &nornv1.PeerRepair{}
		}
		if err := gproto.Unmarshal(b, p); err != nil {
			t.Fatal(err)
		}
		if len(p.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("fields that the proto does not have: %v", p)
		}
		if taken, ok := p.(*nornv1.PeerFactsTaken); ok && (taken.GetWrite() != m.(*core.FactsTaken).Write || len(taken.GetRefused()) != len(m.(*core.FactsTaken).Refused)) {
			t.Fatalf("%v, not %+v", taken, m)
		}
		again, err := gproto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(method, again)
		if err != nil {
			t.Fatal(err)
		}
		if _, bytesAgain := encoded(t, got); !bytes.Equal(bytesAgain, b) {
			t.Fatalf("through generated code: %x, not %x", bytesAgain, b)
		}
	})
}

func TestCutMessagesAreRefused(t *testing.T) {
	fact := crdt.Fact{Task: id.ID{1}, Key: crdt.Key{Kind: crdt.KindUpdate, A: 1 << 40, B: 3}, Body: []byte("body")}
	method, b := encoded(t, &core.Facts{Parts: []core.PartFacts{{Partition: 5, Facts: []crdt.Fact{fact, fact}}}})
	for n := 3; n < len(b); n++ { // behind the first field
		if m, err := Decode(method, b[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d of %d bytes were read: %+v, %v", n, len(b), m, err)
		}
	}
	part := func(p *nornv1.PeerPart) []byte {
		b, err := gproto.Marshal(&nornv1.PeerFacts{Parts: []*nornv1.PeerPart{p}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one := append(make([]byte, id.Size+3), 1, 'x')
	for name, b := range map[string][]byte{
		"more facts than said": part(&nornv1.PeerPart{Count: 1, Facts: append(one, one...)}),
		"fewer":                part(&nornv1.PeerPart{Count: 3, Facts: append(one, one...)}),
		"many more":            part(&nornv1.PeerPart{Count: 1 << 31, Facts: one}),
		"partition":            part(&nornv1.PeerPart{Partition: ring.MaxPartitions}),
		"long body":            part(&nornv1.PeerPart{Count: 1, Facts: binary.AppendUvarint(make([]byte, id.Size+3), crdt.MaxBody+1)}),
		"number too long":      part(&nornv1.PeerPart{Count: 1, Facts: append(make([]byte, id.Size+1), bytes.Repeat([]byte{255}, 20)...)}),
	} {
		if m, err := Decode(method, b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	if _, err := Decode(nornv1.PeerMethod(99), nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown method: %v", err)
	}
	if _, err := Decode(nornv1.PeerMethod_PEER_METHOD_FACTS, make([]byte, MaxMessage+1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a message over the limit: %v", err)
	}
}

// TestFewBytesDoNotBecomeMany: what a decoded message takes is within some times
// of its bytes.
func TestFewBytesDoNotBecomeMany(t *testing.T) {
	facts := make([]crdt.Fact, 20_000)
	method, b := encoded(t, &core.Facts{Parts: []core.PartFacts{{Facts: facts}}})
	taken := testing.Benchmark(func(tb *testing.B) {
		tb.ReportAllocs()
		for tb.Loop() {
			if _, err := Decode(method, b); err != nil {
				tb.Fatal(err)
			}
		}
	}).AllocedBytesPerOp()
	if taken > 4*int64(len(b)) {
		t.Errorf("%d bytes became %d", len(b), taken)
	}
	var many []byte
	for range 2 * ring.MaxPartitions {
		many = append(many, 2<<3|2, 0)
	}
	if _, err := Decode(method, many); !errors.Is(err, ErrMalformed) {
		t.Errorf("%d empty parts: %v", 2*ring.MaxPartitions, err)
	}
}

func FuzzDecode(f *testing.F) {
	fact := crdt.Fact{Task: id.ID{1}, Key: crdt.Key{Kind: crdt.KindUpdate, A: 1 << 40, B: 3}, Body: []byte("body")}
	for _, m := range []core.PeerMessage{
		&core.Facts{Write: 300, Parts: []core.PartFacts{{Partition: 5, Facts: []crdt.Fact{fact, fact}}, {Partition: 4095}}},
		&core.FactsTaken{Write: 1, Refused: []ring.Partition{1, 4095}},
		&core.Repair{Partition: 9, Message: &antientropy.Message{Kind: antientropy.KindAnswer, Facts: []crdt.Fact{fact}}},
		&core.Repair{Message: &antientropy.Message{Kind: antientropy.KindRequest, Push: []crdt.Fact{fact}, Wants: make([]antientropy.Want, 2)}},
	} {
		method, b := encoded(f, m)
		f.Add(uint16(method), b)
	}
	f.Fuzz(func(t *testing.T, method uint16, b []byte) {
		m, err := Decode(nornv1.PeerMethod(method), b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknown) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		again, b2 := encoded(t, m)
		got, err := Decode(again, b2)
		if err != nil || again != nornv1.PeerMethod(method) {
			t.Fatalf("method %d: %v", again, err)
		}
		if _, b3 := encoded(t, got); !bytes.Equal(b3, b2) {
			t.Fatalf("%x became %x", b2, b3)
		}
	})
}

func FuzzHellos(f *testing.F) {
	for _, m := range []gproto.Message{
		&nornv1.PeerHello{MinVersion: 1, MaxVersion: 1, From: node(who(1, 0)), To: node(who(2, 0)), Cluster: testCluster[:], Lane: 1},
		&nornv1.PeerJoin{MinVersion: 1, MaxVersion: 1, Node: &nornv1.PeerMember{Node: node(who(1, 0)), Addresses: []string{"a:1"}, Zone: "z", Weight: 3}},
		&nornv1.PeerJoinReply{Cluster: testCluster[:], Partitions: 64, Replicas: 3, From: node(who(1, 0)), Members: []*nornv1.PeerMember{{Node: node(who(1, 0))}}},
	} {
		b, err := gproto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	n := New(Config{Self: who(2, 0), Cluster: testCluster})
	f.Cleanup(n.Close)
	f.Fuzz(func(t *testing.T, b []byte) {
		var hello nornv1.PeerHello
		if gproto.Unmarshal(b, &hello) == nil {
			if h, err := helloOf(&hello); err == nil {
				if reply, refusal := n.greet(&h, hello.GetSecret()); refusal == nil && (h.From == who(2, 0) || h.Cluster != testCluster || reply.GetVersion() != 1) {
					t.Errorf("let in: %+v", h)
				}
			}
		}
		var reply nornv1.PeerHelloReply
		if gproto.Unmarshal(b, &reply) == nil && n.agree(who(1, 0), &reply) == nil {
			if m, err := member(reply.GetFrom()); err != nil || m != who(1, 0) {
				t.Errorf("agreed with %v", &reply)
			}
		}
		var join nornv1.PeerJoin
		if gproto.Unmarshal(b, &join) == nil {
			if m, err := memberOf(join.GetNode()); err == nil && (m.Node == "" || len(m.Addresses) > 8) {
				t.Errorf("read %+v", m)
			}
		}
		var joined nornv1.PeerJoinReply
		if gproto.Unmarshal(b, &joined) == nil {
			if r, err := joinReplyOf(&joined); err == nil && (r.Cluster.Partitions < 0 || r.By.Incarnation == [16]byte{} && len(joined.GetFrom().GetIncarnation()) != 16) {
				t.Errorf("read %+v", r)
			}
		}
	})
}
