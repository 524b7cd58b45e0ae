package group

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// sim runs members of one group over a network and disks that one seed breaks.
type sim struct {
	t       testing.TB
	rand    *rand.Rand
	now     int64
	steps   int
	due     dues
	nodes   []*simNode
	cluster register.Cluster
	cfg     Config

	// Faults of the network.
	loss, double float64
	delay        int64                 // greatest
	cut          map[[2]string]bool    // from, to
	eaten        func(m *Message) bool // what a test wants lost

	states map[[2]uint64]uint64 // (generation, revision) -> hash: all members agree
	led    map[uint64]register.Member
	saw    func(n *simNode, state *register.State) // what a test looks at
	trace  strings.Builder
	counts struct{ elections, crashes, snapshots, lost, doubled, conf int }
}

type simNode struct {
	sim     *sim
	self    register.Member
	zone    string
	store   *memstore.Mem
	machine *Machine
	boot    int
	busy    bool          // the disk is at work
	slow    time.Duration // what it takes for a sync, and up to a tenth more
	inbox   []Event
	wake    int64
	asked   map[uint64]func(register.Result)
	tag     uint64
	heard   []uint64 // revisions that were seen, in this life
	err     error
}

type due struct {
	at   int64
	seq  int
	what func()
}

type dues []due

func (d dues) Len() int { return len(d) }
func (d dues) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].seq < d[j].seq
}
func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)   { *d = append(*d, x.(due)) }
func (d *dues) Pop() any     { x := (*d)[len(*d)-1]; *d = (*d)[:len(*d)-1]; return x }

func newSim(t testing.TB, seed uint64) *sim {
	return &sim{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), delay: int64(5 * time.Millisecond),
		cluster: register.Cluster{ID: register.UUID{7}, Partitions: 4, Replicas: 3},
		cut:     map[[2]string]bool{}, states: map[[2]uint64]uint64{}, led: map[uint64]register.Member{},
		cfg: Config{Stable: 500 * time.Millisecond, Dead: 3 * time.Second, Replace: 10 * time.Second},
	}
}

func (s *sim) logf(format string, args ...any) {
	fmt.Fprintf(&s.trace, "%9.3f ", float64(s.now)/1e9)
	fmt.Fprintf(&s.trace, format+"\n", args...)
}

func (s *sim) fatalf(format string, args ...any) {
	s.t.Helper()
	lines := strings.Split(s.trace.String(), "\n")
	s.t.Fatalf(format+"\n%s", append(args, strings.Join(lines[max(0, len(lines)-60):], "\n"))...)
}

func (s *sim) after(d int64, what func()) {
	s.steps++
	heap.Push(&s.due, due{s.now + d, s.steps, what})
}

// run lets time pass until done or the limit, and reports whether done.
func (s *sim) run(limit time.Duration, done func() bool) bool {
	end := s.now + int64(limit)
	for {
		if done != nil && done() {
			return true
		}
		if len(s.due) == 0 || s.due[0].at > end {
			s.now = end
			return done != nil && done()
		}
		d := heap.Pop(&s.due).(due)
		s.now = d.at
		d.what()
	}
}

func (s *sim) must(limit time.Duration, what string, done func() bool) {
	s.t.Helper()
	if !s.run(limit, done) {
		s.dump()
		s.fatalf("after %v: not %s", limit, what)
	}
}

func (s *sim) name(i int) register.Member {
	return register.Member{Node: fmt.Sprintf("n%d", i), Incarnation: register.Incarnation{byte(i)}}
}

// add makes a node with an empty disk.
func (s *sim) add(self register.Member) *simNode {
	n := &simNode{sim: s, self: self, store: memstore.New(), asked: map[uint64]func(register.Result){}, wake: clock.Never}
	s.nodes = append(s.nodes, n)
	return n
}

func (n *simNode) format() *simNode {
	var b storeBatch
	if err := Format(n.store, &b, n.sim.cluster, register.Node{Member: n.self, Zone: n.zone, Weight: 1}); err != nil {
		n.sim.t.Fatal(err)
	}
	n.store.Commit(&b)()
	return n.start()
}

func (n *simNode) join() *simNode {
	var b storeBatch
	if err := Join(n.store, &b, n.sim.cluster.ID, n.self); err != nil {
		n.sim.t.Fatal(err)
	}
	n.store.Commit(&b)()
	return n.start()
}

func (n *simNode) start() *simNode {
	n.boot++
	cfg := n.sim.cfg
	cfg.Self, cfg.Seed = n.self, n.sim.rand.Uint64()
	m, err := Open(cfg, n.store, clock.Time{Mono: n.sim.now})
	if err != nil {
		n.sim.fatalf("%s does not start: %v", n.self.Node, err)
	}
	n.machine, n.busy, n.inbox, n.heard, n.wake = m, false, nil, nil, clock.Never
	n.sim.logf("%s starts at %d of %d", n.self.Node, m.applied, m.disk.last())
	n.feed(Tick{})
	return n
}

