package crdt

import (
	"fmt"
	"iter"
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
)

// Task is the decoded view of a task's facts. It shares its []byte fields with
// the bodies it was made from.
type Task struct {
	ID       id.ID
	Enqueued *Enqueued // nil while the enqueue is not known

	updates []Update // ascending (token, seq), the hidden ones too
	failed  *Failed  // the newest by token
	counted []uint64 // tokens of the failures that use up an attempt, ascending
	putOff  []uint64 // tokens of the failures that use up none, ascending
	expired []uint64 // tokens of the claims that lapsed, ascending
	lapsed  int64    // when the last of them was written, wall ns
	older   Ends     // of claims before all of these
	old     *Older   // of claims whose facts are gone; older has it in it

	completion   *Completed // the earliest by (time, token)
	completed    []Attempt  // by the others, where they say who had the claim
	cancelled    *Cancelled
	dead         *Dead                // of the highest generation
	depCancelled *DependencyCancelled // of the highest generation
	requeued     *Requeued            // of the highest generation
	retries      uint64               // how many of those are known
	tombstone    *Tombstone
	unblocked    *Unblocked
}

// NewTask makes the view of a task of which nothing but the enqueue is known.
func NewTask(task id.ID, e *Enqueued) *Task { return &Task{ID: task, Enqueued: e} }

// View decodes the facts of a task, which must come ascending by key, each key
// once. It returns ErrMalformed when they do not, when one is of another task
// or is not canonical, and ErrUnknown when one was written by a newer build.
func View(task id.ID, facts iter.Seq[Fact]) (*Task, error) {
	v := NewViewer(task)
	for f := range facts {
		if err := v.Add(f); err != nil {
			return nil, err
		}
	}
	return v.Task, nil
}

// Viewer makes a view of facts that come one by one, by the rules of [View].
type Viewer struct {
	Task *Task // of the facts so far
	last Key
}

// NewViewer begins a view without facts.
func NewViewer(task id.ID) Viewer { return Viewer{Task: &Task{ID: task}} }

// Before has the view begin with what is counted of older claims, the facts of which it is
// not given. newest is the last of those that failed; without a body: none has.
func (v *Viewer) Before(e Ends, newest Fact) (err error) {
	v.Task.older = e
	if len(newest.Body) > 0 {
		if err = newest.Intact(); err == nil {
			err = keep(newest, DecodeFailed, &v.Task.failed)
		}
	}
	return err
}

// Add adds the next fact. After an error the view is of no use.
func (v *Viewer) Add(f Fact) error {
	if f.Task != v.Task.ID {
		return fmt.Errorf("%w: a fact of %s among those of %s", ErrMalformed, f.Task, v.Task.ID)
	}
	if err := v.Task.take(f); err != nil {
		return err
	}
	if f.Key.Compare(v.last) <= 0 {
		return fmt.Errorf("%w: key %v after %v", ErrMalformed, f.Key, v.last)
	}
	v.last = f.Key
	return nil
}

// take decodes one fact into the view. Later keys of a kind have higher
// numbers, so the last of several is the newest.
func (t *Task) take(f Fact) error {
	if err := f.Intact(); err != nil {
		return err
	}
	switch f.Key.Kind {
	case KindEnqueued:
		return keep(f, DecodeEnqueued, &t.Enqueued)
	case KindUpdate:
		u, err := decode(f, DecodeUpdate)
		t.updates = append(t.updates, u)
		return err
	case KindCompleted:
		c, err := decode(f, DecodeCompleted)
		other := t.completion
		if other == nil || (c.At < other.At) != mutant.LastCompletion.On() {
			t.completion = &c
		} else {
			other = &c
		}
		if other != nil {
			if a := other.attempt(); a.Start != 0 {
				t.completed = append(t.completed, a)
			}
		}
		return err
	case KindCancelled:
		return keep(f, DecodeCancelled, &t.cancelled)
	case KindFailed:
		err := keep(f, DecodeFailed, &t.failed)
		switch {
		case err != nil:
		case t.failed.Counted:
			t.counted = append(t.counted, f.Key.A)
		default:
			t.putOff = append(t.putOff, f.Key.A)
		}
		return err
	case KindExpired:
		e, err := decode(f, DecodeExpired)
		t.expired, t.lapsed = append(t.expired, f.Key.A), max(t.lapsed, e.At)
		return err
	case KindDead:
		return keep(f, DecodeDead, &t.dead)
	case KindDependencyCancelled:
		return keep(f, DecodeDependencyCancelled, &t.depCancelled)
	case KindRequeued:
		t.retries++
		return keep(f, DecodeRequeued, &t.requeued)
	case KindTombstone:
		return keep(f, DecodeTombstone, &t.tombstone)
	case KindUnblocked:
		return keep(f, DecodeUnblocked, &t.unblocked)
	case KindOlder:
		return t.takeOlder(f)
	}
	return f.Key.check()
}

