package antientropy

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/crdt"
)

func drawPath(t *rapid.T) Path {
	p := LeafOf(drawID(t))
	for range rapid.IntRange(0, 10).Draw(t, "up") {
		p = p.Parent()
	}
	return p
}

func drawTags(t *rapid.T) []uint32 {
	tags := rapid.SliceOfN(rapid.Uint32(), 0, 5).Draw(t, "tags")
	slices.Sort(tags)
	return slices.Clip(append([]uint32(nil), tags...))
}

func drawPosition(t *rapid.T) Position {
	if rapid.Bool().Draw(t, "begin") {
		return Position{}
	}
	f := drawFact(t)
	return positionOf(&f)
}

func drawAsk(t *rapid.T) Ask {
	a := Ask{Path: drawPath(t)}
	if a.Path.Leaf() && rapid.Bool().Draw(t, "slices") {
		a.Bits = rapid.Uint8Range(1, maxBits).Draw(t, "bits")
		for range rapid.IntRange(1, 5).Draw(t, "n") {
			a.Slices = append(a.Slices, rapid.Uint32Range(0, 1<<a.Bits-1).Draw(t, "slice"))
		}
		slices.Sort(a.Slices)
		a.Slices = slices.Compact(a.Slices)
	}
	return a
}

func drawSplit(t *rapid.T) Split {
	s := Split{Bits: rapid.Uint8Range(0, maxSplit).Draw(t, "bits")}
	if s.Bits == 0 {
		s.Tags = drawTags(t)
		return s
	}
	s.Groups = rapid.Uint32Range(1, maxSlices).Draw(t, "groups")
	for part := range s.Groups << s.Bits {
		if part%7 == 3 && rapid.Bool().Draw(t, "part") {
			s.Parts, s.Tags = append(s.Parts, part), append(s.Tags, rapid.Uint32().Draw(t, "tag"))
		}
	}
	return s
}

func drawMessage(t *rapid.T) *Message {
	m := &Message{Kind: Kind(rapid.IntRange(1, 5).Draw(t, "kind")), Session: rapid.Uint64().Draw(t, "session"), Seq: rapid.Uint64().Draw(t, "seq")}
	switch m.Kind {
	case KindHello, KindWelcome:
		m.Hash = rapid.Byte().Draw(t, "hash")
		m.Root = Node{crdt.Sum{rapid.Uint64().Draw(t, "high"), 5}, rapid.Uint64().Draw(t, "count")}
	case KindRequest:
		m.Hash = 1
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			m.Push = append(m.Push, drawFact(t))
			m.Asks = append(m.Asks, drawAsk(t))
			m.Wants = append(m.Wants, Want{drawPath(t), drawTags(t), drawPosition(t)})
		}
	case KindAnswer:
		m.New, m.Done, m.Next = rapid.Uint64().Draw(t, "new"), rapid.Uint64().Draw(t, "done"), drawPosition(t)
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			m.Facts = append(m.Facts, drawFact(t))
			m.Splits = append(m.Splits, drawSplit(t))
		}
	case KindRefusal:
		m.Reason = Reason(rapid.Byte().Draw(t, "reason"))
	}
	return m
}

func TestDecodeIsInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		b := m.AppendTo(nil)
		if len(b) != m.Size() {
			t.Fatalf("%d bytes, said to be %d", len(b), m.Size())
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%v\n%+v is\n%+v", err, m, got)
		}
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if _, err := Decode(b[:cut]); err == nil {
			t.Fatalf("the first %d bytes of %d decode", cut, len(b))
		}
		if _, err := Decode(append(slices.Clone(b), 0)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("a byte too much: %v", err)
		}
	})
}

func TestDecodeVersion(t *testing.T) {
	b := (&Message{Kind: KindHello}).AppendTo(nil)
	for name, change := range map[string]func([]byte){
		"version": func(b []byte) { b[0] = 2 },
		"kind":    func(b []byte) { b[1] = 99 },
	} {
		other := slices.Clone(b)
		if change(other); true {
			if _, err := Decode(other); !errors.Is(err, ErrVersion) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// FuzzDecode: what decodes is canonical, and neither side of an exchange is
// harmed by it.
func FuzzDecode(f *testing.F) {
	f.Add((&Message{Kind: KindHello, Hash: 1}).AppendTo(nil))
	f.Add((&Message{Kind: KindWelcome, Session: 1, Seq: 1, Hash: 1, Root: Node{Count: 5}}).AppendTo(nil))
	facts := recent(3, 10, someTime)
	leaf := LeafOf(facts[0].Task)
	f.Add((&Message{
		Kind: KindRequest, Seq: 1, Hash: 1, Push: facts,
		Asks:  []Ask{{}, {Path: leaf}, {Path: leaf, Bits: 3, Slices: []uint32{1, 5}}},
		Wants: []Want{{Path: leaf, Tags: []uint32{1, 2}}, {After: positionOf(&facts[1])}},
	}).AppendTo(nil))
	f.Add((&Message{
		Kind: KindAnswer, Session: 1, Seq: 2, New: 3, Facts: facts, Done: 1, Next: positionOf(&facts[2]),
		Splits: []Split{{Tags: []uint32{1, 1, 9}}, {Bits: 4, Groups: 2, Parts: []uint32{0, 31}, Tags: []uint32{7, 8}}},
	}).AppendTo(nil))
	f.Add((&Message{Kind: KindRefusal, Session: 1, Seq: 1, Reason: 1}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		if again := m.AppendTo(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is %x", b, again)
		}
		l, _ := pair(50, 10)
		l.a.drop(l.a.all()[7])
		l.a.commit()
		// Every state an initiator can be in meets the message.
		ready := l.initiator.Start(l.now, 1)
		for n := 0; n < 100 && ready.Result == nil && ready.Send != nil; n++ {
			m.Session, m.Seq = ready.Send.Session, ready.Send.Seq
			if n%2 == 0 {
				ready = l.initiator.Step(l.now, m)
				continue
			}
			l.responder.Step(l.now, m)
			answer := l.responder.Step(l.now, ready.Send)
			if answer.Send == nil {
				break
			}
			ready = l.initiator.Step(l.now, answer.Send)
		}
	})
}
