package election

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/ring"
)

// Cell is what the register says of a partition: a compare-and-set compares
// epoch and nonce.
type Cell[M comparable] struct {
	Epoch, Nonce uint64
	Cohort       []M
}

// Patience is how long each phase of a candidacy may take: some round trips and
// syncs of a busy machine. Less gives up where waiting would do, more lets a lost
// message cost more.
const Patience = 3 * time.Second

// resendAfter is after what time of a phase whoever has not answered is asked
// again: the message may be lost, and asking again is of no effect else. Where claims
// travel each time takes twice as long as the one before: they may be many megabytes,
// and whoever is slow to take or to give them gets no faster by being sent more.
const resendAfter = 250 * time.Millisecond

// writeAgain is after what time the register is asked again whose answer has not
// come.
const writeAgain = time.Second

// HandOverPatience is how long the facts may take where the cohort changes;
// claims of the partition wait for so long.
const HandOverPatience = 10 * time.Second

// Config is what the candidacies of a node need to know.
type Config[M comparable] struct {
	// Self is this node in its incarnation, as cohorts list it.
	Self M
	// Rand draws the nonces.
	Rand *rand.Rand
}

// phase is how far a candidacy is.
type phase uint8

const (
	preparing phase = iota // pre-votes, and a linearizable read of the cell
	voting
	handing // facts of the voters go to a majority of the new cohort
	pushing // so do their claims
	writing // compare-and-set of the cell
)

// String is the phase's name in a [Defeat].
func (p phase) String() string {
	return [...]string{"pre-vote", "vote", "hand-over of facts", "push of claims", "compare-and-set"}[p]
}

// candidacy is one ballot of this node under way.
type candidacy[M comparable] struct {
	cell   Cell[M]
	ballot Ballot[M]
	phase  phase
	read   bool // the register has confirmed the cell
	tally  *quorum.Tally[M]
	voters []M // in From, whose claims were joined
	heard  []M // who has answered in this phase
	no     []M // with a refusal
	until  int64
	again  int64         // mono ns at which who has not answered is asked again
	pause  time.Duration // until then
	due    bool          // this phase's messages have not been handed out yet
}

// Elections runs the candidacies of one node, at most one per partition. Make
// one with [New].
type Elections[M comparable] struct {
	cfg     Config[M]
	running map[ring.Partition]*candidacy[M]
	heard   map[ring.Partition]map[M]uint64 // what each member has last said that it has promised
	lost    []Defeat
	won     []Victory[M]
}

// New makes the candidacies of a node that has none.
func New[M comparable](cfg Config[M]) *Elections[M] {
	return &Elections[M]{cfg: cfg, running: make(map[ring.Partition]*candidacy[M]), heard: make(map[ring.Partition]map[M]uint64)}
}

// Start begins a candidacy: this node wants to lead a partition with the cohort
// to, from a cell as the register has shown it. promise is that of this node's
// own acceptor. A candidacy under way for the partition goes on, and false is
// returned.
func (e *Elections[M]) Start(now clock.Time, p ring.Partition, cell Cell[M], to []M, transfer bool, promise uint64) bool {
	if e.running[p] != nil || len(cell.Cohort) == 0 || !slices.Contains(to, e.cfg.Self) {
		return false
	}
	nonce := e.cfg.Rand.Uint64() | 1
	c := &candidacy[M]{cell: cell, ballot: Ballot[M]{
		Partition: p, Epoch: max(cell.Epoch, promise, e.above(p, cell.Epoch)) + 1, Nonce: nonce, Old: cell.Epoch,
		From: cell.Cohort, To: to, Pre: true, Transfer: transfer || !Same(cell.Cohort, to),
	}}
	e.running[p] = c
	e.enter(now, c, preparing)
	return true
}

// enter begins a phase.
func (e *Elections[M]) enter(now clock.Time, c *candidacy[M], ph phase) {
	c.phase, c.due, c.heard, c.no = ph, true, nil, nil
	c.pause = resendAfter
	c.again = now.Add(c.pause).Mono
	patience := Patience
	switch ph {
	case preparing, voting:
		c.tally = quorum.NewTally(c.ballot.From, c.ballot.To)
		if mutant.NoOldMajority.On() {
			c.tally = quorum.NewTally(c.ballot.To)
		}
	case handing:
		patience = HandOverPatience
	case writing:
		patience = writeAgain
	case pushing:
		c.tally = quorum.NewTally(c.ballot.To)
	}
	c.until = now.Add(patience).Mono
}

