package arrivals

import (
	"errors"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dump"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Take keeps what another coordinator has written. The answer leaves when it
// is durable, also when all of it was here before (design 5, last rule).
func (a *Machine) Take(now clock.Time, from register.Member, m *message.Facts) {
	var refused []ring.Partition
	for i := range m.Parts {
		part := &m.Parts[i]
		if size := bulky(part.Facts); size > 0 {
			a.Round.Tx.Bulk(2*len(part.Facts), 2*size) // a fact, and an entry of an index
		}
		all := int(part.Partition) < len(a.View.Cells)
		if all {
			var void []id.ID
			_, void, all = a.Keep(now, from, part, m.Aside)
			if len(void) > 0 && !m.Aside {
				a.collected(from, part, void)
				all = false
			}
			// Who is no member any more does not know which cohort is the newest.
			all = all && !(len(part.Facts) == 0 && a.View.Dismissed)
			a.Transfer.Found(now, part.Partition)
		}
		if !all {
			refused = append(refused, part.Partition)
		}
	}
	a.Replication.Acks.Add(now, from, m, refused)
}

const (
	// bulkFacts is how many facts make a table of the store at least, which has its own syncs: a few large ones that
	// somebody waits for do not.
	bulkFacts = 1024
	// expectFacts is from how many facts on it is looked once whether there is anything where they belong.
	expectFacts = 64
)

// bulky gives the bytes of facts that make a table of the store by themselves, those of a restore, which lie in a row;
// 0: they do not.
func bulky(facts []crdt.Fact) (size int) {
	if len(facts) < bulkFacts {
		return 0
	}
	for i := range facts {
		if size += len(facts[i].Body); i > 0 && facts[i-1].Task.Compare(facts[i].Task) > 0 {
			return 0
		}
	}
	if size < dump.Bulk {
		return 0
	}
	return size
}

// many tells whether facts are as many as those of a restore, which may be repeated.
func many(facts []crdt.Fact) bool {
	size := 0
	for i := range facts {
		if size += len(facts[i].Body); i >= bulkFacts || size >= dump.Bulk {
			return true
		}
	}
	return false
}

// onlyEnqueues tells whether facts are enqueues alone: those that a replica has missed lie among
// others that are here.
func onlyEnqueues(facts []crdt.Fact) bool {
	return !slices.ContainsFunc(facts, func(f crdt.Fact) bool { return f.Key.Kind != crdt.KindEnqueued })
}

// collected tells a coordinator of tasks that were collected here, which it does not
// know: it wants copies of what nobody will have, as the tombstone takes its own, too.
// That is no copy. When it asks again it can say why.
func (a *Machine) collected(from register.Member, part *message.PartFacts, tasks []id.ID) {
	answer := message.PartFacts{Partition: part.Partition, Epoch: part.Epoch}
	for _, task := range tasks {
		facts, err := vnode.Facts(a.Round.Tx, part.Partition, task)
		if !a.Round.Check(err) {
			return
		}
		answer.Facts = append(answer.Facts, facts...)
	}
	a.Round.Send(from, &message.Facts{Parts: []message.PartFacts{answer}})
}

// Kept is how many of some facts were new here, and how many are here now, the new
// ones among them.
type Kept struct{ Changed, Taken int }

// Keep merges facts task by task. It gives how many changed something and those
// tasks that were collected, so that what is said of them is not kept, and tells
// whether all the rest is. Those that were kept aside where they come from
// are kept aside here, too, as long as their task is not known. Of a partition that
// is being deleted nothing is kept, whoever sends it.
func (a *Machine) Keep(now clock.Time, from register.Member, part *message.PartFacts, aside bool) (n Kept, void []id.ID, all bool) {
	if a.View.Deleting(part.Partition) {
		return n, nil, false
	}
	v := a.Partitions.Use(part.Partition)
	all = true
	facts, byTask := part.Facts, func(a, b crdt.Fact) int { return a.Task.Compare(b.Task) }
	if !slices.IsSortedFunc(facts, byTask) {
		facts = slices.Clone(facts)
		slices.SortStableFunc(facts, byTask)
	}
	tasks := apart(facts)
	there := new(vnode.Expected)
	if len(facts) >= expectFacts {
		there = vnode.Expect(v, a.Round.Tx, len(tasks), func(i int) []crdt.Fact { return tasks[i] }, many(facts) || onlyEnqueues(facts))
		defer there.Done()
	}
	if len(tasks) > 1 {
		defer a.Round.Tx.Together()()
	}
	var old []id.ID // left with the sender
	for i, some := range tasks {
		task := some[0].Task
		switch {
		case ring.Of(task, len(a.View.Cells)) != part.Partition:
			all = false
			continue
		case aside && a.Transfer.Quarantine.Belongs(now, v, some):
			all = a.Transfer.Quarantine.Take(now, part.Partition, some) && all
			continue
		case a.Tombstones.BelowHorizon(now, from, part.Partition, some):
			a.Stale++
			old = append(old, task)
			all = false
			continue
		case there.Same(i):
			n.Taken += len(some)
			continue
		}
		merged, ok := a.Merge(now, v, some)
		n.Changed += merged.Stored
		if ok {
			n.Taken += merged.Stored + merged.Known
		}
		if all = all && ok; a.Round.Fatal() != nil {
			return n, nil, false
		}
		if merged.Void {
			void = append(void, task)
		}
	}
	a.Transfer.Quarantine.Tell(from, part.Partition, old)
	return n, void, all
}

// apart gives the facts of each task, of some that lie by task.
func apart(facts []crdt.Fact) [][]crdt.Fact {
	tasks := make([][]crdt.Fact, 0, len(facts))
	for len(facts) > 0 {
		same := 1
		for same < len(facts) && facts[same].Task == facts[0].Task {
			same++
		}
		tasks, facts = append(tasks, facts[:same:same]), facts[same:]
	}
	return tasks
}

// Merge merges facts of one task. ok is false when they are not kept: what is wrong
// with these is their own affair.
func (a *Machine) Merge(now clock.Time, v *vnode.Vnode, some []crdt.Fact) (merged vnode.Merged, ok bool) {
	task := some[0].Task
	key := a.Keys.Buried(v.Partition, some)
	a.Replication.Writes.Quiet = true // what came from a coordinator is not sent on
	merged, err := vnode.Merge(v, a.Round.Tx, some, now)
	a.Replication.Writes.Quiet = false
	if errors.Is(err, vnode.ErrDamaged) {
		a.Round.Check(err)
	}
	if err != nil {
		return merged, false
	}
	if key != nil {
		a.Keys.Pass(now, task, key)
	}
	if merged.Clashes > 0 {
		a.Clashes.Add(task, merged.Clashes)
	}
	if merged.Spec != nil {
		a.enqueued(now, task, merged.Spec)
	} else if merged.Queue != "" {
		a.Queues.Use(merged.Queue, now)
	} else if merged.Stored > 0 {
		a.arrived(now, some)
	}
	return merged, true
}

// arrived does what comes with facts that are new here: a queue is known from
// now on, a unique key taken, a task linked with its dependencies or free of them.
func (a *Machine) arrived(now clock.Time, facts []crdt.Fact) {
	for _, f := range facts {
		switch f.Key.Kind {
		case crdt.KindUnblocked:
			p := ring.Of(f.Task, len(a.View.Cells))
			for _, dependency := range vnode.Blockers(a.Round.Tx, p, f.Task) {
				vnode.Free(a.Round.Tx, p, f.Task, dependency)
			}
		case crdt.KindRequeued: // its edges went when it was finished
			t, err := vnode.LoadTask(a.Round.Tx, ring.Of(f.Task, len(a.View.Cells)), f.Task)
			if !a.Round.Check(err) || t.Enqueued == nil {
				continue
			}
			a.Keys.Learn(now, f.Task, t.Enqueued) // it holds its key again
			if t.Waiting() {
				a.Dependency.Link(now, f.Task, t.Enqueued)
			}
		case crdt.KindEnqueued:
			// Not of this fact: another spec may be here, and stay.
			if t, err := vnode.LoadTask(a.Round.Tx, ring.Of(f.Task, len(a.View.Cells)), f.Task); a.Round.Check(err) && t.Enqueued != nil {
				a.enqueued(now, f.Task, t.Enqueued)
			}
		}
	}
}

func (a *Machine) enqueued(now clock.Time, task id.ID, spec *crdt.Enqueued) {
	a.Queues.Use(spec.Queue, now)
	a.Keys.Learn(now, task, spec)
	if len(spec.Dependencies) > 0 {
		a.Dependency.Link(now, task, spec)
	}
}
