package leadership

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	"github.com/cespare/xxhash/v2"
)

const (
	// StandAfter is how much later each further member stands for election when a
	// leader is gone, so that mostly the first one is alone.
	StandAfter = 300 * time.Millisecond
	// Lonely is for how long a leader may lack a majority of its cohort before it
	// steps down (K5): nothing commits meanwhile anyway, and a short gap is
	// cheaper than an election.
	Lonely = 2 * time.Second
	// retreatAgain is the pause between two requests to lead instead of a node that
	// is about to stop.
	retreatAgain = 250 * time.Millisecond
	// nudgeAgain is the pause between two requests for a new epoch of a partition.
	nudgeAgain = 2 * time.Second
)

// standAgain is the pauses after defeats. Each is drawn from its second half, so that two
// do not meet for ever.
var standAgain = clock.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second}

// Machine has this node stand for election where it should, and step down where
// it must (design 7.2). Who leads is decided by package election and the
// register; this is the policy around it.
type Machine struct {
	env       *Env
	Acceptors *Acceptors
	Runs      *election.Elections[register.Member]
	pauses    map[ring.Partition]pause
	vacant    map[ring.Partition]int64 // since when the leader is not in reach, or this node stands in its stead, mono ns
	cut       map[ring.Partition]bool  // without a leader and a majority in reach, when last looked at
	// Invariant: alone has partitions that are led here, no others. One that stayed behind
	// would let this node step down at once the next time that it leads, without the [Lonely]
	// of grace (Audit).
	alone map[ring.Partition]int64 // since when a majority of a cohort led here is not, mono ns
	Hands map[ring.Partition]*CohortTransfer
	// Invariant: this node does not stand while a candidate that it has voted for may still
	// win: two that stand by turns would keep each other from winning for ever. Safety does not
	// depend on it.
	voted  map[ring.Partition]backOffFor
	nudged map[ring.Partition]int64 // until when nobody is asked again, mono ns
	passed map[ring.Partition]passed
	dirty  bool
	at     int64 // mono ns of the next look
	wake   int64 // of the candidacies and hand-overs
	resign bool  // this node is about to stop: others are to lead
	asked  int   // how often they were asked to
	askAt  int64 // when they are asked again, mono ns
	stuck  bool  // the disk does not answer: others are to lead

	// Won and Defeats count candidacies, Unread votes and claims that could not be read.
	Won, Defeats, Unread uint64
	// UnreadLast is the last one of those.
	UnreadLast Unread
}

// backOffFor is whom this node has voted for, and until when it does not stand
// itself, mono ns: as long as the cell is that of the epoch from which the other one
// stands. Once there is a later one, the other one cannot win any more.
type backOffFor struct {
	to    register.Member
	until int64
	old   uint64
}

// pause holds a partition's next candidacy back.
type pause struct {
	until int64 // mono ns
	tries int
}

// New makes the machine of a process over what it has promised.
func New(acceptors *Acceptors, s *standing.Machine) *Machine {
	env := acceptors.env
	env.Standing = s
	return &Machine{
		env: env, Acceptors: acceptors, Runs: election.New(election.Config[register.Member]{Self: env.Self, Rand: env.Rand}),
		pauses: make(map[ring.Partition]pause), vacant: make(map[ring.Partition]int64), cut: make(map[ring.Partition]bool), alone: make(map[ring.Partition]int64),
		Hands: make(map[ring.Partition]*CohortTransfer), nudged: make(map[ring.Partition]int64), voted: make(map[ring.Partition]backOffFor), passed: make(map[ring.Partition]passed), at: clock.Never, wake: clock.Never,
	}
}

// Look notes that who is in reach, or what the register says, has changed.
func (e *Machine) Look() { e.dirty = true }

// Changed takes over the register's cells.
//
// Whoever leads by an older cell steps down here, in the same round in which the register's
// word arrives: nothing is granted between the two.
func (e *Machine) Changed(now clock.Time) {
	for p := range e.env.View.Cells {
		p := ring.Partition(p)
		cell := &e.env.View.Cells[p]
		e.Runs.Written(now, p, CellOf(cell), true)
		if cell.Epoch >= e.Acceptors.All[p].Promise {
			delete(e.voted, p)
		}
		if lead := e.env.Partitions.See(p).Leading(); lead != 0 && lead != cell.Epoch && (lead < cell.Epoch || !e.env.Policy.GrantBeforeCAS) {
			e.StepDown(p)
		}
	}
	e.Look()
}