// Running gives the epoch of the candidacy for a partition, if there is one.
func (e *Elections[M]) Running(p ring.Partition) (epoch uint64, ok bool) {
	if c := e.running[p]; c != nil {
		return c.ballot.Epoch, true
	}
	return 0, false
}

// Abort gives a candidacy up: the cell has changed, or this node has promised
// more to somebody else. After its compare-and-set has left only the register
// can say what came of it.
func (e *Elections[M]) Abort(p ring.Partition, why string) {
	if c := e.running[p]; c != nil && c.phase != writing {
		e.end(p, c, why)
	}
}

// Spare gives a candidacy up that spares the leader and has not asked for votes
// yet, because the leader is well after all. Who goes on asking for pre-votes
// would find a majority at last that was wrong about the leader at some time each.
func (e *Elections[M]) Spare(p ring.Partition) {
	if c := e.running[p]; c != nil && c.phase == preparing && !c.ballot.Transfer {
		e.end(p, c, "the leader is in reach")
	}
}

// Hopeless gives a candidacy up when only members out of reach could still make up
// for those who have refused. A member that has not noticed yet that the leader is gone
// refuses, and so does one that stands itself in the same epoch: both are to be asked
// again soon, not when patience ends. It ends as it would end then: who has voted has,
// and may still hear from this node.
func (e *Elections[M]) Hopeless(p ring.Partition, up func(M) bool) {
	c := e.running[p]
	if c == nil || len(c.no) == 0 {
		return
	}
	cohorts := [][]M{c.ballot.From, c.ballot.To}
	if c.phase == pushing {
		cohorts = cohorts[1:]
	}
	left := quorum.NewTally(cohorts...)
	for _, m := range union(c.ballot.From, c.ballot.To) {
		if slices.Contains(c.no, m) || !slices.Contains(c.heard, m) && !up(m) {
			left.Refuse(m)
		}
	}
	if left.Lost() {
		e.end(p, c, "who is in reach refuses")
	}
}

func (e *Elections[M]) end(p ring.Partition, c *candidacy[M], why string) {
	delete(e.running, p)
	e.lost = append(e.lost, Defeat{Partition: p, Epoch: c.ballot.Epoch, Voted: c.phase != preparing, Why: c.phase.String() + ": " + why})
}

// of finds the candidacy that an answer is about.
func (e *Elections[M]) of(p ring.Partition, epoch, nonce uint64, ph phase) *candidacy[M] {
	c := e.running[p]
	if c == nil || c.phase != ph || c.ballot.Epoch != epoch || c.ballot.Nonce != nonce {
		return nil
	}
	return c
}

// maxHeard bounds the members whose promises are remembered for a partition: those of two
// cohorts, and some that were asked before.
const maxHeard = 32

// Heard remembers what a member says that it has promised, or knows of others to have, so
// that the next candidacy is above it. Each has a place of its own, and its last word counts:
// one that does not say what is so hides no other's promise, and can take it back.
func (e *Elections[M]) Heard(p ring.Partition, from M, promise uint64) {
	of := e.heard[p]
	if _, known := of[from]; promise == 0 && !known || !known && len(of) >= maxHeard {
		return
	}
	if of == nil {
		of = make(map[M]uint64)
		e.heard[p] = of
	}
	of[from] = promise
}

// above is the promise that the next candidacy is to be above, by what was heard: the highest
// that can be. One that is far ahead of the register may be a lie, which the others do not
// believe either, or have come to be by one: it is followed half of the time, and beyond what
// can be never.
func (e *Elections[M]) above(p ring.Partition, registered uint64) uint64 {
	near, far := e.promises(p, registered)
	if far > near && e.cfg.Rand.Uint64()&1 == 0 {
		return far
	}
	return near
}

// promises are the highest that was heard of those that all others believe, and of those that
// can be.
func (e *Elections[M]) promises(p ring.Partition, registered uint64) (near, far uint64) {
	for _, promise := range e.heard[p] { // Any order: the highest counts.
		if promise <= registered+Window/2 {
			near = max(near, promise)
		}
		if promise <= registered+2*Window {
			far = max(far, promise)
		}
	}
	return near, far
}

// Vote takes an answer to a ballot. counts says that the claims that came with
// it are to be joined with this node's, before [Elections.Ready] is called: they
// are of a member of the old cohort, and exactly these make up what the new
// leader must know (design 7.2, step 5).
func (e *Elections[M]) Vote(now clock.Time, from M, v Vote) (counts bool) {
	e.Heard(v.Partition, from, v.Promise)
	ph := voting
	if v.Pre {
		ph = preparing
	}
	c := e.of(v.Partition, v.Epoch, v.Nonce, ph)
	if c == nil {
		return false
	}
	c.heard = append(c.heard, from)
	if !v.Granted {
		c.no = append(c.no, from)
		c.tally.Refuse(from)
		if c.tally.Lost() {
			e.end(v.Partition, c, "a majority refuses")
		}
		return false
	}
	c.tally.Add(from)
	counts = !v.Pre && slices.Contains(c.ballot.From, from) && !slices.Contains(c.voters, from)
	if counts {
		c.voters = append(c.voters, from)
	}
	e.advance(now, c)
	return counts
}