// crash loses power: what was not synced is there in part.
func (n *simNode) crash() {
	if n.machine == nil {
		return
	}
	keep := n.sim.rand.IntN(n.store.Unsynced() + 1)
	n.sim.logf("%s crashes, %d of %d unsynced batches stay", n.self.Node, keep, n.store.Unsynced())
	n.store, n.machine = n.store.Crash(keep), nil
	n.sim.counts.crashes++
	n.forget()
}

func (n *simNode) forget() {
	asked := n.asked
	n.asked = map[uint64]func(register.Result){}
	for tag := uint64(1); tag <= n.tag; tag++ {
		if fn := asked[tag]; fn != nil {
			fn(register.Result{Tag: tag, Err: ErrUnknown})
		}
	}
}

func (n *simNode) feed(ev Event) {
	if n.machine == nil {
		return
	}
	if n.busy {
		n.inbox = append(n.inbox, ev)
		return
	}
	if err := n.machine.Step(clock.Time{Mono: n.sim.now}, ev); err != nil {
		n.broken(err)
		return
	}
	n.observe()
	n.perform()
}

func (n *simNode) broken(err error) {
	n.err, n.machine = err, nil
	n.sim.logf("%s is broken: %v", n.self.Node, err)
	n.forget()
}

func (n *simNode) perform() {
	for n.machine.HasReady() {
		rd, err := n.machine.Ready()
		if err != nil {
			n.broken(err)
			return
		}
		if rd.Persist != nil {
			n.store.Apply(rd.Persist)
		}
		if rd.Sync {
			boot := n.boot
			n.busy = true
			n.sim.after(int64(n.slow)+n.sim.rand.Int64N(int64(3*time.Millisecond+n.slow/10)), func() {
				if n.boot != boot || n.machine == nil {
					return
				}
				n.store.Sync()
				n.busy = false
				n.finish(&rd)
				if n.machine != nil {
					n.perform()
				}
			})
			return
		}
		if n.finish(&rd); n.machine == nil {
			return
		}
	}
	for len(n.inbox) > 0 && !n.busy && n.machine != nil {
		ev := n.inbox[0]
		n.inbox = n.inbox[1:]
		n.feed(ev)
	}
	if n.machine != nil && !n.busy {
		n.arm()
	}
}

func (n *simNode) arm() {
	at := n.machine.Wake()
	if at == clock.Never || n.wake > n.sim.now && n.wake <= at {
		return
	}
	n.wake = at
	boot := n.boot
	n.sim.after(max(0, at-n.sim.now), func() {
		if n.boot == boot && n.wake == at {
			n.wake = clock.Never
			n.feed(Tick{})
		}
	})
}

func (n *simNode) finish(rd *Ready) {
	s := n.sim
	for i := range rd.Messages {
		s.deliver(n, &rd.Messages[i])
	}
	for _, state := range rd.Changes {
		s.agree(n, &state)
	}
	for _, r := range rd.Results {
		if fn := n.asked[r.Tag]; fn != nil {
			delete(n.asked, r.Tag)
			fn(r)
		}
	}
	if err := n.machine.Advance(clock.Time{Mono: s.now}); err != nil {
		n.broken(err)
		return
	}
	n.observe()
}

// observe checks that a term has one leader.
func (n *simNode) observe() {
	st := n.machine.Status()
	if !st.Leads {
		return
	}
	s := n.sim
	switch old, ok := s.led[st.Term]; {
	case !ok:
		s.led[st.Term] = n.self
		s.counts.elections++
		s.logf("%s leads term %d", n.self.Node, st.Term)
	case old != n.self:
		s.fatalf("%v and %v lead term %d", old, n.self, st.Term)
	}
}

// agree checks that all members go through the same states in the same order.
func (s *sim) agree(n *simNode, state *register.State) {
	if len(state.Values) < 20 || state.Revision%16 == 0 { // large ones now and then
		h := fnv.New64a()
		p := newReplica(*state)
		_, _ = h.Write(p.encode())
		key := [2]uint64{state.Generation, state.Revision}
		if old, ok := s.states[key]; ok && old != h.Sum64() {
			s.fatalf("%s has another state of revision %d", n.self.Node, state.Revision)
		}
		s.states[key] = h.Sum64()
	}
	if k := len(n.heard); k > 0 && n.heard[k-1] >= state.Revision {
		s.fatalf("%s hears of revision %d after %d", n.self.Node, state.Revision, n.heard[k-1])
	}
	n.heard = append(n.heard, state.Revision)
	if s.saw != nil {
		s.saw(n, state)
	}
}

func (s *sim) deliver(from *simNode, m *Message) {
	if m.Bulk {
		s.counts.snapshots++
	}
	copies := 1
	if s.rand.Float64() < s.double {
		copies++
		s.counts.doubled++
	}
	data := slices.Clone(m.Data)
	to := m.To
	for range copies {
		if s.rand.Float64() < s.loss || s.cut[[2]string{from.self.Node, to.Node}] || s.eaten != nil && s.eaten(m) {
			s.counts.lost++
			continue
		}
		s.after(1+s.rand.Int64N(s.delay), func() {
			// By name, as addresses work: a new incarnation gets what was for the old.
			for _, n := range s.nodes {
				if n.self.Node == to.Node && !s.cut[[2]string{from.self.Node, to.Node}] {
					n.feed(Received{data})
				}
			}
		})
	}
}

