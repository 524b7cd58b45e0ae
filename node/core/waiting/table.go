package waiting

import (
	"cmp"
	"slices"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
)

// Kind is what a request waits for.
type Kind uint8

const (
	// Parts are answers of other nodes to parts of a request.
	Parts Kind = iota
	// Work is something to say to a worker.
	Work
	// Lines are those that a worker remembers of a task.
	Lines
	// Reads are those of other replicas, before something is decided.
	Reads
	// Probes are words of other leaders on what they have, before a claim is granted.
	Probes
	// Task is one that may be handed out.
	Task
	// Offer is the majority of what a claim request is granted.
	Offer
	// Pause is the end of the one before the next try, where an offer had no majority.
	Pause
	// Log is a new line.
	Log
	// Confirmed is the word of a majority that this node still leads, before something is decided.
	Confirmed
	// Decided is the same word, before the answer leaves.
	Decided
	// Majority is one that has a renewal or a release.
	Majority
	// Copies are those of what was written here.
	Copies

	kinds
)

// Stays tells whether a request of this kind is waited for when the node stops.
func (k Kind) Stays() bool {
	switch k {
	case Parts, Reads, Offer, Decided, Majority, Copies:
		return true
	}
	return false
}

// End ends a wait, and refuses its request for a reason; nil: there is nobody to tell.
type End func(why *proto.Error)

// Wait is one request that waits for something. The zero value is one that is over.
type Wait struct {
	From message.Origin

	kind   Kind
	number uint64 // by arrival
	end    End
	in     *Table // nil: it is over
}

// Table has all waits of a node.
type Table struct {
	// Invariant: each wait is under its connection and number, and counted under its kind (Audit).
	of     map[uint64]map[message.Origin][]*Wait // by connection
	counts [kinds]int
	number uint64
}

// New has none.
func New() *Table { return &Table{of: make(map[uint64]map[message.Origin][]*Wait)} }

// Open has a request wait. end is called when it is not to wait any longer, at most once, and
// after it was taken out.
func (t *Table) Open(kind Kind, from message.Origin, end End) *Wait {
	t.number++
	w := &Wait{From: from, kind: kind, number: t.number, end: end, in: t}
	all, at := t.of[from.Conn], message.NumberOf(from)
	if all == nil {
		all = make(map[message.Origin][]*Wait)
		t.of[from.Conn] = all
	}
	all[at] = append(all[at], w)
	t.counts[kind]++
	return w
}

// Close takes a wait out that is over, and tells whether it was not yet.
func (w *Wait) Close() bool {
	if w == nil || w.in == nil {
		return false
	}
	t, all, at := w.in, w.in.of[w.From.Conn], message.NumberOf(w.From)
	w.in = nil
	t.counts[w.kind]--
	if some := slices.DeleteFunc(all[at], func(x *Wait) bool { return x == w }); len(some) > 0 {
		all[at] = some
		return true
	}
	if delete(all, at); len(all) == 0 {
		delete(t.of, w.From.Conn)
	}
	return true
}

// Open tells whether it is not over.
func (w *Wait) Open() bool { return w != nil && w.in != nil }

// End ends it for a reason.
func (w *Wait) End(why *proto.Error) {
	if w.Close() {
		w.end(why)
	}
}

// Find gives the wait of a request for something, the first of several; nil: it does not wait
// for that.
func (t *Table) Find(kind Kind, from message.Origin) *Wait {
	for _, w := range t.of[from.Conn][message.NumberOf(from)] {
		if w.kind == kind {
			return w
		}
	}
	return nil
}

// Count is how many requests wait for something.
func (t *Table) Count(kind Kind) int { return t.counts[kind] }

// Cancel ends all waits of a request that its client gave up.
func (t *Table) Cancel(from message.Origin) {
	end(slices.Clone(t.of[from.Conn][message.NumberOf(from)]), refusal.Cancelled())
}

// Gone ends all waits of a connection that has closed.
func (t *Table) Gone(conn uint64) { end(of(nil, t.of[conn]), nil) }

// Drain ends all waits, but for those whose answer is on its way.
func (t *Table) Drain(why *proto.Error) {
	var all []*Wait
	for _, conn := range t.of { // Any order: they are sorted.
		all = of(all, conn)
	}
	end(slices.DeleteFunc(all, func(w *Wait) bool { return w.kind.Stays() }), why)
}

func of(all []*Wait, conn map[message.Origin][]*Wait) []*Wait {
	for _, some := range conn { // Any order: they are sorted.
		all = append(all, some...)
	}
	return all
}

func end(all []*Wait, why *proto.Error) {
	slices.SortFunc(all, func(a, b *Wait) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.number, b.number))
	})
	for _, w := range all {
		w.End(why)
	}
}
