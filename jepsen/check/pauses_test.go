package check

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// failing is a script of a cluster in which a task pauses for ten seconds at least
// after a failure, and clocks are within a second of each other.
func failing(t *testing.T) *script {
	s := newScript(t)
	s.c = New(Options{Partitions: 1, Slack: second, Elected: true, Backoff: 10 * second, Skew: second, Lease: 60 * second})
	return s
}

// A task that has failed is not tried again at once by who has heard of that: not
// before its policy's pause is over, nor before the time that its worker has named. A
// retry by hand ends the pause.
func TestAFailedTaskPauses(t *testing.T) {
	const failed, wall = 1<<32 | 10, 1_800_000_000 * second
	for name, c := range map[string]struct {
		item  history.Item
		state history.State
		wait  time.Duration
		token uint64
		retry bool
		want  string
	}{
		"at once":                                {item: history.Item{}, token: failed + 1, want: Early},
		"after the pause":                        {item: history.Item{}, wait: 10 * time.Second, token: failed + 1},
		"at once, by another leader":             {item: history.Item{}, token: 2<<32 | 1},
		"at once, after a retry":                 {item: history.Item{}, token: failed + 1, retry: true},
		"before the time that was asked for":     {item: history.Item{RetryAt: wall + 60*second}, wait: 50 * time.Second, token: failed + 1, want: Early},
		"at the time that was asked for":         {item: history.Item{RetryAt: wall + 20*second}, wait: 20 * time.Second, token: failed + 1},
		"at a time that is over":                 {item: history.Item{RetryAt: wall}, token: failed + 1},
		"though it was thrown away":              {item: history.Item{Discard: true}, state: history.Dead, token: 2<<32 | 1, want: Undone},
		"though it was thrown away, and retried": {item: history.Item{Discard: true}, state: history.Dead, token: 2<<32 | 1, retry: true},
		"thrown away, and ready":                 {item: history.Item{Discard: true}, state: history.Ready, want: StateRule},
	} {
		t.Run(name, func(t *testing.T) {
			s := failing(t)
			a := s.enqueue(history.Spec{})
			s.claim(1, failed, a)
			c.item.Task, c.item.Token = a, failed
			s.do(history.Event{Func: history.FailTask, Items: []history.Item{c.item}}, history.Event{Items: []history.Item{{Task: a, State: c.state}}})
			if c.retry {
				s.write(history.Retry, history.Item{Task: a, State: history.Ready})
			}
			s.at += int64(c.wait)
			if c.token != 0 {
				s.claimAs(2, s.granted(a, c.token, history.ClaimSeen{Token: failed, Outcome: "failed"}))
			}
			if s.found == nil && c.want != "" || s.found != nil && s.found.Invariant != c.want {
				t.Errorf("found %v, want %q", s.found, c.want)
			}
		})
	}
}

// Attempts that were used up count, unless somebody has retried the task: on one node
// each claim that has run out, on several what the end of a claim was acknowledged to be.
func TestAttemptsAreCounted(t *testing.T) {
	failed, expired := history.ClaimSeen{Token: 10, Outcome: "failed"}, history.ClaimSeen{Token: 10, Outcome: "expired"}
	for name, c := range map[string]struct {
		elected, fails, uncounted, retry bool
		shown                            history.ClaimSeen
		want                             string
	}{
		"a failure":                        {fails: true, shown: failed, want: StateRule},
		"a failure, on several nodes":      {elected: true, fails: true, shown: failed, want: StateRule},
		"one that counts for nothing":      {fails: true, uncounted: true, shown: failed},
		"a failure before a retry":         {fails: true, retry: true, shown: failed},
		"a claim that ran out":             {shown: expired, want: StateRule},
		"one on several nodes, by one":     {elected: true, shown: expired},
		"one that its worker has released": {shown: history.ClaimSeen{Token: 10, Outcome: "released"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.c = New(Options{Partitions: 1, Slack: second, Elected: c.elected})
			a := s.enqueue(history.Spec{})
			s.claim(1, 10, a)
			if c.fails {
				s.write(history.FailTask, history.Item{Task: a, Token: 10, Uncounted: c.uncounted, State: history.Ready})
			}
			if c.shown.Outcome == "released" {
				s.write(history.Release, history.Item{Task: a, Token: 10})
			}
			if c.retry {
				s.write(history.Retry, history.Item{Task: a, State: history.Ready})
			}
			s.at += 60 * second
			s.settle()
			s.read(a, history.Ready, func(i *history.Item) { i.Claims = []history.ClaimSeen{c.shown} })
			if s.found == nil && c.want != "" || s.found != nil && s.found.Invariant != c.want {
				t.Errorf("found %v, want %q", s.found, c.want)
			}
		})
	}
}

