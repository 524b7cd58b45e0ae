package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// maxCopies is how many partitions this node copies, or hands over, at once.
	// Each waits for one page at a time: with these there are enough on their way
	// that neither the link nor the disk waits. Where others use up the processors
	// each message waits for its turn, and half as many fill at half the speed.
	maxCopies = 8
	// movePage is about how many bytes of facts a page of that has. The store makes a
	// table of it where a partition is filled: a file and its syncs cost nearly as
	// much for 1 MiB, and very many small tables are a burden for good. More are that
	// much more on its way, and in memory, for each of maxCopies.
	movePage = 2 << 20
	// moveScan is how many bytes of facts are read for a page in one round of the
	// loop, which takes about a millisecond: other things come in between.
	moveScan = 1 << 20
	// moveRate is how many bytes of facts a second travel for that from and to
	// this node, moveBurst what may go at once.
	moveRate, moveBurst = 256 << 20, 16 << 20
	// moveRetry is the pause after a comparison that went wrong, and after a
	// request to the register of which nothing was seen.
	moveRetry = time.Second
	// moveTimeout is when a message of such a comparison is sent again at the latest,
	// moveRetries for how many of that more an answer is waited for: claims of the
	// partition may wait for it. A link of 100 Mbit/s takes 1.4 s for what maxCopies
	// ask for at once, and whoever asks again too soon has it sent twice.
	moveTimeout, moveRetries = 2500 * time.Millisecond, 1
	// dropStep is how many records are deleted in one round of the loop.
	dropStep = 2000
)

// moveConfig is how a partition is compared that moves: at once and at the rate of moves.
func moveConfig() antientropy.Config {
	return antientropy.Config{
		PageBytes: movePage, ScanBytes: moveScan, Timeout: moveTimeout, Retries: moveRetries, MinBackoff: moveRetry,
		Bucket: antientropy.NewBucket(moveRate, moveBurst),
	}
}

// movePauses are those while nothing comes of it.
var movePauses = clock.Backoff{First: moveRetry, Most: 5 * time.Minute}

// transfer brings partitions here that this node is to keep, and takes away those
// that it is not to keep any longer (design 4): it copies first and asks for its
// admission after, and it deletes what a majority of the others has.
type transfer struct {
	c       *Core
	driver  *placement.Driver
	entries placement.Entries

	incoming map[ring.Partition]*move
	outgoing map[ring.Partition]*move
	todo     []ring.Partition      // of in and out, by urgency
	busy     map[message.Pair]bool // comparisons under way

	at    int64  // mono ns of the next look
	wake  int64  // of the driver, mono ns
	moved uint64 // partitions copied and admitted
	left  uint64 // partitions handed over and deleted

	retired uint64 // revision at which this node has asked for its removal
}

// move is one partition on its way.
type move struct {
	cell  register.Cell     // that it is about; another one begins it anew
	met   []met             // compared with, and nothing was left
	busy  register.Member   // compared with now; zero: nobody
	since int64             // when that has begun, mono ns
	probe uint64            // asks whether the cohort is about to change; 0: not asked
	clear []register.Member // who has answered that it is not
	tries int               // comparisons in a row after which something was left
	pause int64             // mono ns until which nothing is tried
	aside asideMove         // what is kept aside of it
	lacks bool              // something came here after the comparison under way had begun
	vain  register.Member   // with whom a comparison has come to nothing last; zero: nobody
}

func newTransfer(c *Core) *transfer {
	return &transfer{
		c: c, at: clock.Never, wake: clock.Never,
		driver:   placement.New(placement.Config{Self: c.cfg.Self, DeadAfter: c.cfg.DeadAfter, Settle: max(10*time.Second, c.cfg.Repair), Rand: c.cfg.Rand}),
		incoming: make(map[ring.Partition]*move), outgoing: make(map[ring.Partition]*move), busy: make(map[message.Pair]bool),
	}
}

// recover goes on with deletions that a crash has interrupted.
func (m *transfer) recover(p ring.Partition) {
	m.c.view.Dropping[p] = true
	m.at = 0
}

