package vnode

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"

	"pgregory.net/rapid"
)

const (
	stormLease  = 2 * time.Second
	stormBuffer = time.Second
	stormEta    = time.Second
)

// member is one acceptor of a storm, with clocks of its own.
type member struct {
	replica
	n        int
	promise  uint64
	wall     int64 // its wall clock against the true time
	mono     int64 // its monotonic clock against the true time
	sure     bool  // its wall clock is confirmed
	believes map[claimKey]*belief
}

type claimKey struct {
	task  id.ID
	token uint64
}

// belief is what the test itself makes of a claim that a member accepted.
type belief struct {
	at        int64 // mono ns at which it lapses
	end       int64
	lease     time.Duration
	recovered bool
}

// worker holds a claim that was handed out.
type worker struct {
	claimKey
	deadline int64 // true time; 0: the claim has ended
}

// round is a grant or renewal on its way to a majority.
type round struct {
	claimKey
	epoch   uint64
	asked   int64 // true time
	renewal *worker
	acks    map[int]bool
	over    bool
	dead    bool // a majority knew before it was asked for that the task is completed
}

// letter is a message between members.
type letter struct {
	to      int
	epoch   uint64
	held    Held
	refusal *Blocker // to the leader
	of      *round
}

// storm is a cohort of three whose messages come late, twice, in any order or
// not at all, whose members restart, and whose leader changes.
type storm struct {
	t       *rapid.T
	now     int64 // true time
	ids     *id.Generator
	members []*member
	tasks   []id.ID
	mail    []letter
	rounds  []*round
	workers []*worker
	granted int
	passed  int
	busy    int
}

