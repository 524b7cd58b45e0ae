package vnode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// Ask is who asks for a claim, and for how long.
type Ask struct {
	Worker  string
	Session [16]byte
	Request uint64
	Lease   time.Duration
	By      string      // see [claim.Record.Principal]
	Log     int         // bytes of updates that a grant is to tell of, see [ReadOptions]
	Rank    *claim.Rank // of the ready task that is meant; nil: the best one
	Claims  int         // so many of those that have ended is a grant to tell of; 0: all, see [ReadOptions]
}

// ErrNothing is returned when no task of the queue is ready here.
var ErrNothing = errors.New("vnode: nothing ready")

// ErrExhausted is returned when the epoch has no claim numbers left; a new
// election brings a new epoch (design 7.3).
var ErrExhausted = errors.New("vnode: claim numbers of this epoch are used up")

// Grant claims the best ready task of a queue. The claim is held from now on,
// but the worker may hear of it only once the batch is durable.
func (v *Vnode) Grant(tx store.Tx, queueName string, ask Ask, now clock.Time) (*Detail, error) {
	arrive(v, now)
	v.fills()
	q := v.queues[queueName]
	if q == nil || v.epoch == 0 || q.head.At(ask.Rank) == nil || v.full {
		return nil, ErrNothing
	}
	if v.seq == math.MaxUint32 {
		return nil, ErrExhausted
	}
	e := *q.head.At(ask.Rank)
	task := e.Rank.Task()
	d, err := v.describe(tx, task, ask, &e)
	if err != nil {
		return nil, err
	}
	if d.Task.Enqueued == nil || d.Task.Finished() || v.claims.Lookup(task) != nil {
		return nil, fmt.Errorf("%w: %s is in the ready index of queue %s but is not ready", ErrDamaged, task, queueName)
	}
	p := place{state: crdt.StateReady, queue: queueName, rank: e.Rank, size: d.Task.Enqueued.Size()}
	v.leave(tx, task, &p)
	v.seq++
	r := claim.Record{
		Token:  v.epoch<<32 | uint64(v.seq),
		Worker: ask.Worker, Session: ask.Session, Request: ask.Request,
		Start: now.Wall, End: now.Wall + int64(ask.Lease), Lease: ask.Lease, Principal: ask.By,
	}
	v.claims.Grant(task, briefOf(d.Task), r, now)
	setClaim(v, tx, tableActive, task, &r)
	p.state = crdt.StateClaimed
	v.enter(tx, task, &p)
	v.fills()
	d.Claims = append(d.Claims, r)
	d.State = crdt.StateClaimed
	return d, nil
}

// describe reads what a grant says about its task. A fresh task has nothing
// but its enqueue fact.
func (v *Vnode) describe(view store.View, task id.ID, ask Ask, r *claim.Ready) (*Detail, error) {
	if !r.Fresh {
		return ReadTask(view, v.Partition, task, ReadOptions{Log: ask.Log, Claims: ask.Claims, Until: v.epoch<<32 | uint64(v.seq+1)})
	}
	body, err := specOf(v, view, task, r)
	if err != nil {
		return nil, err
	}
	if r.Body == nil {
		body = append([]byte(nil), body...) // the answer outlives this view
	}
	e, err := crdt.DecodeEnqueued(body)
	if err != nil {
		return nil, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
	}
	return &Detail{Task: crdt.NewTask(task, &e)}, nil
}

// Renew extends a claim by d from now, or by its present length when d is 0.
// It returns claim.ErrLost when the claim does not hold any more.
func (v *Vnode) Renew(tx store.Tx, task id.ID, token uint64, d time.Duration, now clock.Time) (claim.Record, error) {
	arrive(v, now)
	if v.epoch == 0 {
		return claim.Record{}, claim.ErrLost
	}
	h, err := v.claims.Renew(task, token, d, now)
	if err != nil {
		return claim.Record{}, err
	}
	setClaim(v, tx, tableActive, task, &h.Record)
	return h.Record, nil
}

// Whoever puts a task off again and again, to look for something, leaves a failure each time,
// and all that is done with the task reads them. From so many on each makes the shortest pause
// longer by so much: a task that would be put off by a second has 42,000 failures after a day,
// and 110,000 after a week.
const (
	manyFailures = 1000
	failurePause = 100 * time.Microsecond
)

// Failure is what a worker says went wrong.
type Failure struct {
	Token   uint64
	Error   string
	RetryAt int64 // wall ns; 0: the task's policy decides
	Counted bool  // uses up an attempt
	Discard bool  // dead at once
	// AtLeast is how long the next attempt waits at least, whatever the policy says,
	// where RetryAt does not.
	AtLeast time.Duration
	Further []byte // fields that this build does not know, see [crdt.Further]
}