// learn takes over the register and who is alive.
func (m *transfer) learn(now clock.Time) {
	m.driver.Step(now, placement.Input{State: m.c.view.State, Leads: m.c.view.Leads, Alive: m.c.view.Members})
	m.c.view.Retire()
	m.wake = 0
	view := m.driver.View()
	m.todo = m.todo[:0]
	in, out := make(map[ring.Partition]*move), make(map[ring.Partition]*move)
	for _, c := range view.Copies(m.c.cfg.Self) {
		in[c.Partition] = m.keep(m.incoming[c.Partition], c.Partition)
		m.todo = append(m.todo, c.Partition)
	}
	for p := range m.c.view.Cells {
		p := ring.Partition(p)
		if !m.c.view.Dropping[p] && (m.c.view.Dismissed || view.Zombie(p, m.c.cfg.Self)) && !m.c.vnodes.Empty(p, m.c.round.Tx) {
			out[p] = m.keep(m.outgoing[p], p)
			m.todo = append(m.todo, p)
		}
	}
	m.incoming, m.outgoing = in, out
	come, arrived := view.Coming(m.c.cfg.Self), len(m.c.view.Arriving)
	company := !slices.Equal(come, m.c.view.Coming) || len(in) != arrived
	m.c.view.Coming, m.c.view.Arriving = come, make(map[ring.Partition]bool, len(in))
	for p := range in { // Any order: a set.
		m.c.view.Arriving[p] = true
	}
	if company {
		m.c.standing.Clocks.Met()
	}
	if len(m.todo) > 0 {
		m.at = min(m.at, now.Mono)
	}
	m.retire()
}

// found notes that there is something here of a partition that others keep.
func (m *transfer) found(now clock.Time, p ring.Partition) {
	if m.incoming[p] == nil && m.outgoing[p] == nil && !m.c.view.Dropping[p] && m.driver.View().Zombie(p, m.c.cfg.Self) {
		m.outgoing[p] = m.keep(nil, p)
		m.todo = append(m.todo, p)
		m.at = min(m.at, now.Mono+int64(moveRetry))
	}
}

// hinted notes that something was taken in that is nowhere else yet: whoever was
// compared with before does not have it.
func (m *transfer) hinted(now clock.Time, p ring.Partition) {
	m.found(now, p)
	if move := m.outgoing[p]; move != nil {
		move.met, move.probe, move.clear, move.lacks = nil, 0, nil, true
	}
}

// met is a comparison that ended well.
type met struct {
	with         register.Member
	began, ended int64 // mono ns
}

// fresh is for how long a comparison counts: what was acknowledged since is
// known to fewer and fewer of those who were compared with.
const fresh = 15 * time.Second

// with gives whom the partition was compared with not long ago.
func (m *move) with(now clock.Time) (members []register.Member) {
	m.met = slices.DeleteFunc(m.met, func(x met) bool { return now.Mono-x.ended > int64(fresh) })
	for _, x := range m.met {
		members = append(members, x.with)
	}
	return members
}

// keep goes on with a move as long as its cell is the same.
func (m *transfer) keep(old *move, p ring.Partition) *move {
	if old == nil {
		return &move{cell: m.c.view.Cells[p]}
	}
	if !old.cell.Same(&m.c.view.Cells[p]) {
		// Who was compared with still has everything it had then.
		old.cell, old.probe, old.clear, old.aside = m.c.view.Cells[p], 0, nil, asideMove{}
		if old.tries == 0 {
			old.pause = 0 // it may be this node's turn
		}
	}
	return old
}

// work does what is due.
func (m *transfer) work(now clock.Time) {
	if m.wake <= now.Mono {
		var requests []register.Request
		requests, m.wake = m.driver.Ready(now)
		for _, r := range requests {
			m.c.elector.Want(now, r.Changes)
			r.Changes = nil
			if !r.Reads() {
				m.c.send(registerRequest{}, r)
			}
		}
	}
	if m.at > now.Mono {
		return
	}
	m.at = clock.Never
	m.delete()
	if len(m.todo) == 0 {
		return
	}
	var asks []register.Change
	for _, p := range m.todo {
		switch {
		case m.c.view.Dropping[p]:
		case m.incoming[p] != nil:
			asks = m.bring(now, p, m.incoming[p], asks)
		case m.outgoing[p] != nil:
			m.hand(now, p, m.outgoing[p])
		}
	}
	asks, at := m.entries.Pick(now.Mono, m.driver.View(), asks)
	m.at = min(m.at, at)
	for i := range asks {
		m.hold(now, m.incoming[asks[i].Partition])
	}
	m.c.elector.Want(now, asks)
}

