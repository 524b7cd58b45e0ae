package transfer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
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

// Comparisons is how a partition is compared that moves: at once and at the rate of moves.
func Comparisons() antientropy.Config {
	return antientropy.Config{
		PageBytes: movePage, ScanBytes: moveScan, Timeout: moveTimeout, Retries: moveRetries, MinBackoff: moveRetry,
		Bucket: antientropy.NewBucket(moveRate, moveBurst),
	}
}

// movePauses are those while nothing comes of it.
var movePauses = clock.Backoff{First: moveRetry, Most: 5 * time.Minute}

// Machine brings partitions here that this node is to keep, and takes away those
// that it is not to keep any longer (design 4): it copies first and asks for its
// admission after, and it deletes what a majority of the others has.
type Machine struct {
	Env
	// Driver plans who is to keep what.
	Driver *placement.Driver
	// Incoming and Outgoing are the partitions on their way.
	Incoming map[ring.Partition]*Move
	Outgoing map[ring.Partition]*Move
	// Busy are the comparisons under way.
	// Invariant: there are at most as many as [maxCopies].
	Busy map[message.Pair]bool
	// Quarantine keeps facts apart, Former does what a node does that was removed.
	Quarantine *Quarantine
	Former     *FormerMember
	// Copied counts partitions copied and admitted, Left those handed over and deleted.
	Copied, Left uint64

	entries placement.Entries
	// Invariant: each partition of Incoming and Outgoing is in todo. One that is not would
	// never move, and a node that leaves would never be done (Audit).
	todo    []ring.Partition // of in and out, by urgency
	at      int64            // mono ns of the next look
	wake    int64            // of the driver, mono ns
	retired uint64           // revision at which this node has asked for its removal
}

// Move is one partition on its way.
type Move struct {
	Cell register.Cell // that it is about; another one begins it anew
	Met  []Met         // compared with, and nothing was left
	// Invariant: where somebody is named here, the pair is in [Machine.Busy] until the
	// comparison has ended. Otherwise the move waits for an end that never comes (Audit).
	Busy  register.Member // compared with now; zero: nobody
	Since int64           // when that has begun, mono ns
	Probe uint64          // asks whether the cohort is about to change; 0: not asked
	// Invariant: Clear is empty while Probe is 0. An answer to an earlier question says nothing
	// of votes that were given since (Audit; mutant Unprobed).
	Clear []register.Member // who has answered that it is not
	Pause int64             // mono ns until which nothing is tried
	Aside AsideMove         // what is kept aside of it
	// Invariant: what was taken in since a comparison began is not covered by it; Lacks is set
	// before the answer to who has sent it leaves (mutant LacksIgnored).
	Lacks bool            // something came here after the comparison under way had begun
	tries int             // comparisons in a row after which something was left
	vain  register.Member // with whom a comparison has come to nothing last; zero: nobody
}

// New makes the machine of a process that moves nothing.
func New(env Env) *Machine {
	m := &Machine{
		Env: env, at: clock.Never, wake: clock.Never,
		Driver:   placement.New(placement.Config{Self: env.Self, DeadAfter: env.DeadAfter, Settle: env.Settle, Rand: env.Rand}),
		Incoming: make(map[ring.Partition]*Move), Outgoing: make(map[ring.Partition]*Move), Busy: make(map[message.Pair]bool),
	}
	m.Quarantine, m.Former = &Quarantine{m: m, last: make(map[ring.Partition]id.ID)}, &FormerMember{m: m, at: clock.Never}
	return m
}

// Recover goes on with deletions that a crash has interrupted.
func (m *Machine) Recover(p ring.Partition) {
	m.View.Dropping[p] = true
	m.at = 0
}

