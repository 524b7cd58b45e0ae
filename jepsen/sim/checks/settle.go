package checks

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/placement"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Times of a cluster that comes to rest.
const (
	lookEvery = 500 * time.Millisecond
	Lull      = 8 * time.Second // between its being whole and the storm: all is well
	// FormFor is how long a cluster may take to be whole for the first time. Where a
	// tenth of all messages is lost, clocks cannot be compared well enough for minutes.
	FormFor  = 5 * time.Minute
	Restless = 3 * time.Minute // it must be whole by then
	// forgotFor is how long it may take until a task is cancelled whose dependencies are
	// forgotten: nodes look every ten seconds, and ask three times.
	forgotFor = time.Minute
	quietFor  = 8 * time.Second // and nothing may move for so long, and while all replicas are compared
)

// Ending is the end of a run of a cluster: it has to come to rest, and to be what
// it was told to be.
type Ending struct {
	*nodes.Fleet
	s      *clients.People
	drowsy *drowsy // looks on while a cluster is whole; nil: nobody does
}

// NewEnding will look when a cluster comes to rest.
func NewEnding(s *clients.People) *Ending { return &Ending{Fleet: s.Fleet, s: s} }

// Watch looks for lost wake-ups from now on.
func (f *Ending) Watch() {
	f.drowsy = &drowsy{Fleet: f.Fleet, s: f.s, skews: map[*nodes.Node]skew{}}
	f.drowsy.watch()
}

// Begin is when nothing goes wrong any more.
func (f *Ending) Begin() { f.await(f.s.Now-1, f.s.Now+int64(f.s.Longest())) }

// await waits until everything is finished, or for as long as that may take. Where
// things are forgotten within seconds a task may have work again when nobody knows
// what it waits for.
func (f *Ending) await(busy, until int64) {
	s, calm := f.s, int64(0)
	if s.Plan.Grace < time.Hour {
		calm = int64(forgotFor)
	}
	if !s.Idle() || f.unfinished() {
		busy = s.Now
	}
	if s.Now < until && s.Now-calm <= busy {
		s.After(time.Second, func() { f.await(busy, until) })
		return
	}
	if !f.Closing {
		f.drowsy.feed(until, func() { f.await(s.Now, s.Now+int64(s.Longest())) })
		return
	}
	s.Stopping = true
	clients.QuietReaders(s.Readers)
	for _, w := range s.Workers {
		w.Stopped = true
	}
	// What workers still have under way ends.
	s.After(15*time.Second, func() {
		s.WhenFit(s.Now+int64(2*nodes.SessionTimes().NameLease), func() {
			f.WhenWhole(s.Now+int64(Restless), "the cluster does not come to rest", f.quiet)
		})
	})
}

// unfinished tells whether some node has a task that can be worked on, or may
// bring one when it is back: a write may have asked for its copy alone.
func (f *Ending) unfinished() bool {
	return slices.ContainsFunc(f.Nodes, func(n *nodes.Node) bool { return !n.Away && (!n.Up || n.Unfinished()) })
}

// WhenWhole waits until every partition has all its replicas, all of them equal
// and nobody else with data of it.
func (f *Ending) WhenWhole(until int64, complaint string, then func()) {
	s := f.s
	why := f.unsettled()
	switch {
	case why == "":
		then()
	case s.Now >= until:
		s.Violation(run.Convergence, "%s: %s", complaint, why)
	default:
		s.After(lookEvery, func() { f.WhenWhole(until, complaint, then) })
	}
}

// quiet: a cluster at rest stays at rest. Then everything is read back.
func (f *Ending) quiet() {
	f.s.Note(check.Settled)
	f.rest(f.still(), f.s.Stats[stats.Repaired], f.s.Stats[stats.Copied])
}

