package check

import (
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// broken are histories that each break one promise.
//
// Long because: it is a table.
func broken() map[string]struct {
	want string
	play func(s *script)
} {
	type row = struct {
		want string
		play func(s *script)
	}
	only := func(f func(s *script, a id.ID)) func(*script) {
		return func(s *script) { f(s, s.enqueue(history.Spec{})) }
	}
	claimed := func(f func(s *script, a id.ID)) func(*script) {
		return func(s *script) {
			a := s.enqueue(history.Spec{})
			s.claim(1, 10, a)
			f(s, a)
		}
	}
	return map[string]row{
		"an enqueue is lost":      {Lost, only(func(s *script, a id.ID) { s.read(a, history.Absent, nil) })},
		"an enqueue is new again": {Lost, only(func(s *script, a id.ID) { s.again(a, history.Spec{}, false) })},
		"an update is lost": {Lost, claimed(func(s *script, a id.ID) {
			s.write(history.Update, history.Item{Task: a, Token: 10})
			s.read(a, history.Claimed, nil)
		})},
		"a checkpoint is lost":    {Lost, checkpointLost},
		"a claim is not shown":    {Lost, claimed(func(s *script, a id.ID) { s.read(a, history.Claimed, func(i *history.Item) { i.Claims = nil }) })},
		"a claimed task is ready": {Lost, claimed(func(s *script, a id.ID) { s.read(a, history.Ready, nil) })},
		"a release is not shown": {Lost, claimed(func(s *script, a id.ID) {
			s.write(history.Release, history.Item{Task: a, Token: 10})
			s.read(a, history.Ready, nil)
		})},
		"a task of nobody":       {Phantom, func(s *script) { s.read(s.task(), history.Ready, nil) }},
		"a completion of nobody": {Phantom, only(func(s *script, a id.ID) { s.read(a, history.Completed, nil) })},
		"an update of nobody": {Phantom, claimed(func(s *script, a id.ID) {
			s.read(a, history.Claimed, func(i *history.Item) { i.Log = []history.Entry{{Token: 10}} })
		})},
		"a claim of nobody":        {Phantom, only(func(s *script, a id.ID) { s.read(a, history.Claimed, nil) })},
		"another payload":          {Content, only(func(s *script, a id.ID) { s.read(a, history.Ready, func(i *history.Item) { i.Spec.Payload = 9 }) })},
		"another spec is accepted": {Content, only(func(s *script, a id.ID) { s.again(a, history.Spec{Priority: 9}, true) })},
		"more than was asked for": {Content, func(s *script) {
			s.do(history.Event{Func: history.Claim, Max: 1}, history.Event{Items: make([]history.Item, 2)})
		}},
		"another result":   {Content, claimed(func(s *script, a id.ID) { s.results(a, 7, 8) })},
		"a result is gone": {Content, claimed(func(s *script, a id.ID) { s.results(a, 7, 0) })},
		"the result of a completion that was refused": {Content, claimed(func(s *script, a id.ID) {
			s.refused(history.Complete, history.Item{Task: a, Token: 9, Data: 8})
			s.results(a, 7, 8)
		})},
		"a completion is undone": {Undone, claimed(func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.read(a, history.Ready, nil)
		})},
		"a completed task is granted": {Undone, claimed(func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.claim(2, 11, a)
		})},
		"a cancelled task is granted": {Undone, only(func(s *script, a id.ID) { s.write(history.Cancel, history.Item{Task: a}); s.claim(2, 11, a) })},
		"a completed task is renewed": {Undone, claimed(func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.write(history.Renew, history.Item{Task: a, Token: 10})
		})},
		"a dead task lives": {Undone, claimed(func(s *script, a id.ID) {
			s.write(history.FailTask, history.Item{Task: a, Token: 10, Discard: true, State: history.Dead})
			s.read(a, history.Ready, nil)
		})},
		"two hold one task": {Overlap, claimed(func(s *script, a id.ID) {
			s.claimAs(2, s.granted(a, 11, history.ClaimSeen{Token: 10, Outcome: "expired"}))
		})},
		"an old claim is renewed": {Overlap, overtaken},
		"a token for two":         {Token, claimed(func(s *script, a id.ID) { s.claim(2, 10, a) })},
		"tokens fall": {Token, claimed(func(s *script, a id.ID) {
			s.write(history.Release, history.Item{Task: a, Token: 10})
			s.claimAs(2, s.granted(a, 9, history.ClaimSeen{Token: 10, Outcome: "released"}))
		})},
		"a log with a hole": {Contiguous, claimed(func(s *script, a id.ID) {
			s.read(a, history.Claimed, func(i *history.Item) { i.Log = []history.Entry{{Token: 10, Seq: 1}} })
		})},
		"worst first in one answer": {Order, func(s *script) {
			a, b := s.enqueue(history.Spec{Priority: 1}), s.enqueue(history.Spec{})
			s.claim(1, 1, b, a)
		}},
		"passed over": {Order, passedOver},
		"granted before its dependency": {Dependency, func(s *script) {
			a := s.enqueue(history.Spec{})
			s.claim(1, 1, s.enqueue(history.Spec{Deps: []id.ID{a}}))
		}},
		"ready before its dependency": {Dependency, func(s *script) {
			a := s.enqueue(history.Spec{})
			s.read(s.enqueue(history.Spec{Deps: []id.ID{a}}), history.Ready, nil)
		}},
		"before its time":           {Early, func(s *script) { s.claim(1, 1, s.enqueue(history.Spec{NotBefore: 1_900_000_000 * second})) }},
		"a paused queue hands out":  {Paused, only(func(s *script, a id.ID) { s.set(history.Change{Queue: "q", Paused: true}); s.claim(1, 1, a) })},
		"a draining queue takes in": {Paused, func(s *script) { s.set(history.Change{Queue: "q", Draining: true}); s.enqueue(history.Spec{}) }},
		"one key, two tasks":        {UniqueKey, func(s *script) { s.enqueue(history.Spec{Key: "k"}); s.enqueue(history.Spec{Key: "k"}) }},
		"a key of a finished task":  {UniqueKey, finishedKey},
		"waiting for nothing":       {StateRule, only(func(s *script, a id.ID) { s.read(a, history.Waiting, nil) })},
		"scheduled for no reason":   {StateRule, only(func(s *script, a id.ID) { s.read(a, history.Scheduled, nil) })},
		"dead too early":            {Phantom, func(s *script) { s.read(s.enqueue(history.Spec{MaxAttempts: 3}), history.Dead, nil) }},
		"cancelled by nobody":       {Phantom, only(func(s *script, a id.ID) { s.read(a, history.Cancelled, nil) })},
		"not in a list":             {Counting, only(func(s *script, a id.ID) { s.do(history.Event{Func: history.List}, history.Event{}) })},
		"twice in a list": {Counting, only(func(s *script, a id.ID) {
			s.do(history.Event{Func: history.List}, history.Event{Items: []history.Item{{Task: a}, {Task: a}}})
		})},
		"too few are counted": {Counting, only(func(s *script, a id.ID) {
			s.do(history.Event{Func: history.Count}, history.Event{Tallies: []history.Tally{{}}})
		})},
		"states do not add up": {Counting, only(func(s *script, a id.ID) {
			s.do(history.Event{Func: history.Count}, history.Event{Tallies: []history.Tally{{Total: 1}}})
		})},
		"counted in another state": {Counting, miscounted},
		"forgotten at once": {Collected, claimed(func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.read(a, history.Completed, func(i *history.Item) { i.Spec, i.Claims = nil, nil })
		})},
		"it never ends": {Stuck, only(func(s *script, a id.ID) { s.settle(); s.read(a, history.Ready, nil) })},
		"the server has a bug": {Internal, only(func(s *script, a id.ID) {
			s.ends(history.Fail, history.Event{Func: history.Get, Items: []history.Item{{Task: a}}}, history.Event{Error: "INTERNAL"})
		})},
		"refused and done":                 {Honesty, refused},
		"an old claim is called lost":      {Lost, claimed(func(s *script, a id.ID) { s.lost(a, 10) })},
		"a conflict that is none":          {StateRule, only(func(s *script, a id.ID) { s.conflict(a) })},
		"cancelled against its policy":     {Dependency, againstPolicy},
		"an operation without a beginning": {Phantom, func(s *script) { s.event(history.Event{At: 1, Op: 99, Phase: history.OK, Func: history.Get}) }},
	}
}

