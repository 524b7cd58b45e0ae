package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dump"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// peers answers other nodes.
type peers struct{ *Core }

func (c peers) take(now clock.Time, m *message.FromPeer) {
	if mark := message.DurabilityIn(m.Message); mark != nil {
		c.standing.Disk.Saw(now, m.From, *mark)
	}
	switch b := m.Message.(type) {
	case *message.Facts:
		c.facts(now, m.From, b)
	case *message.FactsTaken:
		if !c.transfer.Answered(now, m.From, b) && !c.transfer.Quarantine.Answered(now, m.From, b) {
			c.replication.Writes.Taken(m.From, b)
		}
	case *message.Repair:
		c.repairs.Step(now, m.From, b)
	case *message.Forward:
		c.routes.Asked(now, m.From, b)
	case *message.Forwarded:
		c.routes.Answered(b.Number, m.From, &message.Reply{Message: b.Message, Err: b.Err, Grants: b.Grants, Declined: b.Declined})
	case *message.Fetch:
		c.replication.Reads.Asked(m.From, b)
	case *message.Fetched:
		c.replication.Reads.Fetched(now, m.From, b)
	case *message.Watch:
		c.dependency.Watches.Watched(now, m.From, b)
	case *message.Outcomes:
		c.dependency.Watches.Heard(b)
	case *message.QueueHeads:
		c.dispatch.Heads(now, m.From, b)
	case *message.Roots:
		c.repairs.Roots.Asked(now, m.From, b)
	case *message.SameRoots:
		c.repairs.Roots.Answered(now, m.From, b)
	case *message.RootsCompleted:
		c.repairs.Roots.Completed(now, m.From, b)
	case *message.RepairCompleted:
		c.retention.Tombstones.Completed(now, m.From, b)
	case *message.Purge:
		c.retention.Tombstones.Take(now, m.From, b)
	case *message.Cells:
		c.transfer.Former.Take(now, m.From, b)
	case *message.QuarantineFacts:
		c.transfer.Quarantine.Told(now, m.From, b)
	case *message.Withdraw:
		c.cancel(message.Origin{Conn: c.routes.Conn(m.From), Request: b.Number})
	case *message.Dropped:
		c.dispatch.Undelivered(now, b.Grants)
	case *message.Claims:
		c.leases.Asked(now, m.From, b)
	case *message.ClaimsTaken:
		c.leases.Taken(now, m.From, b)
	case *message.AskOrphans:
		c.leases.AnswerOrphans(m.From, b)
	case *message.NotHeld:
		c.leases.DropNotHeld(now, b)
	case *message.Work:
		c.sessions.Known.Take(now, m.From, b)
	case *message.ReclaimLease:
		c.leases.TakenBack(now, b)
	case *message.AbandonClaims:
		c.dispatch.GivenUp(now, b)
	default:
		c.elections(now, m)
	}
}

// elections takes what belongs to the elections of leaders.
func (c peers) elections(now clock.Time, m *message.FromPeer) {
	v := leadership.Voter{Machine: c.elector}
	switch b := m.Message.(type) {
	case *message.Ballots:
		v.Ballots(now, m.From, b)
	case *message.Votes:
		v.Votes(now, m.From, b)
	case *message.Pushes:
		v.Pushes(now, m.From, b)
	case *message.PushesTaken:
		for i := range b.Votes {
			c.elector.Runs.Pushed(now, m.From, b.Votes[i])
			c.elector.Runs.Hopeless(b.Votes[i].Partition, c.standing.Disk.Stands)
		}
	case *message.Elect:
		v.Stand(now, m.From, b)
	case *message.Beat:
		c.standing.Clocks.Asked(now, m.From, b)
	case *message.Beaten:
		c.standing.Clocks.Beaten(now, m.From, b)
		c.stand()
	}
}

// facts keeps what another coordinator has written. The answer leaves when it
// is durable, also when all of it was here before (design 5, last rule).
func (c peers) facts(now clock.Time, from register.Member, m *message.Facts) {
	var refused []ring.Partition
	for i := range m.Parts {
		part := &m.Parts[i]
		if bulky(part.Facts) {
			c.round.Tx.Bulk()
		}
		all := int(part.Partition) < len(c.view.Cells)
		if all {
			var void []id.ID
			_, void, all = c.keep(now, from, part, m.Aside)
			if len(void) > 0 && !m.Aside {
				c.collected(from, part, void)
				all = false
			}
			// Who is no member any more does not know which cohort is the newest.
			all = all && !(len(part.Facts) == 0 && c.view.Dismissed)
			c.transfer.Found(now, part.Partition)
		}
		if !all {
			refused = append(refused, part.Partition)
		}
	}
	c.replication.Acks.Add(now, from, m, refused)
}

const (
	// bulkFacts is how many facts make a table of the store at least, which has its own syncs: a few large ones that
	// somebody waits for do not.
	bulkFacts = 1024
	// expectFacts is from how many facts on it is looked once whether there is anything where they belong.
	expectFacts = 64
)

// bulky tells whether facts make a table of the store by themselves: those of a restore, which lie in a row.
func bulky(facts []crdt.Fact) bool {
	if len(facts) < bulkFacts {
		return false
	}
	size := 0
	for i := 0; i < len(facts) && size < dump.Bulk; i++ {
		size += len(facts[i].Body)
	}
	return size >= dump.Bulk && slices.IsSortedFunc(facts, func(a, b crdt.Fact) int { return a.Task.Compare(b.Task) })
}

