package retention

import (
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Tombstones lets tombstones go (design 6, K8). The leader of a partition does, once
// gc-grace is over and it knows of each other member of the registered cohort
// that it has the tombstone: a comparison with it that began after the tombstone
// had come here has ended well. It drops the tombstone and tells the others. Who
// misses that gives the tombstone back to the leader by repair, where it counts
// as new: it goes once more, after the next comparisons.
//
// All times are those of this node's monotonic clock: nothing here trusts that
// clocks agree but the grace itself.
type Tombstones struct {
	*Env
	// Invariant: rounds and heard have the newest comparison of each pair and direction. An
	// answer with another session proves nothing: it may be of a comparison that began before a
	// tombstone came.
	rounds map[message.Pair]comparison // comparisons that this node has begun
	heard  map[message.Pair]comparison // that others have
	// Marks are what is known of other members.
	Marks  map[message.Pair]*Mark
	cells  map[ring.Partition]cohort // that the marks are about
	scans  map[ring.Partition]*graveScan
	tidied map[ring.Partition]int64 // when orphans were last dropped, mono ns
}

// cohort is that of a cell.
type cohort struct {
	epoch   uint64
	members []register.Member
}

// comparison is one comparison.
type comparison struct {
	session uint64
	began   int64 // mono ns, here
	epoch   uint64
}

// Mark is what is known of another member: what was here at the mono ns proven
// it has, and has had for some time. A newer such time waits until that is so.
type Mark struct {
	// Invariant: Proven never exceeds what a comparison began with, less [Tombstones.Margin],
	// and is at least [Tombstones.Hold] old when it counts; a member that joins meanwhile has
	// copied from one that had it.
	Proven, Waiting int64 // mono ns
	Latest          int64 // mono ns: what was at either side then is at both
	Known, Waits    bool  // that Proven, or Waiting, is one
	Since           int64 // mono ns from which on Waiting is known
}

// graveScan says how far a partition's tombstones were looked at with a mark:
// what stays with it stays until there is another one.
type graveScan struct {
	mark int64
	at   vnode.GravesCursor
}

// maxHold bounds [Tombstones.Hold].
const maxHold = time.Hour

// newTombstones makes the memory of a process that has compared nothing: until each member has
// been compared with, no tombstone goes.
func newTombstones(e *Env) *Tombstones {
	return &Tombstones{
		Env: e, rounds: make(map[message.Pair]comparison), heard: make(map[message.Pair]comparison), Marks: make(map[message.Pair]*Mark),
		cells: make(map[ring.Partition]cohort), scans: make(map[ring.Partition]*graveScan), tidied: make(map[ring.Partition]int64),
	}
}

// Hold is how long every member must have had a tombstone before it goes. Whoever
// becomes a member after that has copied from one that had it: a copy older than
// half of that is made anew, see [Tombstones.Stale]. And a tombstone that comes back,
// because a member does not let it go, does not travel more often than that.
func (p *Tombstones) Hold() time.Duration { return min(p.GCGrace/8, maxHold) }

// Margin is what a comparison may have left alone because it was young: the ID
// says so, which may be eta ahead, to a node whose clock is eta behind.
func (p *Tombstones) Margin() int64 { return int64(repair.Settle + 2*p.Eta) }

// Stale tells whether too much may have happened since a newcomer has begun to
// copy a partition.
func (p *Tombstones) Stale(now clock.Time, began int64) bool {
	return now.Mono-began > int64(max(p.Hold()/2, 5*time.Second))
}

// Began notes that this node begins a comparison.
func (p *Tombstones) Began(now clock.Time, k message.Pair, session uint64) {
	p.rounds[k] = comparison{session, now.Mono, p.View.Cells[k.Partition].Epoch}
}

// Heard notes a comparison that another member begins. Said twice it has begun the first time.
func (p *Tombstones) Heard(now clock.Time, k message.Pair, session uint64) {
	if old, ok := p.heard[k]; p.members(k) && (!ok || old.session != session) {
		p.heard[k] = comparison{session, now.Mono, p.View.Cells[k.Partition].Epoch}
	}
}

// Ended hears how a comparison has ended that this node began.
func (p *Tombstones) Ended(now clock.Time, k message.Pair, r *antientropy.Result) {
	o, ok := p.rounds[k]
	delete(p.rounds, k)
	if !ok || !p.Policy.Agreed(r) || !p.members(k) {
		return
	}
	p.mark(now, k, o)
	p.Round.Send(k.Peer, &message.RepairCompleted{Partition: k.Partition, Session: o.session, Age: time.Duration(now.SinceMono(o.began))})
}

// Same hears that both sides have the same facts, and tells whether that is the answer to the
// comparison that this node began last.
func (p *Tombstones) Same(now clock.Time, k message.Pair, session uint64) bool {
	o, ok := p.rounds[k]
	if !ok || o.session != session || !p.members(k) {
		return false
	}
	delete(p.rounds, k)
	p.mark(now, k, o)
	return true
}

// Agreed tells whether both sides had the same after a comparison, as far as they
// had it before.
func (p Policy) Agreed(r *antientropy.Result) bool {
	return r.Err == nil && (r.Skipped == 0 || p.SkippedAgreed) && len(r.Suspects) == 0 && r.Refused == 0
}

// Completed hears the same from the other side. That may have begun long before it was
// heard of here: its first message is sent again until it is answered, as it was.
func (p *Tombstones) Completed(now clock.Time, from register.Member, m *message.RepairCompleted) {
	k := message.Pair{Partition: m.Partition, Peer: from}
	if o, ok := p.heard[k]; ok && o.session == m.Session {
		delete(p.heard, k)
		if !p.Policy.ComparedLate {
			o.began = min(o.began, now.Add(-m.Age).Mono)
		}
		p.mark(now, k, o)
	}
}

// members tells whether both sides are of the cohort.
func (p *Tombstones) members(k message.Pair) bool {
	cohort := p.View.Cells[k.Partition].Cohort
	return slices.Contains(cohort, k.Peer) && slices.Contains(cohort, p.Self)
}

// mark notes that the peer has what was here when a comparison began.
//
// A comparison counts from its beginning, because a fact that comes while it runs may be on
// either side of it. A change of epoch in between makes it void: the member may have left, lost
// everything, and come back.
func (p *Tombstones) mark(now clock.Time, k message.Pair, o comparison) {
	if o.epoch != p.View.Cells[k.Partition].Epoch && !p.Policy.MarkOfBefore || !p.members(k) {
		return // it may have left and come back meanwhile
	}
	p.Follow(k.Partition)
	m := p.Marks[k]
	if m == nil {
		m = &Mark{Latest: math.MinInt64} // it is below zero in the first seconds of a process
		p.Marks[k] = m
	}
	m.Latest = max(m.Latest, o.began-p.Margin())
	m.ripen(now, p.Hold())
	if !m.Waits {
		m.Waits, m.Waiting, m.Since = true, o.began-p.Margin(), now.Mono
	}
}

// Cohorts is of how many partitions cohorts are remembered.
func (p *Tombstones) Cohorts() int { return len(p.cells) }

// Comparisons is how many are under way, or were begun by others.
func (p *Tombstones) Comparisons() int { return len(p.rounds) + len(p.heard) }

// ripen takes over what has waited long enough.
func (m *Mark) ripen(now clock.Time, hold time.Duration) {
	if m.Waits && now.SinceMono(m.Since) >= hold {
		m.Proven, m.Known, m.Waits = m.Waiting, true, false
	}
}

// Follow drops what is known of a cohort that has changed, or may have: who left
// it and came back has deleted everything in between. One epoch more with the
// same members is a new leader.
func (p *Tombstones) Follow(at ring.Partition) {
	cell, old := &p.View.Cells[at], p.cells[at]
	if cell.Epoch == old.epoch {
		return
	}
	p.cells[at] = cohort{cell.Epoch, cell.Cohort}
	if cell.Epoch != old.epoch+1 || !slices.Equal(sortedMembers(cell.Cohort), sortedMembers(old.members)) {
		for k := range p.Marks { // Any order: each is looked at for itself.
			if k.Partition == at {
				delete(p.Marks, k)
			}
		}
	}
}

// sortedMembers gives a cohort in a fixed order, to compare two of them.
func sortedMembers(all []register.Member) []register.Member {
	return slices.SortedFunc(slices.Values(all), register.Member.Compare)
}

// Forget drops what is known of a partition that is not kept here any longer.
func (p *Tombstones) Forget(at ring.Partition) {
	for _, all := range []map[message.Pair]comparison{p.rounds, p.heard} {
		for k := range all { // Any order: each is looked at for itself.
			if k.Partition == at {
				delete(all, k)
			}
		}
	}
	for k := range p.Marks { // Any order: as above.
		if k.Partition == at {
			delete(p.Marks, k)
		}
	}
	delete(p.scans, at)
	delete(p.cells, at)
	delete(p.tidied, at)
}

// ProvenUpTo is the mono ns up to which everything that came here is on the disks of
// the whole cohort; ok is false when that is not known.
func (p *Tombstones) ProvenUpTo(now clock.Time, at ring.Partition) (upTo int64, ok bool) {
	upTo = math.MaxInt64
	if p.Alone(at) || p.Policy.PurgeByTime {
		return upTo, true
	}
	p.Follow(at)
	for _, o := range p.View.Cells[at].Cohort {
		if o == p.Self {
			continue
		}
		m := p.Marks[message.Pair{Partition: at, Peer: o}]
		if m != nil {
			m.ripen(now, p.Hold())
		}
		if m == nil || !m.Known {
			return 0, false
		}
		upTo = min(upTo, m.Proven)
	}
	return upTo, true
}

// AgreedSince is [Tombstones.ComparedSince] in wall ns.
func (p *Tombstones) AgreedSince(now clock.Time, at ring.Partition) int64 {
	switch mono := p.ComparedSince(at); mono {
	case math.MinInt64, math.MaxInt64:
		return mono
	default:
		return now.Wall - (now.Mono - mono)
	}
}

// ComparedSince is the mono ns up to which whatever any member of the cohort was told of a
// partition is here, and what was here then is there: tasks that were finished, and
// known here to be, before that may be collected, because nobody knows anything else of
// them (design 6). Both matter: an end that one member told this node of after another
// one had been compared with is not known to that one. It is far in the past while a
// member has not been compared with.
func (p *Tombstones) ComparedSince(at ring.Partition) int64 {
	if p.Alone(at) || p.Policy.PurgeByTime {
		return math.MaxInt64
	}
	p.Follow(at)
	oldest := int64(math.MaxInt64)
	for _, o := range p.View.Cells[at].Cohort {
		if o == p.Self {
			continue
		}
		m := p.Marks[message.Pair{Partition: at, Peer: o}]
		if m == nil {
			return math.MinInt64
		}
		oldest = min(oldest, m.Latest)
	}
	return oldest
}

// CaughtUp tells whether since this node leads a partition it has been compared with so
// many of its cohort that it has heard of everything that a majority has acknowledged
// before. What of this is young by its ID a comparison leaves alone.
func (p *Tombstones) CaughtUp(at ring.Partition) bool {
	p.Follow(at)
	cohort, since := p.View.Cells[at].Cohort, p.References.LedSince(at)
	missing := len(cohort) - quorum.Majority(len(cohort))
	for _, o := range cohort {
		if m := p.Marks[message.Pair{Partition: at, Peer: o}]; m != nil && m.Latest+p.Margin() >= since {
			missing--
		}
	}
	return missing <= 0
}

// over is the wall ns up to which tasks were collected whose tombstones may go,
// with so many etas to spare. The leader waits three: an ID may be one eta ahead
// of its node, that node one ahead of the leader, and the leader one ahead of who
// is asked to take the task anew, who must refuse it as too old by then. The
// others let go one earlier by their own clocks, so that they never lag.
func (p *Tombstones) over(now clock.Time, etas int) int64 {
	if p.Policy.GraveEarly {
		etas = 0
	}
	return now.Wall - int64(p.GCGrace) - int64(etas)*int64(p.Eta)
}

// look lets some tombstones of a partition go that this node leads, and tells
// whether there are more.
func (p *Tombstones) look(now clock.Time, v *vnode.Vnode) (more bool) {
	at := v.Partition
	upTo, ok := p.ProvenUpTo(now, at)
	if !ok {
		return false
	}
	s := p.scans[at]
	if s == nil || s.mark != upTo {
		s = &graveScan{mark: upTo}
		p.scans[at] = s
	}
	due, done := vnode.Graves(v, p.Round.Tx, &s.at, p.over(now, 3), upTo, Batch)
	due = slices.DeleteFunc(due, func(task id.ID) bool { return p.stays(now, v, task) })
	p.tell(v, p.drop(v, due, p.over(now, 3)))
	if done && upTo == math.MaxInt64 {
		delete(p.scans, at) // nothing stays
	}
	return !done
}

// stays tells whether what is left of a task says to another one, here or elsewhere, how
// its dependency has ended.
func (p *Tombstones) stays(now clock.Time, v *vnode.Vnode, task id.ID) bool {
	return p.References.WaitedFor(v, task) || p.References.Keeps(now, v.Partition, task)
}

// Orphans drops facts of tasks without an enqueue that nobody can enqueue any
// more, and tells whether there are more. With others in the cohort it knows from
// comparisons that were begun after that time that none of them has the enqueue,
// unless it is of a unique key or a launch, whose ID does not say when that may
// come. It does so only now and then, in case one of them brings them back.
func (p *Tombstones) Orphans(now clock.Time, v *vnode.Vnode) (more bool) {
	at, alone := v.Partition, p.Alone(v.Partition)
	upTo, ok := p.ProvenUpTo(now, at)
	if last, before := p.tidied[at]; !ok || before && !alone && now.SinceMono(last) < p.Hold() {
		return false
	}
	age := int64(0)
	if !alone {
		age = now.Mono - upTo
	}
	horizon, order := id.ID{}, id.OrderOf(p.over(now, 3)-age, id.KindTask)
	copy(horizon[:], order[:])
	due := vnode.Orphans(v, p.Round.Tx, horizon, func(task id.ID) bool {
		return (alone || task.Kind() == id.KindTask) && !p.stays(now, v, task)
	}, Batch)
	more = len(due) == Batch
	left := p.left()
	for i, task := range due {
		if !left() { // they may have updates, and many
			due, more = due[:i], true
			break
		}
		vnode.DropOrphan(v, p.Round.Tx, task)
	}
	p.tell(v, due)
	if !more && len(due) > 0 {
		p.tidied[at] = now.Mono
	}
	return more
}

// tell tells the other members what has gone.
func (p *Tombstones) tell(v *vnode.Vnode, gone []id.ID) {
	if len(gone) == 0 {
		return
	}
	for _, o := range p.View.Cells[v.Partition].Cohort {
		if o != p.Self {
			p.Round.Send(o, &message.Purge{Partition: v.Partition, Epoch: v.Leading(), Tasks: gone})
		}
	}
}

// drop lets tombstones and orphans go whose time is over, and gives those that
// went.
func (p *Tombstones) drop(v *vnode.Vnode, tasks []id.ID, upTo int64) (gone []id.ID) {
	for _, task := range tasks {
		went, err := vnode.Forget(v, p.Round.Tx, task, upTo)
		if !p.Round.Check(err) {
			return nil
		}
		if went || task.Kind() == id.KindTask && task.Nanos() <= upTo && vnode.DropOrphan(v, p.Round.Tx, task) {
			gone = append(gone, task)
		}
	}
	return gone
}

// Take lets tombstones go that the leader has let go. What it says is not trusted
// with anything else, and what a task here waits for stays: the leader may not keep that
// one, nor have been told. It gets the tombstone back.
//
// A member follows its leader, with one eta less to wait. It keeps what a task here still waits
// for.
func (p *Tombstones) Take(now clock.Time, from register.Member, m *message.Purge) {
	if int(m.Partition) >= len(p.View.Cells) || !p.members(message.Pair{Partition: m.Partition, Peer: from}) || m.Epoch < p.View.Cells[m.Partition].Epoch {
		return
	}
	v := p.Partitions.Use(m.Partition)
	tasks := slices.DeleteFunc(slices.Clone(m.Tasks), func(task id.ID) bool {
		return ring.Of(task, len(p.View.Cells)) != m.Partition || p.References.WaitedFor(v, task)
	})
	p.drop(v, tasks, p.over(now, 2))
}

// BelowHorizon tells whether facts of one task are not taken because of who sends them:
// Below the horizon, what nobody here knows may have been collected, and who is
// not of the cohort has no part in the proof that it was not. They may be the only
// copy, and are kept aside by transfer. A tombstone brings nothing back.
func (p *Tombstones) BelowHorizon(now clock.Time, from register.Member, at ring.Partition, facts []crdt.Fact) bool {
	return !slices.Contains(p.View.Cells[at].Cohort, from) && !p.Policy.OldTaken && p.Below(now, at, facts)
}

// Below tells whether facts of one task are below the horizon and the task is
// unknown here.
func (p *Tombstones) Below(now clock.Time, at ring.Partition, facts []crdt.Fact) bool {
	if slices.ContainsFunc(facts, func(f crdt.Fact) bool { return f.Key.Kind == crdt.KindTombstone }) {
		return false
	}
	// A cluster that began anew from a backup has lost its tasks, not collected
	// them. What it has collected since has its tombstone for as long as this holds.
	_, rebuilt := p.View.State.LastRebuilt()
	if now.Wall-rebuilt <= int64(p.GCGrace) {
		return false // what was let in since then is above the horizon
	}
	admitted := Admission(facts)
	return now.Wall-admitted > int64(p.GCGrace) && !vnode.Known(p.Round.Tx, at, facts[0].Task)
}

// Admission is when the task of some facts was let in, wall ns, as far as those
// tell.
func Admission(facts []crdt.Fact) int64 {
	admitted := facts[0].Task.Nanos()
	for _, f := range facts {
		if f.Key.Kind == crdt.KindEnqueued {
			if e, err := f.Glance(); err == nil && e.Admission != 0 {
				admitted = e.Admission
			}
		}
	}
	return admitted
}