// ask asks and calls back; the node may be down.
func (n *simNode) ask(r register.Request, done func(register.Result)) {
	if n.machine == nil {
		n.sim.after(0, func() { done(register.Result{Err: ErrBusy}) })
		return
	}
	n.tag++
	r.Tag = n.tag
	n.asked[r.Tag] = done
	n.feed(Asked{r})
}

// do asks until there is an answer.
func (s *sim) do(n *simNode, r register.Request) (res register.Result) {
	s.t.Helper()
	for range 20 {
		done := false
		n.ask(r, func(got register.Result) { res, done = got, true })
		s.must(10*time.Second, "answered", func() bool { return done })
		if res.Err == nil {
			return res
		}
		s.run(100*time.Millisecond, nil)
	}
	s.fatalf("%s: %v", n.self.Node, res.Err)
	return res
}

func (s *sim) leader() *simNode {
	for _, n := range s.nodes {
		if n.machine != nil && n.machine.Status().Leads {
			return n
		}
	}
	return nil
}

// grow makes a group of so many nodes, with up to five voters.
func (s *sim) grow(size int) {
	s.t.Helper()
	s.add(s.name(1)).format()
	for i := 2; i <= size; i++ {
		n := s.add(s.name(i)).join()
		s.invite(s.nodes[0], n)
	}
	want := min(5, size)
	if want%2 == 0 {
		want--
	}
	s.must(30*time.Second, "grown", func() bool {
		for _, n := range s.nodes { // what the leader knows, the others may not yet
			if st := n.machine.Status(); len(st.Voters) != want || len(st.Outgoing) > 0 {
				return false
			}
		}
		return s.settled(size, want)
	})
}

func (s *sim) invite(by, n *simNode) {
	s.t.Helper()
	res := s.do(by, register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: n.self, Zone: n.zone, Status: register.Joining}}}})
	if !res.NodesWon[0] {
		s.fatalf("%s was not invited", n.self.Node)
	}
}

// settled: so many members, so many voters, no change under way.
func (s *sim) settled(members, voters int) bool {
	l := s.leader()
	if l == nil {
		return false
	}
	st := l.machine.Status()
	return len(st.Voters) == voters && len(st.Outgoing) == 0 && len(l.machine.State().Members) == members
}

func TestThreeNodes(t *testing.T) {
	s := newSim(t, 1)
	s.grow(3)
	a, b := s.nodes[1], s.nodes[2]
	old := s.do(a, register.Request{}).State.Cells[2]
	first := register.Cell{Epoch: 1, Cohort: old.Cohort, Leader: a.self, Nonce: 11}
	rival := register.Cell{Epoch: 1, Cohort: old.Cohort, Leader: b.self, Nonce: 12}
	if r := s.do(a, register.Request{Changes: []register.Change{{Partition: 2, Old: old, New: first}}}); !r.Won[0] {
		t.Fatal("the first change was not written")
	}
	if r := s.do(b, register.Request{Changes: []register.Change{{Partition: 2, Old: old, New: rival}}}); r.Won[0] || !r.State.Cells[2].Same(&first) {
		t.Fatal("a change from a value that was replaced was written")
	}
	for _, n := range s.nodes {
		if got := s.do(n, register.Request{}).State.Cells[2]; !got.Same(&first) || got.Leader != a.self {
			t.Fatalf("%s reads %+v", n.self.Node, got)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	run := func(seed uint64) string {
		s := newSim(t, seed)
		s.loss, s.double = 0.02, 0.02
		s.grow(3)
		s.leader().crash()
		s.run(5*time.Second, nil)
		s.logf("steps %d, counts %+v", s.steps, s.counts)
		return s.trace.String()
	}
	first := run(3)
	if again := run(3); again != first {
		t.Fatalf("one seed, two runs:\n%s\n%s", first, again)
	}
	if run(4) == first {
		t.Fatal("two seeds, one run: nothing comes from the seed")
	}
}

type storeBatch = store.Batch

// dump logs how every node sees the group.
func (s *sim) dump() {
	for _, n := range s.nodes {
		if n.machine == nil {
			s.logf("%s is down, %v", n.self.Node, n.err)
			continue
		}
		st := n.machine.Status()
		s.logf("%s leader %s term %d applied %d commit %d last %d voters %v learners %v outgoing %v asked %d refused %d waiting %v busy %v",
			n.self.Node, st.Leader.Node, st.Term, st.Applied, st.Commit, n.machine.disk.last(), st.Voters, st.Learners, st.Outgoing, len(n.asked), st.Refused, st.Waiting, n.busy)
	}
	if l := s.leader(); l != nil {
		for _, r := range l.machine.rep.state.Nodes {
			s.logf("%v %v", r.Member, r.Status)
		}
	}
}