// collected tells a coordinator of tasks that were collected here, which it does not
// know: it wants copies of what nobody will have, as the tombstone takes its own, too.
// That is no copy. When it asks again it can say why.
func (c peers) collected(from register.Member, part *message.PartFacts, tasks []id.ID) {
	answer := message.PartFacts{Partition: part.Partition, Epoch: part.Epoch}
	for _, task := range tasks {
		facts, err := vnode.Facts(c.round.Tx, part.Partition, task)
		if !c.round.Check(err) {
			return
		}
		answer.Facts = append(answer.Facts, facts...)
	}
	c.round.Send(from, &message.Facts{Parts: []message.PartFacts{answer}})
}

// kept is how many of some facts were new here, and how many are here now, the new
// ones among them.
type kept struct{ changed, taken int }

// keep merges facts task by task. It gives how many changed something and those
// tasks that were collected, so that what is said of them is not kept, and tells
// whether all the rest is. Those that were kept aside where they come from
// are kept aside here, too, as long as their task is not known. Of a partition that
// is being deleted nothing is kept, whoever sends it.
func (c peers) keep(now clock.Time, from register.Member, part *message.PartFacts, aside bool) (n kept, void []id.ID, all bool) {
	if c.view.Deleting(part.Partition) {
		return n, nil, false
	}
	v := c.vnodes.Use(part.Partition)
	all = true
	facts, byTask := part.Facts, func(a, b crdt.Fact) int { return a.Task.Compare(b.Task) }
	if !slices.IsSortedFunc(facts, byTask) {
		facts = slices.Clone(facts)
		slices.SortStableFunc(facts, byTask)
	}
	if len(facts) >= expectFacts {
		defer vnode.Expect(v, c.round.Tx, facts[0].Task, facts[len(facts)-1].Task)()
	}
	var old []id.ID // left with the sender
	for len(facts) > 0 {
		task, same := facts[0].Task, 1
		for same < len(facts) && facts[same].Task == task {
			same++
		}
		some := facts[:same]
		facts = facts[same:]
		switch {
		case ring.Of(task, len(c.view.Cells)) != part.Partition:
			all = false
			continue
		case aside && c.transfer.Quarantine.Belongs(now, v, some):
			all = c.transfer.Quarantine.Take(now, part.Partition, some) && all
			continue
		case c.retention.Tombstones.BelowHorizon(now, from, part.Partition, some):
			c.stats.Stale++
			old = append(old, task)
			all = false
			continue
		}
		merged, ok := c.merge(now, v, some)
		n.changed += merged.Stored
		if ok {
			n.taken += merged.Stored + merged.Known
		}
		if all = all && ok; c.round.Fatal() != nil {
			return n, nil, false
		}
		if merged.Void {
			void = append(void, task)
		}
	}
	c.transfer.Quarantine.Tell(from, part.Partition, old)
	return n, void, all
}

// merge merges facts of one task. ok is false when they are not kept: what is wrong
// with these is their own affair.
func (c peers) merge(now clock.Time, v *vnode.Vnode, some []crdt.Fact) (merged vnode.Merged, ok bool) {
	task := some[0].Task
	key := keys{c.Core}.buried(v.Partition, some)
	c.replication.Writes.Quiet = true // what came from a coordinator is not sent on
	merged, err := vnode.Merge(v, c.round.Tx, some, now)
	c.replication.Writes.Quiet = false
	if damaged(err) {
		c.round.Check(err)
	}
	if err != nil {
		return merged, false
	}
	if key != nil {
		keys{c.Core}.pass(now, task, key)
	}
	if merged.Clashes > 0 {
		c.stats.Clashes, c.stats.Clashed = c.stats.Clashes+uint64(merged.Clashes), task
	}
	if merged.Spec != nil {
		c.enqueued(now, task, merged.Spec)
	} else if merged.Stored > 0 {
		c.arrived(now, some)
	}
	return merged, true
}

// arrived does what comes with facts that are new here: a queue is known from
// now on, a unique key taken, a task linked with its dependencies or free of them.
func (c peers) arrived(now clock.Time, facts []crdt.Fact) {
	for _, f := range facts {
		switch f.Key.Kind {
		case crdt.KindUnblocked:
			p := c.vnode(f.Task).Partition
			for _, dependency := range vnode.Blockers(c.round.Tx, p, f.Task) {
				vnode.Free(c.round.Tx, p, f.Task, dependency)
			}
		case crdt.KindRequeued: // its edges went when it was finished
			t, err := vnode.LoadTask(c.round.Tx, c.vnode(f.Task).Partition, f.Task)
			if !c.round.Check(err) || t.Enqueued == nil {
				continue
			}
			keys{c.Core}.learn(now, f.Task, t.Enqueued) // it holds its key again
			if t.Waiting() {
				c.dependency.Link(now, f.Task, t.Enqueued)
			}
		case crdt.KindEnqueued:
			// Not of this fact: another spec may be here, and stay.
			if t, err := vnode.LoadTask(c.round.Tx, c.vnode(f.Task).Partition, f.Task); c.round.Check(err) && t.Enqueued != nil {
				c.enqueued(now, f.Task, t.Enqueued)
			}
		}
	}
}

func (c peers) enqueued(now clock.Time, task id.ID, spec *crdt.Enqueued) {
	c.queues.use(spec.Queue, now)
	keys{c.Core}.learn(now, task, spec)
	if len(spec.Dependencies) > 0 {
		c.dependency.Link(now, task, spec)
	}
}