// rest leaves a cluster alone for a time, then judges it.
func (f *Ending) rest(still time.Duration, repaired, copied int) {
	s := f.s
	before, collected := f.Alive()[0].Peers.State(), f.collected()
	tail := min(still, 2*s.Plan.Collect+s.Plan.Cluster.Repair)
	var late uint64 // how many were collected when the tail began
	s.After(still-tail, func() { late = f.collected() })
	s.After(still, func() {
		kept := f.kept()
		after := f.Alive()[0].Peers.State()
		moved := churn(&before, &after)
		travelled := s.Stats[stats.Repaired] != repaired || s.Stats[stats.Copied] != copied
		same := slices.EqualFunc(before.Cells, after.Cells, func(a, b register.Cell) bool { return a.Same(&b) })
		switch why := f.unsettled(); {
		case why != "":
			s.Violation(run.Convergence, "the cluster had come to rest, and now: %s", why)
		case moved != "":
			s.Violation(run.Convergence, "the register goes on changing though nothing happens: %s", moved)
		case travelled && f.collected() == collected:
			s.Violation(run.Convergence, "facts travel though all replicas are equal")
		case travelled: // two replicas were compared while the copies of a tombstone were on their way
			f.rest(max(still, f.still()), s.Stats[stats.Repaired], s.Stats[stats.Copied])
		case kept > 0: // and is collected in the middle of what follows
			f.rest(kept+2*s.Plan.Collect+3*s.Plan.Cluster.Repair+s.Plan.Steps(), repaired, copied)
		case f.collected() != late: // one after the other, along their dependencies, and not yet all
			f.rest(run.HeldFor+2*s.Plan.Collect+3*s.Plan.Cluster.Repair+s.Plan.Steps(), repaired, copied)
		case !same && s.Plan.Collect > 0: // a new leader does not collect what has failed at once
			f.rest(run.HeldFor+2*s.Plan.Collect+3*s.Plan.Cluster.Repair+s.Plan.Steps(), repaired, copied)
		default:
			f.inspect()
			f.readBack(0, nil)
		}
	})
}

// collected counts the tasks that leaders have collected.
func (f *Ending) collected() (n uint64) {
	for _, o := range f.Alive() {
		n += o.Core.Stats().Collected
	}
	return n
}

// kept is for how much longer finished tasks stay that others have needed.
func (f *Ending) kept() (left time.Duration) {
	if f.s.Plan.Collect == 0 {
		return 0
	}
	for _, n := range f.Alive() {
		left = max(left, core.Kept(n.Core, n.Clock.Time(f.s.Now)))
	}
	return left
}

// still is for how long nothing may move: until everything that is to be
// collected is, for which all members have to be compared first.
func (f *Ending) still() time.Duration {
	p := &f.s.Plan
	if p.Collect == 0 {
		return quietFor + p.Cluster.Repair
	}
	return quietFor + run.HeldFor + p.Retention + 2*p.Collect + 3*p.Cluster.Repair + p.Steps()
}

// churn tells what should not have changed between two states of a cluster at
// rest. Leadership may return to the preferred leader: that takes its time.
func churn(before, after *register.State) string {
	if before.Plan.Version != after.Plan.Version || !reflect.DeepEqual(before.Nodes, after.Nodes) {
		return "the plan or the nodes"
	}
	view := placement.See(*after, nil)
	for p := range after.Cells {
		old, now := &before.Cells[p], &after.Cells[p]
		planned := view.Planned(ring.Partition(p))
		switch {
		case old.Same(now):
		case !slices.Equal(old.Cohort, now.Cohort) && !witness.Same(old.Cohort, now.Cohort):
			return fmt.Sprintf("the cohort of partition %d, from %v to %v", p, witness.Names(old.Cohort), witness.Names(now.Cohort))
		case now.Epoch > old.Epoch+2 || len(planned) > 0 && now.Leader != planned[0]:
			return fmt.Sprintf("partition %d is led by %s in epoch %d, and was by %s in epoch %d", p, now.Leader.Node, now.Epoch, old.Leader.Node, old.Epoch)
		}
	}
	return ""
}

