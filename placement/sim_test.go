package placement

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// tick is a step of the simulation.
const tick = int64(250 * time.Millisecond)

// fact is something that a majority of a cohort has acknowledged.
type fact struct {
	holders map[register.Member]bool
	safe    int  // disks of holders that may be lost before it is lost
	hurt    bool // one was
}

// fake is a node: its copies under way, what it leads, whether it runs.
type fake struct {
	member register.Member
	driver *Driver
	up     bool
	slow   time.Duration              // what a copy takes
	copies map[ring.Partition]int64   // when those under way are done
	leads  []uint64                   // by partition: the epoch that it leads in, 0 none
	hint   map[register.Member]bool   // whom it takes for dead though they live
	moved  map[ring.Partition][]int64 // when its driver moved a leader
	seen   uint64                     // the revision that it looked at last
	saw    []register.Member          // and who lived
}

// GoString keeps what rapid prints short.
func (n *fake) GoString() string { return n.member.Node }

// late is a request on its way.
type late struct {
	at      int64
	request register.Request
	from    *fake
}

// fatal is what the simulation needs of a test.
type fatal interface{ Fatalf(string, ...any) }

// sim is a cluster around one register that is always there, with facts that
// are written to majorities, copied and compared.
type sim struct {
	t     fatal
	rand  *rand.Rand
	cfg   Config
	now   clock.Time
	state register.State
	nodes []*fake

	lose   int           // out of 100, requests that never arrive
	delay  time.Duration // the longest that one takes
	twins  bool          // two nodes believe to lead the register
	silent bool          // leaving nodes do not ask for their removal
	blind  bool          // hints are wrong, so that cells may be without a leader

	requests     int // of drivers
	onWay        []late
	facts        [][]*fact // by partition
	headless     []int64   // by partition: since when no leader lives though a member does, 0 not
	began        int64     // when the node that leads began to
	incarnations int
	removed      map[register.Member]int64 // when
}

func newSim(t fatal, seed uint64, partitions, replicas int, zone string) *sim {
	s := &sim{t: t, rand: rand.New(rand.NewPCG(seed, 7)), now: clock.Time{Mono: 1}, removed: map[register.Member]int64{}}
	m := s.mint("a")
	s.state = register.First(register.Cluster{Partitions: partitions, Replicas: replicas}, register.Node{Member: m, Zone: zone, Weight: 100})
	s.headless, s.facts = make([]int64, partitions), make([][]*fact, partitions)
	s.start(m)
	return s
}

func (s *sim) mint(name string) register.Member {
	s.incarnations++
	m := register.Member{Node: name}
	copy(m.Incarnation[:], fmt.Sprintf("%08d", s.incarnations))
	return m
}

func (s *sim) start(m register.Member) *fake {
	cfg := s.cfg
	cfg.Self, cfg.Rand = m, s.rand
	cfg.AtOnce = cmp.Or(cfg.AtOnce, 4096) // a tick is longer than an election
	n := &fake{
		member: m, driver: New(cfg), up: true, slow: time.Duration(s.rand.IntN(3)) * time.Second,
		copies: map[ring.Partition]int64{}, leads: make([]uint64, len(s.facts)), moved: map[ring.Partition][]int64{},
	}
	s.nodes = append(s.nodes, n)
	return n
}

func (s *sim) status(m register.Member) register.NodeStatus {
	n, _ := s.state.Find(m)
	return n.Status
}

// in gives the nodes that are not removed.
func (s *sim) in() []*fake {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(n *fake) bool { return s.status(n.member) == register.Removed })
}

// set changes a node's status the way the group or an operator does.
func (s *sim) set(m register.Member, status register.NodeStatus) {
	n, _ := s.state.Find(m)
	old := n.Version
	n.Status = status
	if status == register.Removed {
		s.wiped(m)
	}
	s.apply(&register.Request{Nodes: []register.NodeChange{{Old: old, New: n}}})
}

// wiped notes the loss of a disk.
func (s *sim) wiped(m register.Member) {
	s.removed[m] = s.now.Mono
	for _, facts := range s.facts {
		for _, f := range facts {
			if f.holders[m] {
				delete(f.holders, m)
				f.safe, f.hurt = f.safe-1, true
			}
		}
	}
}