// bring goes on with a partition that is to be kept here.
func (m *transfer) bring(now clock.Time, p ring.Partition, move *move, asks []register.Change) []register.Change {
	view := m.driver.View()
	c, ok := view.Copy(p, m.c.cfg.Self)
	if !ok || m.wait(now, move) {
		return asks
	}
	// What was collected since a comparison began is to be seen.
	move.met = slices.DeleteFunc(move.met, func(x met) bool { return m.c.retention.Tombstones.Stale(now, x.began) })
	with := move.with(now)
	if view.Copied(p, with) {
		change, ok := view.Admit(p, m.c.cfg.Self, m.c.cfg.Rand.Uint64())
		if ok && c.Turn {
			return append(asks, change)
		}
		m.hold(now, move)
		return asks
	}
	if from, ok := m.other(move, c.From, with); ok {
		m.compare(now, p, move, from)
	}
	return asks
}

// hand goes on with a partition that others keep now: they are given what only
// this node may have.
func (m *transfer) hand(now clock.Time, p ring.Partition, move *move) {
	if m.wait(now, move) {
		return
	}
	cohort, with := m.c.view.Cells[p].Cohort, move.with(now)
	have := 0
	for _, o := range cohort {
		if slices.Contains(with, o) {
			have++
		}
	}
	if have >= quorum.Majority(len(cohort)) && slices.Contains(cohort, m.c.cfg.Self) {
		m.hold(now, move) // removed, and still counted on
		return
	}
	if have >= quorum.Majority(len(cohort)) || mutant.HandedEarly.On() && have > 0 {
		if a := &m.c.acceptors.All[p]; !a.MayForget(m.c.view.Cells[p].Epoch) {
			m.c.elector.RequestElection(now, p, a.Promise)
			m.hold(now, move)
		} else if m.c.quarantine.handed(now, p, move) && m.sure(now, p, move) {
			m.forget(p)
		}
		return
	}
	if o, ok := m.other(move, cohort, with); ok {
		m.compare(now, p, move, o)
	}
}

// other gives the next of some members to compare with, who is in reach and was not
// compared with: each in its turn after one with whom nothing came of it, because the
// others may be enough.
func (m *transfer) other(move *move, members, with []register.Member) (register.Member, bool) {
	first := slices.Index(members, move.vain) + 1
	for n := range members {
		o := members[(first+n)%len(members)]
		if o != m.c.cfg.Self && m.c.view.Up(o) && !slices.Contains(with, o) {
			return o, true
		}
	}
	return register.Member{}, false
}

// sure tells whether a majority of the cohort has said, after it was compared
// with, that it has voted for no other cohort. Without that a candidate of a
// cohort that this node was of may have its votes from before an acknowledgement
// that counted on what is here (docs/contributors/model.md, the first of its findings).
func (m *transfer) sure(now clock.Time, p ring.Partition, move *move) bool {
	cohort := m.c.view.Cells[p].Cohort
	if len(move.clear) >= quorum.Majority(len(cohort)) || mutant.Unprobed.On() {
		return true
	}
	move.probe, move.clear = m.c.cfg.Rand.Uint64()|1, nil
	ask := &message.Facts{Write: move.probe, Parts: []message.PartFacts{{Partition: p, Epoch: m.c.view.Cells[p].Epoch}}}
	for _, o := range cohort {
		if o != m.c.cfg.Self {
			m.c.round.Send(o, ask)
		}
	}
	m.hold(now, move)
	return false
}

// answered hears what a member says to such a question, and tells whether it was
// one.
func (m *transfer) answered(now clock.Time, from register.Member, answer *message.FactsTaken) bool {
	for p, move := range m.outgoing { // Any order: at most one has asked this.
		if move.probe == 0 || move.probe != answer.Write {
			continue
		}
		about := func(f message.Fence) bool { return f.Partition == p }
		switch {
		case slices.Contains(answer.Refused, p):
		case slices.ContainsFunc(answer.Fences, about): // the cohort is about to change, or has
			m.c.elector.RequestElection(now, p, 0)
			move.probe, move.clear = 0, nil
		case slices.Contains(m.c.view.Cells[p].Cohort, from) && !slices.Contains(move.clear, from):
			move.clear = append(move.clear, from)
			if len(move.clear) >= quorum.Majority(len(m.c.view.Cells[p].Cohort)) {
				move.pause = 0
				m.at = min(m.at, now.Mono)
			}
		}
		return true
	}
	return false
}