// advance goes on with a candidacy whose votes may suffice by now.
func (e *Elections[M]) advance(now clock.Time, c *candidacy[M]) {
	if !c.tally.Reached() {
		return
	}
	switch {
	case c.phase == preparing && c.read:
		c.ballot.Pre = false
		// Nobody was asked about a higher one yet: what not all believe this node alone
		// would promise, and the others, who could not follow it, would be without its vote.
		near, _ := e.promises(c.ballot.Partition, c.cell.Epoch)
		c.ballot.Epoch = max(c.ballot.Epoch, near+1)
		e.enter(now, c, voting)
	case c.phase == voting && c.ballot.Changes() && !mutant.NoHandOver.On():
		e.enter(now, c, handing)
	case c.phase == voting:
		e.push(now, c)
	case c.phase == pushing:
		e.enter(now, c, writing)
	}
}

// push goes on with bringing the claims to the new cohort.
func (e *Elections[M]) push(now clock.Time, c *candidacy[M]) {
	if mutant.NoPush.On() {
		e.enter(now, c, writing)
		return
	}
	e.enter(now, c, pushing)
}

// Read takes what a linearizable read has said of a partition's cell.
func (e *Elections[M]) Read(now clock.Time, p ring.Partition, cell Cell[M]) {
	c := e.running[p]
	if c == nil || c.phase != preparing {
		return
	}
	if cell.Epoch != c.cell.Epoch || cell.Nonce != c.cell.Nonce {
		e.end(p, c, "the register has another cell by now")
		return
	}
	c.read = true
	e.advance(now, c)
}

// HandedOver tells that a majority of the new cohort has every fact of the
// voters on disk, which [Ready.HandOver] asked for, or that it could not be done.
func (e *Elections[M]) HandedOver(now clock.Time, p ring.Partition, epoch uint64, done bool) {
	c := e.running[p]
	switch {
	case c == nil || c.phase != handing || c.ballot.Epoch != epoch:
	case done:
		e.push(now, c)
	default:
		e.end(p, c, "not everybody took them")
	}
}

// Pushed takes an answer to the claims of a candidacy. Where the answer is no
// the member has promised more.
func (e *Elections[M]) Pushed(now clock.Time, from M, v Vote) {
	e.Heard(v.Partition, from, v.Promise)
	c := e.of(v.Partition, v.Epoch, v.Nonce, pushing)
	if c == nil {
		return
	}
	c.heard = append(c.heard, from)
	if v.Granted {
		c.tally.Add(from)
		e.advance(now, c)
		return
	}
	c.no = append(c.no, from)
	c.tally.Refuse(from)
	if c.tally.Lost() {
		e.end(v.Partition, c, "a majority has promised more")
	}
}

// Written takes what the register says of a cell after a compare-and-set of
// this node: only the nonce tells who won. known is false when the outcome could
// not be read; then it is to be read again.
func (e *Elections[M]) Written(now clock.Time, p ring.Partition, cell Cell[M], known bool) {
	c := e.running[p]
	if c == nil || c.phase != writing || c.due {
		return
	}
	switch {
	case !known: // it will be written again
	case cell.Epoch == c.ballot.Epoch && (cell.Nonce == c.ballot.Nonce || mutant.WonByEpoch.On()):
		delete(e.running, p)
		delete(e.heard, p)
		e.won = append(e.won, Victory[M]{Partition: p, Cell: cell})
	case cell.Epoch >= c.ballot.Epoch || cell.Epoch != c.cell.Epoch || cell.Nonce != c.cell.Nonce:
		e.end(p, c, "somebody else has won")
	}
}

// Refused tells that the register has refused the cell of a candidacy, which is
// still what it was: one of the new cohort is no member any more.
func (e *Elections[M]) Refused(p ring.Partition, epoch, nonce uint64) {
	if c := e.of(p, epoch, nonce, writing); c != nil {
		e.end(p, c, "one of the new cohort is no member any more")
	}
}

// order are the partitions with candidacies, ascending.
func (e *Elections[M]) order() []ring.Partition {
	return slices.Sorted(maps.Keys(e.running))
}