// results is a completion with one result, and a reading of it with another.
func (s *script) results(a id.ID, sent, shown uint64) {
	s.write(history.Complete, history.Item{Task: a, Token: 10, Data: sent})
	s.read(a, history.Completed, func(i *history.Item) { i.Data = shown })
}

// lost is a renewal that is told that the claim is over.
func (s *script) lost(a id.ID, token uint64) { s.lostAs(a, token, "") }

// lostAs is one that is told in what state the task is.
func (s *script) lostAs(a id.ID, token uint64, state history.State) {
	s.do(history.Event{Func: history.Renew, Items: []history.Item{{Task: a, Token: token}}},
		history.Event{Items: []history.Item{{Task: a, Error: "CLAIM_LOST", State: state}}})
}

// conflict is a cancellation of a ready task that is refused.
func (s *script) conflict(a id.ID) {
	s.do(history.Event{Func: history.Cancel, Items: []history.Item{{Task: a}}},
		history.Event{Items: []history.Item{{Task: a, Error: "CONFLICT", State: history.Ready}}})
}

func overtaken(s *script) {
	a := s.enqueue(history.Spec{})
	s.claim(1, 10, a)
	s.at += 30 * second
	s.claimAs(2, s.granted(a, 11, history.ClaimSeen{Token: 10, Outcome: "expired"}))
	s.write(history.Renew, history.Item{Task: a, Token: 10})
}