// CellOf is a cell as elections see it.
func CellOf(c *register.Cell) election.Cell[register.Member] {
	return election.Cell[register.Member]{Epoch: c.Epoch, Nonce: c.Nonce, Cohort: c.Cohort}
}

// StepDown stops handing out claims of a partition.
func (e *Machine) StepDown(p ring.Partition) {
	if e.env.Partitions.See(p).Leading() == 0 {
		return
	}
	v := e.env.Partitions.Use(p)
	v.Follow()
	v.Announce()
	e.env.Others.Lost(p)
	delete(e.alone, p)
	e.Look()
}

// StepDownBelow has this node neither lead nor stand in an epoch below one that it has
// promised.
func (e *Machine) StepDownBelow(p ring.Partition, epoch uint64) {
	if lead := e.env.Partitions.See(p).Leading(); lead != 0 && lead < epoch {
		e.StepDown(p)
	}
	if own, ok := e.Runs.Running(p); ok && own < epoch {
		e.Runs.Abort(p, "somebody else was promised more")
	}
}

// deferTo gives somebody whom this node has voted for the time to win.
func (e *Machine) deferTo(now clock.Time, from register.Member, b *message.Ballot) {
	e.StepDownBelow(b.Partition, b.Epoch)
	if from == e.env.Self {
		delete(e.voted, b.Partition)
		return
	}
	wait := 2 * election.Patience
	if b.Changes() {
		wait += election.HandOverPatience
	}
	e.voted[b.Partition] = backOffFor{from, now.Add(wait).Mono, b.Old}
}

// Able tells whether this node is any good as the leader of a partition.
func (e *Machine) Able(p ring.Partition) bool {
	return (!e.stuck || e.env.View.Alone) && e.env.Standing.May(p, standing.Lead)
}

// start begins a candidacy for the cohort to.
func (e *Machine) start(now clock.Time, p ring.Partition, to []register.Member, transfer bool) {
	if e.resign || !e.Able(p) || transfer && !e.env.Standing.Disk.Told(to) {
		return
	}
	started := e.Runs.Start(now, p, CellOf(&e.env.View.Cells[p]), to, transfer, e.Acceptors.All[p].Promise)
	if leader, ok := placement.Leading(&e.env.View.Cells[p]); started && ok && leader != e.env.Self {
		e.vacant[p] = cmp.Or(e.vacant[p], now.Mono)
	}
}

// Want has a cell changed as placement wants it: by the member that is to lead,
// through an election.
func (e *Machine) Want(now clock.Time, changes []register.Change) {
	var direct []register.Change
	to := make(map[register.Member]*message.Elect)
	for i := range changes {
		c := &changes[i]
		if !e.electable(&c.Old) {
			direct = append(direct, *c) // nobody could be elected any more, or yet
			continue
		}
		if leader := c.New.Leader; leader != e.env.Self {
			mail := round.For(to, leader)
			mail.Stand = append(mail.Stand, message.Stand{Partition: c.Partition, Epoch: c.Old.Epoch, Nonce: c.Old.Nonce, To: c.New.Cohort})
			continue
		}
		if cell := &e.env.View.Cells[c.Partition]; cell.Same(&c.Old) {
			e.start(now, c.Partition, c.New.Cohort, true)
		}
	}
	round.SendAll(e.env.Round.Send, to)
	if len(direct) > 0 {
		e.env.Register.Change(direct)
	}
}

// RequestElection has a partition's leader elected anew, with the cohort as it is: somebody
// has promised more than the register shows, or has voted for a cohort that never
// came to be. Until a higher epoch is registered the one may not forget, and
// every write has to reach the other.
//
// floor is the promise that stands in the way, if one does: the next candidacy is above it. It
// is sent to the leader, and to nobody else: it has the best chance, as it needs no hand-over.
func (e *Machine) RequestElection(now clock.Time, p ring.Partition, floor uint64) {
	cell := &e.env.View.Cells[p]
	leader, ok := placement.Leading(cell)
	if _, runs := e.Runs.Running(p); !ok || runs || e.nudged[p] > now.Mono {
		return // or this node stands itself: it would only have a rival
	}
	e.nudged[p] = now.Mono + int64(nudgeAgain)
	if leader == e.env.Self {
		e.Runs.Heard(p, e.env.Self, floor)
		e.start(now, p, cell.Cohort, true)
		return
	}
	s := message.Stand{Partition: p, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort, Floor: floor}
	e.env.Round.Send(leader, &message.Elect{Stand: []message.Stand{s}})
}

