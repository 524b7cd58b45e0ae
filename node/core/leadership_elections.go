package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/internal/mutant"
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
	// standAfter is how much later each further member stands for election when a
	// leader is gone, so that mostly the first one is alone.
	standAfter = 300 * time.Millisecond
	// lonely is for how long a leader may lack a majority of its cohort before it
	// steps down (K5): nothing commits meanwhile anyway, and a short gap is
	// cheaper than an election.
	lonely = 2 * time.Second
	// retreatAgain is the pause between two requests to lead instead of a node that
	// is about to stop.
	retreatAgain = 250 * time.Millisecond
	// nudgeAgain is the pause between two requests for a new epoch of a partition.
	nudgeAgain = 2 * time.Second
)

// standAgain is the pauses after defeats. Each is drawn from its second half, so that two
// do not meet for ever.
var standAgain = clock.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second}

// elector has this node stand for election where it should, and step down where
// it must (design 7.2). Who leads is decided by package election and the
// register; this is the policy around it.
type elector struct {
	c      *Core
	runs   *election.Elections[register.Member]
	pauses map[ring.Partition]pause
	vacant map[ring.Partition]int64 // since when the leader is not in reach, or this node stands in its stead, mono ns
	cut    map[ring.Partition]bool  // without a leader and a majority in reach, when last looked at
	alone  map[ring.Partition]int64 // since when a majority of a cohort led here is not, mono ns
	hands  map[ring.Partition]*cohortTransfer
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

	won, lost uint64
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

func newElector(c *Core) *elector {
	return &elector{
		c: c, runs: election.New(election.Config[register.Member]{Self: c.cfg.Self, Rand: c.cfg.Rand}),
		pauses: make(map[ring.Partition]pause), vacant: make(map[ring.Partition]int64), cut: make(map[ring.Partition]bool), alone: make(map[ring.Partition]int64),
		hands: make(map[ring.Partition]*cohortTransfer), nudged: make(map[ring.Partition]int64), voted: make(map[ring.Partition]backOffFor), passed: make(map[ring.Partition]passed), at: clock.Never, wake: clock.Never,
	}
}

// look notes that who is in reach, or what the register says, has changed.
func (e *elector) look() { e.dirty = true }

// changed takes over the register's cells.
func (e *elector) changed(now clock.Time) {
	for p := range e.c.view.Cells {
		p := ring.Partition(p)
		cell := &e.c.view.Cells[p]
		e.runs.Written(now, p, cellOf(cell), true)
		if cell.Epoch >= e.c.acceptors.all[p].Promise {
			delete(e.voted, p)
		}
		if lead := e.c.vnodes.See(p).Leading(); lead != 0 && lead != cell.Epoch && (lead < cell.Epoch || !mutant.GrantBeforeCAS.On()) {
			e.unlead(p)
		}
	}
	e.look()
}

func cellOf(c *register.Cell) election.Cell[register.Member] {
	return election.Cell[register.Member]{Epoch: c.Epoch, Nonce: c.Nonce, Cohort: c.Cohort}
}

// unlead stops handing out claims of a partition.
func (e *elector) unlead(p ring.Partition) {
	v := e.c.vnodes.Use(p)
	if v.Leading() == 0 {
		return
	}
	v.Follow()
	v.Announce()
	e.c.leases.stop(p)
	delete(e.alone, p)
	e.look()
}

// stepDownBelow has this node neither lead nor stand in an epoch below one that it has
// promised.
func (e *elector) stepDownBelow(p ring.Partition, epoch uint64) {
	if lead := e.c.vnodes.See(p).Leading(); lead != 0 && lead < epoch {
		e.unlead(p)
	}
	if own, ok := e.runs.Running(p); ok && own < epoch {
		e.runs.Abort(p, "somebody else was promised more")
	}
}

// deferTo gives somebody whom this node has voted for the time to win.
func (e *elector) deferTo(now clock.Time, from register.Member, b *message.Ballot) {
	e.stepDownBelow(b.Partition, b.Epoch)
	if from == e.c.cfg.Self {
		delete(e.voted, b.Partition)
		return
	}
	wait := 2 * election.Patience
	if b.Changes() {
		wait += election.HandOverPatience
	}
	e.voted[b.Partition] = backOffFor{from, now.Add(wait).Mono, b.Old}
}

// able tells whether this node is any good as the leader of a partition.
func (e *elector) able(p ring.Partition) bool {
	return (!e.stuck || e.c.view.Alone) && e.c.standing.May(p, standing.Lead)
}

// start begins a candidacy for the cohort to.
func (e *elector) start(now clock.Time, p ring.Partition, to []register.Member, transfer bool) {
	if e.resign || !e.able(p) {
		return
	}
	started := e.runs.Start(now, p, cellOf(&e.c.view.Cells[p]), to, transfer, e.c.acceptors.all[p].Promise)
	if leader, ok := placement.Leading(&e.c.view.Cells[p]); started && ok && leader != e.c.cfg.Self {
		e.vacant[p] = cmp.Or(e.vacant[p], now.Mono)
	}
}

// want has a cell changed as placement wants it: by the member that is to lead,
// through an election.
func (e *elector) want(now clock.Time, changes []register.Change) {
	var direct []register.Change
	to := make(map[register.Member]*message.Elect)
	for i := range changes {
		c := &changes[i]
		if !e.electable(&c.Old) {
			direct = append(direct, *c) // nobody could be elected any more, or yet
			continue
		}
		if leader := c.New.Leader; leader != e.c.cfg.Self {
			mail := round.For(to, leader)
			mail.Stand = append(mail.Stand, message.Stand{Partition: c.Partition, Epoch: c.Old.Epoch, Nonce: c.Old.Nonce, To: c.New.Cohort})
			continue
		}
		if cell := &e.c.view.Cells[c.Partition]; cell.Same(&c.Old) {
			e.start(now, c.Partition, c.New.Cohort, true)
		}
	}
	round.SendAll(e.c.round.Send, to)
	if len(direct) > 0 {
		e.c.ask(direct)
	}
}

// requestElection has a partition's leader elected anew, with the cohort as it is: somebody
// has promised more than the register shows, or has voted for a cohort that never
// came to be. Until a higher epoch is registered the one may not forget, and
// every write has to reach the other.
func (e *elector) requestElection(now clock.Time, p ring.Partition, floor uint64) {
	cell := &e.c.view.Cells[p]
	leader, ok := placement.Leading(cell)
	if _, runs := e.runs.Running(p); !ok || runs || e.nudged[p] > now.Mono {
		return // or this node stands itself: it would only have a rival
	}
	e.nudged[p] = now.Mono + int64(nudgeAgain)
	if leader == e.c.cfg.Self {
		e.runs.Heard(p, e.c.cfg.Self, floor)
		e.start(now, p, cell.Cohort, true)
		return
	}
	s := message.Stand{Partition: p, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort, Floor: floor}
	e.c.round.Send(leader, &message.Elect{Stand: []message.Stand{s}})
}

// electable tells whether a majority of a cell's cohort may still vote. It may
// not in a cell that is new, and not where operators have given up so many
// members that the rest is no majority: then the cell changes by their word, and
// whoever is to lead it is elected from there.
func (e *elector) electable(cell *register.Cell) bool {
	view, left := e.c.transfer.driver.View(), 0
	for _, m := range cell.Cohort {
		if s := view.Standing(m); !s.Lost && !s.Gone() {
			left++
		}
	}
	return len(cell.Cohort) > 0 && left >= quorum.Majority(len(cell.Cohort))
}

// review looks at every partition: whether this node is to stand, or to step
// down.
func (e *elector) review(now clock.Time) {
	e.dirty, e.at = false, clock.Never
	for p := range e.c.view.Cells {
		p := ring.Partition(p)
		cell := &e.c.view.Cells[p]
		if e.c.vnodes.See(p).Leading() != 0 {
			e.tend(now, p, cell)
			continue
		}
		leader, ok := placement.Leading(cell)
		if !ok || !slices.Contains(cell.Cohort, e.c.cfg.Self) {
			delete(e.vacant, p)
			delete(e.cut, p)
			continue
		}
		if _, runs := e.runs.Running(p); runs {
			if leader != e.c.cfg.Self && e.c.standing.Disk.Stands(leader) {
				e.runs.Spare(p)
			}
			e.runs.Hopeless(p, e.c.standing.Disk.Stands)
			continue
		}
		if e.c.standing.Clocks.Bad[p] || e.stuck || !e.c.standing.Disk.Trusts(p) {
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
func (e *elector) tend(now clock.Time, p ring.Partition, cell *register.Cell) {
	delete(e.vacant, p)
	if e.reach(cell) >= quorum.Majority(len(cell.Cohort)) {
		delete(e.alone, p)
		return
	}
	since, known := e.alone[p]
	if !known {
		since = now.Mono
		e.alone[p] = since
	}
	if since+int64(lonely) > now.Mono {
		e.at = min(e.at, since+int64(lonely))
		return
	}
	e.unlead(p)
}

// reach is how many of a cohort are in reach and may vote, this node included.
func (e *elector) reach(cell *register.Cell) (n int) {
	for _, m := range cell.Cohort {
		if e.c.standing.Disk.Stands(m) {
			n++
		}
	}
	return n
}

// stands gives when this node is to stand for a partition that it does not lead,
// mono ns: never while its leader is in reach and can lead.
func (e *elector) stands(now clock.Time, p ring.Partition, cell *register.Cell, leader register.Member) int64 {
	at := max(now.Mono, e.defers(p))
	if leader != e.c.cfg.Self {
		if e.c.standing.Disk.Stands(leader) {
			delete(e.vacant, p)
			delete(e.cut, p)
			return clock.Never
		}
		since, known := e.vacant[p]
		if !known {
			since = now.Mono
			e.vacant[p] = since
		}
		at = max(at, since+int64(standAfter)*int64(e.rank(p, cell)))
	}
	switch {
	case e.reach(cell) < quorum.Majority(len(cell.Cohort)):
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
		if leader != e.c.cfg.Self {
			e.vacant[p] = now.Mono
			at = max(at, now.Mono+int64(standAfter)*int64(e.rank(p, cell)))
		}
	}
	return max(at, e.pauses[p].until)
}

// rank is this node's place among the members in reach that may succeed a
// leader: for each partition another order, so that its partitions spread over
// all of them.
func (e *elector) rank(p ring.Partition, cell *register.Cell) (rank int) {
	own := lot(p, e.c.cfg.Self)
	for _, m := range cell.Cohort {
		if m != e.c.cfg.Self && e.c.standing.Disk.Stands(m) && lot(p, m) < own {
			rank++
		}
	}
	return rank
}

func lot(p ring.Partition, m register.Member) uint64 {
	b := append([]byte(m.Node), byte(p>>8), byte(p))
	return xxhash.Sum64(append(b, m.Incarnation[:]...))
}

// work goes on with the candidacies of this node.
func (e *elector) work(now clock.Time) {
	if !e.c.view.Joined {
		return
	}
	// Votes of this node for itself may end a phase: then the next one begins. There
	// are no more phases than that.
	if e.resign && e.askAt <= now.Mono && e.c.Leading() > 0 {
		e.retreat(now)
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
func (e *elector) advance(now clock.Time) bool {
	r := e.runs.Ready(now)
	e.wake = r.Wake
	if len(r.Ask)+len(r.Read)+len(r.Hand)+len(r.Push)+len(r.Write)+len(r.Won)+len(r.Lost) == 0 {
		return false
	}
	for i := range r.Won {
		e.lead(now, &r.Won[i])
	}
	for i := range r.Lost {
		e.defeat(now, &r.Lost[i])
	}
	if len(r.Read) > 0 {
		e.read(r.Read)
	}
	for _, h := range r.Hand {
		e.hands[h.Partition] = e.begin(now, h)
	}
	if len(r.Write) > 0 {
		e.write(r.Write)
	}
	e.push(now, r.Push)
	e.poll(now, r.Ask)
	return true
}

// lead begins to hand out the claims of a partition.
func (e *elector) lead(now clock.Time, w *election.Victory[register.Member]) {
	p := w.Partition
	e.won++
	if cell := &e.c.view.Cells[p]; cell.Epoch != w.Cell.Epoch || e.c.acceptors.all[p].Promise > w.Cell.Epoch {
		e.look() // it is over already
		return
	}
	_, succeeds := e.vacant[p]
	delete(e.pauses, p)
	delete(e.vacant, p)
	delete(e.cut, p)
	if !e.able(p) { // any more: that came out while only the register could say who has won
		e.pass(p)
		e.look()
		return
	}
	v := e.c.vnodes.Use(p)
	v.Lead(w.Cell.Epoch)
	e.c.edges.began(p)
	e.c.edges.watches.needs.began(now, p)
	v.Announce()
	e.c.abandonedClaims.free(now, p)
	e.c.view.Changes++
	if succeeds { // what the one before has brought to a majority may not have come here
		e.c.repairs.demand(now, p)
	}
	e.look()
}

// defeat has this node wait before it stands again.
func (e *elector) defeat(now clock.Time, d *election.Defeat) {
	e.lost++
	delete(e.hands, d.Partition)
	cell := &e.c.view.Cells[d.Partition]
	if leader, ok := placement.Leading(cell); ok && leader != e.c.cfg.Self && d.Voted && d.Epoch > cell.Epoch {
		e.requestElection(now, d.Partition, d.Epoch) // those who have voted wait for this node
	}
	was := e.pauses[d.Partition]
	d1 := standAgain.Pause(was.tries)
	wait := d1/2 + time.Duration(e.c.cfg.Rand.Int64N(int64(d1/2)+1))
	e.pauses[d.Partition] = pause{now.Mono + int64(wait), was.tries + 1}
	e.look()
}

// read has the register asked, linearizably, for the cells of candidacies.
func (e *elector) read(partitions []ring.Partition) {
	e.c.send(registerRequest{then: func(now clock.Time, r register.Result) {
		if r.Err != nil {
			return // they lose patience
		}
		for _, p := range partitions {
			e.runs.Read(now, p, cellOf(&r.State.Cells[p]))
		}
	}}, register.Request{})
}

// write asks for the cells to be set. It leaves once everything is on disk that
// the change depends on, and only the register knows what came of it.
func (e *elector) write(writes []election.Write[register.Member]) {
	var changes []register.Change
	for i := range writes {
		w := &writes[i]
		if mutant.GrantBeforeCAS.On() {
			e.c.vnodes.Use(w.Partition).Lead(w.New.Epoch)
			e.c.vnodes.Use(w.Partition).Announce()
		}
		changes = append(changes, register.Change{
			Partition: w.Partition,
			Old:       register.Cell{Epoch: w.Old.Epoch, Nonce: w.Old.Nonce, Cohort: w.Old.Cohort},
			New:       register.Cell{Epoch: w.New.Epoch, Nonce: w.New.Nonce, Cohort: w.New.Cohort, Leader: e.c.cfg.Self},
		})
	}
	e.c.tag++
	q := register.Request{Tag: e.c.tag, Changes: changes}
	e.c.pending[q.Tag] = registerRequest{then: func(now clock.Time, r register.Result) {
		for i := range changes {
			p := changes[i].Partition
			switch {
			case r.Err != nil:
				e.runs.Written(now, p, election.Cell[register.Member]{}, false)
			case !r.Won[i] && r.State.Cells[p].Same(&changes[i].Old):
				e.runs.Refused(p, changes[i].New.Epoch, changes[i].New.Nonce)
			default:
				e.runs.Written(now, p, cellOf(&r.State.Cells[p]), true)
			}
		}
	}}
	e.c.round.Ready.Commit = append(e.c.round.Ready.Commit, q)
}

// poll sends the ballots, one message per member, and casts this node's own votes.
func (e *elector) poll(now clock.Time, asks []election.Asking[register.Member]) {
	to := make(map[register.Member]*message.Ballots)
	for i := range asks {
		mail := round.For(to, asks[i].To)
		mail.Ballots = append(mail.Ballots, asks[i].Ballot)
	}
	for _, m := range view.MembersOf(to) {
		if m != e.c.cfg.Self {
			e.c.round.Send(m, to[m])
			continue
		}
		for i := range to[m].Ballots {
			v := voter{e.c}.vote(now, m, &to[m].Ballots[i])
			voter{e.c}.counted(now, m, &v)
		}
	}
}

// push sends the joined claims to the new cohorts.
func (e *elector) push(now clock.Time, pushes []election.Push[register.Member]) {
	to, sizes := make(map[register.Member]*message.Pushes), make(map[register.Member]int)
	for i := range pushes {
		p := &pushes[i]
		claims := vnode.AppendHeld(nil, vnode.SnapshotAt(e.c.vnodes.See(p.Partition), now))
		for _, m := range p.To {
			if m == e.c.cfg.Self { // they are in this round's batch
				ok := e.c.acceptors.accept(p.Partition, p.Epoch)
				e.runs.Pushed(now, m, election.Vote{Partition: p.Partition, Epoch: p.Epoch, Nonce: p.Nonce, Granted: ok, Promise: e.c.acceptors.all[p.Partition].Promise})
				continue
			}
			mail := round.For(to, m)
			mail.Pushes = append(mail.Pushes, message.Pushed{Partition: p.Partition, Epoch: p.Epoch, Nonce: p.Nonce, Claims: claims})
			if sizes[m] += len(claims); sizes[m] >= maxClaimBytes {
				e.c.round.Send(m, mail)
				delete(to, m)
				sizes[m] = 0
			}
		}
	}
	round.SendAll(e.c.round.Send, to)
}

// retreat has others lead what this node leads: it is about to stop. What was
// asked may get lost, or who was asked may not be able to: others are asked again
// and again, each in its turn.
func (e *elector) retreat(now clock.Time) {
	e.resign = true
	e.askAt = now.Mono + int64(retreatAgain)
	to := make(map[register.Member]*message.Elect)
	for p, v := range e.c.vnodes.Each() {
		if v.Leading() == 0 {
			continue
		}
		cell := &e.c.view.Cells[p]
		heir, ok := e.heir(ring.Partition(p), cell, e.asked)
		if !ok {
			continue // nobody could
		}
		mail := round.For(to, heir)
		mail.Stand = append(mail.Stand, message.Stand{Partition: ring.Partition(p), Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort})
	}
	round.SendAll(e.c.round.Send, to)
	e.asked++
}

// stall has this node lead nothing while its disk does not answer. Nobody is
// asked to lead instead, because nothing leaves before what is on its way to the
// disk: the others see that this node's connections end. Alone it goes on.
func (e *elector) stall(is bool) {
	e.stuck = is
	for p := range e.c.view.Cells {
		if is && !e.c.view.Alone {
			e.unlead(ring.Partition(p))
		}
	}
	e.look()
}

// next is when something is due, mono ns.
func (e *elector) next() int64 {
	switch {
	case !e.c.view.Joined:
		return clock.Never // the register's word comes first
	case e.dirty:
		return 0
	}
	at := min(e.at, e.wake)
	if e.resign && e.c.Leading() > 0 {
		at = min(at, e.askAt)
	}
	return at
}