func finishedKey(s *script) {
	a := id.UniqueKey([16]byte{}, "q", "k", 0, 0)
	s.again(a, history.Spec{Key: "k"}, false)
	s.write(history.Cancel, history.Item{Task: a})
	s.do(history.Event{Func: history.Key, Items: []history.Item{{Spec: &history.Spec{Queue: "q", Key: "k"}}}},
		history.Event{Items: []history.Item{{Task: a, State: history.Cancelled}}})
}

func checkpointLost(s *script) {
	a := s.enqueue(history.Spec{})
	s.claim(1, 10, a)
	s.write(history.Update, history.Item{Task: a, Token: 10, Data: 5})
	s.write(history.Release, history.Item{Task: a, Token: 10})
	s.claimAs(2, s.granted(a, 11, history.ClaimSeen{Token: 10, Outcome: "released"}))
}

func passedOver(s *script) {
	a, b := s.enqueue(history.Spec{}), s.enqueue(history.Spec{})
	s.claim(1, 1, b)
	s.write(history.Complete, history.Item{Task: b, Token: 1})
	s.claim(1, 2, a)
	s.write(history.Complete, history.Item{Task: a, Token: 2})
	s.settle()
	s.read(a, history.Completed, nil)
	s.read(b, history.Completed, nil)
}

func miscounted(s *script) {
	a := s.enqueue(history.Spec{})
	s.write(history.Cancel, history.Item{Task: a})
	s.settle()
	s.read(a, history.Cancelled, nil)
	counts := map[history.State]uint64{history.Dead: 1}
	s.do(history.Event{Func: history.Count}, history.Event{Tallies: []history.Tally{{Total: 1, Counts: counts}, {Queue: "q", Total: 1, Counts: counts}}})
}

func refused(s *script) {
	a := s.task()
	spec := &history.Spec{Queue: "q"}
	s.do(history.Event{Func: history.Enqueue, Items: []history.Item{{Task: a, Spec: spec}}},
		history.Event{Items: []history.Item{{Task: a, Error: "DISK_FULL"}}})
	s.read(a, history.Ready, nil)
}

func againstPolicy(s *script) {
	a := s.enqueue(history.Spec{})
	b := s.enqueue(history.Spec{Deps: []id.ID{a}, OnFailure: "wait"})
	s.write(history.Cancel, history.Item{Task: a})
	s.settle()
	s.read(a, history.Cancelled, nil)
	// That somebody may have cancelled it keeps the state possible.
	s.c.tasks[b].blocked = s.at + 100*second
	s.read(b, history.Cancelled, nil)
}