func newStorm(t *rapid.T) *storm {
	s := &storm{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
	s.ids = id.NewGenerator(1, rand.New(rand.NewPCG(1, 2)).Uint64)
	for n := range 3 {
		m := &member{n: n, wall: int64(rapid.IntRange(-100, 100).Draw(t, "wall")) * 1e6, believes: map[claimKey]*belief{}}
		m.mem = memstore.New()
		s.members = append(s.members, m)
		s.open(m)
	}
	s.elect()
	return s
}

func (s *storm) time(m *member) clock.Time {
	return clock.Time{Wall: s.now + m.wall, Mono: s.now + m.mono}
}

func (s *storm) check(err error) {
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *storm) open(m *member) {
	m.mono = -s.now + int64(rapid.IntRange(1, 1000).Draw(s.t, "up"))*1e6
	v, err := Open(0, Config{
		Partitions: 64, Buffer: stormBuffer, Slack: 50 * time.Millisecond, HeadSize: 2, Tree: true,
		Random: func() float64 { return 0 },
	}, m.mem, s.time(m))
	s.check(err)
	m.v, m.tx = v, store.NewOverlay(m.mem)
	m.sure = rapid.Bool().Draw(s.t, "sure")
	Confirm(v, m.sure)
	for _, b := range m.believes { // Any order: each alone.
		b.recovered, b.at = true, s.time(m).Add(b.lease+stormBuffer).Mono
	}
}

func (s *storm) some() *member { return s.members[rapid.IntRange(0, 2).Draw(s.t, "member")] }

// leader gives a member that thinks it leads.
func (s *storm) leader() *member {
	for n := range s.members {
		if m := s.members[(n+len(s.rounds))%3]; m.v.Leading() != 0 && (m.promise == m.v.Leading() || rapid.Bool().Draw(s.t, "old")) {
			return m
		}
	}
	return nil
}

func (s *storm) task() (id.ID, bool) {
	if len(s.tasks) == 0 {
		return id.ID{}, false
	}
	return rapid.SampledFrom(s.tasks).Draw(s.t, "task"), true
}

func (s *storm) enqueue() {
	task := s.ids.Next(s.now)
	spec := crdt.Enqueued{Queue: "q", Priority: int32(rapid.IntRange(0, 1).Draw(s.t, "priority")), Retry: crdt.Retry{MaxAttempts: 3, Initial: time.Millisecond, Max: time.Second, Multiplier: 2000}}
	s.tasks = append(s.tasks, task)
	for range rapid.IntRange(1, 3).Draw(s.t, "copies") {
		m := s.some()
		_, err := m.v.Enqueue(m.tx, task, &spec, s.time(m))
		s.check(err)
	}
}

// believe notes that a member has learned of a claim.
func (m *member) believe(now clock.Time, task id.ID, r *claim.Record, recovered bool) {
	k := claimKey{task, r.Token}
	b := m.believes[k]
	if b == nil {
		b = &belief{}
		m.believes[k] = b
	}
	left := b.lease - max(now.SinceMono(b.at)+b.lease+stormBuffer, 0)
	b.lease, b.end, b.recovered = max(r.Lease, left), max(b.end, r.End), recovered
	b.at = now.Add(b.lease + stormBuffer).Mono
}

func (m *member) holds(now clock.Time, b *belief) bool {
	return now.Mono < b.at && !(b.recovered && m.sure && now.Wall > b.end+int64(stormBuffer))
}

// propose sends a grant or renewal to the others.
func (s *storm) propose(m *member, task id.ID, r claim.Record, renewal *worker) {
	m.believe(s.time(m), task, &r, false)
	o := &round{claimKey: claimKey{task, r.Token}, epoch: m.v.Leading(), asked: s.now, renewal: renewal, acks: map[int]bool{}}
	o.dead = s.completed(task) >= 2
	if m.promise == o.epoch {
		o.acks[m.n] = true
	}
	s.rounds = append(s.rounds, o)
	s.post(m, Held{Task: task, Record: r}, o)
}

func (s *storm) post(from *member, h Held, o *round) {
	for n := range s.members {
		if n != from.n {
			s.mail = append(s.mail, letter{to: n, epoch: from.v.Leading(), held: h, of: o})
		}
	}
}

// completed counts the members that know that a task is completed.
func (s *storm) completed(task id.ID) (n int) {
	for _, m := range s.members {
		t, err := LoadTask(m.tx, 0, task)
		s.check(err)
		if t.Outcome() == crdt.StateCompleted {
			n++
		}
	}
	return n
}

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
		_, err := m.v.Add(m.tx, crdt.Completed{Token: w.token, At: s.now}.Fact(w.task), s.time(m))
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
		for _, w := range s.workers {
			if w.task == task {
				w.deadline = 0
			}
		}
		return crdt.Requeued{Generation: t.Generation() + 1, At: s.now, AfterToken: m.v.Newest()}.Fact(task), true
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

// reasons checks that no claim has ended that must not, and that what is stored
// is sound.
func (s *storm) reasons() {
	for _, m := range s.members {
		m.flush()
		if err := Audit(m.mem, 0); err != nil {
			s.t.Fatalf("member %d: %v", m.n, err)
		}
		for k, b := range m.believes { // Any order: each alone.
			if m.v.claims.Lookup(k.task).Of(k.token) != nil {
				continue
			}
			facts, released, err := EndOf(m.v, m.mem, k.task, k.token)
			s.check(err)
			t, err := LoadTask(m.mem, 0, k.task)
			s.check(err)
			ended := t.Finished() || released || slices.ContainsFunc(facts, func(f crdt.Fact) bool {
				return f.Key.Kind == crdt.KindRequeued || f.Key == crdt.Key{Kind: crdt.KindFailed, A: k.token}
			})
			if !ended && m.holds(s.time(m), b) {
				s.t.Fatalf("member %d has lost claim %x on %s", m.n, k.token, k.task)
			}
			delete(m.believes, k)
		}
	}
}

// settle delivers everything, lets everything lapse and has all agree.
func (s *storm) settle() {
	for len(s.mail) > 0 {
		l := s.mail[0]
		s.mail = s.mail[1:]
		s.take(l)
		s.reasons()
	}
	for s.members[0].v.Leading() == 0 || s.members[0].promise != s.members[0].v.Leading() {
		s.elect()
	}
	c := &cohort{t: s.t, tasks: s.tasks}
	for _, m := range s.members {
		c.all = append(c.all, &m.replica)
		for _, o := range s.members { // whoever did not vote is heard now
			s.check(Absorb(m.v, m.tx, Snapshot(o.v), s.time(m)))
		}
	}
	for range 4 {
		for _, m := range s.members[1:] {
			s.check(Dismiss(m.v, m.tx, Unheld(s.members[0].v, Stuck(m.v, s.time(m), 2)), s.time(m)))
		}
		s.now += int64(stormLease + 2*stormBuffer)
		for _, m := range s.members {
			s.tick(m)
		}
		c.now = s.time(s.members[0])
		c.converge()
	}
	for _, m := range s.members {
		if m.v.Claimed() != 0 {
			s.t.Fatalf("member %d still has claims: %v", m.n, heldBy(m.v))
		}
		m.v.Lead(m.promise + 1) // to move what is due
		s.check(m.v.Tick(m.tx, s.time(m)))
	}
	c.audit()
	c.same()
}

// TestStorm: whatever happens to the messages and members of a cohort, no member
// takes a claim while another one holds there, nobody believes in a task that
// somebody else holds, no claim is lost, and in the end all agree.
func TestStorm(t *testing.T) {
	granted, passed, busy := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := newStorm(t)
		did := map[string]func(*rapid.T){}
		for name, f := range map[string]func(){
			"enqueue": s.enqueue, "grant": s.grant, "grant more": s.grant, "renew": s.renew, "give up": s.giveUp,
			"finish": s.finish, "requeue": s.requeue, "spread": s.spread, "restart": s.restart, "deliver": s.deliver,
			"deliver more": s.deliver, "deliver even more": s.deliver, "pass": s.pass, "elect": s.elect, "": s.reasons,
		} {
			did[name] = func(rt *rapid.T) { s.t = rt; f() }
		}
		for range 3 {
			t.Repeat(did)
		}
		s.t = t
		s.settle()
		granted, passed, busy = granted+s.granted, passed+s.passed, busy+s.busy
	})
	if !t.Failed() && (granted == 0 || passed == 0 || busy == 0) {
		t.Fatalf("a storm with %d claims handed out, %d after another one of the task, %d refusals", granted, passed, busy)
	}
}
