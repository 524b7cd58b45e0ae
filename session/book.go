package session

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
)

// entryState is what a dispatcher knows of a claim.
type entryState uint8

const (
	sent         entryState = iota // pushed; no answer yet
	knownRunning                   // it was taken
	unsure                         // the outcome of its push is unknown
)

type entry struct {
	claim Claim
	queue string
	lease time.Duration
	state entryState
	push  uint64
	// at is when a sent one becomes unsure.
	at int64
	// asked is the first question that held it since it became unsure: an answer to
	// that one or a later one tells of it.
	asked  uint64
	cancel Cause
}

// book is what a dispatcher believes to be running on one worker.
//
// Invariant: perQueue, unsure and cancels count the entries.
type book struct {
	all      map[Claim]*entry
	perQueue map[string]int
	unsure   int
	cancels  int   // entries that are to stop
	doubtAt  int64 // the first sent one becomes unsure; may be too early
	seq      uint64
	ask      retry
}

func newBook() book {
	return book{all: make(map[Claim]*entry), perQueue: make(map[string]int), doubtAt: clock.Never}
}

// sorted gives the claims in their order.
func (b *book) sorted() []Claim { return slices.SortedFunc(maps.Keys(b.all), Claim.Compare) }

// add makes an entry.
func (b *book) add(c Claim, queue string, lease time.Duration, state entryState) *entry {
	e := &entry{claim: c, queue: queue, lease: lease, state: state, asked: b.seq + 1}
	b.all[c] = e
	b.count(e, 1)
	return e
}

// put changes the state of an entry. The first question about one that becomes
// unsure is due at once.
func (b *book) put(e *entry, to entryState, now int64) {
	b.count(e, -1)
	if to == unsure && e.state != unsure {
		e.asked = b.seq + 1
		b.ask = retry{at: now}
	}
	e.state = to
	b.count(e, 1)
}

func (b *book) remove(e *entry) {
	b.count(e, -1)
	delete(b.all, e.claim)
}

func (b *book) count(e *entry, n int) {
	if e.state == unsure {
		b.unsure += n
	}
	if e.cancel != CauseNone {
		b.cancels += n
	}
	if b.perQueue[e.queue] += n; b.perQueue[e.queue] == 0 {
		delete(b.perQueue, e.queue)
	}
}

// cancel marks an entry as one that is to stop.
func (b *book) cancel(e *entry, cause Cause) {
	b.count(e, -1)
	e.cancel = cause
	b.count(e, 1)
}

// doubt makes those unsure that were not answered in time.
func (b *book) doubt(now int64) {
	b.doubtAt = clock.Never
	for _, c := range b.sorted() {
		switch e := b.all[c]; {
		case e.state != sent:
		case now >= e.at:
			b.put(e, unsure, now)
		default:
			b.doubtAt = min(b.doubtAt, e.at)
		}
	}
}

// question asks about those that are unsure, as many as one message may hold.
func (b *book) question() *Notify {
	b.seq++
	q := &Notify{Seq: b.seq}
	for _, c := range b.sorted() {
		e := b.all[c]
		switch {
		case e.state != unsure:
		case len(q.Claims) < maxQuestions:
			q.Claims = append(q.Claims, Question{Claim: c, Lease: e.lease})
		default:
			e.asked = b.seq + 1 // not in this one
		}
	}
	return q
}

// stops gives the claims that are to stop: told again in every answer.
func (b *book) stops() []Stop {
	if b.cancels == 0 {
		return nil // nearly always, and each answer to a heartbeat asks
	}
	var all []Stop
	for _, c := range b.sorted() {
		if cause := b.all[c].cancel; cause != CauseNone {
			all = append(all, Stop{c, cause})
		}
	}
	return all
}
