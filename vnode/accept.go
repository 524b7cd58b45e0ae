package vnode

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/store"
)

// Verdict is what an acceptor says to a proposed grant or renewal.
type Verdict uint8

// Verdicts. The first two are votes for the claim, the others refuse it.
const (
	Accepted    Verdict = iota
	Lacking             // accepted, but the task's enqueue fact is not here: send it
	Finished            // the task is finished
	Busy                // an older claim on the task still holds by this acceptor's own rule
	Stale               // a newer claim on the task is known, this one has ended, or a failure puts the task off
	SkewedClock         // granted, or renewed, by a clock too far from this node's
)

// String names the verdict.
func (v Verdict) String() string {
	names := [...]string{"accepted", "lacking", "finished", "busy", "stale", "skewed clock"}
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// Proposed is a grant or a renewal that a leader asks the cohort to accept. A
// renewal carries the whole record too: it may be the first that this acceptor
// hears of the claim.
type Proposed struct {
	Task   id.ID
	Record claim.Record
}

// Check returns ErrHeld unless the record is one that [DecodeHeld] takes: the
// claim has not ended, and neither lease nor record is longer than any may be.
// What comes from a peer is checked before [Accept], which refuses it else.
func (p *Proposed) Check() error { return checkRecord(&p.Record) }

// grant tells a grant from a renewal, whose end is further from its start than
// the lease is long.
func (p *Proposed) grant() bool { return p.Record.End-p.Record.Start == int64(p.Record.Lease) }

// short is by how much the lease of a grant or renewal ends before its whole length
// has run from now by our wall clock: the message took that long, or the clock of its
// leader is so far behind, or something of both.
func (p *Proposed) short(now clock.Time) time.Duration {
	return clock.Time{Mono: now.Wall}.Add(p.Record.Lease).SinceMono(p.Record.End)
}

// Judge is what an acceptor knows of its own wall clock.
type Judge struct {
	// HalfEta is how far the start of a grant may be from our wall clock, and how much
	// too early a lease may end by it; 0: neither is checked.
	HalfEta time.Duration
	// Confirmed says that another node confirms our wall clock.
	Confirmed bool
}

// skewed tells whether a lease would end too early for this acceptor. Its worker goes by
// the whole length; who learns of the claim by restart goes by the end, and would hand
// the task on while that worker is still at it. The start of a grant says nothing of its
// renewals, so this is looked at for all. An end that is far ahead does no harm: the
// lease is over when it has run on an acceptor's own clock, too.
func (j Judge) skewed(p *Proposed, now clock.Time) bool {
	return j.HalfEta > 0 && p.short(now) > j.HalfEta
}

// Blocker is the claim that makes a task [Busy] or a grant [Stale], and for how
// long it still holds by this acceptor's own rule; 0 when it does not, or has
// ended. Of a claim that is known from a fact alone the record has only the
// token.
type Blocker struct {
	Record claim.Record
	Left   time.Duration
}

// Accept votes on a grant or renewal of a leader whose epoch the caller has
// checked (design 7.3; protocol.md (c), Grant/Renew). What is accepted is
// written through tx like a grant of our own; the vote may leave once that is
// durable. The same proposal may come again, which counts its elapsed time anew.
//
// Stale without a blocker says that this very claim has ended here, that it was granted
// before the time up to which a failure has put the task off, or that the
// proposal does not pass [Proposed.Check]. It returns
// ErrDamaged when something stored cannot be read.
func Accept(v *Vnode, tx store.Tx, p Proposed, j Judge, now clock.Time) (Verdict, *Blocker, error) {
	if p.Check() != nil {
		return Stale, nil, nil
	}
	arrive(v, now)
	j.Confirmed = j.Confirmed || v.term.confirmed
	e, token := v.claims.Lookup(p.Task), p.Record.Token
	if e != nil {
		if verdict, b := rivals(v, e, token, j, now); b != nil {
			return verdict, b, nil
		}
		if h := e.Of(token); h != nil {
			if h.Over {
				return Stale, nil, nil
			}
			if j.skewed(&p, now) {
				return SkewedClock, nil, nil
			}
			r := v.claims.Refresh(h, p.Record, now)
			setClaim(v, tx, tableActive, p.Task, r)
			return vote(e.Known()), nil, nil
		}
	}
	s, err := look(v, tx, p.Task, token, e == nil)
	switch {
	case err != nil:
		return 0, nil, err
	case s.finished:
		s.remember(v, tx, p.Task, p.Record)
		return Finished, nil, nil
	case s.over || s.expired:
		return Stale, nil, nil
	case s.newer.Token != 0:
		return Stale, &Blocker{Record: s.newer}, nil
	case p.grant() && p.Record.Start < s.putOff: // by the leader's own clock: it has missed the failure
		return Stale, nil, nil
	case j.skewed(&p, now), j.HalfEta > 0 && p.grant() && apart(p.Record.Start, now.Wall) > j.HalfEta:
		return SkewedClock, nil, nil
	}
	v.claims.Accept(p.Task, s.brief, p.Record, now)
	s.seize(v, tx, p.Task, &p.Record)
	return vote(s.place.state != crdt.StateUnknown), nil, nil
}

// apart is how far two instants are from each other.
func apart(a, b int64) time.Duration {
	d := clock.Time{Mono: a}.SinceMono(b)
	return max(d, -d)
}

func vote(known bool) Verdict {
	if known {
		return Accepted
	}
	return Lacking
}

// rivals gives the claim on a task that speaks against one with this token; nil
// when none does.
func rivals(v *Vnode, e *claim.Entry, token uint64, j Judge, now clock.Time) (verdict Verdict, worst *Blocker) {
	if h := e.Newest(); h.Token > token {
		return Stale, &Blocker{h.Record, v.claims.Left(h, now, j.Confirmed)}
	}
	if e.Of(token) != nil {
		return 0, nil // it was accepted before: older ones had lapsed then, or came with it from a vote
	}
	for _, h := range e.Claims {
		if left := v.claims.Left(h, now, j.Confirmed); left > 0 && (h == e.Newest() || !mutant.NewestOnly.On()) && (worst == nil || left > worst.Left) {
			worst = &Blocker{h.Record, left}
		}
	}
	return Busy, worst
}

// AcceptRelease ends exactly this claim, one that was never handed out or that
// its worker gave back. A claim that is not known here is noted as released, so
// that its grant, should it come later, does not bring it back. A repeated call
// changes nothing. It returns ErrDamaged when something stored cannot be read.
func AcceptRelease(v *Vnode, tx store.Tx, task id.ID, token uint64, now clock.Time) error {
	arrive(v, now)
	if v.claims.Lookup(task).Of(token) != nil {
		_, err := v.conclude(tx, task, token, claim.Released, crdt.Fact{}, false, "", now)
		return err
	}
	if v.suspended.Lookup(task).Of(token) != nil {
		v.endClaim(tx, task, token, claim.Released)
		return nil
	}
	if r := Ended(v, tx, task, token); r.Token != 0 && r.Outcome != claim.Ended {
		return nil // else a retry that comes late would take it back ([revive])
	}
	maybe := v.recent.Maybe(task)
	if maybe && Collected(tx, v.Partition, task) || mutant.ReleaseUnnoted.On() {
		return nil
	}
	setClaim(v, tx, tableEnded, task, &claim.Record{Token: token, Outcome: claim.Released})
	thin(v, tx, task, token)
	v.releases.note(task, token)
	v.recent.Add(task)
	if !maybe {
		return nil
	}
	t, err := LoadTask(tx, v.Partition, task)
	if err != nil {
		return err
	}
	if at := v.stands(tx, t); at.state == crdt.StateReady {
		v.leave(tx, task, &at) // and back, no longer as one that has never been claimed
		v.enter(tx, task, &at)
	}
	return nil
}

// standing is what an acceptor has to know of a task before it takes a claim.
type standing struct {
	place     place // nowhere while the enqueue is not here
	brief     claim.Brief
	finished  bool
	undoable  bool // it is finished, and a retry undoes it
	collected bool
	finisher  uint64        // token of the completion that counts
	ended     *claim.Record // this claim, among those that have ended
	over      bool          // this claim has ended
	final     bool          // it was a fact that ended it, not that it lapsed
	expired   bool          // a leader has written that this claim expired
	newer     claim.Record  // a claim with a higher token that has ended, but was not released
	putOff    int64         // wall ns up to which a failure puts the task off; 0: none does
}

// look finds out where a task stands, for a claim with this token. free says
// that no claim on it is known; then a task at the head of a queue that was
// never claimed needs no read, and neither does one that surely is not here.
func look(v *Vnode, tx store.Tx, task id.ID, token uint64, free bool) (s standing, err error) {
	if free {
		if q, r := spot(v, task); r != nil && r.Fresh {
			return lookAt(v, tx, task, q, r)
		}
		if !v.recent.Maybe(task) {
			return s, nil
		}
	}
	return read(v, tx, task, token)
}

// read is look for a task of which something is stored. It is apart so that what
// it finds out is on the heap only where it is read.
func read(v *Vnode, tx store.Tx, task id.ID, token uint64) (s standing, err error) {
	if err := s.history(tx, v, task, token); err != nil {
		return s, err
	}
	var bad error
	first := appendFact(nil, v.Partition, task, crdt.Key{Kind: crdt.KindEnqueued})
	t, err := build(task, func(yield func(key, value []byte) bool) {
		for key, value := range late(tx, v.Partition, task, first) {
			if f, err := StoredFact(key, value); err == nil && bad == nil {
				bad = s.note(f.Key, f.Body, token)
			}
			if !yield(key, value) {
				return
			}
		}
	})
	if err == nil && bad != nil {
		err = fmt.Errorf("%w: task %s: %w", ErrDamaged, task, bad)
	}
	if err != nil {
		return s, err
	}
	s.finished, s.undoable, s.collected = t.Finished(), t.Undoable(), t.Collected()
	if c := t.Completion(); c != nil {
		s.finisher = c.Token
	}
	if t.BacksOff() {
		s.putOff = t.NotBefore()
	}
	if t.Enqueued != nil {
		s.place, s.brief = v.stands(tx, t), briefOf(t)
	}
	return s, nil
}

// lookAt is look for a task that was never claimed and is in a window on the
// ready index.
func lookAt(v *Vnode, tx store.Tx, task id.ID, q *queue, r *claim.Ready) (s standing, err error) {
	body, err := specOf(v, tx, task, r)
	if err != nil {
		return s, err
	}
	spec, err := crdt.DecodeEnqueued(body)
	if err != nil {
		return s, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
	}
	s.place = place{state: crdt.StateReady, queue: q.name, rank: r.Rank, size: spec.Size()}
	s.brief = claim.Brief{Queue: q.name, Rank: r.Rank, MaxAttempts: spec.Retry.MaxAttempts, Linked: len(spec.Dependencies) > 0, Size: spec.Size()}
	return s, nil
}

// maxSpots bounds the queues whose windows are searched for a task. Past it a
// read is cheaper.
const maxSpots = 16

// spot finds a task near the beginning of a ready queue, without a read. The
// queue of the last one is tried first: grants come in runs.
func spot(v *Vnode, task id.ID) (*queue, *claim.Ready) {
	if v.hot != nil && v.queues[v.hot.name] == v.hot {
		if r := v.hot.head.Find(task); r != nil {
			return v.hot, r
		}
	}
	names := v.names()
	for _, name := range names[:min(len(names), maxSpots)] {
		if q := v.queues[name]; q != v.hot {
			if r := q.head.Find(task); r != nil {
				v.hot = q
				return q, r
			}
		}
	}
	return nil, nil
}

// history reads the claims of the task that have ended, from this one on.
func (s *standing) history(view store.View, v *Vnode, task id.ID, token uint64) error {
	from := appendClaim(nil, tableEnded, v.Partition, task, token)
	for key, value := range view.Scan(from, after(from[:len(from)-8])) {
		r, err := claim.DecodeRecord(binary.BigEndian.Uint64(key[len(key)-8:]), value)
		switch {
		case err != nil:
			return fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
		case r.Token == token:
			s.ended, s.over = &r, true
		case r.Outcome != claim.Released:
			s.newer, s.newer.Outcome = r, claim.Active
		}
	}
	return nil
}

// note takes what a fact says about the claims of its task.
func (s *standing) note(k crdt.Key, body []byte, token uint64) error {
	switch k.Kind {
	case crdt.KindCompleted:
		if r, ok := completed(body); ok && k.A == token && s.ended == nil {
			s.ended, s.over = &r, true
		}
	case crdt.KindFailed, crdt.KindExpired:
		switch {
		case k.A == token && k.Kind == crdt.KindFailed:
			s.over, s.final = true, true
		case k.A == token:
			s.expired = true
		case k.A > max(token, s.newer.Token):
			s.newer = claim.Record{Token: k.A}
		}
	case crdt.KindOlder:
		o, err := crdt.DecodeOlder(body)
		if token < o.Below {
			s.over, s.final = true, true
		}
		return err
	case crdt.KindRequeued:
		r, err := crdt.DecodeRequeued(body)
		if token < r.AfterToken || token == r.AfterToken && !mutant.RetryNamesLast.On() { // the task was finished in between
			s.over, s.final = true, true
		}
		return err
	}
	return nil
}

// remember notes a claim on a task that is finished, so that all replicas tell
// the same history.
func (s *standing) remember(v *Vnode, tx store.Tx, task id.ID, r claim.Record) {
	if s.collected || s.ended != nil {
		return
	}
	r.Outcome = claim.Ended
	if s.finisher == r.Token {
		r.Outcome = claim.Completed
	}
	setClaim(v, tx, tableEnded, task, &r)
}

// seize stores a claim that is in the table by now, and moves its task among
// the claimed ones.
func (s *standing) seize(v *Vnode, tx store.Tx, task id.ID, r *claim.Record) {
	if s.place.state == crdt.StateUnknown {
		v.recent.Add(task)
	}
	if s.place.state != crdt.StateClaimed {
		v.leave(tx, task, &s.place)
	}
	setClaim(v, tx, tableActive, task, r)
	if s.place.state != crdt.StateClaimed && s.place.state != crdt.StateUnknown {
		p := s.place
		p.state = crdt.StateClaimed
		v.enter(tx, task, &p)
	}
}

// EndOf gives what ends a claim here and a follower that still holds it has not
// got: the task's facts but for its enqueue and updates, and for old ones where there are
// very many ([Newest]), and whether the claim was released. It returns ErrDamaged when something stored cannot be read.
func EndOf(v *Vnode, view store.View, task id.ID, token uint64) (facts []crdt.Fact, released bool, err error) {
	if b, ok := view.Get(appendClaim(nil, tableEnded, v.Partition, task, token)); ok {
		r, err := claim.DecodeRecord(token, b)
		if err != nil {
			return nil, false, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
		}
		released = r.Outcome == claim.Released
	}
	facts, err = newestFrom(view, v.Partition, task, crdt.KindCompleted, endBytes)
	failed := crdt.Key{Kind: crdt.KindFailed, A: token}
	if !slices.ContainsFunc(facts, func(f crdt.Fact) bool { return f.Key == failed }) {
		if f, ok := FactOf(view, v.Partition, task, failed); ok {
			facts = append(facts, f)
		}
	}
	return facts, released, err
}

// endBytes bounds the completions, and the failures, that [EndOf] gives of a task.
const endBytes = 1 << 20
