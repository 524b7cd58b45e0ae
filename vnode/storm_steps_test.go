package vnode

import (
	"errors"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"

	"pgregory.net/rapid"
)

func (s *storm) grant() {
	m := s.leader()
	if m == nil {
		return
	}
	d, err := m.v.Grant(m.tx, "q", Ask{Worker: "w", Lease: stormLease}, s.time(m))
	if errors.Is(err, ErrNothing) {
		return
	}
	s.check(err)
	s.propose(m, d.Task.ID, d.Claims[len(d.Claims)-1], nil)
}

// live gives a worker that believes in its claim.
func (s *storm) live() *worker {
	for _, w := range s.workers {
		if w.deadline > s.now && rapid.Bool().Draw(s.t, "this") {
			return w
		}
	}
	return nil
}

func (s *storm) renew() {
	m, w := s.leader(), s.live()
	if m == nil || w == nil {
		return
	}
	r, err := m.v.Renew(m.tx, w.task, w.token, stormLease, s.time(m))
	if err == nil {
		s.propose(m, w.task, r, w)
	}
}

// giveUp releases a grant that was not handed out.
func (s *storm) giveUp() {
	m := s.leader()
	for _, o := range s.rounds {
		if m != nil && !o.over && o.renewal == nil && o.epoch == m.v.Leading() {
			o.over = true
			if _, err := m.v.Release(m.tx, o.task, o.token, s.time(m)); err == nil {
				s.post(m, Held{Task: o.task, Record: claim.Record{Token: o.token}, Released: true}, nil)
			}
			return
		}
	}
}

// finish has a worker say how it went.
func (s *storm) finish() {
	w := s.live()
	if w == nil {
		return
	}
	m := s.leader()
	how := rapid.IntRange(0, 3).Draw(s.t, "how")
	switch {
	case how == 0:
		m = s.some()
		done := crdt.Completed{Token: w.token, At: s.now}
		if h := EntryOf(m.v, w.task).Of(w.token); h != nil && s.now%3 > 0 { // as a node says it, where it knows the claim
			done.Further = crdt.AppendRun(nil, nil, runOf(&h.Record))
		}
		_, err := m.v.Add(m.tx, done.Fact(w.task), s.time(m))
		s.check(err)
		w.deadline = 0
	case m == nil:
	case how == 1:
		if _, err := m.v.Release(m.tx, w.task, w.token, s.time(m)); err == nil {
			s.post(m, Held{Task: w.task, Record: claim.Record{Token: w.token}, Released: true}, nil)
			w.deadline = 0
		}
	default:
		if _, _, err := m.v.Fail(m.tx, w.task, Failure{Token: w.token, Counted: true, Error: "e", RetryAt: s.now, Discard: how == 3}, s.time(m)); err == nil {
			w.deadline = 0
		}
	}
}

// requeue brings a dead task back. Its workers were told when it died.
func (s *storm) requeue() {
	m := s.leader()
	task, ok := s.task()
	if m == nil || !ok {
		return
	}
	_, err := m.v.Decide(m.tx, task, s.time(m), func(t *crdt.Task) (crdt.Fact, bool) {
		if t.Outcome() != crdt.StateDead {
			return crdt.Fact{}, false
		}
		return crdt.Requeued{Generation: t.Generation() + 1, At: s.now, AfterToken: RetryAfter(m.v, task)}.Fact(task), true
	})
	s.check(err)
}

func (s *storm) spread() {
	task, ok := s.task()
	if !ok {
		return
	}
	from, to := s.some(), s.some()
	facts := rapid.Permutation(from.facts(task)).Draw(s.t, "facts")
	if len(facts) > 0 {
		_, err := Merge(to.v, to.tx, facts[:rapid.IntRange(1, len(facts)).Draw(s.t, "n")], s.time(to))
		s.check(err)
	}
}

func (s *storm) restart() {
	m := s.some()
	m.flush()
	before := fmt.Sprint(heldBy(m.v))
	s.open(m)
	if after := fmt.Sprint(heldBy(m.v)); after != before {
		s.t.Fatalf("member %d restarts with claims %s, had %s", m.n, after, before)
	}
}

func heldBy(v *Vnode) (all []string) {
	v.Held(func(task id.ID, r *claim.Record) { all = append(all, fmt.Sprintf("%s %x %+v", task, r.Token, *r)) })
	return all
}

func (s *storm) deliver() {
	if len(s.mail) == 0 {
		return
	}
	at := rapid.IntRange(0, len(s.mail)-1).Draw(s.t, "letter")
	l := s.mail[at]
	if fate := rapid.IntRange(0, 9).Draw(s.t, "fate"); fate > 0 { // else it comes again
		s.mail = slices.Delete(s.mail, at, at+1)
		if fate == 1 {
			return // lost
		}
	}
	s.take(l)
}

