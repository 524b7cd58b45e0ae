package backup

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/crdt"
)

// Filter says which tasks are in a backup, and how much of them.
type Filter struct {
	Scope  string   // [All] or [Unfinished]
	Queues []string // only these; empty: all. What is left of collected tasks is in it always
	At     time.Time
}

// Take tells whether a task is in the backup, and leaves in it what is to be kept. Of a task
// that was collected that is its tombstone. With [Unfinished] a completed or cancelled one
// becomes one: that it is finished, and how, keeps it from running again, and lets those that
// depend on it go on. ErrDamaged: the facts are not those of a task.
func (o *Filter) Take(t *Task) (bool, error) {
	seen, err := See(t)
	if err != nil {
		return false, err
	}
	return o.TakeSeen(&seen)
}

// TakeSeen is Take of a task that was looked at.
func (o *Filter) TakeSeen(t *Seen) (bool, error) {
	stone := func(f crdt.Fact) bool { return f.Key.Kind == crdt.KindTombstone }
	if at := slices.IndexFunc(t.Facts, stone); at >= 0 {
		return true, t.keep(t.Facts[at])
	}
	if len(t.Facts) == 0 {
		return false, nil
	}
	queue, known := t.queue()
	if len(o.Queues) > 0 && !(known && slices.ContainsFunc(o.Queues, func(q string) bool { return q == string(queue) })) {
		return false, nil
	}
	switch state := t.outcome(); {
	case state == crdt.StateUnknown:
	case state == crdt.StateDead || o.Scope != Unfinished || !known:
		t.Claims = nil
	default:
		end := crdt.Tombstone{Outcome: state, At: t.view.FinishedAt(), Collected: o.At.UnixNano()}
		return true, t.keep(end.Fact(t.ID))
	}
	return true, nil
}

// keep leaves one fact of a task.
func (t *Seen) keep(f crdt.Fact) (err error) {
	if len(t.Facts) > 1 || len(t.Claims) > 0 || t.Facts[0].Key != f.Key {
		t.Facts, t.Claims = []crdt.Fact{f}, nil
		*t, err = See(t.Task)
	}
	return err
}

// Freed is the fact by which a restored task is free again once the lease of a claim that
// was held is surely over: the claim ended without using up an attempt, and the task waits for
// that time. It follows from the backup alone, so that a restore that is repeated writes the same.
func Freed(t *Task, c *Claim, buffer time.Duration) crdt.Fact {
	return crdt.Failed{
		Token: c.Token, At: c.End, RetryAt: c.End + int64(buffer),
		Error: fmt.Sprintf("restored from a backup that was taken while worker %q had the task", c.Worker),
	}.Fact(t.ID)
}

// Free puts such facts into a task, of claims of which no fact says how they ended, and
// takes the claims out.
func (t *Task) Free(buffer time.Duration) {
	if len(t.Claims) == 0 {
		return
	}
	over := make(map[uint64]bool, len(t.Claims))
	for _, f := range t.Facts {
		if k := f.Key.Kind; k == crdt.KindFailed || k == crdt.KindExpired || k == crdt.KindCompleted {
			over[f.Key.A] = true
		}
	}
	for i := range t.Claims {
		if c := &t.Claims[i]; !over[c.Token] {
			t.Join(&Task{Facts: []crdt.Fact{Freed(t, c, buffer)}})
		}
	}
	t.Claims = nil
}
