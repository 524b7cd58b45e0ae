package sim

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
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/placement"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Times of a cluster that comes to rest.
const (
	lookEvery = 500 * time.Millisecond
	lull      = 8 * time.Second // between its being whole and the storm: all is well
	// formFor is how long a cluster may take to be whole for the first time. Where a
	// tenth of all messages is lost, clocks cannot be compared well enough for minutes.
	formFor  = 5 * time.Minute
	restless = 3 * time.Minute // it must be whole by then
	// forgotFor is how long it may take until a task is cancelled whose dependencies are
	// forgotten: nodes look every ten seconds, and ask three times.
	forgotFor = time.Minute
	quietFor  = 8 * time.Second // and nothing may move for so long, and while all replicas are compared
)

// ending is the end of a run of a cluster: it has to come to rest, and to be what
// it was told to be.
type ending struct{ *fleet }

// await waits until everything is finished, or for as long as that may take. Where
// things are forgotten within seconds a task may have work again when nobody knows
// what it waits for.
func (f ending) await(busy, until int64) {
	s, calm := f.s, int64(0)
	if s.plan.Grace < time.Hour {
		calm = int64(forgotFor)
	}
	if !s.idle() || f.unfinished() {
		busy = s.Now
	}
	if s.Now < until && s.Now-calm <= busy {
		s.After(time.Second, func() { f.await(busy, until) })
		return
	}
	if !f.drowsy.fed {
		f.drowsy.feed(until, func() { f.await(s.Now, s.Now+int64(s.longest())) })
		return
	}
	s.stopping = true
	quietReaders(s.readers)
	for _, w := range s.workers {
		w.stopped = true
	}
	// What workers still have under way ends.
	s.After(15*time.Second, func() {
		s.whenFit(s.Now+int64(2*sessionTimes().NameLease), func() {
			f.whenWhole(s.Now+int64(restless), "the cluster does not come to rest", f.quiet)
		})
	})
}

// unfinished tells whether some node has a task that can be worked on, or may
// bring one when it is back: a write may have asked for its copy alone.
func (f ending) unfinished() bool {
	return slices.ContainsFunc(f.nodes, func(n *node) bool { return !n.away && (!n.up || n.unfinished()) })
}

// whenWhole waits until every partition has all its replicas, all of them equal
// and nobody else with data of it.
func (f ending) whenWhole(until int64, complaint string, then func()) {
	s := f.s
	why := f.unsettled()
	switch {
	case why == "":
		then()
	case s.Now >= until:
		s.violation(Convergence, "%s: %s", complaint, why)
	default:
		s.After(lookEvery, func() { f.whenWhole(until, complaint, then) })
	}
}

// quiet: a cluster at rest stays at rest. Then everything is read back.
func (f ending) quiet() {
	f.s.note(check.Settled)
	f.rest(f.still(), f.s.stats[stats.Repaired], f.s.stats[stats.Copied])
}

// rest leaves a cluster alone for a time, then judges it.
func (f ending) rest(still time.Duration, repaired, copied int) {
	s := f.s
	before, collected := f.alive()[0].peers.state(), f.collected()
	tail := min(still, 2*s.plan.Collect+s.plan.Cluster.Repair)
	var late uint64 // how many were collected when the tail began
	s.After(still-tail, func() { late = f.collected() })
	s.After(still, func() {
		kept := f.kept()
		after := f.alive()[0].peers.state()
		moved := churn(&before, &after)
		travelled := s.stats[stats.Repaired] != repaired || s.stats[stats.Copied] != copied
		same := slices.EqualFunc(before.Cells, after.Cells, func(a, b register.Cell) bool { return a.Same(&b) })
		switch why := f.unsettled(); {
		case why != "":
			s.violation(Convergence, "the cluster had come to rest, and now: %s", why)
		case moved != "":
			s.violation(Convergence, "the register goes on changing though nothing happens: %s", moved)
		case travelled && f.collected() == collected:
			s.violation(Convergence, "facts travel though all replicas are equal")
		case travelled: // two replicas were compared while the copies of a tombstone were on their way
			f.rest(max(still, f.still()), s.stats[stats.Repaired], s.stats[stats.Copied])
		case kept > 0: // and is collected in the middle of what follows
			f.rest(kept+2*s.plan.Collect+3*s.plan.Cluster.Repair+s.plan.Steps(), repaired, copied)
		case f.collected() != late: // one after the other, along their dependencies, and not yet all
			f.rest(heldFor+2*s.plan.Collect+3*s.plan.Cluster.Repair+s.plan.Steps(), repaired, copied)
		case !same && s.plan.Collect > 0: // a new leader does not collect what has failed at once
			f.rest(heldFor+2*s.plan.Collect+3*s.plan.Cluster.Repair+s.plan.Steps(), repaired, copied)
		default:
			f.inspect()
			f.readBack(0, nil)
		}
	})
}

