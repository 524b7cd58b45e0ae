package core

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/clock/offset"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// beatEvery is how often clocks are compared. The bound on an offset grows by
	// the drift between two comparisons, and by the round trip.
	beatEvery = time.Second
	// beatSoon is when they are after this node's own was set: soon, but not with
	// each step of one that is set all the time.
	beatSoon = 10 * time.Millisecond
	// maxAsks is how many beats an answer may be late: after as many seconds it says
	// nothing about clocks any more.
	maxAsks = 10
	// unsure is for how long a node goes on that cannot show how good its clock is,
	// because the others do not answer, or late: it has a majority then, or grants
	// nothing. A clock that is known to be off is not waited for.
	unsure = 10 * time.Second
)

// clocks measures how far other clocks are from this node's, and keeps it from
// leading and voting for claims where it cannot show that it is within a quarter
// of eta of a majority (design 7.3). Facts are taken in all the same.
type clocks struct {
	c     *Core
	peers *offset.Peers
	boot  uint64
	at    int64                   // mono ns of the next beat
	since map[string]int64        // by cohort: since when it is unsure, mono ns
	bad   map[ring.Partition]bool // not to be led, nor voted for
	diff  int64                   // between this node's wall and monotonic clock when they were judged
	why   string                  // of one of them
	alone bool                    // why is that too few of the others answer: nothing is known against the clock
	set   bool                    // the wall clock was set, and it is not known yet for all cohorts how good it is now
	doubt map[ring.Partition]bool // those for which it is not: nothing is renewed there
	right reckoning
	asks  []clock.Time // when others were asked last: only what answers that counts
}

func newClocks(c *Core) *clocks {
	return &clocks{
		c: c, peers: offset.New(offset.Config{Self: c.cfg.Self.Incarnation.ID()}), boot: c.cfg.Rand.Uint64(),
		since: make(map[string]int64), bad: make(map[ring.Partition]bool), doubt: make(map[ring.Partition]bool),
	}
}

