package vnode

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
)

// TestAPollingTaskSlowsDown: a task that puts itself off every second, and uses up no
// attempt, would have half a million failures after a week, which all that is done with it
// reads. The pauses grow with their number, and only then.
func TestAPollingTaskSlowsDown(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: time.Second, 900: time.Second, 5_000: time.Second, 20_000: 2 * time.Second} {
		r := newRig(t)
		task := r.enqueue(crdt.Enqueued{})
		all := make([]crdt.Fact, failures)
		for i := range all {
			all[i] = crdt.Failed{Token: uint64(i + 1)}.Fact(task)
		}
		if _, err := Merge(r.v, r.tx, all, r.now); err != nil {
			t.Fatal(err)
		}
		d := r.grant()
		at := r.now.Add(time.Second).Wall
		if _, _, err := r.v.Fail(r.tx, task, Failure{Token: d.Claims[len(d.Claims)-1].Token, RetryAt: at}, r.now); err != nil {
			t.Fatal(err)
		}
		after, err := LoadTask(r.tx, r.v.Partition, task)
		if got := time.Duration(after.NotBefore() - r.now.Wall); err != nil || got != want {
			t.Errorf("after %d failures it is put off for %v, want %v: %v", failures, got, want, err)
		}
	}
}

// TestWhatIsPutOffIsNotClaimed before its time, by the clock of who grants it: that one would
// know it, had it not missed the failure. Renewals are of a claim that was granted.
func TestWhatIsPutOffIsNotClaimed(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 9}})
	r.merge(crdt.Failed{Token: token1, At: r.now.Wall, RetryAt: r.now.Add(time.Minute).Wall, Counted: true}.Fact(task))
	if b := r.accept(task, token1+1, Stale); b != nil {
		t.Errorf("claim %x is in the way", b.Record.Token)
	}
	renewed := r.record(token1 + 1)
	renewed.End++
	r.acceptRecord(task, renewed, Accepted)
	r.release(task, token1+1)
	r.now = r.now.Add(time.Minute - 1)
	r.accept(task, token1+2, Stale)
	r.now = r.now.Add(1)
	r.accept(task, token1+2, Accepted)
}

// TestARetriedTaskIsNotPutOff: the retry is of after the failure.
func TestARetriedTaskIsNotPutOff(t *testing.T) {
	r := follower(t)
	task := r.enqueue(crdt.Enqueued{Retry: crdt.Retry{MaxAttempts: 9}})
	r.merge(crdt.Failed{Token: token1, At: r.now.Wall, RetryAt: r.now.Add(time.Minute).Wall, Counted: true}.Fact(task))
	r.merge(crdt.Requeued{Generation: 1, At: r.now.Wall, AfterToken: token1}.Fact(task))
	r.accept(task, token1+1, Accepted)
}