// What nobody has failed cannot have used up its attempts before as many leases are
// over. So a task whose policy is to run when its dependency fails does not run before,
// and a key whose task a majority knows is not free before.
func TestNothingDiesBeforeItsLeasesAreOver(t *testing.T) {
	for _, late := range []bool{false, true} {
		for name, c := range map[string]struct {
			want string
			play func(s *script, wait func())
		}{
			"a dependency": {Dependency, func(s *script, wait func()) {
				b := s.enqueue(history.Spec{Deps: []id.ID{s.enqueue(history.Spec{})}, OnFailure: "run"})
				wait()
				s.claim(1, 10, b)
			}},
			"a key": {UniqueKey, func(s *script, wait func()) {
				s.enqueue(history.Spec{Key: "k"})
				b := s.enqueue(history.Spec{Key: "k"})
				wait()
				s.claim(1, 10, b)
			}},
		} {
			s := failing(t)
			c.play(s, func() {
				if late {
					s.at += 60 * second
				}
			})
			if broken := s.found != nil && s.found.Invariant == c.want; broken == late {
				t.Errorf("%s, a lease later %t: found %v", name, late, s.found)
			}
		}
	}
}

// Where nothing is known of pauses, nothing is said of them: a laboratory's worker that
// says twice that it has failed, because the first answer was lost, is told so of the
// second time when the task is claimed again.
func TestWithoutPausesNoneIsJudged(t *testing.T) {
	const failed = 1<<32 | 10
	s := newScript(t)
	s.c = New(Options{Partitions: 1, Slack: second, Elected: true})
	a := s.enqueue(history.Spec{})
	s.claim(1, failed, a)
	asked := history.Event{Func: history.FailTask, Items: []history.Item{{Task: a, Token: failed}}}
	s.ends(history.Info, asked, history.Event{})
	s.claimAs(2, s.granted(a, failed+1, history.ClaimSeen{Token: failed, Outcome: "failed"}))
	s.do(asked, history.Event{Items: []history.Item{{Task: a, State: history.Claimed}}})
	if s.found != nil {
		t.Errorf("found %v", s.found)
	}
}

// A task whose ID a node has drawn may be as old as the request for it, though nobody
// hears of it before the answer.
func TestATaskIsAsOldAsItsRequest(t *testing.T) {
	s := failing(t)
	a, b := s.task(), s.task()
	ask := func(task id.ID, wait int64) {
		s.at += second
		s.op++
		spec := history.Spec{Queue: "q", Key: "k"}
		s.event(history.Event{Func: history.Enqueue, At: s.at, Op: s.op, Phase: history.Invoke, Items: []history.Item{{Spec: &spec}}})
		s.at += wait
		s.event(history.Event{Func: history.Enqueue, At: s.at, Op: s.op, Phase: history.OK, Items: []history.Item{{Task: task}}})
	}
	ask(a, 90*second) // its only claim, which nobody has heard of, may have run out
	ask(b, 0)
	s.claim(1, 1<<32|10, b)
	if s.found != nil {
		t.Errorf("found %v", s.found)
	}
}
