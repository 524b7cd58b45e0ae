package check

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// A claim whose answer came when its lease was over binds nobody: another worker
// may have been granted the task before. One that is still believed in does.
func TestALateAnswerHoldsNoLock(t *testing.T) {
	for _, c := range []struct {
		until  time.Duration
		broken int
	}{{4 * time.Second, 0}, {8 * time.Second, 1}} {
		task := id.ID{1}
		l := NewLedger(LedgerOptions{})
		add := func(at time.Duration, op uint64, process int, phase history.Phase, items ...history.Item) {
			l.Add(&history.Event{At: int64(at), Op: op, Process: process, Phase: phase, Func: history.Claim, Items: items, Session: uint64(process), Request: op, Max: 1})
		}
		claimed := func(token uint64, until time.Duration) history.Item {
			return history.Item{Task: task, Spec: &history.Spec{Queue: "q"}, Token: token, State: history.Claimed, Until: int64(until)}
		}
		add(time.Second, 1, 1, history.Invoke)
		add(5*time.Second, 2, 2, history.Invoke)
		add(6*time.Second, 2, 2, history.OK, claimed(2, 9*time.Second))
		add(7*time.Second, 1, 1, history.OK, claimed(1, c.until))
		for _, r := range l.Judge() {
			if r.Checker == "lock" && (r.Judged != 1 || r.Broken != c.broken) {
				t.Errorf("a claim until %v that was heard of at 7s: %v, want %d broken", c.until, &r, c.broken)
			}
		}
	}
}

// A process that has died believes in nothing any more: whoever knows of its death
// may hand its task to another one at once. While it lives nobody may (seeds 10,214,
// 10,411 and 10,518 of clusters of five).
func TestADeadWorkerHoldsNothing(t *testing.T) {
	for _, dies := range []bool{true, false} {
		s := newScript(t)
		a := s.enqueue(history.Spec{})
		s.claim(1, 10, a)
		if dies {
			s.event(history.Event{At: s.at + second, Phase: history.Note, Func: history.Died, Process: 1})
			s.at += second
		}
		s.claimAs(2, s.granted(a, 11, history.ClaimSeen{Token: 10, Outcome: "expired"}))
		if overlap := s.found != nil && s.found.Invariant == Overlap; overlap == dies {
			t.Errorf("the first worker has died %t: %v", dies, s.found)
		}
	}
}

// A replica that has heard of a task's end and not of its enqueue shows the end
// alone. That says that the rest was collected only if the enqueue was sure to be
// everywhere (seed 10,013 of clusters of five).
func TestAnEndWithoutAnEnqueueIsNoCollection(t *testing.T) {
	for _, acked := range []bool{false, true} {
		s := newScript(t)
		a := s.task()
		spec := history.Spec{Queue: "q"}
		s.do(history.Event{Func: history.Enqueue, Items: []history.Item{{Task: a, Spec: &spec}}},
			history.Event{Items: []history.Item{{Task: a, Unsure: !acked}}})
		s.write(history.Cancel, history.Item{Task: a, State: history.Cancelled})
		s.read(a, history.Cancelled, func(i *history.Item) { i.Spec = nil })
		s.read(a, history.Cancelled, nil)
		if broken := s.found != nil && s.found.Invariant == Collected; broken != acked {
			t.Errorf("the enqueue was acknowledged for sure %t: %v", acked, s.found)
		}
	}
}

// A task waits for ever for what was completed, and forgotten, before anybody surely
// knew that it waits; for what was completed since then it does not.
func TestWhatWasForgottenBeforeIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		late time.Duration // when the task is surely known, after the completion
		ends bool          // the dependency is read at the end
		want string
	}{
		{2 * time.Second, false, StateRule},
		{6 * time.Second, false, StateRule},
		{40 * time.Second, false, ""},
		{40 * time.Second, true, Stuck}, // it is not forgotten
	} {
		s := newScript(t)
		s.c = New(Options{Partitions: 1, Elected: true, Slack: second, Retention: 10 * second, Grace: 10 * second})
		dep := s.enqueue(history.Spec{})
		s.claim(1, 10, dep)
		s.write(history.Complete, history.Item{Task: dep, Token: 10})
		s.at += int64(c.late)
		task := s.enqueue(history.Spec{Deps: []id.ID{dep}})
		s.at += 60 * second
		s.settle()
		state := history.Absent
		if c.ends {
			state = history.Completed
		}
		s.read(dep, state, nil)
		s.read(task, history.Waiting, nil)
		if got := s.finish(); got != c.want {
			t.Errorf("known %v late, the dependency is there at the end: %t: found %q, want %q", c.late, c.ends, got, c.want)
		}
	}
}

// TestATaskThatHasJustComeMayWait: what it depends on was completed long ago, but a node without a
// leader does not say so (seed 57 of one node). Later it does not wait any more.
func TestATaskThatHasJustComeMayWait(t *testing.T) {
	for _, c := range []struct {
		after time.Duration // the task has come
		want  string
	}{{100 * time.Millisecond, ""}, {20 * time.Second, StateRule}} {
		s := newScript(t)
		s.c = New(Options{Partitions: 1, Slack: 10 * second})
		dep := s.enqueue(history.Spec{})
		s.claim(1, 10, dep)
		s.write(history.Complete, history.Item{Task: dep, Token: 10})
		s.at += 60 * second
		task := s.enqueue(history.Spec{Deps: []id.ID{dep}})
		s.at += int64(c.after)
		s.read(task, history.Waiting, nil)
		found := ""
		if s.found != nil {
			found = s.found.Invariant
		}
		if found != c.want {
			t.Errorf("%v after the task has come: found %q, want %q", c.after, found, c.want)
		}
	}
}

// TestALateTaskOfAKeyMayBeDead: nobody has tried it. It may be so where an older task of
// its key was retried and nothing was acknowledged, or by a side of a cluster that has no
// leader, and not else: before, the simulator would have found that wrong of a server that
// does what it is to do.
func TestALateTaskOfAKeyMayBeDead(t *testing.T) {
	for _, c := range []struct {
		acked, retried bool
		key            string
		many           bool
		found          bool
	}{
		{false, true, "k", true, false},
		{true, true, "k", true, false},
		{true, true, "k", false, true},
		{false, false, "k", true, true},
		{true, false, "k", true, true},
		{false, true, "another", true, true},
		{true, true, "another", true, true},
	} {
		s := failing(t)
		s.c.o.Elected = c.many
		first := s.enqueue(history.Spec{Key: "k"})
		s.claim(1, 1<<32|10, first)
		s.write(history.FailTask, history.Item{Task: first, Token: 1<<32 | 10, Discard: true, State: history.Dead})
		late, phase := s.task(), history.Info
		if c.acked {
			phase = history.OK
		}
		s.ends(phase, history.Event{Func: history.Enqueue, Items: []history.Item{{Task: late, Spec: &history.Spec{Queue: "q", Key: c.key}}}}, history.Event{Items: []history.Item{{Task: late}}})
		if c.retried {
			s.write(history.Retry, history.Item{Task: first})
		}
		s.settle()
		s.read(late, history.Dead, func(got *history.Item) {
			got.Attempts, got.Spec = 0, &history.Spec{Queue: "q", Key: c.key, MaxAttempts: 3}
		})
		if found := s.found != nil; found != c.found {
			t.Errorf("%+v: found %v", c, s.found)
		}
	}
}
