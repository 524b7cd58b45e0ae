package vnode

import (
	"fmt"
	"math"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/store"
)

// SlackOf is how much later than its own rule says a leader should end a lapsed
// claim. Its followers learned of the claim later than it did, by the way of a
// message and a fsync, so they let it lapse later, and would refuse the next
// grant for that long. A twentieth of the buffer, at least the 20 ms of a slow
// fsync, at most 250 ms: more would only make the task wait.
func SlackOf(buffer time.Duration) time.Duration {
	return min(max(buffer/20, 20*time.Millisecond), 250*time.Millisecond)
}

// term is what a vnode knows beside its epoch of how claims are to be judged.
//
// Invariant: an expiry is written only of a claim that had lapsed at a time when nobody else
// led: alone in the cohort, or asked and confirmed since ([Sole]). A leader that was cut off
// would else end claims that its successor has renewed (the hunt's SoleUnasked).
type term struct {
	confirmed bool // another node confirms our wall clock
	begins    bool // leadership has begun, and nobody has said when
	own       bool // with begins: it has not been away, so it knows its own claims
	// Who leads knows its own claims only as long as nobody else does: a process that
	// stood still, or is cut off, may be no leader any more, and the next one may have
	// renewed them.
	sole  int64 // mono ns of a time at which nobody else led; 0: not known of any
	asked bool  // a claim has lapsed since, and others are asked
}

// Lead makes this vnode hand out claims under an epoch of the register. Tokens
// of the epoch start at 1. Claims that are held count from the takeover, by
// elapsed time, because a renewal may have passed this vnode by; those that it
// has granted itself only if it did not lead until now. The takeover is the next
// call that says what time it is; [Vnode.NextWake] asks for one at once.
func (v *Vnode) Lead(epoch uint64) {
	v.term.own = v.epoch != 0 && (v.term.own || !v.term.begins)
	v.term.begins = v.claims.Len()+v.suspended.Len() > 0
	v.epoch, v.seq = epoch, 0
	v.term.sole, v.term.asked = 0, false
}

// Follow stops handing out claims.
func (v *Vnode) Follow() {
	v.epoch, v.term.begins = 0, false
	v.term.sole, v.term.asked = 0, false
}

// Sole says that this vnode's leadership was nobody else's at a time, mono ns: it ends
// the claims that had lapsed by then.
func Sole(v *Vnode, at int64) { v.term.sole, v.term.asked = at, false }

// Leading is the epoch led, or 0.
func (v *Vnode) Leading() uint64 { return v.epoch }

// Confirm says whether another node confirms this node's wall clock: then it
// also ends claims that were learned by restart, vote or push (design 7.3).
func Confirm(v *Vnode, ok bool) { v.term.confirmed = ok }

// Confirmed tells what [Confirm] has said last.
func Confirmed(v *Vnode) bool { return v.term.confirmed }

// arrive notes the time of a takeover.
func arrive(v *Vnode, now clock.Time) {
	if v.term.begins {
		if !mutant.TakeoverUncounted.On() {
			v.claims.TakeOver(now, v.term.own)
			v.suspended.TakeOver(now, v.term.own)
		}
		v.term.begins = false
	}
}

// NextWake is when [Vnode.Tick] has something to do: on the wall clock (due
// tasks) and on the monotonic one (lapses).
func (v *Vnode) NextWake() (wall, mono int64) {
	wall = math.MaxInt64
	mono = min(v.claims.NextSpent(v.term.confirmed), v.suspended.NextLapse(0, v.term.confirmed))
	if v.epoch == 0 {
		return wall, mono
	}
	if v.term.begins {
		return wall, 0
	}
	if v.term.asked {
		return min(wall, v.nextDue), mono
	}
	return min(wall, v.nextDue), min(mono, v.claims.NextLapse(v.cfg.Slack, v.term.confirmed))
}

// Tick ends claims that have lapsed here and of which a leader has written that
// they expired, and forgets suspended ones that have lapsed; where it leads it also moves due tasks and writes the expiry of
// lapsed claims, once it is known that nobody else led when they lapsed. Call it when [Vnode.NextWake] says so; it may leave work for
// the next call.
func (v *Vnode) Tick(tx store.Tx, now clock.Time) error {
	arrive(v, now)
	if v.epoch != 0 {
		if err := v.moveDue(tx, now); err != nil {
			return err
		}
	}
	for n := 0; n < maxMoves; n++ {
		task, token, ok := v.suspended.Lapsed(now, 0, v.term.confirmed)
		if ok {
			forgetSuspended(v, tx, task, token)
			continue
		}
		task, token, ok = v.claims.Spent(now, v.term.confirmed)
		if !ok && v.epoch != 0 {
			task, token, ok = lapsed(v, now)
		}
		if !ok {
			return nil
		}
		if err := v.expire(tx, task, token, now); err != nil {
			return err
		}
	}
	return nil
}

// lapsed gives a claim that has lapsed while this vnode leads, as far as it is known to:
// what it writes about the claim is final.
func lapsed(v *Vnode, now clock.Time) (task id.ID, token uint64, ok bool) {
	if v.term.sole != 0 {
		then := now.Add(-now.SinceMono(v.term.sole)) // by the wall clock as it is set now
		if task, token, ok = v.claims.Lapsed(then, v.cfg.Slack, v.term.confirmed); ok {
			return task, token, true
		}
	}
	if v.term.asked {
		return id.ID{}, 0, false
	}
	task, token, ok = v.claims.Lapsed(now, v.cfg.Slack, v.term.confirmed)
	if !ok || v.cfg.OnLapse(v.Partition) || mutant.SoleUnasked.On() {
		return task, token, ok
	}
	v.term.asked = true
	return id.ID{}, 0, false
}

// LapsedAt is when the lease of a claim that nobody has ended was over by elapsed time, mono
// ns; ok: there is such a claim.
func LapsedAt(v *Vnode, task id.ID, token uint64) (mono int64, ok bool) {
	e := v.claims.Lookup(task)
	if e == nil {
		return 0, false
	}
	h := e.Of(token)
	if h == nil || h.Over {
		return 0, false
	}
	return h.Lease.LapseAt(0), true
}

// expire ends a lapsed claim. It counts as an attempt and the task is ready
// again at once (design 8). The last of several claims decides whether the task
// is given up.
func (v *Vnode) expire(tx store.Tx, task id.ID, token uint64, now clock.Time) error {
	e := v.claims.Lookup(task)
	attempts, fact := e.Brief.Attempts, crdt.Fact{}
	if h := e.Of(token); !h.Over {
		attempts++
		fact = crdt.Expired{Token: token, At: now.Wall, Further: crdt.AppendRun(nil, nil, runOf(&h.Record))}.Fact(task)
	}
	dead := v.epoch != 0 && e.Known() && (len(e.Claims) == 1 || mutant.DeadTooSoon.On()) && attempts >= e.Brief.MaxAttempts
	reason := fmt.Sprintf("out of attempts (%d): the last claim expired", attempts)
	b, r := e.Brief, e.Of(token).Record
	s, err := v.conclude(tx, task, token, claim.Expired, fact, dead, reason, now)
	if err == nil && fact.Key.Kind != 0 && v.epoch != 0 && v.cfg.OnExpire != nil {
		v.cfg.OnExpire(b, r, s)
	}
	return err
}
