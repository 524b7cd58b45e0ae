package core

import (
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// tombstones lets tombstones go (design 6, K8). The leader of a partition does, once
// gc-grace is over and it knows of each other member of the registered cohort
// that it has the tombstone: a comparison with it that began after the tombstone
// had come here has ended well. It drops the tombstone and tells the others. Who
// misses that gives the tombstone back to the leader by repair, where it counts
// as new: it goes once more, after the next comparisons.
//
// All times are those of this node's monotonic clock: nothing here trusts that
// clocks agree but the grace itself.
type tombstones struct {
	c      *Core
	rounds map[message.Pair]comparison // comparisons that this node has begun
	heard  map[message.Pair]comparison // that others have
	marks  map[message.Pair]*mark
	cells  map[ring.Partition]register.Cell // that the marks are about
	scans  map[ring.Partition]*graveScan
	tidied map[ring.Partition]int64 // when orphans were last dropped, mono ns
}

// comparison is one comparison.
type comparison struct {
	session uint64
	began   int64 // mono ns, here
	epoch   uint64
}

// mark is what is known of another member: what was here at the mono ns proven
// it has, and has had for some time. A newer such time waits until that is so.
type mark struct {
	proven, waiting int64
	latest          int64 // mono ns: what was at either side then is at both
	known, waits    bool
	since           int64 // mono ns from which on waiting is known
}

// graveScan says how far a partition's tombstones were looked at with a mark:
// what stays with it stays until there is another one.
type graveScan struct {
	mark int64
	at   vnode.GravesCursor
}

// maxHold bounds [tombstones.Hold].
const maxHold = time.Hour

func newTombstones(c *Core) *tombstones {
	return &tombstones{
		c: c, rounds: make(map[message.Pair]comparison), heard: make(map[message.Pair]comparison), marks: make(map[message.Pair]*mark),
		cells: make(map[ring.Partition]register.Cell), scans: make(map[ring.Partition]*graveScan), tidied: make(map[ring.Partition]int64),
	}
}

// Hold is how long every member must have had a tombstone before it goes. Whoever
// becomes a member after that has copied from one that had it: a copy older than
// half of that is made anew, see [tombstones.stale]. And a tombstone that comes back,
// because a member does not let it go, does not travel more often than that.
func (p *tombstones) Hold() time.Duration { return min(p.c.cfg.GCGrace/8, maxHold) }

// Margin is what a comparison may have left alone because it was young: the ID
// says so, which may be eta ahead, to a node whose clock is eta behind.
func (p *tombstones) Margin() int64 { return int64(repair.Settle + 2*p.c.cfg.Eta) }

// stale tells whether too much may have happened since a newcomer has begun to
// copy a partition.
func (p *tombstones) stale(now clock.Time, began int64) bool {
	return now.Mono-began > int64(max(p.Hold()/2, 5*time.Second))
}

// Began notes that this node begins a comparison.
func (p *tombstones) Began(now clock.Time, k message.Pair, session uint64) {
	p.rounds[k] = comparison{session, now.Mono, p.c.view.Cells[k.Partition].Epoch}
}

// Heard notes a comparison that another member begins. Said twice it has begun the first time.
func (p *tombstones) Heard(now clock.Time, k message.Pair, session uint64) {
	if old, ok := p.heard[k]; p.members(k) && (!ok || old.session != session) {
		p.heard[k] = comparison{session, now.Mono, p.c.view.Cells[k.Partition].Epoch}
	}
}

// ended hears how a comparison has ended that this node began.
func (p *tombstones) ended(now clock.Time, k message.Pair, r *antientropy.Result) {
	o, ok := p.rounds[k]
	delete(p.rounds, k)
	if !ok || !agreed(r) || !p.members(k) {
		return
	}
	p.mark(now, k, o)
	p.c.round.Send(k.Peer, &message.RepairCompleted{Partition: k.Partition, Session: o.session, Age: time.Duration(now.SinceMono(o.began))})
}

// Same hears that both sides have the same facts, and tells whether that is the answer to the
// comparison that this node began last.
func (p *tombstones) Same(now clock.Time, k message.Pair, session uint64) bool {
	o, ok := p.rounds[k]
	if !ok || o.session != session || !p.members(k) {
		return false
	}
	delete(p.rounds, k)
	p.mark(now, k, o)
	return true
}

// agreed tells whether both sides had the same after a comparison, as far as they
// had it before.
func agreed(r *antientropy.Result) bool {
	return r.Err == nil && (r.Skipped == 0 || mutant.SkippedAgreed.On()) && len(r.Suspects) == 0 && r.Refused == 0
}

// Completed hears the same from the other side. That may have begun long before it was
// heard of here: its first message is sent again until it is answered, as it was.
func (p *tombstones) Completed(now clock.Time, from register.Member, m *message.RepairCompleted) {
	k := message.Pair{Partition: m.Partition, Peer: from}
	if o, ok := p.heard[k]; ok && o.session == m.Session {
		delete(p.heard, k)
		if !mutant.ComparedLate.On() {
			o.began = min(o.began, now.Add(-m.Age).Mono)
		}
		p.mark(now, k, o)
	}
}

// members tells whether both sides are of the cohort.
func (p *tombstones) members(k message.Pair) bool {
	cohort := p.c.view.Cells[k.Partition].Cohort
	return slices.Contains(cohort, k.Peer) && slices.Contains(cohort, p.c.cfg.Self)
}

// mark notes that the peer has what was here when a comparison began.
func (p *tombstones) mark(now clock.Time, k message.Pair, o comparison) {
	if o.epoch != p.c.view.Cells[k.Partition].Epoch && !mutant.MarkOfBefore.On() || !p.members(k) {
		return // it may have left and come back meanwhile
	}
	p.follow(k.Partition)
	m := p.marks[k]
	if m == nil {
		m = &mark{latest: math.MinInt64} // it is below zero in the first seconds of a process
		p.marks[k] = m
	}
	m.latest = max(m.latest, o.began-p.Margin())
	m.ripen(now, p.Hold())
	if !m.waits {
		m.waits, m.waiting, m.since = true, o.began-p.Margin(), now.Mono
	}
}

// ripen takes over what has waited long enough.
func (m *mark) ripen(now clock.Time, hold time.Duration) {
	if m.waits && now.SinceMono(m.since) >= hold {
		m.proven, m.known, m.waits = m.waiting, true, false
	}
}

// follow drops what is known of a cohort that has changed, or may have: who left
// it and came back has deleted everything in between. One epoch more with the
// same members is a new leader.
func (p *tombstones) follow(at ring.Partition) {
	cell, old := &p.c.view.Cells[at], p.cells[at]
	if cell.Epoch == old.Epoch {
		return
	}
	p.cells[at] = *cell
	if cell.Epoch != old.Epoch+1 || !slices.Equal(sortedMembers(cell.Cohort), sortedMembers(old.Cohort)) {
		for k := range p.marks { // Any order: each is looked at for itself.
			if k.Partition == at {
				delete(p.marks, k)
			}
		}
	}
}

func sortedMembers(all []register.Member) []register.Member {
	return slices.SortedFunc(slices.Values(all), register.Member.Compare)
}

// forget drops what is known of a partition that is not kept here any longer.
func (p *tombstones) forget(at ring.Partition) {
	for _, all := range []map[message.Pair]comparison{p.rounds, p.heard} {
		for k := range all { // Any order: each is looked at for itself.
			if k.Partition == at {
				delete(all, k)
			}
		}
	}
	for k := range p.marks { // Any order: as above.
		if k.Partition == at {
			delete(p.marks, k)
		}
	}
	delete(p.scans, at)
	delete(p.cells, at)
	delete(p.tidied, at)
}

// proven is the mono ns up to which everything that came here is on the disks of
// the whole cohort; ok is false when that is not known.
func (p *tombstones) proven(now clock.Time, at ring.Partition) (upTo int64, ok bool) {
	upTo = math.MaxInt64
	if p.c.quorumWrites.alone(at) || mutant.PurgeByTime.On() {
		return upTo, true
	}
	p.follow(at)
	for _, o := range p.c.view.Cells[at].Cohort {
		if o == p.c.cfg.Self {
			continue
		}
		m := p.marks[message.Pair{Partition: at, Peer: o}]
		if m != nil {
			m.ripen(now, p.Hold())
		}
		if m == nil || !m.known {
			return 0, false
		}
		upTo = min(upTo, m.proven)
	}
	return upTo, true
}

// agreedSince is [tombstones.comparedSince] in wall ns.
func (p *tombstones) agreedSince(now clock.Time, at ring.Partition) int64 {
	switch mono := p.comparedSince(at); mono {
	case math.MinInt64, math.MaxInt64:
		return mono
	default:
		return now.Wall - (now.Mono - mono)
	}
}

// comparedSince is the mono ns up to which whatever any member of the cohort was told of a
// partition is here, and what was here then is there: tasks that were finished, and
// known here to be, before that may be collected, because nobody knows anything else of
// them (design 6). Both matter: an end that one member told this node of after another
// one had been compared with is not known to that one. It is far in the past while a
// member has not been compared with.
func (p *tombstones) comparedSince(at ring.Partition) int64 {
	if p.c.quorumWrites.alone(at) || mutant.PurgeByTime.On() {
		return math.MaxInt64
	}
	p.follow(at)
	oldest := int64(math.MaxInt64)
	for _, o := range p.c.view.Cells[at].Cohort {
		if o == p.c.cfg.Self {
			continue
		}
		m := p.marks[message.Pair{Partition: at, Peer: o}]
		if m == nil {
			return math.MinInt64
		}
		oldest = min(oldest, m.latest)
	}
	return oldest
}

// caughtUp tells whether since this node leads a partition it has been compared with so
// many of its cohort that it has heard of everything that a majority has acknowledged
// before. What of this is young by its ID a comparison leaves alone.
func (p *tombstones) caughtUp(at ring.Partition) bool {
	p.follow(at)
	cohort, since := p.c.view.Cells[at].Cohort, p.c.edges.watches.needs.led[at]
	missing := len(cohort) - quorum.Majority(len(cohort))
	for _, o := range cohort {
		if m := p.marks[message.Pair{Partition: at, Peer: o}]; m != nil && m.latest+p.Margin() >= since {
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
func (p *tombstones) over(now clock.Time, etas int) int64 {
	if mutant.GraveEarly.On() {
		etas = 0
	}
	return now.Wall - int64(p.c.cfg.GCGrace) - int64(etas)*int64(p.c.cfg.Eta)
}

// look lets some tombstones of a partition go that this node leads, and tells
// whether there are more.
func (p *tombstones) look(now clock.Time, v *vnode.Vnode) (more bool) {
	at := v.Partition
	upTo, ok := p.proven(now, at)
	if !ok {
		return false
	}
	s := p.scans[at]
	if s == nil || s.mark != upTo {
		s = &graveScan{mark: upTo}
		p.scans[at] = s
	}
	due, done := vnode.Graves(v, p.c.round.Tx, &s.at, p.over(now, 3), upTo, collectBatch)
	due = slices.DeleteFunc(due, func(task id.ID) bool { return p.stays(now, v, task) })
	p.tell(v, p.drop(v, due, p.over(now, 3)))
	if done && upTo == math.MaxInt64 {
		delete(p.scans, at) // nothing stays
	}
	return !done
}

// stays tells whether what is left of a task says to another one, here or elsewhere, how
// its dependency has ended.
func (p *tombstones) stays(now clock.Time, v *vnode.Vnode, task id.ID) bool {
	return p.c.edges.waitedFor(v, task) || p.c.edges.watches.needs.keep(now, v.Partition, task)
}

// orphans drops facts of tasks without an enqueue that nobody can enqueue any
// more, and tells whether there are more. With others in the cohort it knows from
// comparisons that were begun after that time that none of them has the enqueue,
// unless it is of a unique key or a launch, whose ID does not say when that may
// come. It does so only now and then, in case one of them brings them back.
func (p *tombstones) orphans(now clock.Time, v *vnode.Vnode) (more bool) {
	at, alone := v.Partition, p.c.quorumWrites.alone(v.Partition)
	upTo, ok := p.proven(now, at)
	if last, before := p.tidied[at]; !ok || before && !alone && now.SinceMono(last) < p.Hold() {
		return false
	}
	age := int64(0)
	if !alone {
		age = now.Mono - upTo
	}
	horizon, order := id.ID{}, id.OrderOf(p.over(now, 3)-age, id.KindTask)
	copy(horizon[:], order[:])
	due := vnode.Orphans(v, p.c.round.Tx, horizon, func(task id.ID) bool {
		return (alone || task.Kind() == id.KindTask) && !p.stays(now, v, task)
	}, collectBatch)
	more = len(due) == collectBatch
	left := p.c.collect.left()
	for i, task := range due {
		if !left() { // they may have updates, and many
			due, more = due[:i], true
			break
		}
		vnode.DropOrphan(v, p.c.round.Tx, task)
	}
	p.tell(v, due)
	if !more && len(due) > 0 {
		p.tidied[at] = now.Mono
	}
	return more
}

// tell tells the other members what has gone.
func (p *tombstones) tell(v *vnode.Vnode, gone []id.ID) {
	if len(gone) == 0 {
		return
	}
	for _, o := range p.c.view.Cells[v.Partition].Cohort {
		if o != p.c.cfg.Self {
			p.c.round.Send(o, &message.Purge{Partition: v.Partition, Epoch: v.Leading(), Tasks: gone})
		}
	}
}

// drop lets tombstones and orphans go whose time is over, and gives those that
// went.
func (p *tombstones) drop(v *vnode.Vnode, tasks []id.ID, upTo int64) (gone []id.ID) {
	for _, task := range tasks {
		went, err := vnode.Forget(v, p.c.round.Tx, task, upTo)
		if !p.c.round.Check(err) {
			return nil
		}
		if went || task.Kind() == id.KindTask && task.Nanos() <= upTo && vnode.DropOrphan(v, p.c.round.Tx, task) {
			gone = append(gone, task)
		}
	}
	return gone
}

// take lets tombstones go that the leader has let go. What it says is not trusted
// with anything else, and what a task here waits for stays: the leader may not keep that
// one, nor have been told. It gets the tombstone back.
func (p *tombstones) take(now clock.Time, from register.Member, m *message.Purge) {
	if int(m.Partition) >= len(p.c.view.Cells) || !p.members(message.Pair{Partition: m.Partition, Peer: from}) || m.Epoch < p.c.view.Cells[m.Partition].Epoch {
		return
	}
	v := p.c.vnodes.Use(m.Partition)
	tasks := slices.DeleteFunc(slices.Clone(m.Tasks), func(task id.ID) bool {
		return ring.Of(task, len(p.c.view.Cells)) != m.Partition || p.c.edges.waitedFor(v, task)
	})
	p.drop(v, tasks, p.over(now, 2))
}

// belowHorizon tells whether facts of one task are not taken because of who sends them:
// below the horizon, what nobody here knows may have been collected, and who is
// not of the cohort has no part in the proof that it was not. They may be the only
// copy, and are kept aside ([quarantine]). A tombstone brings nothing back.
func (p *tombstones) belowHorizon(now clock.Time, from register.Member, at ring.Partition, facts []crdt.Fact) bool {
	return !slices.Contains(p.c.view.Cells[at].Cohort, from) && !mutant.OldTaken.On() && p.below(now, at, facts)
}

// below tells whether facts of one task are below the horizon and the task is
// unknown here.
func (p *tombstones) below(now clock.Time, at ring.Partition, facts []crdt.Fact) bool {
	if slices.ContainsFunc(facts, func(f crdt.Fact) bool { return f.Key.Kind == crdt.KindTombstone }) {
		return false
	}
	admitted := admission(facts)
	// A cluster that began anew from a backup has lost its tasks, not collected
	// them. What it has collected since has its tombstone for as long as this holds.
	_, rebuilt := p.c.view.State.LastRebuilt()
	if admitted < rebuilt && now.Wall-rebuilt <= int64(p.c.cfg.GCGrace) {
		return false
	}
	return now.Wall-admitted > int64(p.c.cfg.GCGrace) && !vnode.Known(p.c.round.Tx, at, facts[0].Task)
}
