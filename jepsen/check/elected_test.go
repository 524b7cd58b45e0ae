package check

import (
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// Several nodes with elections: what fences keep is wrong at any time, what
// only a late reading shows is not, and after settling all counts.
//
// Long because: it is a table.
func TestElected(t *testing.T) {
	claimed := func(play func(s *script, a id.ID)) func(*script) {
		return func(s *script) {
			a := s.enqueue(history.Spec{})
			s.claim(1, 10, a)
			play(s, a)
		}
	}
	weak := func(s *script, a id.ID) {
		s.do(history.Event{Func: history.Complete, Weak: true, Items: []history.Item{{Task: a, Token: 10}}},
			history.Event{Items: []history.Item{{Task: a}}})
	}
	ended := func(weak bool) func(s *script, a id.ID) {
		return func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.do(history.Event{Func: history.Get, Weak: weak, Items: []history.Item{{Task: a}}},
				history.Event{Items: []history.Item{{Task: a, State: history.Completed}}})
			s.settle()
			s.do(history.Event{Func: history.Get, Items: []history.Item{{Task: a}}},
				history.Event{Items: []history.Item{{Task: a, State: history.Completed, Spec: &history.Spec{Queue: "q"}}}})
		}
	}
	for name, c := range map[string]struct {
		elected, unfenced string // what is found, with elections and without
		play              func(s *script)
	}{
		"a completed task is granted": {Undone, "", claimed(func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.claim(2, 11, a)
		})},
		"one that a single node knows as completed": {"", "", claimed(func(s *script, a id.ID) {
			weak(s, a)
			s.claim(2, 11, a)
		})},
		"that one, after settling": {Undone, Undone, claimed(func(s *script, a id.ID) {
			weak(s, a)
			s.settle()
			s.claim(2, 11, a)
		})},
		"of which one copy has only the end": {"", "", claimed(ended(true))},
		"of which several have only that":    {Collected, Collected, claimed(ended(false))},
		"a completed task is renewed": {Undone, "", claimed(func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.write(history.Renew, history.Item{Task: a, Token: 10})
		})},
		"a majority shows a completed task as claimed": {Undone, "", claimed(func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.read(a, history.Claimed, nil)
		})},
		"a single copy shows a completed task as claimed": {"", "", claimed(func(s *script, a id.ID) {
			s.write(history.Complete, history.Item{Task: a, Token: 10})
			s.do(history.Event{Func: history.Get, Weak: true, Items: []history.Item{{Task: a}}},
				history.Event{Items: []history.Item{{Task: a, State: history.Claimed}}})
		})},
		"a majority does not find what a majority has acknowledged": {Lost, "", func(s *script) { s.read(s.enqueue(history.Spec{}), history.Absent, nil) }},
		"an acknowledged task is not there yet, on a single node": {"", "", func(s *script) {
			a := s.enqueue(history.Spec{})
			s.do(history.Event{Func: history.Get, Weak: true, Items: []history.Item{{Task: a}}},
				history.Event{Items: []history.Item{{Task: a, State: history.Absent}}})
		}},
		"a majority does not show what majorities have acknowledged": {Lost, "", claimed(func(s *script, a id.ID) {
			s.write(history.Update, history.Item{Task: a, Token: 10})
			s.read(a, history.Claimed, nil)
		})},
		"nor what comes after what one node has acknowledged": {"", "", claimed(func(s *script, a id.ID) {
			s.do(history.Event{Func: history.Update, Weak: true, Items: []history.Item{{Task: a, Token: 10}}}, history.Event{Items: []history.Item{{Task: a}}})
			s.write(history.Update, history.Item{Task: a, Token: 10, Seq: 1})
			s.read(a, history.Claimed, nil)
		})},
		"less than was to be shown at least": {Contiguous, Contiguous, claimed(func(s *script, a id.ID) {
			s.write(history.Update, history.Item{Task: a, Token: 10})
			s.do(history.Event{Func: history.Get, Weak: true, After: &history.Entry{Token: 10}, Items: []history.Item{{Task: a}}},
				history.Event{Items: []history.Item{{Task: a, State: history.Claimed, Spec: &history.Spec{Queue: "q"}}}})
		})},
		"nothing, where something was to be shown": {Contiguous, Contiguous, claimed(func(s *script, a id.ID) {
			s.write(history.Update, history.Item{Task: a, Token: 10})
			s.do(history.Event{Func: history.Get, Weak: true, After: &history.Entry{Token: 10}, Items: []history.Item{{Task: a}}},
				history.Event{Items: []history.Item{{Task: a, State: history.Absent}}})
		})},
		"a retry that was refused has happened": {Undone, "", claimed(func(s *script, a id.ID) {
			s.write(history.FailTask, history.Item{Task: a, Token: 10, Discard: true, State: history.Dead})
			s.refused(history.Retry, history.Item{Task: a})
			s.claim(2, 11, a)
		})},
		"of two retries one was refused": {"", "", claimed(func(s *script, a id.ID) {
			s.write(history.FailTask, history.Item{Task: a, Token: 10, Discard: true, State: history.Dead})
			s.ends(history.Info, history.Event{Func: history.Retry, Items: []history.Item{{Task: a}}}, history.Event{})
			s.refused(history.Retry, history.Item{Task: a})
			s.claim(2, 11, a)
		})},
		"a release that was refused has happened": {Honesty, "", claimed(func(s *script, a id.ID) {
			s.refused(history.Release, history.Item{Task: a, Token: 10})
			s.read(a, history.Ready, func(i *history.Item) { i.Claims[0].Outcome = "released" })
		})},
		"a failure that nobody has reported": {Phantom, "", claimed(func(s *script, a id.ID) {
			s.read(a, history.Ready, func(i *history.Item) { i.Claims[0].Outcome, i.Attempts = "failed", 1 })
		})},
		"a failure of which nobody knows what came of it": {"", "", claimed(func(s *script, a id.ID) {
			s.ends(history.Info, history.Event{Func: history.FailTask, Items: []history.Item{{Task: a, Token: 10}}}, history.Event{})
			s.read(a, history.Ready, func(i *history.Item) { i.Claims[0].Outcome, i.Attempts = "failed", 1 })
		})},
		"two hold one task": {Overlap, "", claimed(func(s *script, a id.ID) {
			s.claimAs(2, s.granted(a, 11, history.ClaimSeen{Token: 10, Outcome: "expired"}))
		})},
		"a token for two":                {Token, "", claimed(func(s *script, a id.ID) { s.claim(2, 10, a) })},
		"a claim is taken from a worker": {Lost, "", claimed(func(s *script, a id.ID) { s.lost(a, 10) })},
		"because the task is dead, which no leader before can have said": {Lost, "", claimed(func(s *script, a id.ID) { s.lostAs(a, 10, history.Dead) })},
		"because a leader before has given it up": {"", "", func(s *script) {
			a := s.enqueue(history.Spec{})
			s.claim(1, 2<<32|1, a)
			s.lostAs(a, 2<<32|1, history.Dead)
		}},
		"granted before its dependency": {Dependency, "", func(s *script) {
			a := s.enqueue(history.Spec{})
			s.claim(1, 1, s.enqueue(history.Spec{Deps: []id.ID{a}}))
		}},
		"before its time": {Early, "", func(s *script) { s.claim(1, 1, s.enqueue(history.Spec{NotBefore: 1_900_000_000 * second})) }},
		"the leader has not heard of a better one": {"", "", func(s *script) {
			a, b := s.enqueue(history.Spec{Priority: 1}), s.enqueue(history.Spec{})
			s.claim(1, 1, b, a)
		}},
		"a leader without the enqueue takes a discard": {"", "", claimed(func(s *script, a id.ID) {
			s.do(history.Event{Func: history.FailTask, Items: []history.Item{{Task: a, Token: 10, Discard: true}}},
				history.Event{Items: []history.Item{{Task: a}}})
		})},
		"a leader has not heard of a pause": {"", "", func(s *script) {
			a := s.enqueue(history.Spec{})
			s.set(history.Change{Queue: "q", Paused: true})
			s.claim(1, 1, a)
		}},
		"a write comes twice on its way": {"", "", func(s *script) { s.again(s.task(), history.Spec{}, true) }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range []struct {
				Options
				want string
			}{
				{Options{Elected: true}, c.elected},
				{Options{Unfenced: true}, c.unfenced},
			} {
				o.Partitions, o.Slack = 1, second
				s := newScript(t)
				s.c = New(o.Options)
				c.play(s)
				if s.found == nil && o.want != "" || s.found != nil && s.found.Invariant != o.want {
					t.Errorf("%+v: found %v, want %q", o.Options, s.found, o.want)
				}
			}
		})
	}
	// Where disks get lost, claims may.
	s := newScript(t)
	s.c = New(Options{Partitions: 1, Elected: true, Lossy: true})
	claimed(func(s *script, a id.ID) { s.lost(a, 10) })(s)
	if s.found != nil {
		t.Errorf("a lost claim after a lost disk: %v", s.found)
	}
}

