package transfer

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
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

// Quarantine keep facts apart that nobody can place any more (design 6, K8). A node
// outside a cohort that has such facts sets them aside, on its own disk, when a
// member does not know their task; then nothing is in the way of its admission.
// Before it deletes a partition a majority of the cohort keeps them aside in its
// stead. They come back only where their task turns out to be known after all. A
// log line and metrics tell of them, and through any node the status and Verify.
//
// Why not delete them: a fact older than gc-grace of an unknown task is nearly always one of a
// task that was collected. But it may also be the last copy of a task whose enqueue is lost
// elsewhere, and only a person can tell. So it stays, apart, until its task turns up or a
// person drops it.
type Quarantine struct {
	// Count counts tasks that were put aside here, Last is the last one. Full counts the times
	// that there was no room.
	Count, Full uint64
	Last        id.ID

	m    *Machine
	At   int64                    // mono ns of the next look
	last map[ring.Partition]id.ID // that was looked at
}

// Room tells whether so many bytes more may be kept aside.
func (a *Quarantine) Room(more int64) bool {
	limit := a.m.MaxAside
	if limit <= 0 {
		limit = maxAside
	}
	if _, bytes := a.m.Partitions.Aside(); bytes+more > limit {
		a.Full++
		return false
	}
	return true
}

// Tell has whoever offered facts of these tasks keep them aside.
func (a *Quarantine) Tell(to register.Member, p ring.Partition, tasks []id.ID) {
	if !slices.Contains(a.m.View.Cells[p].Cohort, a.m.Self) {
		return
	}
	for some := range slices.Chunk(tasks, asideNames) {
		a.m.Round.Send(to, &message.QuarantineFacts{Partition: p, Epoch: a.m.View.Cells[p].Epoch, Tasks: some})
	}
}

// Told sets tasks aside that a member does not know. It does so only as long as
// nobody counts on what is here: not as a member, not after a vote for a cohort
// that has this node in it, and not while an older promise may have to be kept.
func (a *Quarantine) Told(now clock.Time, from register.Member, m *message.QuarantineFacts) {
	if int(m.Partition) >= len(a.m.View.Cells) || a.m.View.Deleting(m.Partition) {
		return
	}
	cell := &a.m.View.Cells[m.Partition]
	may, promise := a.m.Elections.MayForget(m.Partition, cell.Epoch)
	switch {
	case m.Epoch != cell.Epoch || !slices.Contains(cell.Cohort, from) || slices.Contains(cell.Cohort, a.m.Self):
		return
	case a.m.Elections.Proposed(m.Partition):
		a.m.Elections.RequestElection(now, m.Partition, 0)
		return
	case !may:
		a.m.Elections.RequestElection(now, m.Partition, promise)
		return
	}
	some := false
	for _, task := range m.Tasks {
		if ring.Of(task, len(a.m.View.Cells)) == m.Partition && a.set(now, m.Partition, task) {
			some = true
		}
	}
	if some {
		a.m.again(now, m.Partition)
	}
}

// set sets one task aside, and tells whether it has.
func (a *Quarantine) set(now clock.Time, p ring.Partition, task id.ID) bool {
	if !a.Room(int64(vnode.LogOf(a.m.Round.Tx, p, task).Bytes)) {
		return false // before all of it is read
	}
	facts, err := vnode.Facts(a.m.Round.Tx, p, task)
	stone := func(f crdt.Fact) bool { return f.Key.Kind == crdt.KindTombstone }
	if !a.m.Round.Check(err) || len(facts) == 0 || slices.ContainsFunc(facts, stone) {
		return false // or it was collected, as has come to be known since this was offered: the others take that
	}
	// By this clock it has to be old as well, but for what clocks may differ.
	if admitted := a.m.Tombstones.Admission(facts); now.Wall-admitted <= int64(a.m.GCGrace-2*a.m.Eta) || !a.Room(vnode.AsideSize(facts)) {
		return false
	}
	t, err := vnode.LoadTask(a.m.Round.Tx, p, task)
	if !a.m.Round.Check(err) {
		return false
	}
	if t.Enqueued != nil {
		for _, dependency := range t.Enqueued.Dependencies {
			a.m.Partitions.Use(ring.Of(dependency, len(a.m.View.Cells))).Edges.Drop(a.m.Round.Tx, dependency, task)
			vnode.Free(a.m.Round.Tx, p, task, dependency)
		}
	}
	if !a.m.Round.Check(vnode.SetAside(a.m.Partitions.Use(p), a.m.Round.Tx, task, facts, now.Wall)) {
		return false
	}
	a.Count, a.Last = a.Count+1, task
	a.At = min(a.At, now.Mono+int64(asideEvery))
	return true
}

// Take keeps facts aside that a node outside the cohort hands over before it
// deletes them, and tells whether there was room.
func (a *Quarantine) Take(now clock.Time, p ring.Partition, facts []crdt.Fact) bool {
	for i := range facts {
		if facts[i].Check() != nil {
			return false
		}
	}
	v := a.m.Partitions.Use(p)
	was, _ := vnode.KeptAside(v)
	if !a.Room(vnode.AsideSize(facts)) || !a.m.Round.Check(vnode.PutAside(a.m.Partitions.Use(p), a.m.Round.Tx, facts, now.Wall)) {
		return false
	}
	if is, _ := vnode.KeptAside(v); is > was {
		a.Count, a.Last = a.Count+1, facts[0].Task
	}
	a.At = min(a.At, now.Mono+int64(asideEvery))
	return true
}