// electable tells whether a majority of a cell's cohort may still vote. It may
// not in a cell that is new, and not where operators have given up so many
// members that the rest is no majority: then the cell changes by their word, and
// whoever is to lead it is elected from there.
func (e *Machine) electable(cell *register.Cell) bool {
	view, left := e.env.Others.Members(), 0
	for _, m := range cell.Cohort {
		if s := view.Standing(m); !s.Lost && !s.Gone() {
			left++
		}
	}
	return len(cell.Cohort) > 0 && left >= quorum.Majority(len(cell.Cohort))
}

// review looks at every partition: whether this node is to stand, or to step
// down.
func (e *Machine) review(now clock.Time) {
	e.dirty, e.at = false, clock.Never
	for p := range e.env.View.Cells {
		p := ring.Partition(p)
		cell := &e.env.View.Cells[p]
		if e.env.Partitions.See(p).Leading() != 0 {
			e.tend(now, p, cell)
			continue
		}
		leader, ok := placement.Leading(cell)
		if !ok || !slices.Contains(cell.Cohort, e.env.Self) {
			delete(e.vacant, p)
			delete(e.cut, p)
			continue
		}
		if _, runs := e.Runs.Running(p); runs {
			if leader != e.env.Self && e.env.Standing.Disk.Stands(leader) {
				e.Runs.Spare(p)
			}
			e.Runs.Hopeless(p, e.env.Standing.Disk.Stands)
			continue
		}
		if e.env.Standing.Clocks.Bad[p] || e.stuck || !e.env.Standing.Disk.Trusts(p) {
			continue // looked at again with the next beat, or when the disk answers
		}
		at := e.stands(now, p, cell, leader)
		if at > now.Mono {
			e.at = min(e.at, at)
			continue
		}
		e.start(now, p, cell.Cohort, false)
	}
}

// tend looks whether a leader still has a majority in reach.
func (e *Machine) tend(now clock.Time, p ring.Partition, cell *register.Cell) {
	delete(e.vacant, p)
	if e.Reach(cell) >= quorum.Majority(len(cell.Cohort)) {
		delete(e.alone, p)
		return
	}
	since, known := e.alone[p]
	if !known {
		since = now.Mono
		e.alone[p] = since
	}
	if since+int64(Lonely) > now.Mono {
		e.at = min(e.at, since+int64(Lonely))
		return
	}
	e.StepDown(p)
}

// Reach is how many of a cohort are in reach and may vote, this node included.
func (e *Machine) Reach(cell *register.Cell) (n int) {
	for _, m := range cell.Cohort {
		if e.env.Standing.Disk.Stands(m) {
			n++
		}
	}
	return n
}

// stands gives when this node is to stand for a partition that it does not lead,
// mono ns: never while its leader is in reach and can lead.
//
// The order in which members stand is drawn per partition (rank), [StandAfter] apart, so that
// usually the first one is elected before the second one stands. Without a majority in reach a
// candidacy costs messages and cannot succeed; it is tried rarely.
func (e *Machine) stands(now clock.Time, p ring.Partition, cell *register.Cell, leader register.Member) int64 {
	at := max(now.Mono, e.defers(p))
	if leader != e.env.Self {
		if e.env.Standing.Disk.Stands(leader) {
			delete(e.vacant, p)
			delete(e.cut, p)
			return clock.Never
		}
		since, known := e.vacant[p]
		if !known {
			since = now.Mono
			e.vacant[p] = since
		}
		at = max(at, since+int64(StandAfter)*int64(e.rank(p, cell)))
	}
	switch {
	case e.Reach(cell) < quorum.Majority(len(cell.Cohort)):
		e.cut[p] = true
		if e.pauses[p].tries == 0 {
			// It is tried all the same after a while: who is in reach is a hint.
			e.pauses[p] = pause{now.Mono + int64(standAgain.Most), 1}
		}
	case e.cut[p]:
		// What was lost without a majority says nothing about one: no pause for that. All
		// of them come in reach at one moment, so they stand in their order.
		delete(e.cut, p)
		delete(e.pauses, p)
		if leader != e.env.Self {
			e.vacant[p] = now.Mono
			at = max(at, now.Mono+int64(StandAfter)*int64(e.rank(p, cell)))
		}
	}
	return max(at, e.pauses[p].until)
}

