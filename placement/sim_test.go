package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// tick is a step of the simulation.
const tick = int64(250 * time.Millisecond)

// fake is a node: what it has copied, how long a copy takes it, what it leads.
type fake struct {
	member register.Member
	driver *Driver
	up     bool
	slow   int64 // of a copy, mono ns
	// copies are those under way: from which cohort, and when they are done.
	copies map[ring.Partition]copying
	leads  []uint64 // by partition: the epoch that it leads in, 0 none
}

type copying struct {
	need, left int
	done       int64
}

// sim is a cluster around one register that is always there. The hint is right;
// one node at a time has the driver that leads.
type sim struct {
	t     interface{ Fatalf(string, ...any) }
	rand  *rand.Rand
	now   clock.Time
	state register.State
	nodes []*fake
	cfg   Config
	// lose is out of 100 how many requests never arrive.
	lose int
	// incarnations counts those made.
	incarnations int
	// requests counts those of the driver, led the changes of a leader by it.
	requests, led int
	// headless is since when a cell has had no living leader though a member
	// of its cohort lives, by partition; 0 not.
	headless []int64
	// began is when the node that leads began to.
	began  int64
	driver *fake
	moved  []int64 // when the driver moved each cell's leader last
}

func newSim(t interface{ Fatalf(string, ...any) }, seed uint64, partitions, replicas int, zone string) *sim {
	s := &sim{t: t, rand: rand.New(rand.NewPCG(seed, 7)), now: clock.Time{Mono: 1}}
	m := s.mint("a")
	s.state = register.First(register.Cluster{Partitions: partitions, Replicas: replicas}, register.Node{Member: m, Zone: zone, Weight: 100})
	s.headless, s.moved = make([]int64, partitions), make([]int64, partitions)
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
	n := &fake{member: m, driver: New(cfg), up: true, copies: map[ring.Partition]copying{}, leads: make([]uint64, s.state.Cluster.Partitions), slow: int64(s.rand.IntN(3)) * int64(time.Second)}
	s.nodes = append(s.nodes, n)
	return n
}

func (s *sim) status(m register.Member) register.NodeStatus {
	n, _ := s.state.Find(m)
	return n.Status
}

// set changes a node's record the way the group or an operator does.
func (s *sim) set(m register.Member, change func(*register.Node)) {
	n, _ := s.state.Find(m)
	old := n.Version
	n.Member = m
	change(&n)
	s.apply(&register.Request{Nodes: []register.NodeChange{{Old: old, New: n}}})
}

// join lets a node in as the group does: joining, then active, with the removal
// of the one that had its name.
func (s *sim) join(name, zone string, weight uint32) *fake {
	m := s.mint(name)
	s.set(m, func(n *register.Node) { n.Zone, n.Weight, n.Status = zone, weight, register.Joining })
	r := register.Request{}
	for _, n := range s.state.Nodes {
		if n.Node == name && (n.Status == register.Active || n.Status == register.Leaving) {
			n.Status = register.Removed
			r.Nodes = append(r.Nodes, register.NodeChange{Old: n.Version, New: n})
		}
	}
	n, _ := s.state.Find(m)
	n.Status = register.Active
	r.Nodes = append(r.Nodes, register.NodeChange{Old: n.Version, New: n})
	s.apply(&r)
	return s.start(m)
}

// apply decides a request and judges what has become of the cells.
func (s *sim) apply(r *register.Request) {
	old := s.state
	s.state, _, _ = s.state.Apply(r)
	for i := range r.Changes {
		s.judge(&old.Cells[r.Changes[i].Partition], &s.state.Cells[r.Changes[i].Partition])
	}
}

// judge holds every change of a cell to the rule of cohorts.
func (s *sim) judge(old, next *register.Cell) {
	if old.Same(next) || len(old.Cohort) == 0 {
		return
	}
	n, stay := 0, 0
	for _, m := range old.Cohort {
		if s.nodes[0].driver.View().Standing(m).Lost {
			continue
		}
		n++
		if slices.Contains(next.Cohort, m) && s.status(m) != register.Removed {
			stay++
		}
	}
	changed := !slices.Equal(old.Cohort, next.Cohort)
	switch {
	case changed && n > 0 && stay+quorum.Majority(n) <= n:
		s.t.Fatalf("%s became %s: a majority may have stored what nobody has", names(old.Cohort), names(next.Cohort))
	case len(next.Cohort) > len(old.Cohort)+1 || len(next.Cohort) < len(old.Cohort)-1:
		s.t.Fatalf("%s became %s at once", names(old.Cohort), names(next.Cohort))
	case !slices.Contains(next.Cohort, next.Leader):
		s.t.Fatalf("%s of %s leads", next.Leader.Node, names(next.Cohort))
	}
}

func (s *sim) alive() []register.Member {
	var out []register.Member
	for _, n := range s.nodes {
		if n.up && s.status(n.member) != register.Removed {
			out = append(out, n.member)
		}
	}
	return out
}