// join lets a node in as the group does: joining, then active, with the removal
// of the one that had its name.
func (s *sim) join(name, zone string, weight uint32) *fake {
	m := s.mint(name)
	n := register.Node{Member: m, Zone: zone, Weight: weight, Status: register.Joining}
	s.apply(&register.Request{Nodes: []register.NodeChange{{New: n}}})
	r := register.Request{}
	for _, o := range s.state.Nodes {
		if o.Node == name && (o.Status == register.Active || o.Status == register.Leaving) {
			s.wiped(o.Member)
			o.Status = register.Removed
			r.Nodes = append(r.Nodes, register.NodeChange{Old: o.Version, New: o})
		}
	}
	n.Status = register.Active
	r.Nodes = append(r.Nodes, register.NodeChange{Old: 1, New: n})
	s.apply(&r)
	return s.start(m)
}

// forget takes out a node that is removed in good order.
func (s *sim) forget(m register.Member) {
	for _, facts := range s.facts {
		for _, f := range facts {
			delete(f.holders, m)
		}
	}
}

// apply decides a request and judges what has become of the cells.
func (s *sim) apply(r *register.Request) {
	old := s.state
	s.state, _, _ = s.state.Apply(r)
	for _, c := range r.Nodes {
		if s.status(c.New.Member) == register.Removed {
			s.forget(c.New.Member)
		}
	}
	for i := range r.Changes {
		p := r.Changes[i].Partition
		s.judge(p, &old.Cells[p], &s.state.Cells[p])
	}
}

// judge holds every change of a cell to the rule of cohorts. Requests may have
// been on their way when a member was removed.
func (s *sim) judge(p ring.Partition, old, next *register.Cell) {
	given := func(m register.Member) bool {
		return s.status(m) == register.Removed && lists(s.state.Values[LostValue].Data, m.Incarnation)
	}
	n, stay, race := 0, 0, false
	for _, m := range old.Cohort {
		if given(m) {
			continue
		}
		n++
		at, gone := s.removed[m]
		late := gone && s.now.Mono-at <= int64(s.delay)+2*tick
		race = race || late
		if slices.Contains(next.Cohort, m) && (!gone || late) {
			stay++
		}
	}
	if old.Same(next) || n == 0 || slices.Equal(old.Cohort, next.Cohort) {
		return
	}
	switch {
	case stay+quorum.Majority(n) <= n:
		s.t.Fatalf("partition %d: %s became %s: a majority may have stored what nobody has", p, names(old.Cohort), names(next.Cohort))
	case len(next.Cohort) > len(old.Cohort)+1 || len(next.Cohort) < len(old.Cohort)-1:
		s.t.Fatalf("partition %d: %s became %s at once", p, names(old.Cohort), names(next.Cohort))
	case !slices.Contains(next.Cohort, next.Leader):
		s.t.Fatalf("partition %d: %s of %s leads", p, next.Leader.Node, names(next.Cohort))
	}
	for i, f := range s.facts[p] {
		f.safe = min(f.safe, quorum.Majority(len(next.Cohort)))
		switch {
		case f.safe <= 0 || f.has(next.Cohort):
		case race:
			f.safe = 0 // a zombie has it
		case !f.hurt || len(f.holders) == 0:
			s.t.Fatalf("partition %d: %s became %s and nobody has fact %d", p, names(old.Cohort), names(next.Cohort), i)
		}
	}
}

// has says whether one of the members has a fact.
func (f *fact) has(members []register.Member) bool {
	return slices.ContainsFunc(members, func(m register.Member) bool { return f.holders[m] })
}

func (s *sim) alive() []register.Member {
	var out []register.Member
	for _, n := range s.in() {
		if n.up {
			out = append(out, n.member)
		}
	}
	return out
}

// lead finds who leads the register: the first that lives, and with twins the
// next one too.
func (s *sim) lead(alive []register.Member, was *fake) (leader, twin *fake) {
	for _, n := range s.nodes {
		switch {
		case !slices.Contains(alive, n.member):
		case leader == nil:
			leader = n
		case twin == nil && s.twins:
			twin = n
		}
	}
	if leader != was {
		s.began = s.now.Mono
	}
	return leader, twin
}

// run lets time pass.
func (s *sim) run(d time.Duration) {
	var leader, twin *fake
	for until := s.now.Add(d).Mono; s.now.Mono < until; {
		s.now = s.now.Add(time.Duration(tick))
		alive := s.alive()
		leader, twin = s.lead(alive, leader)
		for _, l := range s.onWay {
			if l.at <= s.now.Mono {
				s.arrive(&l)
			}
		}
		s.onWay = slices.DeleteFunc(s.onWay, func(l late) bool { return l.at <= s.now.Mono })
		for _, n := range s.in() {
			if n.up {
				s.turn(n, alive, n == leader || n == twin)
			}
		}
		s.compare(alive)
		s.watch(alive)
	}
}