// collected counts the tasks that leaders have collected.
func (f ending) collected() (n uint64) {
	for _, o := range f.alive() {
		n += o.core.Stats().Collected
	}
	return n
}

// kept is for how much longer finished tasks stay that others have needed.
func (f ending) kept() (left time.Duration) {
	if f.s.plan.Collect == 0 {
		return 0
	}
	for _, n := range f.alive() {
		left = max(left, core.Kept(n.core, n.Clock.Time(f.s.Now)))
	}
	return left
}

// still is for how long nothing may move: until everything that is to be
// collected is, for which all members have to be compared first.
func (f ending) still() time.Duration {
	p := &f.s.plan
	if p.Collect == 0 {
		return quietFor + p.Cluster.Repair
	}
	return quietFor + heldFor + p.Retention + 2*p.Collect + 3*p.Cluster.Repair + p.Steps()
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
func (f ending) unsettled() string {
	var all []*node
	for _, n := range f.nodes {
		switch {
		case n.away:
		case !n.up:
			return n.self.Node + " is down"
		default:
			all = append(all, n)
		}
	}
	state := all[0].peers.state()
	for _, n := range all {
		s := n.peers.state()
		if s.Revision > state.Revision {
			state = s
		}
	}
	for _, n := range all {
		if r := n.peers.state().Revision; r != state.Revision {
			return fmt.Sprintf("%s has revision %d of the register, the newest is %d", n.self.Node, r, state.Revision)
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

func (f ending) partition(all []*node, p ring.Partition, cell *register.Cell, want int) string {
	if len(cell.Cohort) != want {
		return fmt.Sprintf("%d replicas, not %d", len(cell.Cohort), want)
	}
	var first *node
	var root antientropy.Node
	for _, m := range cell.Cohort {
		n := f.find(m)
		if n == nil || n.self != m || !n.up {
			return fmt.Sprintf("%s is in the cohort and not there", m.Node)
		}
		got, ok := f.root(n, p)
		switch {
		case !ok:
			return fmt.Sprintf("%s has no whole tree", m.Node)
		case first == nil:
			first, root = n, got
		case got != root && !f.forming: // else there is work under way
			return fmt.Sprintf("%s has %d facts, %s has %d", first.self.Node, root.Count, m.Node, got.Count)
		}
	}
	for _, n := range all {
		if !f.forming && !slices.Contains(cell.Cohort, n.self) && !vnode.Empty(n.disk.Mem, p) {
			return fmt.Sprintf("%s has data and is not in the cohort", n.self.Node)
		}
	}
	return ""
}

// root is that of the tree of a replica, as its disk has it.
func (f ending) root(n *node, p ring.Partition) (antientropy.Node, bool) {
	if vnode.Dropping(n.disk, p) {
		return antientropy.Node{}, false
	}
	// Of a partition of which nothing is stored no tree is stored either: it begins with the first fact.
	cfg := vnode.Config{Partitions: f.s.plan.Partitions, HeadSize: 1, Tree: vnode.Empty(n.disk.Mem, p)}
	v, err := vnode.Open(p, cfg, n.disk.Mem, n.Clock.Time(f.s.Now))
	if err != nil {
		f.s.violation(Audit, "%spartition %d: %v", n, p, err)
		return antientropy.Node{}, false
	}
	if vnode.Tree(v) == nil {
		return antientropy.Node{}, false
	}
	return vnode.Root(v, n.disk.Mem), true
}

// inspect looks at the disks: indexes and counters follow from the facts, and
// every acknowledged task is on every replica of its cohort.
func (f ending) inspect() {
	s := f.s
	for _, n := range f.alive() {
		n.audit()
		n.unanswered()
		counted(n)
	}
	state := f.alive()[0].peers.state()
	for _, task := range s.board.acknowledged() {
		p := ring.Of(task, s.plan.Partitions)
		for _, m := range state.Cells[p].Cohort {
			if !vnode.Known(f.find(m).disk.Mem, p, task) && !check.Forgettable(s.checker, task) {
				s.violation(check.Lost, "task %s was acknowledged and is not on %s, which is in the cohort of its partition", task, m.Node)
				return
			}
		}
		f.archived(f.find(state.Cells[p].Leader), p, task)
	}
}

// archived looks whether a task that was acknowledged, and is collected, was written
// elsewhere before, where that is asked for.
func (f ending) archived(n *node, p ring.Partition, task id.ID) {
	s := f.s
	if s.plan.What != nornv1.Retention_RETENTION_ARCHIVE || s.archived[task] || n == nil {
		return
	}
	switch t, err := vnode.LoadTask(n.disk.Mem, p, task); {
	case err != nil:
		s.violation(Audit, "%spartition %d: %v", n, p, err)
	case t.Collected():
		s.violation("archive", "task %s was collected and is not in the archive", task)
	}
}

// readBack reads everything through every node: the numbers must be the same.
func (f ending) readBack(i int, counts map[string]history.Tally) {
	s := f.s
	alive := f.alive()
	if i == len(alive) {
		f.readTasks()
		return
	}
	r := &reader{caller: s.newCaller()}
	r.pin = alive[i]
	var ask func(tries int)
	ask = func(tries int) {
		r.do(&nornv1.CountRequest{}, 10*time.Second, func(a *answer) {
			if !a.fine() {
				if tries == 0 {
					s.violation(Convergence, "%s does not count: %v", r.pin.self.Node, a.refused)
					return
				}
				r.after(time.Second, func() { ask(tries - 1) })
				return
			}
			got := map[string]history.Tally{}
			for _, t := range a.end.Tallies {
				got[t.Queue] = t
			}
			if counts != nil && !reflect.DeepEqual(counts, got) {
				s.violation(check.Counting, "%s counts %v, the nodes before it %v", r.pin.self.Node, sorted(got), sorted(counts))
				return
			}
			r.listAll(listSizes[i%len(listSizes)], func() { f.readBack(i+1, got) })
		})
	}
	ask(5)
}

// readTasks reads each task through some node, then judges the run.
func (f ending) readTasks() {
	s := f.s
	r := &reader{caller: s.newCaller()}
	var next func(n int)
	next = func(n int) {
		if n == len(s.board.jobs) {
			s.allOf(func() {
				if v := s.checker.Finish(); v != nil {
					s.fail(v)
				}
				f.book()
				s.Ended = true
			})
			return
		}
		r.get(s.board.jobs[n].id, func(a *answer) {
			if a.unknown || a.end == nil {
				r.after(100*time.Millisecond, func() { next(n) })
				return
			}
			next(n + 1)
		})
	}
	next(0)
}

// allOf counts and lists everything through one node.
func (s *sim) allOf(done func()) {
	r := &reader{caller: s.newCaller()}
	r.count("", func() { r.listAll(listSizes[0], done) })
}

func sorted(counts map[string]history.Tally) (all []history.Tally) {
	for _, q := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, counts[q])
	}
	return all
}

// agreed: what one member has applied of the register's log is the same entry on
// every other, which its index and term tell.
func (f *fleet) agreed(n *node) {
	index, term := group.Applied(n.peers.machine)
	if index == 0 {
		return // it waits for a snapshot
	}
	if before, known := f.applied[index]; known && before != term {
		f.s.violation(check.Register, "%shas applied entry %d of the register of term %d, another node that of term %d", n, index, term, before)
	}
	f.applied[index] = term
}

// learned notes what the register says, as a node has just heard.
func (f *fleet) learned(n *node, state *register.State) {
	if state.Revision <= f.seen {
		return
	}
	f.seen = state.Revision
	if len(f.cells) == len(state.Cells) {
		for p := range state.Cells {
			f.changed(ring.Partition(p), &f.cells[p], &state.Cells[p])
			if f.witness != nil {
				f.witness.Changed(ring.Partition(p), &f.cells[p], &state.Cells[p])
			}
		}
	}
	if f.replicas != 0 && f.replicas != state.Cluster.Replicas {
		s := f.s
		s.stats[stats.Resizes]++
		s.note("%d replicas, and before %d", state.Cluster.Replicas, f.replicas)
	}
	f.cells, f.records, f.replicas = state.Cells, state.Nodes, state.Cluster.Replicas
}

// unmoved tells whether all cells are as they were at a time. A leader that was elected once
// more, for a cohort that grew, has handed out nothing meanwhile.
func unmoved(f *fleet, since int64) bool {
	for _, at := range f.moved { // Any order: each is compared.
		if at > since {
			return false
		}
	}
	return true
}

// changed counts what a change of a cell was about.
func (f *fleet) changed(p ring.Partition, old, now *register.Cell) {
	s := f.s
	if old.Same(now) {
		return
	}
	f.leaders.Leads(p, now)
	f.moved[p] = s.Now
	for _, m := range now.Cohort {
		if !slices.Contains(old.Cohort, m) {
			s.stats[stats.Moves]++
			f.gets(p, now, m)
		}
	}
	if old.Leader != now.Leader && old.Leader != (register.Member{}) {
		s.stats[stats.Leaders]++
	}
	if s.tracing {
		s.note("partition %d: epoch %d led by %s, %s", p, now.Epoch, now.Leader.Node, witness.Names(now.Cohort))
	}
}

// gets checks that no partition is given to a node that is no member any more.
func (f *fleet) gets(p ring.Partition, now *register.Cell, who register.Member) {
	before := register.State{Nodes: f.records}
	if n, known := before.Find(who); known && n.Status == register.Removed {
		f.s.violation(check.Register, "partition %d: epoch %d gives it to %s, which was removed before", p, now.Epoch, who.Node)
	}
}