// rank is this node's place among the members in reach that may succeed a
// leader: for each partition another order, so that its partitions spread over
// all of them.
func (e *Machine) rank(p ring.Partition, cell *register.Cell) (rank int) {
	own := lot(p, e.env.Self)
	for _, m := range cell.Cohort {
		if m != e.env.Self && e.env.Standing.Disk.Stands(m) && lot(p, m) < own {
			rank++
		}
	}
	return rank
}

// lot is the place of a member in the order of a partition: a hash of both, the same on every
// node.
func lot(p ring.Partition, m register.Member) uint64 {
	b := append([]byte(m.Node), byte(p>>8), byte(p))
	return xxhash.Sum64(append(b, m.Incarnation[:]...))
}

// Work goes on with the candidacies of this node.
//
// The loop ends because each turn moves a candidacy on by a phase, and there are fewer than
// ten.
func (e *Machine) Work(now clock.Time) {
	if !e.env.View.Joined {
		return
	}
	// Votes of this node for itself may end a phase: then the next one begins. There
	// are no more phases than that.
	if e.resign && e.askAt <= now.Mono && e.env.Partitions.Led() > 0 {
		e.Retreat(now)
	}
	for range 10 {
		went := e.advance(now) // first: what was won is not stood for again
		went = e.handOver(now) || went
		if e.dirty || e.at <= now.Mono {
			e.review(now)
		} else if !went {
			return
		}
	}
}

// advance does what the candidacies want, and tells whether there was anything.
func (e *Machine) advance(now clock.Time) bool {
	r := e.Runs.Ready(now)
	e.wake = r.Wake
	if len(r.Ask)+len(r.Read)+len(r.Hand)+len(r.Push)+len(r.Write)+len(r.Won)+len(r.Lost) == 0 {
		return false
	}
	for i := range r.Won {
		e.Lead(now, &r.Won[i])
	}
	for i := range r.Lost {
		e.defeat(now, &r.Lost[i])
	}
	if len(r.Read) > 0 {
		e.read(r.Read)
	}
	for _, h := range r.Hand {
		e.Hands[h.Partition] = e.begin(now, h)
	}
	if len(r.Write) > 0 {
		e.write(r.Write)
	}
	e.push(now, r.Push)
	e.poll(now, r.Ask)
	return true
}

// Lead begins to hand out the claims of a partition.
//
// It is called when the register has shown the cell. If a later promise or cell has come in
// between, the victory is void: nothing was granted by it.
func (e *Machine) Lead(now clock.Time, w *election.Victory[register.Member]) {
	p := w.Partition
	e.Won++
	if cell := &e.env.View.Cells[p]; cell.Epoch != w.Cell.Epoch || e.Acceptors.All[p].Promise > w.Cell.Epoch {
		e.Look() // it is over already
		return
	}
	_, succeeds := e.vacant[p]
	delete(e.pauses, p)
	delete(e.vacant, p)
	delete(e.cut, p)
	if !e.Able(p) { // any more: that came out while only the register could say who has won
		e.Pass(p)
		e.Look()
		return
	}
	v := e.env.Partitions.Use(p)
	v.Lead(w.Cell.Epoch)
	e.env.Others.Won(now, v, succeeds)
	e.env.View.Changes++
	e.Look()
}

// defeat has this node wait before it stands again.
func (e *Machine) defeat(now clock.Time, d *election.Defeat) {
	e.Defeats++
	delete(e.Hands, d.Partition)
	cell := &e.env.View.Cells[d.Partition]
	if leader, ok := placement.Leading(cell); ok && leader != e.env.Self && d.Voted && d.Epoch > cell.Epoch {
		e.RequestElection(now, d.Partition, d.Epoch) // those who have voted wait for this node
	}
	was := e.pauses[d.Partition]
	d1 := standAgain.Pause(was.tries)
	wait := d1/2 + time.Duration(e.env.Rand.Int64N(int64(d1/2)+1))
	e.pauses[d.Partition] = pause{now.Mono + int64(wait), was.tries + 1}
	e.Look()
}

// read has the register asked, linearizably, for the cells of candidacies.
func (e *Machine) read(partitions []ring.Partition) {
	e.env.Register.Read(func(now clock.Time, r register.Result) {
		if r.Err != nil {
			return // they lose patience
		}
		for _, p := range partitions {
			e.Runs.Read(now, p, CellOf(&r.State.Cells[p]))
		}
	})
}