// keep decodes a fact into a field of the view.
func keep[T content](f Fact, decoder func([]byte) (T, error), to **T) error {
	c, err := decode(f, decoder)
	if err == nil {
		*to = &c
	}
	return err
}

// Generation is the one that the newest retry has begun; 0 at first.
func (t *Task) Generation() uint64 {
	if t.requeued == nil {
		return 0
	}
	return t.requeued.Generation
}

// Retries is how often the task was requeued.
func (t *Task) Retries() uint64 { return t.retries }

// NextGeneration is the one that a retry begins: above all that are known, those of which
// only the end is known included.
func (t *Task) NextGeneration() uint64 {
	n := t.Generation()
	if t.dead != nil {
		n = max(n, t.dead.Generation)
	}
	if t.depCancelled != nil {
		n = max(n, t.depCancelled.Generation)
	}
	return n + 1
}

// GivenUpIn says of a task that was given up that it is in a later generation, too: a retry
// that begins that one or an earlier one, and is not known yet, undoes nothing. ok is false
// where no retry would.
func (t *Task) GivenUpIn(generation uint64) (f Fact, ok bool) {
	switch {
	case !t.Undoable():
		return Fact{}, false
	case t.givenUp() != nil:
		d := *t.givenUp()
		d.Generation = generation
		return d.Fact(t.ID), true
	}
	d := *t.blocked()
	d.Generation = generation
	return d.Fact(t.ID), true
}

// RequeuedAt is when the task was requeued last, wall ns; 0 when it never was.
func (t *Task) RequeuedAt() int64 {
	if t.requeued == nil {
		return 0
	}
	return t.requeued.At
}

// present tells whether a claim belongs to the present generation.
func (t *Task) present(token uint64) bool {
	return t.requeued == nil || token > t.requeued.AfterToken || mutant.RetryCountsLast.On() && token == t.requeued.AfterToken
}

// Collected tells whether the task was collected: a tombstone is all that is
// left of it, and facts that come in late are not stored.
func (t *Task) Collected() bool { return t.tombstone != nil }

// CollectedAt is what the tombstone says of when that was, wall ns; 0 without
// one.
func (t *Task) CollectedAt() int64 {
	if t.tombstone == nil {
		return 0
	}
	return t.tombstone.Collected
}

// CancelledByUser tells whether somebody cancelled the task, which no retry
// undoes.
func (t *Task) CancelledByUser() bool { return t.cancelled != nil }

// BlockedBy is the dependency that has the task cancelled in its present
// generation.
func (t *Task) BlockedBy() (dependency id.ID, ok bool) {
	if d := t.blocked(); d != nil {
		return d.Dependency, true
	}
	return id.ID{}, false
}

// BacksOff tells whether it is a failure, not the client's wish, that puts the
// task off to [Task.NotBefore].
func (t *Task) BacksOff() bool {
	return t.failed != nil && t.present(t.failed.Token) && t.failed.RetryAt > 0 &&
		(t.Enqueued == nil || t.failed.RetryAt > t.Enqueued.NotBefore)
}

// Attempts is the number of claims of the present generation that expired or
// failed and counted. A claim counts once, whatever is said about it.
func (t *Task) Attempts() int {
	gone, _ := t.gone()
	n := int(t.older.Attempts) + gone
	for _, token := range t.counted {
		if t.present(token) {
			n++
		}
	}
	for _, token := range t.expired {
		if _, both := slices.BinarySearch(t.counted, token); !both && t.present(token) {
			n++
		}
	}
	return n
}

// Failures is the number of claims of the present generation that failed, whether they
// count or not.
func (t *Task) Failures() int {
	_, gone := t.gone()
	n := int(t.older.Failures) + gone
	for _, all := range [][]uint64{t.counted, t.putOff} {
		for _, token := range all {
			if t.present(token) {
				n++
			}
		}
	}
	return n
}