// wait tells whether a move has to wait, and sees to it that it is looked at
// again.
func (m *transfer) wait(now clock.Time, move *move) bool {
	if move.busy != (register.Member{}) {
		return true
	}
	if move.pause > now.Mono {
		m.at = min(m.at, move.pause)
		return true
	}
	return false
}

func (m *transfer) hold(now clock.Time, move *move) {
	move.pause = now.Mono + int64(movePauses.Pause(move.tries))
	m.at = min(m.at, move.pause)
}

// compare starts to compare with a member of the cohort.
func (m *transfer) compare(now clock.Time, p ring.Partition, move *move, with register.Member) {
	if len(m.busy) >= maxCopies || vnode.Tree(m.c.vnodes.Use(p)) == nil {
		m.at = min(m.at, now.Mono+int64(moveRetry)/10)
		return
	}
	m.busy[message.Pair{Partition: p, Peer: with}] = true
	move.busy, move.since, move.lacks = with, now.Mono, false
	m.c.repairs.Copy(now, message.Pair{Partition: p, Peer: with})
}

// compared hears how a comparison has ended, and tells whether it was one of
// these.
func (m *transfer) compared(now clock.Time, k message.Pair, r *antientropy.Result) bool {
	if !m.busy[k] {
		return false
	}
	delete(m.busy, k)
	m.at = min(m.at, now.Mono)
	move := cmp.Or(m.incoming[k.Partition], m.outgoing[k.Partition])
	if move == nil || move.busy != k.Peer {
		return true
	}
	move.busy = register.Member{}
	if !retention.Agreed(r) {
		move.vain = k.Peer
		if r.Err == nil && r.Pulled+r.Pushed == 0 {
			move.tries++ // the other side does not take it: below the horizon
		}
		m.hold(now, move)
		return true
	}
	move.tries = 0
	if move.lacks && !mutant.LacksIgnored.On() {
		m.hold(now, move)
		return true
	}
	move.met = append(move.met, met{k.Peer, move.since, now.Mono})
	return true
}

// again has a partition compared anew: some of it is kept aside now.
func (m *transfer) again(now clock.Time, p ring.Partition) {
	if move := cmp.Or(m.incoming[p], m.outgoing[p]); move != nil {
		move.met, move.tries, move.aside = nil, 0, asideMove{}
		move.pause = now.Mono + int64(moveRetry)
		m.at = min(m.at, move.pause)
	}
}

// forget begins to delete a partition. What is in memory of it goes at once.
func (m *transfer) forget(p ring.Partition) {
	v := m.c.vnodes.Use(p)
	m.c.elector.StepDown(p)
	m.c.elector.Runs.Abort(p, "the partition is being deleted here")
	m.c.acceptors.Save(p) // with the epoch that was seen: older cells get no vote from here on
	v.Flush(m.c.round.Tx)
	vnode.BeginDrop(m.c.round.Tx, p)
	empty, err := vnode.Blank(p, m.c.vcfg, m.c.round.Tx, m.c.round.Now)
	if !m.c.round.Check(err) {
		return
	}
	vnode.Untally(v)
	m.c.vnodes.Replace(p, empty)
	m.released(v)
	m.c.repairs.Forget(p)
	maps.DeleteFunc(m.busy, func(k message.Pair, _ bool) bool { return k.Partition == p })
	m.c.retention.Tombstones.Forget(p)
	delete(m.outgoing, p)
	m.c.view.Dropping[p] = true
	m.at = min(m.at, m.c.round.Now.Mono)
}

// released forgets what is kept in memory for the claims and queues of a partition that this
// node keeps no longer: nothing else ends them here.
func (m *transfer) released(v *vnode.Vnode) {
	v.Held(m.c.readyIndex.onEnd)
	v.Queues(func(name string, _ *vnode.Counts) { m.c.queues.emptied(name) })
}

// delete goes on with deletions.
func (m *transfer) delete() {
	for p := range m.c.view.Cells {
		p := ring.Partition(p)
		if !m.c.view.Dropping[p] {
			continue
		}
		if vnode.Drop(m.c.vnodes.Use(p), m.c.round.Tx, dropStep) {
			delete(m.c.view.Dropping, p)
			m.left++
			m.c.vnodes.Close(p, m.c.round.Tx)
			m.c.repairs.Grow()
			m.learn(m.c.round.Now)
		}
		m.at = m.c.round.Now.Mono
		return
	}
}

// next is when something is due, mono ns.
func (m *transfer) next() int64 { return min(m.at, m.wake) }