// turn is one node's.
func (s *sim) turn(n *fake, alive []register.Member, leads bool) {
	hint := slices.DeleteFunc(slices.Clone(alive), func(m register.Member) bool { return n.hint[m] })
	n.driver.Step(s.now, Input{State: s.state, Leads: leads, Alive: hint})
	requests, wake := n.driver.Ready(s.now)
	if len(requests) > 1 || wake <= s.now.Mono {
		s.t.Fatalf("%d requests, wakes in %v", len(requests), time.Duration(wake-s.now.Mono))
	}
	for _, r := range requests {
		s.requests++
		if s.rand.IntN(100) >= s.lose {
			s.onWay = append(s.onWay, late{s.now.Mono + s.rand.Int64N(int64(s.delay)+1), r, n})
		}
	}
	if s.state.Revision != n.seen || !slices.Equal(alive, n.saw) || len(n.copies) > 0 {
		n.seen, n.saw = s.state.Revision, alive
		s.copy(n)
		s.campaign(n)
	}
}

func (s *sim) arrive(l *late) {
	old := s.state
	s.apply(&l.request)
	for _, c := range l.request.Changes {
		was, _ := Leading(&old.Cells[c.Partition])
		is, _ := Leading(&s.state.Cells[c.Partition])
		if is != was && slices.Contains(s.state.Cells[c.Partition].Cohort, was) {
			l.from.moved[c.Partition] = append(l.from.moved[c.Partition], s.now.Mono)
		}
	}
}

// copy copies what the node is to copy, and asks for its admission.
func (s *sim) copy(n *fake) {
	v := n.driver.View()
	for _, c := range v.Copies(n.member) {
		p := c.Partition
		from := slices.DeleteFunc(slices.Clone(c.From), func(m register.Member) bool { return !v.Standing(m).Alive })
		if !c.Turn || len(from) < c.Need {
			delete(n.copies, p)
			continue
		}
		done, begun := n.copies[p]
		if !begun {
			done = s.now.Add(n.slow).Mono
			n.copies[p] = done
		}
		if done > s.now.Mono {
			continue
		}
		delete(n.copies, p)
		from = from[:c.Need]
		for _, f := range s.facts[p] {
			if f.has(from) {
				f.holders[n.member] = true
			}
		}
		change, ok := v.Admit(p, n.member, s.rand.Uint64())
		if !ok || !v.Copied(p, from) {
			s.t.Fatalf("partition %d of %s was copied by %s, which is not admitted", p, names(change.Old.Cohort), n.member.Node)
		}
		s.apply(&register.Request{Changes: []register.Change{change}})
	}
}

// campaign is the core's: who is named asks for an epoch of its own.
func (s *sim) campaign(n *fake) {
	for p := range s.state.Cells {
		cell := &s.state.Cells[p]
		if n.leads[p] == cell.Epoch && cell.Epoch != 0 {
			continue
		}
		n.leads[p] = 0
		if leader, ok := Leading(cell); !ok || leader != n.member {
			continue
		}
		next := register.Cell{Epoch: cell.Epoch + 1, Cohort: cell.Cohort, Leader: n.member, Nonce: s.rand.Uint64()}
		s.apply(&register.Request{Changes: []register.Change{{Partition: ring.Partition(p), Old: *cell, New: next}}})
		n.leads[p] = s.state.Cells[p].Epoch
	}
}

// write has a bare majority of living members acknowledge a fact.
func (s *sim) write(p ring.Partition) {
	cell, alive := &s.state.Cells[p], s.alive()
	living := slices.DeleteFunc(slices.Clone(cell.Cohort), func(m register.Member) bool { return !slices.Contains(alive, m) })
	w := quorum.Majority(len(cell.Cohort))
	if len(living) < w {
		return
	}
	f := &fact{holders: map[register.Member]bool{}, safe: w}
	for _, i := range s.rand.Perm(len(living))[:w] {
		f.holders[living[i]] = true
	}
	s.facts[p] = append(s.facts[p], f)
}

