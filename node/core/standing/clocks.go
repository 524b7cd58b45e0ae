package standing

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/clock/offset"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// beatEvery is how often clocks are compared. The bound on an offset grows by
	// the drift between two comparisons, and by the round trip.
	beatEvery = time.Second
	// BeatSoon is when they are after this node's own was set: soon, but not with
	// each step of one that is set all the time.
	BeatSoon = 10 * time.Millisecond
	// maxAsks is how many beats an answer may be late: after as many seconds it says
	// nothing about clocks any more.
	maxAsks = 10
	// Unsure is for how long a node goes on that cannot show how good its clock is,
	// because the others do not answer, or late: it has a majority then, or grants
	// nothing. A clock that is known to be off is not waited for.
	Unsure = 10 * time.Second
)

// Clocks measures how far other clocks are from this node's, and keeps it from
// leading and voting for claims where it cannot show that it is within a quarter
// of eta of a majority (design 7.3). Facts are taken in all the same.
type Clocks struct {
	env   *Env
	disk  *Disk
	Peers *offset.Peers
	boot  uint64
	at    int64                   // mono ns of the next beat
	Since map[string]int64        // by cohort: since when it is unsure, mono ns
	Bad   map[ring.Partition]bool // not to be led, nor voted for
	diff  int64                   // between this node's wall and monotonic clock when they were judged
	Why   string                  // of one of them
	Alone bool                    // why is that too few of the others answer: nothing is known against the clock
	set   bool                    // the wall clock was set, and it is not known yet for all cohorts how good it is now
	Doubt map[ring.Partition]bool // those for which it is not: nothing is renewed there
	right reckoning
	ids   []uint64 // room for those of one cohort
	// Invariant: asks has at most [maxAsks] beats of this process. An answer to any other one
	// is dropped: it may tell what was so before this disk was set back.
	asks []clock.Time // when others were asked last: only what answers that counts
	// Questions that are answered with this node's next beat, in one frame with its own.
	owed map[register.Member]question
}

// question is one that is answered together with this node's own next one.
type question struct{ sent, came clock.Time }

// newClocks makes the clocks of a process that has asked nobody yet: until a majority has
// answered its own is [ClockUnsure], and after [Unsure] it is [ClockOff].
func newClocks(env *Env, disk *Disk) *Clocks {
	return &Clocks{
		env: env, disk: disk, Peers: offset.New(offset.Config{Self: env.Self.Incarnation.ID()}), boot: env.Boot,
		Since: make(map[string]int64), Bad: make(map[ring.Partition]bool), Doubt: make(map[ring.Partition]bool),
		owed: make(map[register.Member]question),
	}
}

// work asks the others for their time, and judges this node's own.
func (k *Clocks) work(now clock.Time) {
	if k.env.View.Alone && len(k.env.View.Coming) == 0 && len(k.Bad) == 0 && !k.set {
		k.at, k.right = clock.Never, reckoning{}
		return
	}
	if k.at != clock.Never && k.at > now.Mono {
		return
	}
	k.at = now.Mono + int64(beatEvery)
	company := k.env.asked()
	if k.asks = append(k.asks, now); len(k.asks) > maxAsks {
		k.asks = k.asks[1:]
	}
	k.disk.tellAll(company)
	for _, m := range k.disk.Peers.asks(company) {
		if k.env.View.Up(m) {
			k.env.Round.SendNow(m, &message.Beat{Sent: now, Prompt: k.set || !k.disk.ConfirmedBy[m]})
		}
	}
	for _, m := range view.MembersOf(k.owed) { // in the same round: one frame says both
		k.answer(now, m, k.owed[m])
	}
	clear(k.owed)
	k.Judge(now)
}

// Met has those asked at once who have come into reach and have not told yet what
// they know of this node.
func (k *Clocks) Met() {
	for _, m := range k.env.asked() {
		if k.env.View.Up(m) && !k.disk.ConfirmedBy[m] {
			k.at = 0
			return
		}
	}
}

// Asked answers a beat: with this node's own next one, within [beatEvery], unless it is to be
// at once. Two nodes that compare their clocks so say one thing each a second, not two.
func (k *Clocks) Asked(now clock.Time, from register.Member, m *message.Beat) {
	if !m.Prompt && k.at != clock.Never && k.at > now.Mono && k.env.View.Up(from) {
		k.owed[from] = question{m.Sent, now}
		return
	}
	k.answer(now, from, question{m.Sent, now})
}

// answer says when a question came by this node's wall clock as it is now: it may have been set
// since.
func (k *Clocks) answer(now clock.Time, to register.Member, q question) {
	k.env.Round.SendNow(to, &message.Beaten{
		Sent: q.sent, Boot: k.boot, Received: now.Wall - (now.Mono - q.came.Mono), Answered: now.Wall, Seen: k.disk.HeardOf[to],
		Whole: k.disk.Lost == 0, Sound: k.disk.Peers.Towards(to),
	})
}

// Beaten takes an answer. One to the process before this one says nothing: who gave
// it may have seen more of this node's disk since, and it would count as having told.
func (k *Clocks) Beaten(now clock.Time, from register.Member, m *message.Beaten) {
	if !slices.Contains(k.asks, m.Sent) {
		return
	}
	first := !k.disk.ConfirmedBy[from]
	k.disk.Heard(from, m.Seen)
	k.disk.Peers.Hears(from, m)
	_ = k.Peers.Answered(offset.Exchange{ // what cannot be is no measurement
		Peer: from.Incarnation.ID(), Boot: m.Boot, Sent: m.Sent, Back: now, Received: m.Received, Answered: m.Answered,
	})
	if first || k.set { // it may vote from now on, or renew again: not with a clock that is known to be off
		k.Judge(now)
	}
}