// unsettled tells what keeps a cluster from being at rest; "" is nothing.
func (f *Ending) unsettled() string {
	var all []*nodes.Node
	for _, n := range f.Nodes {
		switch {
		case n.Away:
		case !n.Up:
			return n.Self.Node + " is down"
		default:
			all = append(all, n)
		}
	}
	state := all[0].Peers.State()
	for _, n := range all {
		s := n.Peers.State()
		if s.Revision > state.Revision {
			state = s
		}
	}
	for _, n := range all {
		if r := n.Peers.State().Revision; r != state.Revision {
			return fmt.Sprintf("%s has revision %d of the register, the newest is %d", n.Self.Node, r, state.Revision)
		}
	}
	active := 0
	for i := range state.Nodes {
		switch n := &state.Nodes[i]; n.Status {
		case register.Joining, register.Leaving:
			return fmt.Sprintf("%s is %v", n.Node, n.Status)
		case register.Active:
			active++
		}
	}
	for p := range state.Cells {
		if why := f.partition(all, ring.Partition(p), &state.Cells[p], min(active, state.Cluster.Replicas)); why != "" {
			planned := placement.See(state, nil).Planned(ring.Partition(p))
			return fmt.Sprintf("partition %d, kept by %s, planned for %s: %s", p, witness.Names(state.Cells[p].Cohort), witness.Names(planned), why)
		}
	}
	return ""
}

func (f *Ending) partition(all []*nodes.Node, p ring.Partition, cell *register.Cell, want int) string {
	if len(cell.Cohort) != want {
		return fmt.Sprintf("%d replicas, not %d", len(cell.Cohort), want)
	}
	var first *nodes.Node
	var root antientropy.Node
	for _, m := range cell.Cohort {
		n := f.Find(m)
		if n == nil || n.Self != m || !n.Up {
			return fmt.Sprintf("%s is in the cohort and not there", m.Node)
		}
		got, ok := f.root(n, p)
		switch {
		case !ok:
			return fmt.Sprintf("%s has no whole tree", m.Node)
		case first == nil:
			first, root = n, got
		case got != root && !f.Forming: // else there is work under way
			return fmt.Sprintf("%s has %d facts, %s has %d", first.Self.Node, root.Count, m.Node, got.Count)
		}
	}
	for _, n := range all {
		if !f.Forming && !slices.Contains(cell.Cohort, n.Self) && !vnode.Empty(n.Disk.Mem, p) {
			return fmt.Sprintf("%s has data and is not in the cohort", n.Self.Node)
		}
	}
	return ""
}

// root is that of the tree of a replica, as its disk has it.
func (f *Ending) root(n *nodes.Node, p ring.Partition) (antientropy.Node, bool) {
	if vnode.Dropping(n.Disk, p) {
		return antientropy.Node{}, false
	}
	// Of a partition of which nothing is stored no tree is stored either: it begins with the first fact.
	cfg := vnode.Config{Partitions: f.s.Plan.Partitions, HeadSize: 1, Tree: vnode.Empty(n.Disk.Mem, p)}
	v, err := vnode.Open(p, cfg, n.Disk.Mem, n.Clock.Time(f.s.Now))
	if err != nil {
		f.s.Violation(run.Audit, "%spartition %d: %v", n, p, err)
		return antientropy.Node{}, false
	}
	if vnode.Tree(v) == nil {
		return antientropy.Node{}, false
	}
	return vnode.Root(v, n.Disk.Mem), true
}

// inspect looks at the disks: indexes and counters follow from the facts, and
// every acknowledged task is on every replica of its cohort.
func (f *Ending) inspect() {
	s := f.s
	for _, n := range f.Alive() {
		n.Audit()
		n.Unanswered()
		nodes.Counted(n)
	}
	state := f.Alive()[0].Peers.State()
	for _, task := range s.Board.Acknowledged() {
		p := ring.Of(task, s.Plan.Partitions)
		for _, m := range state.Cells[p].Cohort {
			if !vnode.Known(f.Find(m).Disk.Mem, p, task) && !check.Forgettable(s.Checker, task) {
				s.Violation(check.Lost, "task %s was acknowledged and is not on %s, which is in the cohort of its partition", task, m.Node)
				return
			}
		}
		f.archived(f.Find(state.Cells[p].Leader), p, task)
	}
}