// step lets a tick pass.
func (s *sim) step() {
	s.now = s.now.Add(time.Duration(tick))
	alive := s.alive()
	if s.driver == nil || !slices.Contains(alive, s.driver.member) {
		s.driver, s.began = nil, s.now.Mono
		for _, n := range s.nodes {
			if slices.Contains(alive, n.member) {
				s.driver = n
				break
			}
		}
	}
	for _, n := range s.nodes {
		if !n.up || s.status(n.member) == register.Removed {
			continue
		}
		n.driver.Step(s.now, Input{State: s.state, Leads: n == s.driver, Alive: alive})
		requests, wake := n.driver.Ready(s.now)
		if wake <= s.now.Mono && len(requests) == 0 {
			s.t.Fatalf("wakes at once and does nothing")
		}
		for i := range requests {
			s.arrive(&requests[i])
		}
		s.copy(n)
		s.campaign(n)
	}
	s.watch(alive)
}

func (s *sim) arrive(r *register.Request) {
	s.requests++
	if s.rand.IntN(100) < s.lose {
		return
	}
	old := s.state
	s.apply(r)
	for _, c := range r.Changes {
		was, _ := Leading(&old.Cells[c.Partition])
		if is, _ := Leading(&s.state.Cells[c.Partition]); is != was && slices.Contains(s.state.Cells[c.Partition].Cohort, was) {
			s.led++
			s.moved[c.Partition] = s.now.Mono
		}
	}
}

// copy copies what the node is to copy, and asks for its admission.
func (s *sim) copy(n *fake) {
	v := n.driver.View()
	for _, c := range v.Copies(n.member) {
		from := slices.DeleteFunc(c.From, func(m register.Member) bool { return !v.Standing(m).Alive })
		if !v.Copied(c.Partition, from) || !c.Turn {
			delete(n.copies, c.Partition)
			continue
		}
		under, begun := n.copies[c.Partition]
		if !begun {
			n.copies[c.Partition] = copying{need: c.Need, done: s.now.Mono + n.slow}
			continue
		}
		if under.done > s.now.Mono {
			continue
		}
		change, ok := v.Admit(c.Partition, n.member, s.rand.Uint64())
		if !ok {
			s.t.Fatalf("partition %d: %s is copied by %s and not admitted", c.Partition, names(change.Old.Cohort), n.member.Node)
		}
		s.apply(&register.Request{Changes: []register.Change{change}})
		delete(n.copies, c.Partition)
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

// watch sees that no cell is without a living leader for long.
func (s *sim) watch(alive []register.Member) {
	for p := range s.state.Cells {
		cell := &s.state.Cells[p]
		leader, ok := Leading(cell)
		living := slices.ContainsFunc(cell.Cohort, func(m register.Member) bool { return slices.Contains(alive, m) })
		if !ok || !living || slices.Contains(alive, leader) {
			s.headless[p] = 0
			continue
		}
		if s.headless[p] == 0 {
			s.headless[p] = s.now.Mono
		}
		limit := int64(10*time.Second) + int64(s.lose)*int64(time.Second) + 4*tick
		if over := s.now.Mono - max(s.headless[p], s.began); over > limit {
			s.t.Fatalf("partition %d of %s has had no living leader for %v", p, names(cell.Cohort), time.Duration(over))
		}
	}
}

// run lets time pass.
func (s *sim) run(d time.Duration) {
	for until := s.now.Add(d).Mono; s.now.Mono < until; {
		s.step()
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

// converged sees that cells are as planned; but for those that are stuck.
func (s *sim) converged() {
	v := See(s.state, s.alive())
	for p := range s.state.Cells {
		cell, planned := &s.state.Cells[p], v.Planned(ring.Partition(p))
		if len(planned) == 0 {
			s.t.Fatalf("there is no plan")
		}
		cohort, want := slices.Clone(cell.Cohort), slices.Clone(planned)
		byName := func(a, b register.Member) int { return toRing(a).Compare(toRing(b)) }
		slices.SortFunc(cohort, byName)
		slices.SortFunc(want, byName)
		if !slices.Equal(cohort, want) {
			s.t.Fatalf("partition %d: %s, planned %s; alive %s", p, names(cell.Cohort), names(planned), names(s.alive()))
		}
		if leader, _ := Leading(cell); v.isAlive(planned[0]) && leader != planned[0] {
			s.t.Fatalf("partition %d: %s leads, %s shall", p, leader.Node, planned[0].Node)
		}
	}
}

func TestThreeFiveThree(t *testing.T) {
	s := newSim(t, 1, 64, 3, "")
	s.settle()
	s.converged()
	for _, n := range []string{"b", "c"} {
		s.join(n, "", 100)
		s.settle()
		s.converged()
	}
	s.join("d", "", 100)
	s.run(3 * time.Second)
	s.join("e", "", 100)
	s.settle()
	s.converged()
	for _, n := range s.nodes[1:3] {
		s.set(n.member, func(n *register.Node) { n.Status = register.Leaving })
	}
	s.settle()
	s.converged()
	for _, n := range s.nodes[1:3] {
		if got := s.status(n.member); got != register.Removed {
			t.Errorf("%s is %v", n.member.Node, got)
		}
	}
	if p := See(s.state, s.alive()).Progress(); p.Copies != 0 || len(p.Nodes) != 0 {
		t.Errorf("left to do: %+v", p)
	}
}