// Belongs tells whether facts of one task that were kept aside stay so here: the
// task is not known, and nothing shows that it cannot have been collected.
func (a *Quarantine) Belongs(now clock.Time, v *vnode.Vnode, facts []crdt.Fact) bool {
	task := facts[0].Task
	first := facts[0].Key.Kind == crdt.KindEnqueued || task.Kind() == id.KindTask
	return a.m.Tombstones.Below(now, v.Partition, facts) || !vnode.Known(a.m.Round.Tx, v.Partition, task) && (!first || vnode.IsAside(v, a.m.Round.Tx, task))
}

// handed tells whether a majority of the cohort keeps aside what this node keeps
// aside of a partition that it is about to delete, and sees to it: page by page,
// the next one when a majority has the one before on disk.
//
// A page is acknowledged by a majority before the next one goes, so a crash at any point
// repeats one page. Pages are merged by key on the other side and may come twice.
func (a *Quarantine) handed(now clock.Time, p ring.Partition, move *Move) bool {
	if tasks, _ := vnode.KeptAside(a.m.Partitions.See(p)); tasks == 0 || move.Aside.done {
		return true
	}
	o := &move.Aside
	facts, upTo, err := vnode.AsideFacts(a.m.Round.Tx, p, o.from, asidePage)
	if !a.m.Round.Check(err) {
		return false
	}
	if len(facts) == 0 {
		o.done = true
		return true
	}
	o.Write, o.upTo, o.acks = a.m.Rand.Uint64()|1, upTo, nil
	msg := &message.Facts{Write: o.Write, Aside: true, Parts: []message.PartFacts{{Partition: p, Epoch: a.m.View.Cells[p].Epoch, Facts: facts}}}
	for _, m := range a.m.View.Cells[p].Cohort {
		if m != a.m.Self && a.m.View.Up(m) {
			a.m.Round.Send(m, msg)
		}
	}
	a.m.hold(now, move)
	return false
}

// AsideMove is how far a partition's facts that are kept aside are handed over.
// Invariant: from is the first place that a majority does not have; it moves only when upTo is
// acknowledged by one. Were it to move sooner the facts between would be deleted with the
// partition.
type AsideMove struct {
	from, upTo vnode.AsidePlace
	Write      uint64 // 0: none is under way
	acks       []register.Member
	done       bool
}

// Answered hears what a member says to a page, and tells whether it was one.
func (a *Quarantine) Answered(now clock.Time, from register.Member, answer *message.FactsTaken) bool {
	for p, move := range a.m.Outgoing { // Any order: at most one has sent this.
		o := &move.Aside
		if o.Write == 0 || o.Write != answer.Write {
			continue
		}
		cohort := a.m.View.Cells[p].Cohort
		switch {
		case slices.Contains(answer.Refused, p): // it is full
			move.tries++
			a.m.hold(now, move)
		case slices.Contains(cohort, from) && !slices.Contains(o.acks, from):
			if o.acks = append(o.acks, from); len(o.acks) >= quorum.Majority(len(cohort)) {
				o.from, o.Write, move.tries, move.Pause = o.upTo, 0, 0, 0
				a.m.at = min(a.m.at, now.Mono)
			}
		}
		return true
	}
	return false
}

// Work brings back what is kept aside of tasks that turn out to be known: facts
// of theirs came from who had to know. What is kept aside of a task with a
// tombstone goes with it.
func (a *Quarantine) Work(now clock.Time) {
	if a.At > now.Mono {
		return
	}
	a.At = clock.Never
	for _, v := range a.m.Partitions.Each() {
		if tasks, _ := vnode.KeptAside(v); tasks == 0 || a.m.View.Deleting(v.Partition) {
			delete(a.last, v.Partition)
			continue
		}
		a.At = now.Mono + int64(asideEvery)
		all, err := vnode.Asides(a.m.Round.Tx, v.Partition, a.last[v.Partition], asideLook)
		if !a.m.Round.Check(err) {
			return
		}
		if delete(a.last, v.Partition); len(all) == asideLook {
			a.last[v.Partition] = all[len(all)-1].Task
		}
		for i := range all {
			if vnode.Known(a.m.Round.Tx, v.Partition, all[i].Task) {
				a.bringBack(now, a.m.Partitions.Use(v.Partition), all[i].Task)
			}
		}
	}
}

// bringBack merges what is kept aside of one task.
func (a *Quarantine) bringBack(now clock.Time, v *vnode.Vnode, task id.ID) {
	facts, err := vnode.AsideOf(a.m.Round.Tx, v.Partition, task)
	if !a.m.Round.Check(err) {
		return
	}
	if _, err := vnode.DropAside(v, a.m.Round.Tx, task); a.m.Round.Check(err) && len(facts) > 0 {
		a.m.Node.Merge(now, v, facts)
	}
}