// company are the members that share a cohort with this node, or are to: it may be
// the one to lead then, and who has not heard what they know of it may not stand.
func (k *clocks) company() []register.Member {
	var all []register.Member
	for p := range k.c.view.Cells {
		cohort := k.c.view.Cells[p].Cohort
		if !slices.Contains(cohort, k.c.cfg.Self) && k.c.transfer.incoming[ring.Partition(p)] == nil {
			continue
		}
		for _, m := range cohort {
			if m != k.c.cfg.Self && !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, register.Member.Compare)
	return all
}

// work asks the others for their time, and judges this node's own.
func (k *clocks) work(now clock.Time) {
	if k.c.view.Alone && len(k.bad) == 0 && !k.set {
		k.at, k.right = clock.Never, reckoning{}
		return
	}
	if k.at != clock.Never && k.at > now.Mono {
		return
	}
	k.at = now.Mono + int64(beatEvery)
	company := k.company()
	if k.asks = append(k.asks, now); len(k.asks) > maxAsks {
		k.asks = k.asks[1:]
	}
	for _, m := range k.c.durability.peers.asks(company) {
		if k.c.view.Up(m) {
			k.c.round.Ready.Early = append(k.c.round.Ready.Early, message.Send{To: m, Message: &message.Beat{Sent: now}})
		}
	}
	k.judge(now)
}

// met has those asked at once who have come into reach and have not told yet what
// they know of this node.
func (k *clocks) met() {
	for _, m := range k.company() {
		if k.c.view.Up(m) && !k.c.durability.confirmedBy[m] {
			k.at = 0
			return
		}
	}
}

// asked answers a beat.
func (k *clocks) asked(now clock.Time, from register.Member, m *message.Beat) {
	k.c.round.Ready.Early = append(k.c.round.Ready.Early, message.Send{To: from, Message: &message.Beaten{
		Sent: m.Sent, Boot: k.boot, Received: now.Wall, Answered: now.Wall, Seen: k.c.durability.heardOf[from],
		Whole: k.c.durability.lost == 0, Sound: k.c.durability.peers.towards(from),
	}})
}

// beaten takes an answer. One to the process before this one says nothing: who gave
// it may have seen more of this node's disk since, and it would count as having told.
func (k *clocks) beaten(now clock.Time, from register.Member, m *message.Beaten) {
	if !slices.Contains(k.asks, m.Sent) {
		return
	}
	first := !k.c.durability.confirmedBy[from]
	k.c.durability.heard(from, m.Seen)
	k.c.durability.peers.hears(from, m)
	_ = k.peers.Answered(offset.Exchange{ // what cannot be is no measurement
		Peer: from.Incarnation.ID(), Boot: m.Boot, Sent: m.Sent, Back: now, Received: m.Received, Answered: m.Answered,
	})
	if first || k.set { // it may vote from now on, or renew again: not with a clock that is known to be off
		k.judge(now)
	}
}

// stepped judges anew when the wall clock was set since it was judged. What the
// others have told of theirs holds on the monotonic clock; what was concluded from
// that does not: in the second until the next beat a clock that is wrong by now
// would pass for confirmed, and end claims that were learned by a vote. That it was
// set and that the machine was suspended look alike, so the node goes on leading
// until the others have told, which they are asked for soon; but it renews nothing.
// A grant by a clock that is off is refused by the others, who see when it starts;
// a renewal is not, and one by a clock that is behind leaves the claim with an end
// that is over: whoever learns of it by a restart or a vote would free the task
// while its worker goes on.
func (k *clocks) stepped(now clock.Time) {
	moved := now.Wall - now.Mono - k.diff
	if k.at != clock.Never && max(moved, -moved) > int64(k.c.cfg.Eta)/4 && !mutant.StepUnseen.On() {
		k.set = true
		if k.judge(now); k.set {
			k.at = min(k.at, now.Mono+int64(beatSoon))
		}
	}
}

// judge finds the partitions that this node is no good for by its clock, gives
// up those of them that it leads, and tells the vnodes whether the wall clock is
// confirmed.
func (k *clocks) judge(now clock.Time) {
	verdicts := make(map[string]judgement)
	clear(k.doubt)
	confirmed := k.peers.Confirmed(now, k.c.cfg.Eta)
	k.why, k.alone, k.diff = "", false, now.Wall-now.Mono
	k.right.reckon(k, now)
	for p := range k.c.view.Cells {
		p := ring.Partition(p)
		cohort := k.c.view.Cells[p].Cohort
		if vnode.Confirmed(k.c.vnodes.See(p)) != confirmed {
			vnode.Confirm(k.c.vnodes.Use(p), confirmed)
		}
		if len(cohort) < 2 || !slices.Contains(cohort, k.c.cfg.Self) {
			k.clear(p)
			continue
		}
		key := cohortKey(cohort)
		of, done := verdicts[key]
		if !done {
			of = k.goodFor(now, key, cohort)
			verdicts[key] = of
		}
		if of == clockUnsure && k.set {
			k.doubt[p] = true
		}
		if of != clockOff {
			k.clear(p)
		} else {
			k.bad[p] = true
		}
		if of != clockOff && !k.c.durability.forgetful(p) {
			continue
		}
		if leader, ok := placement.Leading(&k.c.view.Cells[p]); ok && leader == k.c.cfg.Self {
			k.c.elector.pass(p) // again and again, until another one leads
		}
	}
	k.set = len(k.doubt) > 0
	// Of a cohort that comes back nothing is known of before: it has its time as at first.
	maps.DeleteFunc(k.since, func(key string, _ int64) bool { _, judged := verdicts[key]; return !judged })
}

// clear lets this node lead a partition again. Whether it is to stand has to be
// looked at: nobody else does as long as the register says that it leads.
func (k *clocks) clear(p ring.Partition) {
	if k.bad[p] {
		delete(k.bad, p)
		k.c.elector.look()
	}
}

func cohortKey(cohort []register.Member) string {
	var b strings.Builder
	for _, m := range cohort {
		b.WriteString(m.Node)
		b.Write(m.Incarnation[:])
	}
	return b.String()
}

// judgement is what this node's clock is for a cohort.
type judgement uint8

const (
	clockGood judgement = iota
	clockUnsure
	clockOff
)

// goodFor judges this node's clock for one cohort.
func (k *clocks) goodFor(now clock.Time, key string, cohort []register.Member) judgement {
	ids := make([]uint64, len(cohort))
	for i, m := range cohort {
		ids[i] = m.Incarnation.ID()
	}
	v := k.peers.Judge(now, ids, k.c.cfg.Eta)
	if v.OK {
		delete(k.since, key)
		return clockGood
	}
	if v.Reason == offset.Unmeasured || v.Reason == offset.Imprecise {
		since, known := k.since[key]
		if !known {
			since = now.Mono
			k.since[key] = since
		}
		if now.Mono-since < int64(unsure) {
			return clockUnsure
		}
	}
	if missing := v.Reason == offset.Unmeasured; k.why == "" || k.alone && !missing {
		k.why, k.alone = v.String(), missing
	}
	return clockOff
}

// passTurn is for how long the same member is asked to lead by who cannot: as long as an
// election may take. Then it is the turn of the next one, as that one may be no good either.
const passTurn = 2 * election.Patience

// passed is since when others are asked to lead after the cell of an epoch, mono ns.
type passed struct {
	epoch uint64
	since int64
}

// turn counts whose turn it is to be asked.
func (e *elector) turn(p ring.Partition) int {
	o, now := e.passed[p], e.c.now.Mono
	if epoch := e.c.view.Cells[p].Epoch; o.since == 0 || o.epoch != epoch {
		o = passed{epoch, now}
		e.passed[p] = o
	}
	return int((now - o.since) / int64(passTurn))
}

// pass has another member lead a partition: this node is no good for it.
func (e *elector) pass(p ring.Partition) {
	e.unlead(p)
	cell := &e.c.view.Cells[p]
	if heir, ok := e.heir(p, cell, e.turn(p)); ok {
		s := message.Stand{Partition: p, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort}
		e.c.round.Ready.Send = append(e.c.round.Ready.Send, message.Send{To: heir, Message: &message.Elect{Stand: []message.Stand{s}}})
	}
}

// refer has another one stand in the stead of this node, which is asked to and cannot. It
// does only where the present leader is to leave the cohort, which cannot stay as it is then:
// who asks is not told, and would ask this node again without end.
func (e *elector) refer(now clock.Time, s *message.Stand) {
	p := s.Partition
	leader, _ := placement.Leading(&e.c.view.Cells[p])
	if slices.Contains(s.To, leader) || e.nudged[p] > now.Mono {
		return
	}
	heir, ok := e.heir(p, &register.Cell{Cohort: s.To}, e.turn(p))
	if !ok {
		return
	}
	e.nudged[p] = now.Mono + int64(nudgeAgain) // that one may not be able to either, and ask this one
	e.c.round.Ready.Send = append(e.c.round.Ready.Send, message.Send{To: heir, Message: &message.Elect{Stand: []message.Stand{*s}}})
}

// heir is the member in reach that is to lead a partition after this node: for
// each partition another one, and the next one with each turn.
func (e *elector) heir(p ring.Partition, cell *register.Cell, turn int) (heir register.Member, ok bool) {
	var able []register.Member
	for _, m := range cell.Cohort {
		if m != e.c.cfg.Self && e.c.view.Up(m) {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return heir, false
	}
	slices.SortFunc(able, func(a, b register.Member) int { return cmp.Compare(lot(p, a), lot(p, b)) })
	return able[turn%len(able)], true
}

// offsetOf is how far another node's wall clock is ahead of this one's, and the
// bound on that, ms.
func (k *clocks) offsetOf(all []offset.Offset, m register.Member) (ms, within float64) {
	for _, o := range all {
		if o.Peer == m.Incarnation.ID() {
			return float64(o.OffsetNs) / 1e6, float64(o.ErrorNs) / 1e6
		}
	}
	return 0, 0
}
