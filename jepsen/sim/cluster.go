package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// fleet is a cluster: the nodes that there are or were, and what lies between
// them. Nodes have numbers here; to each other they are members.
type fleet struct {
	s       *sim
	nodes   []*node
	links   [][]link // from, to
	lossy   bool     // disks get lost in this run
	seen    uint64   // the newest revision of the register that any node has seen
	cells   []register.Cell
	records []register.Node // at that revision
	// replicas is how many there were to be by then; 0: nobody has heard.
	replicas int

	leaders *witness.Leaders  // nil: nobody notes who leads
	applied map[uint64]uint64 // of the register's log: the term of each entry that somebody has applied

	size    int         // members there are about; 0: as drawn
	forming bool        // the cluster is not whole for the first time yet
	stormy  bool        // messages between nodes get lost
	whole   int64       // when it was, true time
	before  stats.Stats // what had happened when the storm began
	stable  bool        // nothing was elected or moved in the lull before it

	witness *witness.Witness // nil: disks get lost
	drowsy  *drowsy          // from when it is whole
	ahead   int64            // by how much all wall clocks are set ahead alike, ns

	moved  map[ring.Partition]int64 // true time since when its cell is as it is
	sought sought

	liar  *node // nil: everybody tells the truth
	heard overheard
}

// Cluster runs one seed of a cluster.
//
// It begins with one node; the others join it. When all of them hold their
// share the storm begins, and after it everything heals: what is down starts
// again, and the cluster has to come to rest with every acknowledged task on
// every replica of its cohort, all replicas equal, nobody else with data, and
// the same answers from every node.
func Cluster(seed uint64) *Result { return ClusterMutant(seed, Mutant{}) }

// ClusterMutant runs one seed of a cluster of mutants.
func ClusterMutant(seed uint64, m Mutant) *Result {
	return runCluster(seed, Many{Mutant: m, Cluster: true})
}

// planned makes the plan that of the kind of clusters that is asked for.
func planned(s *sim, m *Many) {
	if m.Forget {
		s.plan.Forgetful()
	}
	if m.Fierce {
		s.plan.Fierce(&s.World)
	}
	if m.Cuts {
		s.plan.Cuts()
	}
	if m.Lies {
		s.plan.Lies()
	}
	if m.Size > 0 {
		s.plan.Cluster.Nodes = m.Size
	}
}

func runCluster(seed uint64, m Many) *Result {
	s := newSim(seed, m.Mutant)
	s.tracing, s.Stop = m.Trace, m.Stop
	s.plan = plan.DrawCluster(&s.World)
	planned(s, &m)
	s.stalls = s.plan.Disk.Stall > 0
	o := check.Options{
		Partitions: s.plan.Partitions, Slack: int64(10*time.Second + s.plan.Steps()),
		Elected: true, Sessions: s.plan.Hands > 0, Lossy: s.plan.Cluster.Lossy(), Lease: leastLease, Attempts: s.plan.Work.Attempts, Skew: int64(s.plan.Eta / 8), Backoff: leastPause - int64(s.plan.Eta/8),
	}
	if s.plan.Collect > 0 {
		o.Retention, o.Grace = int64(s.plan.Retention), int64(s.plan.Grace)
	}
	s.checker = check.New(o)
	s.note("seed %d, a cluster: %+v", seed, s.plan)
	f := newFleet(s)
	f.leaders, f.size, f.lossy = witness.NewLeaders(outside{f}), m.Size, s.plan.Cluster.Lossy()
	s.fleet = f
	if m.Fierce {
		f.witness = witness.New(outside{f})
	}
	for range s.plan.Cluster.Nodes {
		f.add()
	}
	f.found(f.nodes[0])
	for _, n := range f.nodes[1:] {
		s.After(s.Between(time.Second, 4*time.Second), func() { f.join(n) })
	}
	s.After(2*time.Second, s.people)
	if m.also != nil {
		s.After(2*time.Second, func() { m.also(s) })
	}
	nemesis{f}.early()
	f.gossip()
	ending{f}.whenWhole(s.Now+int64(formFor), "the cluster never forms", func() {
		f.forming, f.whole = false, s.Now
		f.drowsy = &drowsy{fleet: f, skews: map[*node]skew{}}
		f.drowsy.watch()
		s.After(lull, func() {
			f.stormy, f.before, f.stable = true, s.stats, unmoved(f, f.whole)
			s.note("the storm begins")
			if m.Cuts {
				nemesis{f}.cutOff()
			} else {
				nemesis{f}.trouble()
			}
			if m.Lies {
				slanderer{f}.begin()
			}
			s.After(s.plan.Storm, nemesis{f}.heal)
		})
	})
	s.Run()
	r := s.result(seed)
	r.Calm, r.Again = f.calm(), m.again(seed)
	if v := r.Violation; v != nil && !v.Task.IsZero() {
		r.Detail = f.facts(v.Task)
	}
	if r.Violation != nil {
		r.Detail = append(r.Detail, f.roll()...)
	}
	return r
}

