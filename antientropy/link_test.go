package antientropy

import (
	"bytes"
	"fmt"

	"github.com/norn-dev/norn/clock"
)

// link is two replicas and what runs between them. Messages travel as bytes.
type link struct {
	a, b      *replica
	initiator *Initiator
	responder *Responder
	now       clock.Time
	sessions  uint64
	aWake     int64
	bWake     int64
	// toA and toB are under way; fate says how often a message arrives: 0 is
	// lost. pick says which of n waiting ones is next; nil is the first.
	toA, toB [][]byte
	fate     func(m *Message) int
	pick     func(n int) int
	// between is called before each event.
	between func()
	log     func(format string, args ...any)
	most    int // longest message, bytes
}

func newLink(a, b *replica, cfg Config) *link {
	l := &link{a: a, b: b, now: clock.Time{Wall: someTime + 1e15, Mono: 1}, aWake: clock.Never, bWake: clock.Never}
	l.initiator, l.responder = NewInitiator(cfg, a.tree, a), NewResponder(cfg, b.tree, b)
	return l
}

func (l *link) post(queue *[][]byte, from string, m *Message) {
	if m == nil {
		return
	}
	copies := 1
	if l.fate != nil {
		copies = l.fate(m)
	}
	b := m.AppendTo(nil)
	l.most = max(l.most, len(b))
	if l.log != nil {
		l.log("%s %v", from, m)
		if copies == 0 {
			l.log("   lost")
		}
	}
	for range copies {
		*queue = append(*queue, b)
	}
}

func (l *link) fromA(r Ready) *Result {
	for {
		l.a.commit()
		l.post(&l.toB, ">", r.Send)
		if !r.More {
			break
		}
		r = l.initiator.Advance(l.now)
	}
	l.aWake = r.Wake
	return r.Result
}

func (l *link) fromB(r Ready) {
	for {
		l.b.commit()
		l.post(&l.toA, "<", r.Send)
		if !r.More {
			break
		}
		r = l.responder.Advance(l.now)
	}
	l.bWake = r.Wake
}

func (l *link) take(queue *[][]byte) *Message {
	n := 0
	if l.pick != nil {
		n = l.pick(len(*queue))
	}
	b := (*queue)[n]
	*queue = append((*queue)[:n:n], (*queue)[n+1:]...)
	m, err := Decode(b)
	if err != nil {
		panic(err)
	}
	if again := m.AppendTo(nil); !bytes.Equal(again, b) {
		panic(fmt.Sprintf("%x is %x", b, again))
	}
	return m
}

// round runs one round to its end.
func (l *link) round(t tb) Result {
	t.Helper()
	l.sessions++
	result := l.fromA(l.initiator.Start(l.now, l.sessions*0x9e3779b97f4a7c15))
	for n := 0; result == nil; n++ {
		if n > 1_000_000 {
			t.Fatal("the round does not end")
		}
		if l.between != nil {
			l.between()
		}
		switch {
		case len(l.toB) > 0:
			l.fromB(l.responder.Step(l.now, l.take(&l.toB)))
		case len(l.toA) > 0:
			result = l.fromA(l.initiator.Step(l.now, l.take(&l.toA)))
		default:
			wake := min(l.aWake, l.bWake)
			if wake == clock.Never {
				t.Fatal("nothing to wait for")
			}
			l.now.Wall += max(wake-l.now.Mono, 0)
			l.now.Mono = max(wake, l.now.Mono)
			if l.bWake <= l.now.Mono {
				l.fromB(l.responder.Advance(l.now))
			}
			if l.aWake <= l.now.Mono {
				result = l.fromA(l.initiator.Advance(l.now))
			}
		}
	}
	return *result
}

// wantUnion fails unless both replicas hold these facts and equal trees.
func (l *link) wantEqual(t tb) {
	t.Helper()
	if a, b := l.a.all(), l.b.all(); !same(a, b) {
		t.Fatalf("%d facts here, %d there, or others", len(a), len(b))
	}
	if a, b := l.a.tree.Root(l.a.tx), l.b.tree.Root(l.b.tx); a != b {
		t.Fatalf("roots %v and %v", a, b)
	}
	wantTree(t, l.a)
	wantTree(t, l.b)
}