// TestBrokenHistoriesAreFound: every checker can fail, and by its own name.
func TestBrokenHistoriesAreFound(t *testing.T) {
	for name, row := range broken() {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			row.play(s)
			if got := s.finish(); got != row.want {
				t.Fatalf("found %q, want %q", got, row.want)
			}
		})
	}
}

// TestUnknownOutcomesAreNotHeldAgainstAnybody: what may have happened, may
// have happened.
func TestUnknownOutcomesAreNotHeldAgainstAnybody(t *testing.T) {
	s := newScript(t)
	a, spec := s.task(), &history.Spec{Queue: "q"}
	s.ends(history.Info, history.Event{Func: history.Enqueue, Items: []history.Item{{Task: a, Spec: spec}}}, history.Event{})
	s.read(a, history.Absent, nil)
	s.read(a, history.Ready, nil)
	s.ends(history.Info, history.Event{Func: history.Claim, Queues: []string{"q"}, Session: 1, Request: 1}, history.Event{})
	s.read(a, history.Claimed, nil)
	s.ends(history.Info, history.Event{Func: history.Cancel, Items: []history.Item{{Task: a}}}, history.Event{})
	s.read(a, history.Ready, nil)
	s.read(a, history.Cancelled, nil)
	if v := s.finish(); v != "" {
		t.Fatalf("an honest history is found to break %s", v)
	}
}

// TestOneOfSeveralResultsStays: of claims that all complete a task that of each may stay,
// and of a collected task nothing is shown.
func TestOneOfSeveralResultsStays(t *testing.T) {
	s := newScript(t)
	a := s.enqueue(history.Spec{})
	s.claim(1, 10, a)
	s.ends(history.Info, history.Event{Func: history.Complete, Items: []history.Item{{Task: a, Token: 10, Data: 8}}}, history.Event{})
	s.refused(history.Complete, history.Item{Task: a, Token: 10, Data: 8})
	s.results(a, 7, 8)
	s.read(a, history.Completed, func(i *history.Item) { i.Data = 7 })
	if v := s.finish(); v != "" {
		t.Errorf("an honest history is found to break %s", v)
	}
	s = newScript(t)
	s.c = New(Options{Partitions: 1, Slack: second, Retention: 10 * second})
	a = s.enqueue(history.Spec{})
	s.claim(1, 10, a)
	s.write(history.Complete, history.Item{Task: a, Token: 10, Data: 7})
	s.at += 20 * second
	s.read(a, history.Completed, func(i *history.Item) { i.Spec, i.Claims = nil, nil })
	if v := s.finish(); v != "" {
		t.Errorf("a collected task: an honest history is found to break %s", v)
	}
}

// TestAGrantOfASessionMayBeOlderThanItsRequest: its token is lower than one that was
// there when it seems to have been asked for. Where nobody says since when its worker
// has asked, that is a breach.
func TestAGrantOfASessionMayBeOlderThanItsRequest(t *testing.T) {
	for _, since := range []int64{0, 1} {
		s := newScript(t)
		a, b := s.enqueue(history.Spec{}), s.enqueue(history.Spec{})
		s.claim(1, 10, a)
		s.serial++
		s.do(history.Event{Func: history.Claim, Process: 2, Queues: []string{"q"}, Max: 1, Session: 2, Request: s.serial},
			history.Event{Session: 2, Request: s.serial, Since: since, Items: []history.Item{s.granted(b, 9)}})
		if v := s.c.Finish(); (v != nil) != (since == 0) {
			t.Errorf("asked since %d: %v", since, v)
		}
	}
}

// TestFencedChangesOfAQueue: a change whose outcome is unknown may come at any
// time, unless it is bound to a version that is over.
func TestFencedChangesOfAQueue(t *testing.T) {
	for version, want := range map[uint64]string{0: "", 1: Paused} {
		s := newScript(t)
		a := s.enqueue(history.Spec{})
		s.set(history.Change{Queue: "q"})
		s.ends(history.Info, history.Event{Func: history.SetQueue, Change: &history.Change{Queue: "q", IfVersion: version}}, history.Event{})
		s.set(history.Change{Queue: "q", Paused: true, IfVersion: 1})
		s.claim(1, 1, a)
		if got := s.finish(); got != want {
			t.Errorf("a lost resuming bound to version %d: found %q, want %q", version, got, want)
		}
	}
}