func (s *storm) take(l letter) {
	m := s.members[l.to]
	now := s.time(m)
	if l.refusal != nil {
		if m.v.Leading() == l.epoch {
			k := claimKey{l.held.Task, l.refusal.Record.Token}
			_, knew := m.believes[k]
			s.check(Learn(m.v, m.tx, k.task, *l.refusal, now))
			if !knew && m.v.claims.Lookup(k.task).Of(k.token) != nil {
				m.believes[k] = &belief{lease: l.refusal.Record.Lease, end: l.refusal.Record.End, at: now.Add(l.refusal.Left).Mono}
			}
		}
		return
	}
	if l.epoch < m.promise {
		return
	}
	m.promise = l.epoch
	if m.v.Leading() != 0 && m.v.Leading() < l.epoch {
		m.v.Follow()
	}
	if l.held.Released {
		s.check(AcceptRelease(m.v, m.tx, l.held.Task, l.held.Record.Token, now))
		return
	}
	k := claimKey{l.held.Task, l.held.Record.Token}
	old := m.v.claims.Lookup(k.task).Of(k.token) != nil
	verdict, blocker, err := Accept(m.v, m.tx, Proposed{l.held.Task, l.held.Record}, Judge{HalfEta: stormEta / 2, Confirmed: m.sure}, now)
	s.check(err)
	switch verdict {
	case Accepted, Lacking:
		if !old {
			s.alone(m, k)
		}
		m.believe(now, k.task, &l.held.Record, false)
		s.ack(m, l.of)
	case Busy, Stale:
		if verdict == Busy {
			s.busy++
		}
		if blocker != nil {
			s.mail = append(s.mail, letter{to: s.holder(l.epoch), epoch: l.epoch, held: l.held, refusal: blocker})
		}
	}
}

func (s *storm) holder(epoch uint64) int {
	for n, m := range s.members {
		if m.v.Leading() == epoch {
			return n
		}
	}
	return 0
}

// alone checks that no other claim on the task holds where one is accepted.
func (s *storm) alone(m *member, k claimKey) {
	for other, b := range m.believes { // Any order: one is enough.
		if other.task == k.task && other.token != k.token && m.holds(s.time(m), b) && m.v.claims.Lookup(k.task).Of(other.token) != nil {
			s.t.Fatalf("member %d takes claim %x on %s, and %x holds for another %d ns", m.n, k.token, k.task, other.token, b.at-s.time(m).Mono)
		}
	}
}

// ack counts a vote; with a majority the claim is handed out.
func (s *storm) ack(m *member, o *round) {
	if o.acks[m.n] = true; o.over || len(o.acks) < 2 {
		return
	}
	o.over = true
	if o.renewal != nil {
		if o.renewal.deadline > s.now {
			o.renewal.deadline = max(o.renewal.deadline, o.asked+int64(stormLease))
			s.exclusive(o.renewal)
		}
		return
	}
	if l := s.members[s.holder(o.epoch)].v; l.Leading() == o.epoch && l.claims.Lookup(o.task).Of(o.token) == nil {
		return // it has ended at its leader, which hands it out no more
	}
	s.granted++
	if o.dead {
		s.t.Fatalf("%s is granted, and a majority knows that it is completed", o.task)
	}
	w := &worker{claimKey: o.claimKey, deadline: o.asked + int64(stormLease)}
	for _, other := range s.workers {
		if other.task == o.task {
			if s.passed++; other.token >= w.token && other.deadline != 0 {
				s.t.Fatalf("%s: claim %x after %x", o.task, w.token, other.token)
			}
		}
	}
	s.workers = append(s.workers, w)
	s.exclusive(w)
}

// exclusive checks that nobody else believes to hold the task of a worker.
func (s *storm) exclusive(w *worker) {
	if s.bad != nil {
		return
	}
	for _, other := range s.workers {
		if other != w && other.task == w.task && other.deadline > s.now && w.deadline > s.now {
			s.t.Fatalf("%s is held by claim %x and by %x", w.task, w.token, other.token)
		}
	}
}

// pass lets time pass; whoever is due does what it has to.
func (s *storm) pass() {
	s.now += int64(rapid.IntRange(1, 1500).Draw(s.t, "ms")) * 1e6
	for _, m := range s.members {
		if rapid.IntRange(0, 3).Draw(s.t, "ticks") > 0 {
			s.tick(m)
		}
	}
}

// jump puts the bad clock ahead.
func (s *storm) jump() {
	if s.bad != nil {
		s.bad.mono += int64(rapid.IntRange(1, 4000).Draw(s.t, "ahead")) * 1e6
		s.tick(s.bad)
	}
}

func (s *storm) tick(m *member) {
	now := s.time(m)
	if wall, mono := m.v.NextWake(); wall <= now.Wall || mono <= now.Mono {
		s.check(m.v.Tick(m.tx, now))
	}
	if wall, mono := m.v.NextWake(); wall <= now.Wall || mono <= now.Mono {
		s.t.Fatalf("member %d wants to be woken at %d and %d, now is %v", m.n, wall, mono, now)
	}
}

// elect makes some member leader by the votes of a majority.
func (s *storm) elect() {
	n := s.some()
	epoch := uint64(1)
	for _, m := range s.members {
		epoch = max(epoch, m.promise+1)
	}
	at := rapid.IntRange(1, 2).Draw(s.t, "first")
	others := []*member{s.members[(n.n+at)%3], s.members[(n.n+3-at)%3]}
	voters := append([]*member{n}, others[:rapid.IntRange(1, 2).Draw(s.t, "voters")]...)
	var all [][]Held
	for _, m := range voters {
		m.promise = epoch
		m.v.Follow()
		held, err := DecodeHeld(AppendHeld(nil, Snapshot(m.v)))
		s.check(err)
		all = append(all, held)
	}
	union := Join(all...)
	for _, m := range append([]*member{n}, others[:rapid.IntRange(1, 2).Draw(s.t, "pushed")]...) {
		m.promise = epoch
		m.v.Follow()
		s.check(Absorb(m.v, m.tx, union, s.time(m)))
		for _, h := range union {
			if m.v.claims.Lookup(h.Task).Of(h.Record.Token) != nil {
				m.believe(s.time(m), h.Task, &h.Record, true)
			}
		}
	}
	n.v.Lead(epoch)
}