// What a majority has acknowledged is kept for as long as finished tasks are, and a
// majority shows it: also long before everything has settled.
func TestACollectorThatDoesNotWait(t *testing.T) {
	kept := func(s *script, _ id.ID) {}
	late := func(s *script, _ id.ID) { s.at += 10 * second }
	stepped := func(s *script, _ id.ID) { s.event(history.Event{At: s.at, Text: ClockStepped}) }
	for name, c := range map[string]struct {
		weak, read bool // the enqueue, the reading
		between    func(*script, id.ID)
		want       string
	}{
		"too early":                            {false, false, kept, Collected},
		"when it may":                          {false, false, late, ""},
		"a copy may have only the end":         {false, true, kept, ""},
		"of what no majority has acknowledged": {true, false, kept, ""},
		"clocks were set":                      {false, false, stepped, ""},
	} {
		s := newScript(t)
		s.c = New(Options{Partitions: 1, Slack: second, Elected: true, Retention: 10 * second})
		a, spec := s.task(), &history.Spec{Queue: "q"}
		s.do(history.Event{Func: history.Enqueue, Weak: c.weak, Items: []history.Item{{Task: a, Spec: spec}}}, history.Event{Items: []history.Item{{Task: a}}})
		s.claim(1, 10, a)
		s.write(history.Complete, history.Item{Task: a, Token: 10})
		c.between(s, a)
		s.do(history.Event{Func: history.Get, Weak: c.read, Items: []history.Item{{Task: a}}},
			history.Event{Items: []history.Item{{Task: a, State: history.Completed}}})
		if s.found == nil && c.want != "" || s.found != nil && s.found.Invariant != c.want {
			t.Errorf("%s: found %v, want %q", name, s.found, c.want)
		}
	}
}

// The claim of a worker that is lost fails before its lease is over.
func TestALostWorkerFailsItsClaim(t *testing.T) {
	for sessions, want := range map[bool]string{true: "", false: Phantom} {
		s := newScript(t)
		s.c = New(Options{Partitions: 1, Slack: second, Elected: true, Lease: 60 * second, Sessions: sessions})
		a := s.enqueue(history.Spec{MaxAttempts: 1})
		s.claim(1, 10, a)
		s.read(a, history.Dead, nil)
		if s.found == nil && want != "" || s.found != nil && s.found.Invariant != want {
			t.Errorf("with sessions %t: found %v, want %q", sessions, s.found, want)
		}
	}
}