// EachEnd calls fn for each claim of which the facts say how it ended: with a
// failure that counts, by lapsing, or with a completion; of that it says what [Attempt] has, and
// whether it is the one that counts. Of claims that are only counted ([Ends]) it knows nothing.
func (t *Task) EachEnd(fn func(Attempt)) {
	for _, token := range t.counted {
		fn(Attempt{Token: token, By: KindFailed})
	}
	for _, token := range t.expired {
		fn(Attempt{Token: token, By: KindExpired})
	}
	if t.completion != nil {
		a := t.completion.attempt()
		a.Counted = true
		fn(a)
	}
	for _, a := range t.completed {
		fn(a)
	}
}

// attempt is what a completion says of its claim.
func (c *Completed) attempt() Attempt {
	run, _ := RunOf(c.Further)
	return Attempt{Token: c.Token, By: KindCompleted, Run: run, End: c.At}
}

// NotBefore is the wall ns before which the task may not be claimed: what the
// client asked for, or the back-off of the newest failure of the present
// generation where that is later; 0 for none.
func (t *Task) NotBefore() int64 {
	at := int64(0)
	if t.Enqueued != nil {
		at = t.Enqueued.NotBefore
	}
	if t.failed != nil && t.present(t.failed.Token) {
		at = max(at, t.failed.RetryAt)
	}
	return at
}

// Admission is when the task was let in, wall ns: age and horizon are judged by
// it (design 3).
func (t *Task) Admission() int64 {
	if t.Enqueued != nil && t.Enqueued.Admission != 0 {
		return t.Enqueued.Admission
	}
	return t.ID.Nanos()
}

// UnblockedAt is when it was said that no dependency holds the task back any more, wall ns;
// 0: nobody has.
func (t *Task) UnblockedAt() int64 {
	if t.unblocked == nil {
		return 0
	}
	return t.unblocked.At
}

// ReadySince is since when a task under no claim may be claimed, wall ns, as far as its facts
// say; 0: they do not. That a claim was given back is no fact.
func (t *Task) ReadySince() int64 {
	if t.Enqueued == nil || len(t.Enqueued.Dependencies) > 0 && t.unblocked == nil {
		return 0
	}
	at := max(t.Admission(), t.NotBefore(), t.UnblockedAt(), t.RequeuedAt(), t.lapsed)
	if t.failed != nil {
		at = max(at, t.failed.At)
	}
	return at
}

// Further gives the further fields (see [Further]) of the newest failure, of the cancellation
// by somebody, and of the newest retry; nil where there are none.
func (t *Task) Further() (failed, cancelled, requeued []byte) {
	if t.failed != nil {
		failed = WithoutRun(t.failed.Further)
	}
	if t.cancelled != nil {
		cancelled = t.cancelled.Further
	}
	if t.requeued != nil {
		requeued = t.requeued.Further
	}
	return failed, cancelled, requeued
}

// Completion is the completion that counts: the earliest one, and of several
// of one instant that of the lowest token; nil when there is none.
func (t *Task) Completion() *Completed { return t.completion }

// CompletedAt is when the task was completed, wall ns; 0 while it is not.
func (t *Task) CompletedAt() int64 {
	if t.Outcome() != StateCompleted {
		return 0
	}
	return t.FinishedAt()
}

// FinishedAt is when the task got its [Task.Outcome], wall ns; 0 while it has
// none.
func (t *Task) FinishedAt() int64 {
	switch s := t.Outcome(); {
	case s == StateUnknown:
		return 0
	case s == StateCompleted && t.completion != nil:
		return t.completion.At
	case s == StateCancelled && t.cancelled != nil:
		return t.cancelled.At
	case t.tombstone != nil && t.tombstone.Outcome == s:
		return t.tombstone.At
	case s == StateDead:
		return t.dead.At
	}
	return t.depCancelled.At
}

// Error says why the task is dead or cancelled, or else what went wrong the
// last time; empty when nothing did.
func (t *Task) Error() string {
	switch s := t.Outcome(); {
	case s == StateCancelled && t.cancelled != nil:
		return t.cancelled.Reason
	case s == StateDead && t.givenUp() != nil:
		return t.givenUp().Reason
	case s == StateCancelled && t.blocked() != nil:
		return fmt.Sprintf("dependency %s died, was cancelled or is forgotten", t.blocked().Dependency)
	case t.failed != nil:
		return t.failed.Error
	}
	return ""
}
