package core

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// asideEvery is the pause between two looks at what is kept aside, and
	// asideLook how many tasks of a partition one of them reads.
	asideEvery = 10 * time.Second
	asideLook  = 64
	// asidePage is about how many bytes are handed over at once.
	asidePage = 1 << 20
	// maxAside is how many bytes of facts a node keeps aside, unless configured: a
	// full node takes no more, and who has them goes on as no member of their
	// cohort.
	maxAside = 256 << 20
	// asideNames bounds the tasks that one [message.QuarantineFacts] names.
	asideNames = 1000
)

// quarantine keep facts apart that nobody can place any more (design 6, K8). A node
// outside a cohort that has such facts sets them aside, on its own disk, when a
// member does not know their task; then nothing is in the way of its admission.
// Before it deletes a partition a majority of the cohort keeps them aside in its
// stead. They come back only where their task turns out to be known after all. A
// log line and metrics tell of them, and through any node the status and Verify.
type quarantine struct {
	c    *Core
	at   int64                    // mono ns of the next look
	last map[ring.Partition]id.ID // that was looked at
	full uint64                   // times that there was no room
}

func newQuarantine(c *Core) *quarantine {
	return &quarantine{c: c, last: make(map[ring.Partition]id.ID)}
}

// room tells whether so many bytes more may be kept aside.
func (a *quarantine) room(more int64) bool {
	limit := a.c.cfg.Quarantine
	if limit <= 0 {
		limit = maxAside
	}
	if _, bytes := a.c.vnodes.Aside(); bytes+more > limit {
		a.full++
		return false
	}
	return true
}

// tell has whoever offered facts of these tasks keep them aside.
func (a *quarantine) tell(to register.Member, p ring.Partition, tasks []id.ID) {
	if !slices.Contains(a.c.view.Cells[p].Cohort, a.c.cfg.Self) {
		return
	}
	for some := range slices.Chunk(tasks, asideNames) {
		a.c.round.Send(to, &message.QuarantineFacts{Partition: p, Epoch: a.c.view.Cells[p].Epoch, Tasks: some})
	}
}

// told sets tasks aside that a member does not know. It does so only as long as
// nobody counts on what is here: not as a member, not after a vote for a cohort
// that has this node in it, and not while an older promise may have to be kept.
func (a *quarantine) told(now clock.Time, from register.Member, m *message.QuarantineFacts) {
	if int(m.Partition) >= len(a.c.view.Cells) || a.c.view.Deleting(m.Partition) {
		return
	}
	cell, acceptor := &a.c.view.Cells[m.Partition], &a.c.acceptors.All[m.Partition]
	switch {
	case m.Epoch != cell.Epoch || !slices.Contains(cell.Cohort, from) || slices.Contains(cell.Cohort, a.c.cfg.Self):
		return
	case a.c.acceptors.Proposed(m.Partition):
		a.c.elector.RequestElection(now, m.Partition, 0)
		return
	case !acceptor.MayForget(cell.Epoch):
		a.c.elector.RequestElection(now, m.Partition, acceptor.Promise)
		return
	}
	some := false
	for _, task := range m.Tasks {
		if ring.Of(task, len(a.c.view.Cells)) == m.Partition && a.set(now, m.Partition, task) {
			some = true
		}
	}
	if some {
		a.c.transfer.again(now, m.Partition)
	}
}

// set sets one task aside, and tells whether it has.
func (a *quarantine) set(now clock.Time, p ring.Partition, task id.ID) bool {
	if !a.room(int64(vnode.LogOf(a.c.round.Tx, p, task).Bytes)) {
		return false // before all of it is read
	}
	facts, err := vnode.Facts(a.c.round.Tx, p, task)
	stone := func(f crdt.Fact) bool { return f.Key.Kind == crdt.KindTombstone }
	if !a.c.round.Check(err) || len(facts) == 0 || slices.ContainsFunc(facts, stone) {
		return false // or it was collected, as has come to be known since this was offered: the others take that
	}
	// By this clock it has to be old as well, but for what clocks may differ.
	if admitted := retention.Admission(facts); now.Wall-admitted <= int64(a.c.cfg.GCGrace-2*a.c.cfg.Eta) || !a.room(vnode.AsideSize(facts)) {
		return false
	}
	t, err := vnode.LoadTask(a.c.round.Tx, p, task)
	if !a.c.round.Check(err) {
		return false
	}
	if t.Enqueued != nil {
		for _, dependency := range t.Enqueued.Dependencies {
			a.c.vnode(dependency).Edges.Drop(a.c.round.Tx, dependency, task)
			vnode.Free(a.c.round.Tx, p, task, dependency)
		}
	}
	if !a.c.round.Check(vnode.SetAside(a.c.vnodes.Use(p), a.c.round.Tx, task, facts, now.Wall)) {
		return false
	}
	a.c.stats.Quarantined, a.c.stats.QuarantinedLast = a.c.stats.Quarantined+1, task
	a.at = min(a.at, now.Mono+int64(asideEvery))
	return true
}