// Stepped judges anew when the wall clock was set since it was judged. What the
// others have told of theirs holds on the monotonic clock; what was concluded from
// that does not: in the second until the next beat a clock that is wrong by now
// would pass for confirmed, and end claims that were learned by a vote. That it was
// set and that the machine was suspended look alike, so the node goes on leading
// until the others have told, which they are asked for soon; but it renews nothing.
// A grant by a clock that is off is refused by the others, who see when it starts;
// a renewal is not, and one by a clock that is behind leaves the claim with an end
// that is over: whoever learns of it by a restart or a vote would free the task
// while its worker goes on.
func (k *Clocks) Stepped(now clock.Time) {
	moved := now.Wall - now.Mono - k.diff
	if k.at != clock.Never && max(moved, -moved) > int64(k.env.Eta)/4 && !k.env.Policy.StepUnseen {
		k.set = true
		if k.Judge(now); k.set {
			k.at = min(k.at, now.Mono+int64(BeatSoon))
		}
	}
}

// Judge finds the partitions that this node is no good for by its clock, gives
// up those of them that it leads, and tells the vnodes whether the wall clock is
// confirmed.
//
// It is called with each beat, after the wall clock was set, and when a member answers for the
// first time. Partitions with the same cohort get the same verdict.
func (k *Clocks) Judge(now clock.Time) {
	clear(k.Doubt)
	confirmed := k.Peers.Confirmed(now, k.env.Eta)
	k.Why, k.Alone, k.diff = "", false, now.Wall-now.Mono
	k.right.reckon(k, now)
	for p := range k.env.View.Cells {
		p := ring.Partition(p)
		cohort := k.env.View.Cells[p].Cohort
		if k.env.Partitions.Opened(p) && vnode.Confirmed(k.env.Partitions.See(p)) != confirmed {
			vnode.Confirm(k.env.Partitions.Use(p), confirmed)
		}
		if len(cohort) < 2 || !slices.Contains(cohort, k.env.Self) {
			k.clear(p)
			continue
		}
		of := k.GoodFor(now, cohort)
		if of == ClockUnsure && k.set {
			k.Doubt[p] = true
		}
		if of != ClockOff {
			k.clear(p)
		} else {
			k.Bad[p] = true
		}
		if of != ClockOff && !k.disk.Forgetful(p) {
			continue
		}
		if leader, ok := placement.Leading(&k.env.View.Cells[p]); ok && leader == k.env.Self {
			k.env.say(Unfit, p) // again and again, until another one leads
		}
	}
	k.set = len(k.Doubt) > 0
	k.forget()
}

// forget forgets since when cohorts are unsure that are not judged any more: of one that comes
// back nothing is known of before, and it has its time as at first.
func (k *Clocks) forget() {
	if len(k.Since) == 0 {
		return
	}
	judged := make(map[string]bool)
	for p := range k.env.View.Cells {
		if cohort := k.env.View.Cells[p].Cohort; len(cohort) > 1 && slices.Contains(cohort, k.env.Self) {
			judged[view.CohortKey(cohort)] = true
		}
	}
	maps.DeleteFunc(k.Since, func(key string, _ int64) bool { return !judged[key] })
}

// clear lets this node lead a partition again. Whether it is to stand has to be
// looked at: nobody else does as long as the register says that it leads.
func (k *Clocks) clear(p ring.Partition) {
	if k.Bad[p] {
		delete(k.Bad, p)
		k.env.say(Review, 0)
	}
}

// Judgement is what this node's clock is for a cohort.
type Judgement uint8

const (
	clockGood   Judgement = iota
	ClockUnsure           // the others do not answer, or late
	ClockOff              // it is off, or unsure for too long
)

// GoodFor judges this node's clock for one cohort.
func (k *Clocks) GoodFor(now clock.Time, cohort []register.Member) Judgement {
	k.ids = k.ids[:0]
	for _, m := range cohort {
		k.ids = append(k.ids, m.Incarnation.ID())
	}
	v := k.Peers.Judge(now, k.ids, k.env.Eta)
	if v.OK {
		if len(k.Since) > 0 {
			delete(k.Since, view.CohortKey(cohort))
		}
		return clockGood
	}
	if v.Reason == offset.Unmeasured || v.Reason == offset.Imprecise {
		key := view.CohortKey(cohort)
		since, known := k.Since[key]
		if !known {
			since = now.Mono
			k.Since[key] = since
		}
		if now.Mono-since < int64(Unsure) {
			return ClockUnsure
		}
	}
	if missing := v.Reason == offset.Unmeasured; k.Why == "" || k.Alone && !missing {
		k.Why, k.Alone = v.String(), missing
	}
	return ClockOff
}

// OffsetOf is how far another node's wall clock is ahead of this one's, and the
// bound on that, ms.
//
// It is 0 and 0 for a node that has not been measured.
func (k *Clocks) OffsetOf(all []offset.Offset, m register.Member) (ms, within float64) {
	for _, o := range all {
		if o.Peer == m.Incarnation.ID() {
			return float64(o.OffsetNs) / 1e6, float64(o.ErrorNs) / 1e6
		}
	}
	return 0, 0
}
