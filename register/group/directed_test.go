package group

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/store/memstore"
)

// value is a change that writes one value and nothing else.
func value(name string, old uint64, data []byte) register.Request {
	return register.Request{Values: []register.ValueChange{{Name: name, Old: old, Data: data}}}
}

// TestTheOnlyVoterReadsWhatItAcknowledged: the commit index is not synced, so
// after a crash the only voter knows less than it has said. Raft lets it
// answer reads before it has committed an entry of its new term.
func TestTheOnlyVoterReadsWhatItAcknowledged(t *testing.T) {
	s := newSim(t, 1)
	n := s.add(s.name(1)).format()
	if !s.do(n, value("a", 0, []byte("x"))).ValuesWon[0] {
		t.Fatal("not written")
	}
	n.store = n.store.Crash(0)
	cfg := s.cfg
	cfg.Self, cfg.Seed = n.self, 9
	m, err := Open(cfg, n.store, clock.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if m.State().Values["a"].Version != 0 {
		t.Skip("the commit index was on disk")
	}
	step := func(ev Event) {
		if err := m.Step(clock.Time{}, ev); err != nil {
			t.Fatal(err)
		}
	}
	step(Asked{register.Request{Tag: 4}})
	answered := false
	for m.HasReady() {
		rd, err := m.Ready()
		if err != nil {
			t.Fatal(err)
		}
		if rd.Persist != nil {
			n.store.Commit(rd.Persist)()
		}
		for _, r := range rd.Results {
			if answered = true; r.Err != nil || r.State.Values["a"].Version != 1 {
				t.Fatalf("read %+v, %v", r.State.Values, r.Err)
			}
		}
		if err := m.Advance(clock.Time{}); err != nil {
			t.Fatal(err)
		}
		if !m.HasReady() && !answered { // time passes
			if err := m.Step(clock.Time{Mono: m.Wake()}, Tick{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !answered {
		t.Fatal("no answer")
	}
}

func TestACommandIsDecidedOnce(t *testing.T) {
	p := newReplica(register.First(register.Cluster{Partitions: 1}, register.Node{Member: register.Member{Node: "a", Incarnation: register.Incarnation{1}}}))
	first := command{session: 5, seq: 3, floor: 3, request: value("v", 0, []byte("x"))}
	if d, err := p.apply(2, first.encode()); err != nil || !d.changed || d.again || !d.wins[0] {
		t.Fatalf("the first time: %+v, %v", d, err)
	}
	rev := p.state.Revision
	if d, err := p.apply(3, first.encode()); err != nil || d.changed || !d.again || !d.wins[0] || p.state.Revision != rev {
		t.Fatalf("the second time: %+v, %v", d, err)
	}
	// The outcome survives a snapshot.
	q, err := decodeReplica(p.encode())
	if err != nil {
		t.Fatal(err)
	}
	if d, err := q.apply(4, first.encode()); err != nil || !d.again || !d.wins[0] {
		t.Fatalf("after a snapshot: %+v, %v", d, err)
	}
	// When it is settled it is forgotten, and still not decided again.
	next := command{session: 5, seq: 4, floor: 4, request: value("v", 1, []byte("y"))}
	_, _ = q.apply(5, next.encode())
	if d, err := q.apply(6, first.encode()); err != nil || d.changed || !d.again || d.wins != nil || len(q.sessions[5].done) != 1 {
		t.Fatalf("a settled command: %+v, %v, %d remembered", d, err, len(q.sessions[5].done))
	}
	// Sessions are bounded; what is remembered of one too.
	for i := range uint64(2 * maxSessions) {
		c := command{session: 100 + i, seq: 1, floor: 1}
		_, _ = q.apply(10+i, c.encode())
	}
	for i := range uint64(10 * window) {
		c := command{session: 7, seq: 10 + i, floor: 0}
		_, _ = q.apply(1e6+i, c.encode())
	}
	if len(q.sessions) > maxSessions || len(q.sessions[7].done) > 2*window {
		t.Fatalf("%d sessions, %d outcomes of one", len(q.sessions), len(q.sessions[7].done))
	}
	if back, err := decodeReplica(q.encode()); err != nil || !bytes.Equal(back.encode(), q.encode()) {
		t.Fatalf("what is remembered cannot be read back: %v", err)
	}
	// Bytes that are no command do nothing.
	if d, err := q.apply(1e7, []byte("\x01\x02\x02\x02\x01nonsense")); err != nil || d.changed {
		t.Fatal("nonsense was decided")
	}
}

// TestALostAnswerIsNotALostChange: the proposer does not hear what came of its
// proposal and sends it again; it is told that it won.
func TestALostAnswerIsNotALostChange(t *testing.T) {
	s := newSim(t, 2)
	s.grow(3)
	l := s.leader()
	f := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	sent := 0
	s.eaten = func(m *Message) bool {
		e, _ := decodeEnvelope(m.Data)
		if e.from == f.self && e.kind == kindRaft && m.To == l.self {
			sent++
		}
		return e.from == l.self && m.To == f.self && s.now < int64(4*time.Second) && s.now > int64(2*time.Second)
	}
	s.run(time.Duration(2*time.Second)-time.Duration(s.now)+1, nil)
	var res *register.Result
	f.ask(value("v", 0, []byte("x")), func(r register.Result) { res = &r })
	s.must(10*time.Second, "answered", func() bool { return res != nil })
	if res.Err == nil && !res.ValuesWon[0] {
		t.Fatal("a change that was written was reported as lost")
	}
	if v := s.do(f, register.Request{}).State.Values["v"]; v.Version != 1 {
		t.Fatalf("it was written %d times", v.Version)
	}
}

func TestAnOutcomeThatIsNotKnownIsUnknown(t *testing.T) {
	s := newSim(t, 3)
	s.grow(3)
	l := s.leader()
	for _, n := range s.nodes {
		s.cut[[2]string{l.self.Node, n.self.Node}], s.cut[[2]string{n.self.Node, l.self.Node}] = true, true
	}
	var set, read *register.Result
	l.ask(value("v", 0, []byte("x")), func(r register.Result) { set = &r })
	l.ask(register.Request{}, func(r register.Result) { read = &r })
	s.must(10*time.Second, "answered", func() bool { return set != nil && read != nil })
	if !errors.Is(set.Err, ErrUnknown) || !errors.Is(read.Err, ErrUnknown) {
		t.Fatalf("without a majority: %v and %v", set.Err, read.Err)
	}
	// The others go on, and what the old leader had proposed is not decided
	// behind their backs after a read has shown that it was not.
	o := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	if v := s.do(o, value("v", 0, []byte("y"))); !v.ValuesWon[0] {
		t.Fatalf("the majority cannot write: %+v", v)
	}
	s.heal()
	if v := s.do(l, register.Request{}).State.Values["v"]; string(v.Data) != "y" || v.Version != 1 {
		t.Fatalf("after healing the old leader reads %+v", v)
	}
}

// fill writes so many values of so many bytes.
func (s *sim) fill(n *simNode, from, count, size int) {
	s.t.Helper()
	for i := from; i < from+count; i++ {
		s.do(n, value(fmt.Sprintf("v%04d", i), 0, bytes.Repeat([]byte{byte(i)}, size)))
	}
}

// TestAFreshNodeGetsASnapshot: the log that is left does not reach back to the
// beginning, the state takes many pieces, and pieces get lost.
func TestAFreshNodeGetsASnapshot(t *testing.T) {
	s := newSim(t, 4)
	s.cfg.Entries, s.cfg.Keep = 50, 10
	s.grow(3)
	s.fill(s.nodes[0], 0, 80, 16<<10) // 1.3 MB
	for _, n := range s.nodes {
		if k := len(n.machine.disk.entries); k > 50+10+20 {
			t.Errorf("%s holds %d entries", n.self.Node, k)
		}
		keys := 0
		for range n.store.Scan([]byte(logPrefix), []byte(logEnd)) {
			keys++
		}
		if keys > 50+10+20 {
			t.Errorf("%s has %d entries on disk", n.self.Node, keys)
		}
	}
	s.loss, s.double = 0.1, 0.1
	n := s.add(s.name(4)).join()
	s.invite(s.nodes[0], n)
	s.must(30*time.Second, "a member", func() bool { return len(n.machine.State().Members) == 4 })
	s.loss, s.double = 0, 0
	if v := s.do(n, register.Request{}).State.Values["v0079"]; len(v.Data) != 16<<10 {
		t.Fatalf("the newcomer reads %d bytes", len(v.Data))
	}
	if s.counts.snapshots < 11 {
		t.Fatalf("%d pieces", s.counts.snapshots)
	}
	// And it starts from its own disk again.
	n.crash()
	n.start()
	if v := s.do(n, register.Request{}).State.Values["v0079"]; len(v.Data) != 16<<10 {
		t.Fatalf("after a restart the newcomer reads %d bytes", len(v.Data))
	}
}

// TestANodeThatWasAwayCatchesUp, by a snapshot, and learns from it what came of
// its own proposal.
func TestANodeThatWasAwayCatchesUp(t *testing.T) {
	s := newSim(t, 5)
	s.cfg.Entries, s.cfg.Keep, s.cfg.Timeout = 20, 5, time.Minute
	s.grow(3)
	l := s.leader()
	f := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	s.cut[[2]string{l.self.Node, f.self.Node}] = true // it is heard and hears nothing
	for _, o := range s.nodes {
		if o != l {
			s.cut[[2]string{o.self.Node, f.self.Node}] = true
		}
	}
	var res *register.Result
	f.ask(value("mine", 0, []byte("x")), func(r register.Result) { res = &r })
	s.must(5*time.Second, "decided", func() bool { return l.machine.State().Values["mine"].Version == 1 })
	s.fill(l, 0, 100, 10)
	if res != nil {
		t.Fatalf("answered without hearing: %+v", res)
	}
	s.heal()
	s.must(20*time.Second, "answered", func() bool { return res != nil })
	if res.Err != nil || !res.ValuesWon[0] {
		t.Fatalf("the proposal that was decided meanwhile: %+v %v", res.ValuesWon, res.Err)
	}
	if res.State.Values["mine"].Version != 1 {
		t.Fatal("decided twice")
	}
}

func TestDamageIsNotAbsence(t *testing.T) {
	s := newSim(t, 6)
	s.cfg.Entries, s.cfg.Keep = 20, 5
	n := s.add(s.name(1)).format()
	s.fill(n, 0, 50, 100)
	n.store.Sync()
	if _, _, _, err := load(n.store); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for key, val := range n.store.Scan([]byte("group/"), []byte("group0")) {
		for _, kind := range []string{"flipped", "cut", "gone"} {
			bad := n.store.Crash(0)
			var b storeBatch
			switch kind {
			case "flipped":
				v := slices.Clone(val)
				v[len(v)/2] ^= 4
				b.Set(key, v)
			case "cut":
				b.Set(key, val[:len(val)-1])
			case "gone":
				b.Delete(key)
			}
			bad.Commit(&b)()
			cfg := s.cfg
			cfg.Self = n.self
			_, err := Open(cfg, bad, clock.Time{})
			lastOfLog := strings.HasPrefix(string(key), logPrefix) && kind == "gone"
			// What is missing at either end of the log only a peer can tell.
			if err == nil && !lastOfLog {
				t.Errorf("%q %s: it starts", key, kind)
			}
			if err != nil && !errors.Is(err, wire.ErrDamaged) && !errors.Is(err, register.ErrNotFormatted) {
				t.Errorf("%q %s: %v", key, kind, err)
			}
			checked++
			b = storeBatch{}
			b.Set(key, val)
			n.store.Commit(&b)()
		}
	}
	if checked < 30 {
		t.Fatalf("%d damages tried", checked)
	}
}

// TestADiskThatForgotIsFoundOut: the leader knows what a member has persisted.
func TestADiskThatForgotIsFoundOut(t *testing.T) {
	s := newSim(t, 7)
	s.grow(3)
	l := s.leader()
	f := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	old := memstore.New()
	var b storeBatch
	for k, v := range f.store.Scan(nil, nil) {
		b.Set(k, v)
	}
	old.Commit(&b)()
	s.fill(l, 0, 20, 10)
	f.crash()
	f.store = old
	f.start()
	s.must(10*time.Second, "found out", func() bool { return f.err != nil })
	if !errors.Is(f.err, ErrForgot) {
		t.Fatal(f.err)
	}
	s.do(l, register.Request{}) // the others go on
}

func TestFormatOnce(t *testing.T) {
	st := memstore.New()
	a, b := register.Member{Node: "a", Incarnation: register.Incarnation{1}}, register.Member{Node: "a", Incarnation: register.Incarnation{2}}
	c := register.Cluster{ID: register.UUID{1}, Partitions: 2, Replicas: 3}
	if _, err := Open(Config{Self: a}, st, clock.Time{}); !errors.Is(err, register.ErrNotFormatted) {
		t.Fatalf("an empty store: %v", err)
	}
	var batch storeBatch
	if err := Format(st, &batch, c, register.Node{Member: a}); err != nil {
		t.Fatal(err)
	}
	st.Commit(&batch)()
	for _, self := range []register.Member{a, b} {
		var no storeBatch
		if err := Format(st, &no, c, register.Node{Member: self}); !errors.Is(err, ErrFormatted) || no.Len() > 0 {
			t.Errorf("formatted twice, by %v: %v", self, err)
		}
		if err := Join(st, &no, register.UUID{2}, self); !errors.Is(err, ErrFormatted) || no.Len() > 0 {
			t.Errorf("joined with a register of its own, by %v: %v", self, err)
		}
	}
	if _, err := Open(Config{Self: b}, st, clock.Time{}); !errors.Is(err, ErrOtherOwner) {
		t.Errorf("another incarnation: %v", err)
	}
	if _, err := Open(Config{Self: a, Cluster: register.UUID{9}}, st, clock.Time{}); !errors.Is(err, ErrOtherOwner) {
		t.Errorf("another cluster: %v", err)
	}
	if _, err := Open(Config{Self: a, Heartbeat: -1}, st, clock.Time{}); err == nil {
		t.Error("a negative duration was taken")
	}
	if _, err := Open(Config{Self: a, Cluster: c.ID}, st, clock.Time{}); err != nil {
		t.Errorf("its owner: %v", err)
	}
}

func TestForeignMessagesDoNothing(t *testing.T) {
	s := newSim(t, 8)
	s.grow(1)
	n := s.nodes[0]
	stranger := register.Member{Node: "x", Incarnation: register.Incarnation{99}}
	for why, e := range map[Refusal]envelope{
		OtherCluster:    {cluster: register.UUID{1}, from: stranger, to: n.self.Incarnation, kind: kindRaft},
		OtherNode:       {cluster: s.cluster.ID, from: stranger, to: register.Incarnation{5}, kind: kindRaft},
		OtherGeneration: {cluster: s.cluster.ID, generation: 3, from: stranger, to: n.self.Incarnation, kind: kindRaft},
	} {
		s.must(time.Second, "idle", func() bool { return !n.busy })
		if err := n.machine.Step(clock.Time{Mono: s.now}, Received{e.encode()}); err != nil {
			t.Fatal(err)
		}
		rd, err := n.machine.Ready()
		if rd.Persist != nil {
			n.store.Commit(rd.Persist)()
		}
		if err != nil || len(rd.Messages) != 1 {
			t.Fatalf("%v: %d messages, %v", why, len(rd.Messages), err)
		}
		back, err := decodeEnvelope(rd.Messages[0].Data)
		if err != nil || back.kind != kindRefuse || Refusal(back.body[0]) != why || back.to != stranger.Incarnation {
			t.Errorf("%v: answered with %+v", why, back)
		}
		if err := n.machine.Advance(clock.Time{Mono: n.sim.now}); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzReceive: one member that lies may cost itself, never a node. Whatever it says, the other
// one goes on, whether it is new or has been a member for long, is still of its cluster, and
// in a term after which there are others. That it says that this disk has lost something
// makes it stand aside, until that was asked back.
func FuzzReceive(f *testing.F) {
	s := newSim(f, 9)
	s.eaten = func(m *Message) bool {
		f.Add(m.Data)
		return false
	}
	s.cfg.Entries, s.cfg.Keep = 5, 1
	s.grow(3)
	s.fill(s.nodes[0], 0, 10, 10)
	s.eaten = nil
	liar, self := s.nodes[0], s.nodes[1].self
	for _, why := range []Refusal{RemovedNode, OldLife, TwinLife} {
		e := envelope{cluster: s.cluster.ID, from: liar.self, life: liar.machine.life, to: self.Incarnation, kind: kindRefuse, body: s.nodes[1].machine.life.refuse(why)}
		f.Add(e.encode())
	}
	filled := map[string][]byte{}
	for k, v := range s.nodes[1].store.Scan(nil, nil) {
		filled[string(k)] = slices.Clone(v)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		hearsNonsense(t, s, false, b, func(batch *storeBatch) error { return Join(memstore.New(), batch, s.cluster.ID, self) })
		e, err := decodeEnvelope(b)
		if err != nil {
			return
		}
		e.cluster, e.generation, e.from, e.to = s.cluster.ID, 0, liar.self, self.Incarnation // it is of who has said hello
		hearsNonsense(t, s, true, e.encode(), func(batch *storeBatch) error {
			for k, v := range filled {
				batch.Set([]byte(k), v)
			}
			return nil
		})
	})
}

// hearsNonsense has a member on a fresh disk hear something three times, and looks what
// becomes of it.
func hearsNonsense(t *testing.T, s *sim, member bool, b []byte, format func(*storeBatch) error) {
	st, self := memstore.New(), s.nodes[1].self
	var batch storeBatch
	if err := format(&batch); err != nil {
		t.Fatal(err)
	}
	st.Commit(&batch)()
	m, err := Open(Config{Self: self, Seed: 1}, st, clock.Time{})
	if err != nil {
		t.Fatal(err)
	}
	before := m.Status().Term
	goesOn := func(err error) bool {
		if err != nil && !errors.Is(err, ErrForgot) {
			t.Fatal(err)
		}
		return err == nil
	}
	for i := range 3 {
		if !goesOn(m.Step(clock.Time{Mono: int64(i) * int64(time.Second)}, Received{b})) {
			break
		}
		for m.HasReady() {
			rd, err := m.Ready()
			if err != nil {
				t.Fatal(err)
			}
			if rd.Persist != nil {
				st.Commit(rd.Persist)()
			}
			if err := m.Advance(clock.Time{Mono: int64(i) * int64(time.Second)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	again, err := Open(Config{Self: self, Seed: 2}, st, clock.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if term := again.Status().Term; term > maxNumber || member && term > before+4*maxTermJump {
		t.Fatalf("from term %d it got to %d: after it there are few", before, term)
	}
	if member && (m.Status().Removed || again.State().Generation != s.nodes[1].machine.State().Generation) {
		t.Fatalf("it is out: removed %t, of generation %d", m.Status().Removed, again.State().Generation)
	}
}

// TestReadsAreAnsweredAsSoonAsThereIsALeader: those that were asked while nobody
// led, and those that came to a leader before it had committed an entry of its
// term. It was: they waited for a heartbeat at the leader, and for a second at the
// others, and elections of partitions waited with them.
func TestReadsAreAnsweredAsSoonAsThereIsALeader(t *testing.T) {
	for seed := range uint64(20) {
		s := newSim(t, seed)
		s.grow(3)
		old := s.leader()
		old.crash()
		asked, answered := 0, 0
		for _, n := range s.nodes {
			if n == old {
				continue
			}
			n.feed(Lost{Peer: old.self})
			asked++
			n.ask(register.Request{}, func(r register.Result) {
				if answered++; r.Err != nil {
					t.Errorf("seed %d: %s: %v", seed, n.self.Node, r.Err)
				}
			})
		}
		s.must(10*time.Second, "led", func() bool { return s.leader() != nil })
		led := s.now
		s.must(10*time.Second, "answered", func() bool { return answered == asked })
		if took := time.Duration(s.now - led); took > 50*time.Millisecond {
			t.Errorf("seed %d: reads are answered %v after there is a leader", seed, took)
		}
	}
}
