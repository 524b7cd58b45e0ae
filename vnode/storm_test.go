package vnode

import (
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
	bad     *member // its clock runs fast, and so nothing is said of what workers believe
	steps   int
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
	if rapid.IntRange(0, 2).Draw(t, "bad clock") == 0 {
		s.bad = s.members[0]
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

// reasons checks that no claim has ended that must not, and that what is stored
// is sound.
func (s *storm) reasons() {
	s.steps++
	for _, m := range s.members {
		m.flush()
		if s.steps%3 == m.n { // one at a time: it reads everything
			if err := Audit(m.mem, 0); err != nil {
				s.t.Fatalf("member %d: %v", m.n, err)
			}
		}
		for k, b := range m.believes { // Any order: each alone.
			if m.v.claims.Lookup(k.task).Of(k.token) != nil || m.v.suspended.Lookup(k.task).Of(k.token) != nil {
				continue
			}
			facts, released, err := EndOf(m.v, m.mem, k.task, k.token)
			s.check(err)
			t, err := LoadTask(m.mem, 0, k.task)
			s.check(err)
			ended := t.Finished() && !t.Undoable() || released || slices.ContainsFunc(facts, func(f crdt.Fact) bool {
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
			"deliver more": s.deliver, "deliver even more": s.deliver, "pass": s.pass, "jump": s.jump, "elect": s.elect, "": s.reasons,
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
	if !t.Failed() && !testing.Short() && (granted == 0 || passed == 0 || busy == 0) { // a fifth of them may be too few
		t.Fatalf("a storm with %d claims handed out, %d after another one of the task, %d refusals", granted, passed, busy)
	}
}