// archived looks whether a task that was acknowledged, and is collected, was written
// elsewhere before, where that is asked for.
func (f *Ending) archived(n *nodes.Node, p ring.Partition, task id.ID) {
	s := f.s
	if s.Plan.What != nornv1.Retention_RETENTION_ARCHIVE || s.Archived[task] || n == nil {
		return
	}
	switch t, err := vnode.LoadTask(n.Disk.Mem, p, task); {
	case err != nil:
		s.Violation(run.Audit, "%spartition %d: %v", n, p, err)
	case t.Collected():
		s.Violation("archive", "task %s was collected and is not in the archive", task)
	}
}

// readBack reads everything through every node: the numbers must be the same.
func (f *Ending) readBack(i int, counts map[string]history.Tally) {
	s := f.s
	alive := f.Alive()
	if i == len(alive) {
		f.readTasks()
		return
	}
	r := &clients.Reader{Caller: s.NewCaller()}
	r.Pin = alive[i]
	f.count(r, 5, func(tallies []history.Tally) {
		got := map[string]history.Tally{}
		for _, t := range tallies {
			got[t.Queue] = t
		}
		if counts != nil && !reflect.DeepEqual(counts, got) {
			s.Violation(check.Counting, "%s counts %v, the nodes before it %v", r.Pin.Self.Node, sorted(got), sorted(counts))
			return
		}
		r.ListAll(clients.ListSizes[i%len(clients.ListSizes)], func() { f.readBack(i+1, got) })
	})
}

// count counts everything. What is not answered is asked again: the checker would go by an
// older count, and tasks are collected meanwhile.
func (f *Ending) count(r *clients.Reader, tries int, done func([]history.Tally)) {
	r.Do(&nornv1.CountRequest{}, 10*time.Second, func(a *clients.Answer) {
		switch {
		case a.Fine():
			done(a.End.Tallies)
		case tries == 0:
			f.s.Violation(run.Convergence, "a count of everything is refused: %v", a.Refused)
		default:
			r.After(time.Second, func() { f.count(r, tries-1, done) })
		}
	})
}

// readTasks reads each task through some node, then judges the run.
func (f *Ending) readTasks() {
	s := f.s
	r := &clients.Reader{Caller: s.NewCaller()}
	var next func(n int)
	next = func(n int) {
		if n == len(s.Board.Jobs) {
			f.allOf(func() {
				if v := s.Checker.Finish(); v != nil {
					s.Fail(v)
				}
				f.book()
				s.Ended = true
			})
			return
		}
		r.Get(s.Board.Jobs[n].ID, func(a *clients.Answer) {
			if a.Unknown || a.End == nil {
				r.After(100*time.Millisecond, func() { next(n) })
				return
			}
			next(n + 1)
		})
	}
	next(0)
}

// allOf counts and lists everything through one node.
func (f *Ending) allOf(done func()) {
	r := &clients.Reader{Caller: f.s.NewCaller()}
	f.count(r, 5, func([]history.Tally) { r.ListAll(clients.ListSizes[0], done) })
}

func sorted(counts map[string]history.Tally) (all []history.Tally) {
	for _, q := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, counts[q])
	}
	return all
}

// Unmoved tells whether all cells are as they were at a time. A leader that was elected once
// more, for a cohort that grew, has handed out nothing meanwhile.
func (f *Ending) Unmoved(since int64) bool {
	for _, at := range f.Moved { // Any order: each is compared.
		if at > since {
			return false
		}
	}
	return true
}