func newFleet(s *sim) *fleet {
	return &fleet{s: s, forming: true, applied: map[uint64]uint64{}, moved: map[ring.Partition]int64{}, sought: sought{}}
}

// add makes room for one more node.
func (f *fleet) add() *node {
	n := &node{s: f.s, index: len(f.nodes), paused: map[string]bool{}}
	n.self.Node = fmt.Sprintf("n%d", n.index+1)
	f.nodes = append(f.nodes, n)
	for i := range f.links {
		f.links[i] = append(f.links[i], link{})
	}
	f.links = append(f.links, make([]link, len(f.nodes)))
	return n
}

// zone is where a node stands: two share one.
func (f *fleet) zone(n *node) string { return fmt.Sprintf("z%d", n.index%f.s.plan.Cluster.Zones+1) }

// mint gives a node empty disks and with them a new incarnation.
func (f *fleet) mint(n *node) {
	n.disk, n.cells = disk.New(), disk.New()
	f.become(n)
}

// become gives a node a new incarnation.
func (f *fleet) become(n *node) {
	n.hurt = false
	for i := range n.self.Incarnation {
		n.self.Incarnation[i] = byte(f.s.Rnd.Uint32())
	}
}

// record is the node as the register is to know it.
func (f *fleet) record(n *node, status register.NodeStatus) register.Node {
	return register.Node{Member: n.self, Addresses: []string{n.self.Node + ":1"}, Zone: f.zone(n), Weight: 1, Status: status}
}

// found makes the cluster.
func (f *fleet) found(n *node) {
	f.mint(n)
	f.format(n, func(b *store.Batch) error {
		state := register.First(fixed(&f.s.plan), f.record(n, register.Active))
		if f.s.plan.Cluster.Made {
			state = core.Growing(state, f.s.plan.Cluster.Nodes)
		}
		return group.Begin(n.cells, b, state, n.self)
	})
	n.start()
}

func (f *fleet) format(n *node, write func(b *store.Batch) error) {
	var b store.Batch
	if err := write(&b); err != nil {
		f.s.broken("%sthe register cannot be formatted: %v", n, err)
		return
	}
	n.cells.Write(&b)
	n.cells.Secure(n.cells.Applied)
}

// join asks to be let in, as a new incarnation, until somebody says yes: any
// member writes the newcomer into the register. Then its leader fills the node.
func (f *fleet) join(n *node) {
	f.mint(n)
	f.s.note("%sasks to join", n)
	f.enter(n)
}

// rejoin is the same with the facts that the node has from its life before.
func (f *fleet) rejoin(n *node) {
	n.cells = disk.New()
	f.become(n)
	f.s.note("%sasks to join with the facts of the life before", n)
	f.enter(n)
}

func (f *fleet) enter(n *node) {
	s := f.s
	life := n.Life
	again := func() {
		s.After(s.About(500*time.Millisecond), func() {
			if n.Life == life && !n.up && !n.away {
				f.enter(n)
			}
		})
	}
	by := world.Pick(&s.World, f.nodes)
	if by == n || !by.up || by.peers.state().Cluster.Partitions == 0 || f.apart(n, by) {
		again()
		return
	}
	s.After(s.delay(), func() {
		if !by.up {
			again()
			return
		}
		by.peers.do(register.Request{Nodes: []register.NodeChange{{New: f.record(n, register.Joining)}}}, func(r register.Result) {
			if n.Life != life || n.up || n.away {
				return
			}
			if _, known := r.State.Find(n.self); r.Err != nil || !known {
				again()
				return
			}
			f.format(n, func(b *store.Batch) error { return group.Join(n.cells, b, cluster, n.self) })
			s.note("%swas let in by %s", n, by.self.Node)
			s.stats[stats.Joins]++
			n.start()
		})
		s.After(6*time.Second, again) // the answer may never come
	})
}

// alive gives the nodes that run.
func (f *fleet) alive() []*node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n *node) bool { return !n.up })
}

// find gives the node of a name.
func (f *fleet) find(m register.Member) *node {
	for _, n := range f.nodes {
		if n.self.Node == m.Node {
			return n
		}
	}
	return nil
}

// server is the node that a client's next connection leads to.
func (s *sim) server(c *caller) *node {
	switch {
	case s.fleet == nil:
		return s.node
	case c != nil && c.pin != nil:
		return c.pin
	}
	return world.Pick(&s.World, s.fleet.nodes)
}

// tasks gives the tasks that were acknowledged.
func (b *board) acknowledged() (tasks []id.ID) {
	for _, j := range b.jobs {
		if j.acked && !j.weak {
			tasks = append(tasks, j.id)
		}
	}
	return tasks
}