// Learn takes over the register and who is alive.
//
// It makes the sets of moves anew from the plan and keeps those that go on. A partition that
// has become this node's since counts as Copied.
func (m *Machine) Learn(now clock.Time) {
	m.Driver.Step(now, placement.Input{State: m.View.State, Leads: m.View.Leads, Alive: m.View.Members, Expected: m.View.Expected})
	m.View.Retire()
	m.wake = 0
	view := m.Driver.View()
	m.todo = m.todo[:0]
	in, out := make(map[ring.Partition]*Move), make(map[ring.Partition]*Move)
	for _, c := range view.Copies(m.Self) {
		in[c.Partition] = m.Keep(m.Incoming[c.Partition], c.Partition)
		m.todo = append(m.todo, c.Partition)
	}
	for p := range m.View.Cells {
		p := ring.Partition(p)
		if !m.View.Dropping[p] && (m.View.Dismissed || view.Zombie(p, m.Self)) && !m.Partitions.Empty(p, m.Round.Tx) {
			out[p] = m.Keep(m.Outgoing[p], p)
			m.todo = append(m.todo, p)
		}
	}
	for p := range m.Incoming { // Any order: they are counted.
		if in[p] == nil && slices.Contains(m.View.Cells[p].Cohort, m.Self) {
			m.Copied++
		}
	}
	m.Incoming, m.Outgoing = in, out
	come, arrived := view.Coming(m.Self), len(m.View.Arriving)
	company := !slices.Equal(come, m.View.Coming) || len(in) != arrived
	m.View.Coming, m.View.Arriving = come, make(map[ring.Partition]bool, len(in))
	for p := range in { // Any order: a set.
		m.View.Arriving[p] = true
	}
	if company {
		m.Node.Met()
	}
	if len(m.todo) > 0 {
		m.at = min(m.at, now.Mono)
	}
	m.retire()
}

// Found notes that there is something here of a partition that others keep.
func (m *Machine) Found(now clock.Time, p ring.Partition) {
	if m.Incoming[p] == nil && m.Outgoing[p] == nil && !m.View.Dropping[p] && m.Driver.View().Zombie(p, m.Self) {
		m.Outgoing[p] = m.Keep(nil, p)
		m.todo = append(m.todo, p)
		m.at = min(m.at, now.Mono+int64(moveRetry))
	}
}

// Hinted notes that something was taken in that is nowhere else yet: whoever was
// Compared with before does not have it.
func (m *Machine) Hinted(now clock.Time, p ring.Partition) {
	m.Found(now, p)
	if move := m.Outgoing[p]; move != nil {
		move.Met, move.Probe, move.Clear, move.Lacks = nil, 0, nil, true
	}
}

// Met is a comparison that ended well.
type Met struct {
	With         register.Member
	Began, Ended int64 // mono ns
}

// Fresh is for how long a comparison counts: what was acknowledged since is
// known to fewer and fewer of those who were compared with.
const Fresh = 15 * time.Second

// With gives whom the partition was compared with not long ago.
func (m *Move) With(now clock.Time) (members []register.Member) {
	m.Met = slices.DeleteFunc(m.Met, func(x Met) bool { return now.Mono-x.Ended > int64(Fresh) })
	for _, x := range m.Met {
		members = append(members, x.With)
	}
	return members
}

// Keep goes on with a move as long as its cell is the same.
func (m *Machine) Keep(old *Move, p ring.Partition) *Move {
	if old == nil {
		return &Move{Cell: m.View.Cells[p]}
	}
	if !old.Cell.Same(&m.View.Cells[p]) {
		// Who was compared with still has everything it had then.
		old.Cell, old.Probe, old.Clear, old.Aside = m.View.Cells[p], 0, nil, AsideMove{}
		if old.tries == 0 {
			old.Pause = 0 // it may be this node's turn
		}
	}
	return old
}

