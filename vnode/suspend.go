package vnode

import (
	"encoding/binary"
	"fmt"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// A claim is suspended here when it has ended only because its task was given up,
// as far as is known: dead, or cancelled by a dependency. Facts come in any order.
// The task may have been retried after that, and the claim be of the new run, which
// this member has accepted, or has said that it has taken over; then its worker goes
// by it. So it is among those that have ended, and the task counts as finished, but
// until it has lapsed by this member's own rule, or something says that it is over,
// candidates are told of it (design 7.2, K2), no retry begins after it, and its task
// is not collected. There is seldom any: who gives a task up has seen its last claim
// fail or lapse.

// suspend takes a claim out of the table of those that have not ended.
func suspend(v *Vnode, tx store.Tx, task id.ID, token uint64) {
	h := v.claims.Move(v.suspended, task, token, claim.Brief{})
	r := h.Record
	r.Outcome = claim.Ended
	v.cfg.OnEnd(task, &r)
	tx.Delete(appendClaim(v.keyspace[:0], tableActive, v.Partition, task, token))
	noteSuspended(v, tx, task, &r)
}

func noteSuspended(v *Vnode, tx store.Tx, task id.ID, r *claim.Record) {
	setClaim(v, tx, tableEnded, task, r)
	tx.Set(appendClaim(v.keyspace[:0], tableSuspended, v.Partition, task, r.Token), nil)
}

// absorbSuspended is [absorbHeld] for the claim of a task that was given up.
func absorbSuspended(v *Vnode, tx store.Tx, h *Held, now clock.Time) {
	var r claim.Record
	if known := v.suspended.Lookup(h.Task).Of(h.Record.Token); known != nil {
		r = *v.suspended.Rejoin(known, h.Record, now)
	} else {
		r = h.Record
		v.suspended.Recover(h.Task, claim.Brief{}, r, now)
	}
	r.Outcome = claim.Ended
	noteSuspended(v, tx, h.Task, &r)
}

// forgetSuspended has a claim be one that has ended for good, if it was suspended,
// and gives its record.
func forgetSuspended(v *Vnode, tx store.Tx, task id.ID, token uint64) (claim.Record, bool) {
	if v.suspended.Len() == 0 {
		return claim.Record{}, false
	}
	r, ok := v.suspended.End(task, token)
	if ok {
		tx.Delete(appendClaim(v.keyspace[:0], tableSuspended, v.Partition, task, token))
	}
	return r, ok
}

// endSuspended ends the suspended claims of a task up to a token; the one with the
// token that finished it counts as completed.
func endSuspended(v *Vnode, tx store.Tx, task id.ID, upTo, finisher uint64) {
	for e := v.suspended.Lookup(task); e != nil && e.Claims[0].Token <= upTo; e = v.suspended.Lookup(task) {
		outcome := claim.Ended
		if e.Claims[0].Token == finisher {
			outcome = claim.Completed
		}
		v.endClaim(tx, task, e.Claims[0].Token, outcome)
	}
}

// endUpTo ends the claims of a task up to a token.
func endUpTo(v *Vnode, tx store.Tx, task id.ID, token uint64) {
	endSuspended(v, tx, task, token, 0)
	for e := v.claims.Lookup(task); e != nil && e.Claims[0].Token <= token; e = v.claims.Lookup(task) {
		v.endClaim(tx, task, e.Claims[0].Token, claim.Ended)
	}
}

// revive takes claims back that ended here only because the task was finished,
// when it turns out to have been requeued before they were granted: facts come in
// any order, and a member that has accepted a claim, or is to learn of it in an
// election, must not lose it over that. Of one that is not suspended, because it was
// refused here or has lapsed, is not known how much of its time has passed.
func revive(v *Vnode, tx store.Tx, t *crdt.Task, now clock.Time) error {
	prefix := appendTask(nil, tableEnded, v.Partition, t.ID)
	var ended []claim.Record
	for key, value := range tx.Scan(prefix, after(prefix)) {
		r, err := claim.DecodeRecord(binary.BigEndian.Uint64(key[len(key)-8:]), value)
		if err != nil {
			return fmt.Errorf("%w: task %s: %w", ErrDamaged, t.ID, err)
		}
		if r.Outcome == claim.Ended {
			ended = append(ended, r)
		}
	}
	for _, r := range ended {
		s, err := look(v, tx, t.ID, r.Token, false)
		if err != nil {
			return err
		}
		if s.final {
			forgetSuspended(v, tx, t.ID, r.Token)
			continue
		}
		h := v.suspended.Move(v.claims, t.ID, r.Token, briefOf(t))
		if s.expired && h == nil {
			continue
		}
		tx.Delete(appendClaim(v.keyspace[:0], tableSuspended, v.Partition, t.ID, r.Token))
		if r.Outcome = claim.Active; h == nil {
			v.claims.Recover(t.ID, briefOf(t), r, now)
		}
		if s.expired { // it ends when it has lapsed here too
			v.claims.Expire(t.ID, r.Token, now, false)
		}
		tx.Delete(appendClaim(v.keyspace[:0], tableEnded, v.Partition, t.ID, r.Token))
		setClaim(v, tx, tableActive, t.ID, &r)
	}
	return nil
}

// RetryAfter is the token up to which the claims of a task are over for a retry:
// the highest that this leader has given out, as no task of the partition has had a
// higher one; but no suspended one. Such a claim is
// of a retry before this one, which is not known here, and goes on.
func RetryAfter(v *Vnode, task id.ID) uint64 {
	token := v.epoch<<32 | uint64(v.seq)
	if e := v.suspended.Lookup(task); e != nil {
		token = min(token, e.Claims[0].Token-1)
	}
	return token
}

// Suspended gives the claims of a partition that have ended here and may come back,
// as they are stored, by task and token. It returns ErrDamaged when one cannot be
// read.
func Suspended(view store.View, p ring.Partition) (all []Held, err error) {
	prefix := appendPrefix(nil, tableSuspended, p)
	for key := range view.Scan(prefix, after(prefix)) {
		if len(key) != prefixSize+id.Size+8 {
			return nil, fmt.Errorf("%w: key %x of a suspended claim", ErrDamaged, key)
		}
		all = append(all, Held{Task: id.ID(key[prefixSize:]), Record: claim.Record{Token: binary.BigEndian.Uint64(key[len(key)-8:])}})
	}
	for i := range all {
		token := all[i].Record.Token
		b, _ := view.Get(appendClaim(nil, tableEnded, p, all[i].Task, token))
		if all[i].Record, err = claim.DecodeRecord(token, b); err != nil {
			return nil, fmt.Errorf("%w: suspended claim %x on %s: %w", ErrDamaged, token, all[i].Task, err)
		}
		if all[i].Record.Outcome != claim.Ended {
			return nil, fmt.Errorf("%w: suspended claim %x on %s has ended for good (%d)", ErrDamaged, token, all[i].Task, all[i].Record.Outcome)
		}
		all[i].Record.Outcome = claim.Active
	}
	return all, nil
}

func loadSuspended(v *Vnode, view store.View, now clock.Time) error {
	all, err := Suspended(view, v.Partition)
	for _, h := range all {
		v.suspended.Recover(h.Task, claim.Brief{}, h.Record, now)
	}
	return err
}