// write asks for the cells to be set. It leaves once everything is on disk that
// the change depends on, and only the register knows what came of it.
//
// The change leaves only after the sync of this round: the votes that it stands on were counted
// with this node's own, which is on disk by then. A result that is neither a success nor a
// refusal leaves the candidacy open until the register shows which it was.
func (e *Machine) write(writes []election.Write[register.Member]) {
	var changes []register.Change
	for i := range writes {
		w := &writes[i]
		if e.env.Policy.GrantBeforeCAS {
			e.env.Partitions.Use(w.Partition).Lead(w.New.Epoch)
			e.env.Partitions.Use(w.Partition).Announce()
		}
		changes = append(changes, register.Change{
			Partition: w.Partition,
			Old:       register.Cell{Epoch: w.Old.Epoch, Nonce: w.Old.Nonce, Cohort: w.Old.Cohort},
			New:       register.Cell{Epoch: w.New.Epoch, Nonce: w.New.Nonce, Cohort: w.New.Cohort, Leader: e.env.Self},
		})
	}
	e.env.Register.Commit(changes, func(now clock.Time, r register.Result) {
		for i := range changes {
			p := changes[i].Partition
			switch {
			case r.Err != nil:
				e.Runs.Written(now, p, election.Cell[register.Member]{}, false)
			case !r.Won[i] && r.State.Cells[p].Same(&changes[i].Old):
				e.Runs.Refused(p, changes[i].New.Epoch, changes[i].New.Nonce)
			default:
				e.Runs.Written(now, p, CellOf(&r.State.Cells[p]), true)
			}
		}
	})
}

// poll sends the ballots, one message per member, and casts this node's own votes.
func (e *Machine) poll(now clock.Time, asks []election.Asking[register.Member]) {
	to := make(map[register.Member]*message.Ballots)
	for i := range asks {
		mail := round.For(to, asks[i].To)
		mail.Ballots = append(mail.Ballots, asks[i].Ballot)
	}
	for _, m := range view.MembersOf(to) {
		if m != e.env.Self {
			e.env.Round.Send(m, to[m])
			continue
		}
		for i := range to[m].Ballots {
			v := Voter{e}.Vote(now, m, &to[m].Ballots[i])
			Voter{e}.counted(now, m, &v)
		}
	}
}

// push sends the joined claims to the new cohorts.
func (e *Machine) push(now clock.Time, pushes []election.Push[register.Member]) {
	to, sizes := make(map[register.Member]*message.Pushes), make(map[register.Member]int)
	for i := range pushes {
		p := &pushes[i]
		claims := vnode.AppendHeld(nil, vnode.SnapshotAt(e.env.Partitions.See(p.Partition), now))
		for _, m := range p.To {
			if m == e.env.Self { // they are in this round's batch
				ok := e.Acceptors.Accept(p.Partition, p.Epoch)
				e.Runs.Pushed(now, m, election.Vote{Partition: p.Partition, Epoch: p.Epoch, Nonce: p.Nonce, Granted: ok, Promise: e.Acceptors.All[p.Partition].Promise})
				continue
			}
			mail := round.For(to, m)
			mail.Pushes = append(mail.Pushes, message.Pushed{Partition: p.Partition, Epoch: p.Epoch, Nonce: p.Nonce, Claims: claims})
			if sizes[m] += len(claims); sizes[m] >= maxClaimBytes {
				e.env.Round.Send(m, mail)
				delete(to, m)
				sizes[m] = 0
			}
		}
	}
	round.SendAll(e.env.Round.Send, to)
}

// Stall has this node lead nothing while its disk does not answer. Nobody is
// asked to lead instead, because nothing leaves before what is on its way to the
// disk: the others see that this node's connections end. Alone it goes on.
func (e *Machine) Stall(is bool) {
	e.stuck = is
	for p := range e.env.View.Cells {
		if is && !e.env.View.Alone {
			e.StepDown(ring.Partition(p))
		}
	}
	e.Look()
}

// Next is when something is due, mono ns.
func (e *Machine) Next() int64 {
	switch {
	case !e.env.View.Joined:
		return clock.Never // the register's word comes first
	case e.dirty:
		return 0
	}
	at := min(e.at, e.wake)
	if e.resign && e.env.Partitions.Led() > 0 {
		at = min(at, e.askAt)
	}
	return at
}