// compare brings the living members of each cohort together every 8 s, and
// every 2 s living nodes outside of it hand them over what they have.
func (s *sim) compare(alive []register.Member) {
	if s.now.Mono/tick%8 != 0 {
		return
	}
	all := s.now.Mono/tick%32 == 0
	for p := range s.facts {
		cohort := s.state.Cells[p].Cohort
		living := slices.DeleteFunc(slices.Clone(cohort), func(m register.Member) bool { return !slices.Contains(alive, m) })
		others := slices.DeleteFunc(slices.Clone(alive), func(m register.Member) bool { return slices.Contains(cohort, m) })
		for _, f := range s.facts[p] {
			if f.has(others) || all && f.has(living) {
				for _, m := range living {
					f.holders[m] = true
				}
			}
		}
	}
	for _, n := range s.in() {
		s.leave(n)
	}
}

// leave has a node ask for its removal when it has handed over what it had.
func (s *sim) leave(n *fake) {
	c, ok := n.driver.View().Leave(n.member)
	if !n.up || !ok || s.silent {
		return
	}
	for p := range s.facts {
		for _, f := range s.facts[p] {
			cohort, have := s.state.Cells[p].Cohort, 0
			for _, m := range cohort {
				if f.holders[m] {
					have++
				}
			}
			if f.holders[n.member] && have < quorum.Majority(len(cohort)) {
				return
			}
		}
	}
	s.apply(&register.Request{Nodes: []register.NodeChange{c}})
}

// watch sees that no cell is without a living leader for long. The limit is for
// requests that arrive.
func (s *sim) watch(alive []register.Member) {
	for p := range s.state.Cells {
		cell := &s.state.Cells[p]
		leader, ok := Leading(cell)
		living := slices.ContainsFunc(cell.Cohort, func(m register.Member) bool { return slices.Contains(alive, m) })
		if s.blind || !ok || !living || slices.Contains(alive, leader) {
			s.headless[p] = 0
			continue
		}
		if s.headless[p] == 0 {
			s.headless[p] = s.now.Mono
		}
		limit := 10*time.Second + 4*time.Duration(tick)
		if s.lose > 0 || s.delay > 0 || s.twins {
			limit += 30 * time.Second // ten are lost in a row, or the cell has changed meanwhile
		}
		if over := time.Duration(s.now.Mono - max(s.headless[p], s.began)); over > limit {
			s.t.Fatalf("partition %d of %s has had no living leader for %v", p, names(cell.Cohort), over)
		}
	}
}

// settle lets time pass until nothing has changed for a minute.
func (s *sim) settle() {
	for range 60 {
		revision, requests := s.state.Revision, s.requests
		s.run(time.Minute)
		if s.state.Revision == revision && s.requests == requests {
			return
		}
	}
	s.t.Fatalf("an hour has passed, and things still change")
}

// converged sees that cells are as planned, and says which are stuck.
func (s *sim) converged() (stuck []ring.Partition) {
	v := See(s.state, s.alive())
	left := v.Progress()
	for i := range s.state.Cells {
		p, cell := ring.Partition(i), &s.state.Cells[i]
		planned := v.Planned(p)
		if n, have := holders(cell.Cohort, v.Standing); have < Enough(n) {
			stuck = append(stuck, p)
			continue
		}
		cohort, want := slices.Clone(cell.Cohort), slices.Clone(planned)
		byName := func(a, b register.Member) int { return toRing(a).Compare(toRing(b)) }
		slices.SortFunc(cohort, byName)
		slices.SortFunc(want, byName)
		if len(planned) == 0 || !slices.Equal(cohort, want) {
			s.t.Fatalf("partition %d: %s, planned %s; alive %s", p, names(cell.Cohort), names(planned), names(s.alive()))
		}
		if leader, _ := Leading(cell); v.isAlive(planned[0]) && leader != planned[0] {
			s.t.Fatalf("partition %d: %s leads, %s shall", p, leader.Node, planned[0].Node)
		}
	}
	if len(stuck) == 0 && (left.Copies != 0 || len(left.Nodes) != 0) || left.Stuck > len(stuck) {
		s.t.Fatalf("left to do: %+v with %d partitions stuck", left, len(stuck))
	}
	return stuck
}

// kept sees that cohorts have all that was acknowledged.
func (s *sim) kept() {
	for p := range s.facts {
		for i, f := range s.facts[p] {
			if f.safe > 0 && !f.has(s.state.Cells[p].Cohort) {
				s.t.Fatalf("partition %d: %s do not have fact %d", p, names(s.state.Cells[p].Cohort), i)
			}
		}
	}
}