// Fail ends the claim with a failure and lets the retry policy decide what
// comes next. A repeated call changes nothing. It returns claim.ErrLost when
// the token holds no claim. Of a task whose enqueue has not come here yet the
// policy is not known: it may be tried again at once, and never ends with this.
func (v *Vnode) Fail(tx store.Tx, task id.ID, f Failure, now clock.Time) (crdt.State, bool, error) {
	arrive(v, now)
	entry, held, err := v.claims.Current(task, f.Token, now)
	if err == nil && v.epoch == 0 {
		return 0, false, claim.ErrLost // only a leader says so
	}
	if err != nil {
		key := appendFact(nil, v.Partition, task, crdt.Key{Kind: crdt.KindFailed, A: f.Token})
		if _, ok := tx.Get(key); !ok {
			return 0, false, err
		}
		t, err := LoadTask(tx, v.Partition, task)
		if err != nil {
			return 0, false, err
		}
		return v.stands(tx, t).state, true, nil
	}
	attempts := entry.Brief.Attempts
	if f.Counted {
		attempts++
	}
	fact := crdt.Failed{Token: f.Token, Error: f.Error, At: now.Wall, RetryAt: f.RetryAt, Counted: f.Counted, Further: crdt.AppendRun(nil, f.Further, runOf(&held.Record))}
	dead := f.Discard || f.Counted && entry.Known() && attempts >= entry.Brief.MaxAttempts
	if !dead && entry.Known() {
		t, err := LoadTask(tx, v.Partition, task)
		if err != nil {
			return 0, false, err
		}
		tries := max(1, int(attempts))
		if !f.Counted { // the pauses grow all the same: each leaves a claim in the task's history
			tries = max(tries, 1+t.Failures())
		}
		if f.RetryAt == 0 {
			fact.RetryAt = now.Wall + int64(max(t.Enqueued.Retry.Delay(tries, v.cfg.Random), f.AtLeast))
		}
		if n := t.Failures(); n >= manyFailures {
			fact.RetryAt = max(fact.RetryAt, now.Wall+int64(n)*int64(failurePause))
		}
	}
	reason := f.Error
	if !f.Discard {
		reason = fmt.Sprintf("out of attempts (%d): %s", attempts, f.Error)
	}
	s, err := v.conclude(tx, task, f.Token, claim.Failed, fact.Fact(task), dead, reason, now)
	return s, false, err
}

// Release gives the task back at once. It counts as no attempt. A repeated
// call changes nothing; claim.ErrLost is returned when the token holds no
// claim and was not released before.
func (v *Vnode) Release(tx store.Tx, task id.ID, token uint64, now clock.Time) (bool, error) {
	arrive(v, now)
	if _, _, err := v.claims.Current(task, token, now); err != nil {
		if Ended(v, tx, task, token).Outcome == claim.Released {
			return true, nil
		}
		return false, err
	}
	if v.epoch == 0 {
		return false, claim.ErrLost // only a leader says so
	}
	_, err := v.conclude(tx, task, token, claim.Released, crdt.Fact{}, false, "", now)
	return false, err
}

// conclude ends one claim with an outcome, writes the fact that says so, and
// where the policy is used up the dead fact, and puts the task where it
// belongs.
func (v *Vnode) conclude(tx store.Tx, task id.ID, token uint64, outcome claim.Outcome, fact crdt.Fact, dead bool, reason string, now clock.Time) (crdt.State, error) {
	defer v.cfg.OnFact(task)
	before, err := LoadTask(tx, v.Partition, task)
	if err != nil {
		return 0, err
	}
	was := v.stands(tx, before)
	v.leave(tx, task, &was)
	v.endClaim(tx, task, token, outcome)
	if fact.Key.Kind != 0 {
		v.shelf.put(tx, fact, nil)
	}
	if dead {
		// One may be here already, where the enqueue and the retry are not.
		f := crdt.Dead{Generation: before.Generation(), At: now.Wall, Reason: reason}.Fact(task)
		old, err := v.shelf.get(tx, task, f.Key)
		if err != nil {
			return 0, err
		}
		if old == nil || crdt.Wins(f.Body, old) {
			v.shelf.put(tx, f, bytes.Clone(old))
		}
	}
	t, err := LoadTask(tx, v.Partition, task)
	if err != nil {
		return 0, err
	}
	switch {
	case t.Finished():
		v.endClaims(tx, task, 0, t.Undoable())
	case t.Enqueued == nil && fact.Key.Kind != 0:
		v.record.adopt(tx, v.Partition, task)
	case t.Enqueued != nil && v.claims.Lookup(task) != nil:
		v.claims.Describe(task, briefOf(t))
	}
	is := v.goes(t, now)
	v.enter(tx, task, &is)
	return is.state, nil
}

// setClaim writes a claim under its token into one of the tables of claims.
func setClaim(v *Vnode, tx store.Tx, table byte, task id.ID, r *claim.Record) {
	if table == tableEnded {
		v.shelf.noneEnded = false
	}
	v.cfg.scratch.claim = r.AppendTo(v.cfg.scratch.claim[:0])
	tx.Set(appendClaim(v.keyspace[:0], table, v.Partition, task, r.Token), v.cfg.scratch.claim)
}
