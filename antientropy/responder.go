package antientropy

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
)

// Responder answers the requests of one peer about one partition. It keeps
// nothing between requests but the last answer's number, so that it may be
// made anew at any time. Make one with [NewResponder].
type Responder struct {
	cfg     Config
	tree    *Tree
	replica Replica

	session, seq uint64
	applied      uint64   // facts of request seq that were new
	refused      uint64   // and that were not taken
	request      *Message // being worked on
	answer       *Message
	size         int // of the answer so far, about, bytes
	split        *splitting
	page         *cursor // into the first want that is not done
}

// NewResponder makes a responder.
func NewResponder(cfg Config, tree *Tree, replica Replica) *Responder {
	cfg.complete()
	return &Responder{cfg: cfg, tree: tree, replica: replica}
}

// Step takes a message of the initiator. Others are ignored.
func (r *Responder) Step(now clock.Time, m *Message) Ready {
	switch m.Kind {
	case KindHello:
		return r.hello(now, m)
	case KindRequest:
		if m.Session == r.session && (m.Seq < r.seq || m.Seq == r.seq && r.request != nil) {
			return r.Advance(now) // an old copy
		}
		if m.Hash != HashVersion {
			return r.refuse(now, m)
		}
		if m.Session != r.session || m.Seq != r.seq {
			r.session, r.seq, r.applied, r.refused = m.Session, m.Seq, 0, 0
			if len(m.Push) > 0 {
				changed, refused := r.replica.Apply(m.Push)
				r.applied, r.refused = uint64(changed), uint64(refused)
			}
		}
		r.request, r.answer = m, &Message{Kind: KindAnswer, Session: m.Session, Seq: m.Seq, New: r.applied, Refused: r.refused, Told: len(m.Push) > 0}
		r.split, r.page, r.size = nil, nil, 0
	}
	return r.Advance(now)
}

// hello agrees on the lower of both hashes.
func (r *Responder) hello(now clock.Time, m *Message) Ready {
	hash := min(m.Hash, HashVersion)
	if !known(hash) {
		return r.refuse(now, m)
	}
	r.request = nil
	ready := r.Advance(now)
	ready.Send = &Message{Kind: KindWelcome, Session: m.Session, Seq: m.Seq, Hash: hash, Root: r.tree.Root(r.replica.View())}
	return ready
}

func (r *Responder) refuse(now clock.Time, m *Message) Ready {
	ready := r.Advance(now)
	ready.Send = Refuse(m, ReasonVersion)
	return ready
}

// Refuse makes the reply of a node that does not take part.
func Refuse(m *Message, why Reason) *Message {
	return &Message{Kind: KindRefusal, Session: m.Session, Seq: m.Seq, Reason: why}
}

// known tells whether this build has a hash.
func known(hash uint8) bool { return hash == HashVersion }

// Advance goes on with the request at hand.
func (r *Responder) Advance(now clock.Time) Ready {
	ready := never()
	if r.request == nil {
		return ready
	}
	if wait := r.cfg.Bucket.Wait(now); wait > 0 {
		ready.Wake = now.Add(wait).Mono
		return ready
	}
	b := r.cfg.budget()
	if !r.asks(b) || !r.wants(b) {
		ready.More = true
		return ready
	}
	ready.Send = r.answer
	r.cfg.Bucket.Take(now, r.size+32)
	r.request, r.answer, r.split, r.page = nil, nil, nil, nil
	return ready
}

func (r *Responder) full() bool { return r.size >= r.cfg.PageBytes }

// asks answers asks until the answer is full or there are no more; it is false
// when the budget is spent before that.
func (r *Responder) asks(b *budget) bool {
	for !r.full() && len(r.answer.Splits) < len(r.request.Asks) {
		if r.split == nil {
			r.split = newSplitting(r.tree, r.replica, r.request.Session, &r.request.Asks[len(r.answer.Splits)])
		}
		if !r.split.run(b) {
			return false
		}
		s := r.split.result()
		r.answer.Splits = append(r.answer.Splits, s)
		r.size += 1 + 4*len(s.Tags)
		r.size += s.bitmap()
		r.split = nil
	}
	return true
}

// wants puts facts into the answer until it is full or there are no more.
func (r *Responder) wants(b *budget) bool {
	for !r.full() && int(r.answer.Done) < len(r.request.Wants) {
		w := &r.request.Wants[r.answer.Done]
		if r.page == nil {
			c := newCursor(w.Path, w.After)
			r.page = &c
		}
		done := r.page.walk(r.replica, b, func(f *crdt.Fact) bool {
			if r.full() {
				return false
			}
			if len(w.Tags) > 0 {
				if _, ok := slices.BinarySearch(w.Tags, tag(r.request.Session, crdt.HashFact(*f))); !ok {
					return true
				}
			}
			// What would make a page far too long waits for the next one.
			if len(r.answer.Facts) > 0 && r.size+len(f.Body) > 2*r.cfg.PageBytes {
				r.size = r.cfg.PageBytes
				return false
			}
			r.answer.Facts = append(r.answer.Facts, clone(f))
			r.size += factSize(f)
			return true
		})
		r.answer.Next = r.page.after
		if !done {
			return r.full()
		}
		r.answer.Done, r.answer.Next, r.page = r.answer.Done+1, Position{}, nil
	}
	return true
}

// factSize is about what a fact takes in a message, bytes.
func factSize(f *crdt.Fact) int { return len(f.Body) + 40 }

func clone(f *crdt.Fact) crdt.Fact {
	return crdt.Fact{Task: f.Task, Key: f.Key, Body: append([]byte(nil), f.Body...), CRC: f.CRC}
}