// Work does what is due.
//
// One call plans (the placement driver), deletes one step of one partition, and looks at each
// partition that moves. It returns at once when nothing is due, which is the state of a healthy
// cluster.
func (m *Machine) Work(now clock.Time) {
	if m.wake <= now.Mono {
		var requests []register.Request
		requests, m.wake = m.Driver.Ready(now)
		for _, r := range requests {
			m.Elections.Want(now, r.Changes)
			r.Changes = nil
			if !r.Reads() {
				m.Node.ChangeRegister(r)
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
		case m.View.Dropping[p]:
		case m.Incoming[p] != nil:
			asks = m.Bring(now, p, m.Incoming[p], asks)
		case m.Outgoing[p] != nil:
			m.hand(now, p, m.Outgoing[p])
		}
	}
	asks, at := m.entries.Pick(now.Mono, m.Driver.View(), asks)
	m.at = min(m.at, at)
	for i := range asks {
		m.hold(now, m.Incoming[asks[i].Partition])
	}
	m.Elections.Want(now, asks)
}

// Bring goes on with a partition that is to be kept here.
func (m *Machine) Bring(now clock.Time, p ring.Partition, move *Move, asks []register.Change) []register.Change {
	view := m.Driver.View()
	c, ok := view.Copy(p, m.Self)
	if !ok || m.wait(now, move) {
		return asks
	}
	// What was collected since a comparison began is to be seen.
	move.Met = slices.DeleteFunc(move.Met, func(x Met) bool { return m.Tombstones.Stale(now, x.Began) })
	with := move.With(now)
	if view.Copied(p, with) {
		change, ok := view.Admit(p, m.Self, m.Rand.Uint64())
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
//
// Deleting needs four things in this order: a majority that has compared, this node outside of
// the cohort, no promise that counts on it, and the answer of a majority that it has voted for
// no other cohort since. The last one closes a gap that the model found: votes from before the
// comparison (docs/contributors/model.md).
func (m *Machine) hand(now clock.Time, p ring.Partition, move *Move) {
	if m.wait(now, move) {
		return
	}
	cohort, with := m.View.Cells[p].Cohort, move.With(now)
	have := 0
	for _, o := range cohort {
		if slices.Contains(with, o) {
			have++
		}
	}
	if have >= quorum.Majority(len(cohort)) && slices.Contains(cohort, m.Self) {
		m.hold(now, move) // removed, and still counted on
		return
	}
	if have >= quorum.Majority(len(cohort)) || m.Policy.HandedEarly && have > 0 {
		if may, promise := m.Elections.MayForget(p, m.View.Cells[p].Epoch); !may {
			m.Elections.RequestElection(now, p, promise)
			m.hold(now, move)
		} else if m.Quarantine.handed(now, p, move) && m.Sure(now, p, move) {
			m.Forget(p)
		}
		return
	}
	if o, ok := m.other(move, cohort, with); ok {
		m.compare(now, p, move, o)
	}
}

// other gives the next of some members to compare with, who is in reach and was not
// Compared with: each in its turn after one with whom nothing came of it, because the
// others may be enough.
func (m *Machine) other(move *Move, members, with []register.Member) (register.Member, bool) {
	first := slices.Index(members, move.vain) + 1
	for n := range members {
		o := members[(first+n)%len(members)]
		if o != m.Self && m.View.Up(o) && !slices.Contains(with, o) {
			return o, true
		}
	}
	return register.Member{}, false
}

// Sure tells whether a majority of the cohort has said, after it was compared
// with, that it has voted for no other cohort. Without that a candidate of a
// cohort that this node was of may have its votes from before an acknowledgement
// that counted on what is here (docs/contributors/model.md, the first of its findings).
func (m *Machine) Sure(now clock.Time, p ring.Partition, move *Move) bool {
	cohort := m.View.Cells[p].Cohort
	if len(move.Clear) >= quorum.Majority(len(cohort)) || m.Policy.Unprobed {
		return true
	}
	move.Probe, move.Clear = m.Rand.Uint64()|1, nil
	ask := &message.Facts{Write: move.Probe, Parts: []message.PartFacts{{Partition: p, Epoch: m.View.Cells[p].Epoch}}}
	for _, o := range cohort {
		if o != m.Self {
			m.Round.Send(o, ask)
		}
	}
	m.hold(now, move)
	return false
}

// Answered hears what a member says to such a question, and tells whether it was
// one.
func (m *Machine) Answered(now clock.Time, from register.Member, answer *message.FactsTaken) bool {
	for p, move := range m.Outgoing { // Any order: at most one has asked this.
		if move.Probe == 0 || move.Probe != answer.Write {
			continue
		}
		about := func(f message.Fence) bool { return f.Partition == p }
		switch {
		case slices.Contains(answer.Refused, p):
		case slices.ContainsFunc(answer.Fences, about): // the cohort is about to change, or has
			m.Elections.RequestElection(now, p, 0)
			move.Probe, move.Clear = 0, nil
		case slices.Contains(m.View.Cells[p].Cohort, from) && !slices.Contains(move.Clear, from):
			move.Clear = append(move.Clear, from)
			if len(move.Clear) >= quorum.Majority(len(m.View.Cells[p].Cohort)) {
				move.Pause = 0
				m.at = min(m.at, now.Mono)
			}
		}
		return true
	}
	return false
}

// wait tells whether a move has to wait, and sees to it that it is looked at
// again.
func (m *Machine) wait(now clock.Time, move *Move) bool {
	if move.Busy != (register.Member{}) {
		return true
	}
	if move.Pause > now.Mono {
		m.at = min(m.at, move.Pause)
		return true
	}
	return false
}

// hold has a move wait before it goes on, longer after each try that has brought nothing: 1 s
// to 5 min.
func (m *Machine) hold(now clock.Time, move *Move) {
	move.Pause = now.Mono + int64(movePauses.Pause(move.tries))
	m.at = min(m.at, move.Pause)
}

// compare starts to compare with a member of the cohort.
func (m *Machine) compare(now clock.Time, p ring.Partition, move *Move, with register.Member) {
	if len(m.Busy) >= maxCopies || vnode.Tree(m.Partitions.Use(p)) == nil {
		m.at = min(m.at, now.Mono+int64(moveRetry)/10)
		return
	}
	m.Busy[message.Pair{Partition: p, Peer: with}] = true
	move.Busy, move.Since, move.Lacks = with, now.Mono, false
	m.Repairs.Copy(now, message.Pair{Partition: p, Peer: with})
}

// Compared hears how a comparison has ended, and tells whether it was one of
// these.
func (m *Machine) Compared(now clock.Time, k message.Pair, r *antientropy.Result) bool {
	if !m.Busy[k] {
		return false
	}
	delete(m.Busy, k)
	m.at = min(m.at, now.Mono)
	move := cmp.Or(m.Incoming[k.Partition], m.Outgoing[k.Partition])
	if move == nil || move.Busy != k.Peer {
		return true
	}
	move.Busy = register.Member{}
	if !m.Tombstones.Agreed(r) {
		move.vain = k.Peer
		if r.Err == nil && r.Pulled+r.Pushed == 0 {
			move.tries++ // the other side does not take it: below the horizon
		}
		m.hold(now, move)
		return true
	}
	move.tries = 0
	if move.Lacks && !m.Policy.LacksIgnored {
		m.hold(now, move)
		return true
	}
	move.Met = append(move.Met, Met{k.Peer, move.Since, now.Mono})
	return true
}

// again has a partition compared anew: some of it is kept aside now.
func (m *Machine) again(now clock.Time, p ring.Partition) {
	if move := cmp.Or(m.Incoming[p], m.Outgoing[p]); move != nil {
		move.Met, move.tries, move.Aside = nil, 0, AsideMove{}
		move.Pause = now.Mono + int64(moveRetry)
		m.at = min(m.at, move.Pause)
	}
}

// Forget begins to delete a partition. What is in memory of it goes at once.
func (m *Machine) Forget(p ring.Partition) {
	v := m.Partitions.Use(p)
	m.Elections.Leave(p) // with the epoch that was seen: older cells get no vote from here on
	v.Flush(m.Round.Tx)
	vnode.BeginDrop(m.Round.Tx, p)
	empty, err := m.Node.Blank(p)
	if !m.Round.Check(err) {
		return
	}
	vnode.Untally(v)
	m.Partitions.Replace(p, empty)
	m.Node.Released(v)
	m.Repairs.Forget(p)
	maps.DeleteFunc(m.Busy, func(k message.Pair, _ bool) bool { return k.Partition == p })
	m.Tombstones.Forget(p)
	delete(m.Outgoing, p)
	m.View.Dropping[p] = true
	m.at = min(m.at, m.Round.Now.Mono)
}

// delete goes on with deletions.
func (m *Machine) delete() {
	for p := range m.View.Cells {
		p := ring.Partition(p)
		if !m.View.Dropping[p] {
			continue
		}
		if vnode.Drop(m.Partitions.Use(p), m.Round.Tx, dropStep) {
			delete(m.View.Dropping, p)
			m.Left++
			m.Partitions.Close(p, m.Round.Tx)
			m.Repairs.Grow()
			m.Learn(m.Round.Now)
		}
		m.at = m.Round.Now.Mono
		return
	}
}

// Due is when something is due, mono ns.
func (m *Machine) Due() int64 { return min(m.at, m.wake, m.Quarantine.At, m.Former.at) }

// HandoversLeft is how many partitions are to be handed over or deleted still.
func (m *Machine) HandoversLeft() int { return len(m.Outgoing) + len(m.View.Dropping) }

// Replicas is how many copies of each partition there are to be: what the register
// says, or before that is heard what it said when this node's directory was made.
func (m *Machine) Replicas() int { return cmp.Or(m.View.State.Cluster.Replicas, m.Env.Replicas) }

// Refuses tells why nothing of a partition may be written now: it is being
// deleted, and what came into it would be acknowledged and deleted as well. Its
// vnode is a blank one, and knows nothing of what is stored. nil: it may be.
//
// Each way to write to a partition that nobody leads here asks for this, or for
// [view.View.Deleting]: requests do, and so do facts of all kinds.
func (m *Machine) Refuses(p ring.Partition) *proto.Error {
	if !m.View.Deleting(p) {
		return nil
	}
	e := m.Gone(p)
	e.Guarantee = "durable copies"
	return e
}

// Gone refuses what is about a partition that is not kept here.
func (m *Machine) Gone(p ring.Partition) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "partition %d is not kept on node %s, or not any longer; try again", p, m.Self.Node).Again(100 * time.Millisecond)
}