// take keeps facts aside that a node outside the cohort hands over before it
// deletes them, and tells whether there was room.
func (a *quarantine) take(now clock.Time, p ring.Partition, facts []crdt.Fact) bool {
	for i := range facts {
		if facts[i].Check() != nil {
			return false
		}
	}
	v := a.c.vnodes.Use(p)
	was, _ := vnode.KeptAside(v)
	if !a.room(vnode.AsideSize(facts)) || !a.c.round.Check(vnode.PutAside(a.c.vnodes.Use(p), a.c.round.Tx, facts, now.Wall)) {
		return false
	}
	if is, _ := vnode.KeptAside(v); is > was {
		a.c.stats.Quarantined, a.c.stats.QuarantinedLast = a.c.stats.Quarantined+1, facts[0].Task
	}
	a.at = min(a.at, now.Mono+int64(asideEvery))
	return true
}

// belongs tells whether facts of one task that were kept aside stay so here: the
// task is not known, and nothing shows that it cannot have been collected.
func (a *quarantine) belongs(now clock.Time, v *vnode.Vnode, facts []crdt.Fact) bool {
	task := facts[0].Task
	first := facts[0].Key.Kind == crdt.KindEnqueued || task.Kind() == id.KindTask
	return a.c.retention.Tombstones.Below(now, v.Partition, facts) || !vnode.Known(a.c.round.Tx, v.Partition, task) && (!first || vnode.IsAside(v, a.c.round.Tx, task))
}

// handed tells whether a majority of the cohort keeps aside what this node keeps
// aside of a partition that it is about to delete, and sees to it: page by page,
// the next one when a majority has the one before on disk.
func (a *quarantine) handed(now clock.Time, p ring.Partition, move *move) bool {
	if tasks, _ := vnode.KeptAside(a.c.vnodes.See(p)); tasks == 0 || move.aside.done {
		return true
	}
	o := &move.aside
	facts, upTo, err := vnode.AsideFacts(a.c.round.Tx, p, o.from, asidePage)
	if !a.c.round.Check(err) {
		return false
	}
	if len(facts) == 0 {
		o.done = true
		return true
	}
	o.write, o.upTo, o.acks = a.c.cfg.Rand.Uint64()|1, upTo, nil
	msg := &message.Facts{Write: o.write, Aside: true, Parts: []message.PartFacts{{Partition: p, Epoch: a.c.view.Cells[p].Epoch, Facts: facts}}}
	for _, m := range a.c.view.Cells[p].Cohort {
		if m != a.c.cfg.Self && a.c.view.Up(m) {
			a.c.round.Send(m, msg)
		}
	}
	a.c.transfer.hold(now, move)
	return false
}

// asideMove is how far a partition's facts that are kept aside are handed over.
type asideMove struct {
	from, upTo vnode.AsidePlace
	write      uint64 // 0: none is under way
	acks       []register.Member
	done       bool
}

// answered hears what a member says to a page, and tells whether it was one.
func (a *quarantine) answered(now clock.Time, from register.Member, answer *message.FactsTaken) bool {
	for p, move := range a.c.transfer.outgoing { // Any order: at most one has sent this.
		o := &move.aside
		if o.write == 0 || o.write != answer.Write {
			continue
		}
		cohort := a.c.view.Cells[p].Cohort
		switch {
		case slices.Contains(answer.Refused, p): // it is full
			move.tries++
			a.c.transfer.hold(now, move)
		case slices.Contains(cohort, from) && !slices.Contains(o.acks, from):
			if o.acks = append(o.acks, from); len(o.acks) >= quorum.Majority(len(cohort)) {
				o.from, o.write, move.tries, move.pause = o.upTo, 0, 0, 0
				a.c.transfer.at = min(a.c.transfer.at, now.Mono)
			}
		}
		return true
	}
	return false
}

// work brings back what is kept aside of tasks that turn out to be known: facts
// of theirs came from who had to know. What is kept aside of a task with a
// tombstone goes with it.
func (a *quarantine) work(now clock.Time) {
	if a.at > now.Mono {
		return
	}
	a.at = clock.Never
	for _, v := range a.c.vnodes.Each() {
		if tasks, _ := vnode.KeptAside(v); tasks == 0 || a.c.view.Deleting(v.Partition) {
			delete(a.last, v.Partition)
			continue
		}
		a.at = now.Mono + int64(asideEvery)
		all, err := vnode.Asides(a.c.round.Tx, v.Partition, a.last[v.Partition], asideLook)
		if !a.c.round.Check(err) {
			return
		}
		if delete(a.last, v.Partition); len(all) == asideLook {
			a.last[v.Partition] = all[len(all)-1].Task
		}
		for i := range all {
			if vnode.Known(a.c.round.Tx, v.Partition, all[i].Task) {
				a.bringBack(now, a.c.vnodes.Use(v.Partition), all[i].Task)
			}
		}
	}
}

// bringBack merges what is kept aside of one task.
func (a *quarantine) bringBack(now clock.Time, v *vnode.Vnode, task id.ID) {
	facts, err := vnode.AsideOf(a.c.round.Tx, v.Partition, task)
	if !a.c.round.Check(err) {
		return
	}
	if _, err := vnode.DropAside(v, a.c.round.Tx, task); a.c.round.Check(err) && len(facts) > 0 {
		peers{a.c}.merge(now, v, facts)
	}
}
