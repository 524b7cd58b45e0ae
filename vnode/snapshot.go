package vnode

import (
	"cmp"
	"slices"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/store"
)

// Held is what one acceptor knows of a claim that has not ended, or that was
// released: then the record has only the token.
type Held struct {
	Task     id.ID
	Record   claim.Record
	Released bool
}

// compare sorts by task and token.
func (h *Held) compare(o *Held) int {
	return cmp.Or(h.Task.Compare(o.Task), cmp.Compare(h.Record.Token, o.Record.Token))
}

// maxReleases bounds the releases remembered per partition. They matter for as
// long as a message about the claim may be under way, or a member that missed
// the release holds it. One that is forgotten costs its task a wait: the claim
// blocks it until it lapses. At 28 bytes each they take 7 KiB where many claims
// are given back, 29 MiB on a node with 4,096 such partitions.
const maxReleases = 256

// releases are the newest claims that were released here.
type releases struct {
	all  []released
	next int // the oldest, once there are maxReleases
}

type released struct {
	task  id.ID
	token uint64
}

// note remembers a release. The same one may come again, when everything about its
// task is forgotten.
func (r *releases) note(task id.ID, token uint64) {
	if slices.Contains(r.all, released{task, token}) {
		return
	}
	if len(r.all) < maxReleases {
		r.all = append(r.all, released{task, token})
		return
	}
	r.all[r.next] = released{task, token}
	r.next = (r.next + 1) % maxReleases
}

// SnapshotAt is [Snapshot] for others to learn from: the ends of claims are not
// before what is left of them by this process's monotonic clock, whatever was done
// to wall clocks since.
func SnapshotAt(v *Vnode, now clock.Time) []Held {
	all := Snapshot(v)
	if mutant.FirstClaims.On() {
		all = all[:min(len(all), 100)]
	}
	for i := range all {
		for _, known := range []*claim.Table{v.claims, v.suspended} {
			if h := known.Lookup(all[i].Task).Of(all[i].Record.Token); h != nil && !all[i].Released {
				all[i].Record.End = h.Lease.EndBy(now)
			}
		}
	}
	return all
}

// Snapshot gives all claims that have not ended, or may come back, and the newest
// releases, by task and token: what an acceptor answers to a vote, after it has
// promised (design 7.2, step 3). Each is there once: a claim that has come back after it was
// released, and its task was forgotten, is released.
func Snapshot(v *Vnode) []Held {
	all := make([]Held, 0, v.claims.Len()+len(v.releases.all))
	for _, known := range []*claim.Table{v.claims, v.suspended} {
		known.Each(func(task id.ID, r *claim.Record) { all = append(all, Held{Task: task, Record: *r}) })
	}
	for _, r := range v.releases.all {
		all = append(all, Held{Task: r.task, Record: claim.Record{Token: r.token}, Released: true})
	}
	return Join(all)
}

// Join is the union of snapshots by task and token: the larger end, the longer
// lease, and released when anybody says so (design 7.2, step 5). They need not
// be sorted; the union is.
func Join(snapshots ...[]Held) []Held {
	all := slices.Concat(snapshots...)
	slices.SortStableFunc(all, func(a, b Held) int { return a.compare(&b) })
	n := 0
	for i := range all {
		if n == 0 || all[n-1].compare(&all[i]) != 0 {
			all[n] = all[i]
			n++
			continue
		}
		last := &all[n-1]
		if last.Released = last.Released || all[i].Released; last.Released {
			last.Record = claim.Record{Token: last.Record.Token}
			continue
		}
		last.Record.End = max(last.Record.End, all[i].Record.End)
		last.Record.Lease = max(last.Record.Lease, all[i].Record.Lease)
	}
	return all[:n]
}

// Absorb joins what voters or a new leader say of claims with those that are
// here, in any order: a task is free only when every claim known of it has ended
// (design 7.2, step 5). What is learned so counts as recovered, and its elapsed
// time from now. A claim that has ended here for good stays ended; one of a task that
// was given up, as far as is known here, is suspended. It returns ErrDamaged when something stored cannot be read.
func Absorb(v *Vnode, tx store.Tx, all []Held, now clock.Time) error {
	arrive(v, now)
	for i := range all {
		h := &all[i]
		absorb := absorbHeld
		if h.Released {
			absorb = absorbRelease
		}
		if err := absorb(v, tx, h, now); err != nil {
			return err
		}
	}
	return nil
}

func absorbRelease(v *Vnode, tx store.Tx, h *Held, now clock.Time) error {
	return AcceptRelease(v, tx, h.Task, h.Record.Token, now)
}

func absorbHeld(v *Vnode, tx store.Tx, h *Held, now clock.Time) error {
	e, token := v.claims.Lookup(h.Task), h.Record.Token
	if known := e.Of(token); known != nil {
		r := v.claims.Rejoin(known, h.Record, now)
		tx.Set(appendClaim(v.keyspace[:0], tableActive, v.Partition, h.Task, token), r.AppendTo(nil))
		return nil
	}
	s, err := look(v, tx, h.Task, token, e == nil)
	if err != nil {
		return err
	}
	if s.undoable && !s.final && (!s.over || s.ended.Outcome == claim.Ended) {
		absorbSuspended(v, tx, h, now)
		return nil
	}
	if s.over {
		return nil
	}
	if s.finished {
		s.remember(v, tx, h.Task, h.Record)
		return nil
	}
	v.claims.Recover(h.Task, s.brief, h.Record, now)
	if s.expired {
		v.claims.Expire(h.Task, token, now, false)
	}
	s.seize(v, tx, h.Task, &h.Record)
	return nil
}

// Learn has a task stay claimed for as long as a follower that refused the next
// grant says that a claim on it holds: one that this leader did not know, or
// that it had let expire before the follower did. A claim that has ended here
// for good is not taken back: the follower lacks what [EndOf] gives. Neither is
// one that nothing is left of. It returns ErrDamaged when something stored
// cannot be read.
func Learn(v *Vnode, tx store.Tx, task id.ID, b Blocker, now clock.Time) error {
	arrive(v, now)
	token := b.Record.Token
	if b.Left <= 0 {
		return nil
	}
	if v.epoch != 0 && token>>32 == v.epoch {
		v.seq = max(v.seq, uint32(token)) // never the same number twice
	}
	e := v.claims.Lookup(task)
	if e.Of(token) != nil {
		r := v.claims.Hold(task, e.Brief, b.Record, b.Left, now)
		tx.Set(appendClaim(v.keyspace[:0], tableActive, v.Partition, task, token), r.AppendTo(nil))
		return nil
	}
	s, err := look(v, tx, task, token, e == nil)
	if err != nil {
		return err
	}
	lapsed := s.ended != nil && s.ended.Outcome == claim.Expired && !s.final
	if s.finished || s.over && !lapsed {
		return nil
	}
	if lapsed {
		tx.Delete(appendClaim(v.keyspace[:0], tableEnded, v.Partition, task, token))
	}
	r := v.claims.Hold(task, s.brief, b.Record, b.Left, now)
	if s.expired {
		v.claims.Expire(task, token, now, false)
	}
	s.seize(v, tx, task, r)
	return nil
}
