package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// forger makes histories that no server should have.
type forger struct {
	j   *judge
	now time.Time
}

func newForger() *forger {
	f := &forger{j: newJudge(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	f.j.clock = func() time.Time { return f.now }
	return f
}

func (f *forger) after(d time.Duration) { f.now = f.now.Add(d) }

// task makes one and has its enqueue acknowledged.
func (f *forger) task(n byte, change ...func(*client.Task)) client.Ref {
	t := client.Task{ID: id.ID{19: n}, Queue: "q", Payload: []byte{n}}
	for _, c := range change {
		c(&t)
	}
	f.j.enqueued(f.j.enqueues(t), t.ID, false, nil)
	return client.Ref{ID: t.ID}
}

func on(policy nornv1.DependencyFailure, dependencies ...client.Ref) func(*client.Task) {
	return func(t *client.Task) {
		t.OnDependencyFailure = policy
		for _, d := range dependencies {
			t.Dependencies = append(t.Dependencies, d.ID)
		}
	}
}

func keyed(window time.Duration) func(*client.Task) {
	return func(t *client.Task) { t.Key, t.KeyWindow = "key", window }
}

// grant hands a task out for a second.
func (f *forger) grant(r client.Ref, token uint64) client.Ref {
	f.grantFrom(f.j.claims([]string{"q"}), r, token)
	return client.Ref{ID: r.ID, Token: token}
}

func (f *forger) grantFrom(begun int64, r client.Ref, token uint64) {
	f.j.claimed(begun, []string{"q"}, []grant{{
		id: r.ID, token: token, until: f.now.Add(time.Second), start: f.now, payload: []byte{r.ID[19]}, queue: "q",
	}}, nil)
}

// does has something done to a task and acknowledged.
func (f *forger) does(d deed, r client.Ref) {
	f.j.hears(f.j.asks(d, r), d, r, 0, nil)
}

// asks has it asked for, and nobody knows what came of it.
func (f *forger) asks(d deed, r client.Ref) {
	f.j.hears(f.j.asks(d, r), d, r, 0, &client.Error{Unknown: true})
}

func (f *forger) sees(r client.Ref, s nornv1.State) { f.j.reads(f.j.begins(), r.ID, s) }

func (f *forger) lists(there ...client.Ref) []id.ID {
	states := map[id.ID]nornv1.State{}
	for _, r := range there {
		states[r.ID] = nornv1.State_STATE_READY
	}
	return f.j.listed(f.j.begins(), states)
}

func says(kind nornv1.ErrorKind) error { return &client.Error{Err: proto.Refused(kind, "forged")} }

const (
	isReady     = nornv1.State_STATE_READY
	isCompleted = nornv1.State_STATE_COMPLETED
	isCancelled = nornv1.State_STATE_CANCELLED
	isDead      = nornv1.State_STATE_DEAD
)

// forgery is a history with one thing wrong, and what the judge says of it.
type forgery struct {
	want  string
	forge func(f *forger)
}

var forgedClaims = []forgery{
	{"nobody has enqueued it", func(f *forger) { f.grant(client.Ref{}, 1) }},
	{"was granted to a request for", func(f *forger) { f.grant(f.task(1, func(t *client.Task) { t.Queue = "other" }), 1) }},
	{"its payload is", func(f *forger) { f.grant(f.task(1, func(t *client.Task) { t.Payload = nil }), 1) }},
	{"after its completion was acknowledged", func(f *forger) { r := f.grant(f.task(1), 1); f.does(completing, r); f.grant(r, 2) }},
	{"after its completion was acknowledged", func(f *forger) { // it was known by then: its dependent ran
		r := f.grant(f.task(1), 1)
		f.asks(completing, r)
		f.grant(f.task(2, on(policies[0], r)), 2)
		f.after(time.Minute)
		f.grant(r, 3)
	}},
	{"after its cancellation was acknowledged", func(f *forger) { r := f.task(1); f.does(cancelling, r); f.grant(r, 1) }},
	{"after its cancellation was acknowledged", func(f *forger) {
		r := f.task(1)
		begun := f.j.cancelsWhere("q", "")
		f.j.cancelledWhere(begun, "q", "", false, client.Bulk{Matched: 1, Done: 1}, nil)
		f.grant(r, 1)
	}},
	{"although it is dead", func(f *forger) { r := f.grant(f.task(1), 1); f.does(discarding, r); f.sees(r, isDead); f.grant(r, 2) }},
	{"claim 4 was granted after claim 5", func(f *forger) { r := f.grant(f.task(1), 5); f.does(releasing, r); f.grant(r, 4) }},
	{"claim 5 was granted after claim 5", func(f *forger) { r := f.grant(f.task(1), 5); f.after(time.Minute); f.grant(r, 5) }},
	{"claims 1 and 2 are both valid", func(f *forger) { r := f.grant(f.task(1), 1); f.after(999 * time.Millisecond); f.grant(r, 2) }},
	{"claims 1 and 2 are both valid", func(f *forger) {
		r := f.grant(f.task(1), 1)
		f.j.renewed(f.j.begins(), r, f.now.Add(3*time.Second), nil)
		f.after(2 * time.Second)
		f.grant(r, 2)
	}},
	{"was renewed after the task was finished", func(f *forger) {
		r := f.grant(f.task(1), 1)
		f.does(completing, r)
		f.j.renewed(f.j.begins(), r, f.now, nil)
	}},
	{"is said to be lost", func(f *forger) {
		f.j.renewed(f.j.begins(), f.grant(f.task(1), 1), f.now, says(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST))
	}},
	{"fail of claim 1 is refused", func(f *forger) {
		f.hears(failing, f.grant(f.task(1), 1), 0, says(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST))
	}},
	{"its completion under claim 1 is refused", func(f *forger) {
		f.hears(completing, f.grant(f.task(1), 1), 0, says(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST))
	}},
	{"before its dependency", func(f *forger) { d := f.task(1); f.grant(f.task(2, on(policies[0], d)), 1) }},
	{"before its dependency", func(f *forger) { // it has failed, but is tried again
		d := f.grant(f.task(1), 1)
		f.does(failing, d)
		f.grant(f.task(2, on(policies[1], d)), 2)
	}},
	{"before its dependency", func(f *forger) { // it is dead, and the task is to wait
		d := f.grant(f.task(1), 1)
		f.does(discarding, d)
		f.grant(f.task(2, on(policies[2], d)), 2)
	}},
	{"before its dependency", func(f *forger) { f.grant(f.task(2, on(policies[1], client.Ref{ID: id.ID{19: 9}})), 1) }},
	{"although the queue is paused", func(f *forger) { r := f.task(1); f.pause("pause"); f.after(time.Millisecond); f.grant(r, 1) }},
	{"while the queue was paused", func(f *forger) { // by a request that was there before
		r, begun := f.task(1), f.j.claims([]string{"q"})
		f.pause("pause")
		f.after(time.Second)
		f.grantFrom(begun, r, 1)
	}},
	{"too early", func(f *forger) { f.grant(f.task(1, func(t *client.Task) { t.NotBefore = f.now.Add(time.Second) }), 1) }},
}

var forgedReads = []forgery{
	{"nobody has enqueued it", func(f *forger) { f.sees(client.Ref{}, isReady) }},
	{"its completion was acknowledged and it is", func(f *forger) { r := f.grant(f.task(1), 1); f.does(completing, r); f.sees(r, isReady) }},
	{"its cancellation was acknowledged and it is", func(f *forger) { r := f.task(1); f.does(cancelling, r); f.sees(r, isReady) }},
	{"nobody has retried it", func(f *forger) {
		r := f.grant(f.task(1), 1)
		f.does(discarding, r)
		f.sees(r, isDead)
		f.sees(r, isReady)
	}},
	{"nobody has done that", func(f *forger) { f.sees(f.grant(f.task(1), 1), isCompleted) }},
	{"nothing could have done that", func(f *forger) { f.sees(f.task(1), isCancelled) }},
	{"nothing could have done that", func(f *forger) { // not against its policy
		d := f.task(1)
		f.does(cancelling, d)
		f.sees(f.task(2, on(policies[2], d)), isCancelled)
	}},
	{"nothing could have done that", func(f *forger) { r := f.grant(f.task(1), 1); f.does(failing, r); f.sees(r, isDead) }},
	{"STATE_READY before its dependency", func(f *forger) { f.sees(f.task(2, on(policies[0], f.task(1))), isReady) }},
	{"has no dependencies", func(f *forger) { f.sees(f.task(1), nornv1.State_STATE_WAITING) }},
	{"is gone", func(f *forger) { f.task(1); f.lists() }},
	{"is gone", func(f *forger) { f.keep(time.Second); f.task(1); f.after(time.Hour); f.lists() }}, // it is not finished
	{"is to be kept for 1s", func(f *forger) {
		f.keep(time.Second)
		f.does(completing, f.grant(f.task(1), 1))
		f.after(999 * time.Millisecond)
		f.lists()
	}},
	{"no tombstone", func(f *forger) { f.collect(0, says(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND)) }},
	{"its completion was acknowledged and it is", func(f *forger) { f.collect(isCancelled, nil) }},
	{"no archive has it so", func(f *forger) { f.j.lane("q").archive = true; f.collect(isCompleted, nil) }},
	{"is there again", func(f *forger) {
		f.j.listed(f.j.begins(), map[id.ID]nornv1.State{f.collect(isCompleted, nil).ID: isCompleted})
	}},
	{"nobody has enqueued", func(f *forger) { f.j.inArchive(&nornv1.Task{Id: id.ID{19: 1}.String()}) }},
	{"its queue is not archived", func(f *forger) { f.j.inArchive(&nornv1.Task{Id: f.task(1).ID.String()}) }},
	{"counted as STATE_READY", func(f *forger) {
		f.j.counted("q", &nornv1.Count{Ready: 2, Total: 2}, map[nornv1.State]uint64{isReady: 1})
	}},
	{"the states add up", func(f *forger) {
		f.j.counted("q", &nornv1.Count{Ready: 1, Total: 2}, map[nornv1.State]uint64{isReady: 1})
	}},
	{"of the updates", func(f *forger) {
		r := f.grant(f.task(1), 1)
		f.j.updated(f.j.begins(), r, "a", nil)
		f.j.updated(f.j.begins(), r, "b", nil)
		f.j.logged(r.ID, []*nornv1.Update{{Token: 1, Data: []byte("b")}, {Token: 1, Data: []byte("a")}})
	}},
}

var forgedWrites = []forgery{
	{"it is new again", func(f *forger) { f.task(1); f.task(1) }},
	{"another spec", func(f *forger) {
		spec := client.Task{ID: id.ID{19: 1}}
		f.j.enqueued(f.j.enqueues(spec), spec.ID, false, says(nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS))
	}},
	{"although the queue drains", func(f *forger) { f.pause("drain"); f.task(1) }},
	{"is not found", func(f *forger) { f.hears(retrying, f.task(1), 0, says(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND)) }},
	{"forged", func(f *forger) { f.hears(cancelling, f.task(1), 0, says(nornv1.ErrorKind_ERROR_KIND_INTERNAL)) }},
	{"its key was taken by", func(f *forger) { f.task(1, keyed(0)); f.task(2, keyed(0)) }},
	{"taken in this window", func(f *forger) {
		f.does(completing, f.grant(f.task(1, keyed(time.Minute)), 1))
		f.task(2, keyed(time.Minute))
	}},
	{"neither is", func(f *forger) {
		a := f.grant(f.task(1, keyed(0)), 1)
		f.asks(completing, a)
		f.lists(a, f.task(2, keyed(0)))
	}},
	{"is STATE_READY", func(f *forger) { r := f.grant(f.task(1), 1); f.does(completing, r); f.hears(retrying, r, isReady, nil) }},
}

func (f *forger) hears(d deed, r client.Ref, s nornv1.State, err error) {
	f.j.hears(f.j.asks(d, r), d, r, s, err)
}

func (f *forger) pause(what string) {
	f.j.pauses("q", true)
	f.j.paused("q", what, nil)
}

func (f *forger) keep(d time.Duration) { f.j.lane("q").retention = d }

// collect has a completed task collected.
func (f *forger) collect(s nornv1.State, err error) client.Ref {
	f.keep(time.Second)
	r := f.grant(f.task(1), 1)
	f.does(completing, r)
	f.after(time.Minute)
	for _, task := range f.lists() {
		f.j.buried(f.j.begins(), task, s, err)
	}
	return r
}

// TestJudgeFindsForgedHistories: a judge that never finds anything proves
// nothing.
func TestJudgeFindsForgedHistories(t *testing.T) {
	for name, list := range map[string][]forgery{"claims": forgedClaims, "reads": forgedReads, "writes": forgedWrites} {
		for n, forged := range list {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				f := newForger()
				forged.forge(f)
				if err := f.j.verdict(); err == nil || !strings.Contains(err.Error(), forged.want) {
					t.Errorf("the judge says %v, not %q", err, forged.want)
				}
			})
		}
	}
}

// honestHistories have nothing wrong, though it may look so.
var honestHistories = map[string]func(f *forger){
	"an unknown completion": func(f *forger) { r := f.grant(f.task(1), 1); f.asks(completing, r); f.sees(r, isCompleted) },
	"an unknown cancellation": func(f *forger) {
		r := f.task(1)
		f.asks(cancelling, r)
		f.grant(r, 1)
		f.sees(r, isReady)
		f.sees(r, isCancelled)
	},
	"a claim that ran out": func(f *forger) {
		r := f.grant(f.task(1), 1)
		f.after(time.Second)
		f.grant(r, 2)
		f.does(completing, r)
	},
	"a grant asked for before the cancellation": func(f *forger) {
		r, begun := f.task(1), f.j.claims([]string{"q"})
		f.does(cancelling, r)
		f.grantFrom(begun, r, 1)
	},
	"a late completion of what was cancelled": func(f *forger) {
		r := f.grant(f.task(1), 1)
		f.does(cancelling, r)
		f.does(completing, r)
		f.sees(r, isCompleted)
	},
	"dead and retried": func(f *forger) {
		r := f.grant(f.task(1), 1)
		f.does(discarding, r)
		f.sees(r, isDead)
		f.hears(retrying, r, isReady, nil)
		f.grant(r, 2)
	},
	"retried while it was read": func(f *forger) {
		r := f.grant(f.task(1), 1)
		f.j.retriesWhere("q")
		f.does(discarding, r)
		begun := f.j.begins()
		f.j.retriedWhere("q", client.Bulk{}, nil)
		f.j.reads(begun, r.ID, isDead) // as it was before
		r = f.grant(r, 2)
		f.does(discarding, r)
		asked := f.j.asks(retrying, r)
		begun = f.j.begins()
		f.j.hears(asked, retrying, r, isReady, nil)
		f.j.reads(begun, r.ID, isDead)
		f.grant(r, 3)
	},
	"run though a dependency is dead": func(f *forger) {
		d := f.grant(f.task(1), 1)
		f.does(discarding, d)
		f.grant(f.task(2, on(policies[1], d)), 2)
	},
	"cancelled with its dependency's dependency": func(f *forger) {
		d := f.task(1)
		f.does(cancelling, d)
		f.sees(f.task(3, on(policies[0], f.task(2, on(policies[0], d)))), isCancelled)
	},
	"a key that is free again": func(f *forger) { f.does(completing, f.grant(f.task(1, keyed(0)), 1)); f.task(2, keyed(0)) },
	"resumed": func(f *forger) {
		r := f.task(1)
		f.pause("pause")
		f.after(time.Second)
		f.j.pauses("q", false)
		f.grant(r, 1)
	},
	"collected": func(f *forger) { f.collect(isCompleted, nil); f.lists() },
	"collected and archived": func(f *forger) {
		f.j.lane("q").archive = true
		f.keep(time.Second)
		r := f.grant(f.task(1), 1)
		f.does(completing, r)
		f.after(time.Minute)
		f.j.inArchive(&nornv1.Task{Id: r.ID.String(), State: isCompleted, Payload: []byte{1}})
		f.j.buried(f.j.begins(), f.lists()[0], isCompleted, nil)
	},
}

// TestJudgeTrustsHonestHistories: what may have happened is no fault.
func TestJudgeTrustsHonestHistories(t *testing.T) {
	for name, honest := range honestHistories {
		t.Run(name, func(t *testing.T) {
			f := newForger()
			honest(f)
			if err := f.j.verdict(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestJudgeKnowsWhatMayWait: at the end of a run only what can never go on may
// be left.
func TestJudgeKnowsWhatMayWait(t *testing.T) {
	f := newForger()
	d, never := f.task(1), client.Ref{ID: id.ID{19: 9}}
	unsure := client.Task{ID: id.ID{19: 8}, Queue: "q"}
	f.j.enqueued(f.j.enqueues(unsure), unsure.ID, false, &client.Error{Unknown: true})
	for n, c := range []struct {
		policy nornv1.DependencyFailure
		on     client.Ref
		is     nornv1.State
		may    bool
	}{
		{policies[0], d, isCompleted, false}, {policies[2], d, isCompleted, false}, {policies[0], d, isDead, false}, {policies[1], d, isDead, false},
		{policies[0], client.Ref{ID: unsure.ID}, 0, true}, {policies[0], d, 0, false},
		{policies[2], d, isDead, true}, {policies[2], d, isCancelled, true}, {policies[0], never, 0, true}, {policies[0], d, nornv1.State_STATE_WAITING, true},
	} {
		r := f.task(byte(20+n), on(c.policy, c.on))
		states := map[id.ID]nornv1.State{r.ID: nornv1.State_STATE_WAITING}
		if c.is != 0 {
			states[c.on.ID] = c.is
		}
		if may := f.j.mayWait(r.ID, states); may != c.may {
			t.Errorf("case %d: it may wait: %v", n, may)
		}
	}
}

// TestJudgeNamesWhatWasMissed: a run without an event of every feature fails.
func TestJudgeNamesWhatWasMissed(t *testing.T) {
	j := newJudge()
	for _, feature := range features[1:] {
		j.note(feature, 1)
	}
	if missed := j.missed(); len(missed) != 1 || missed[0] != features[0] {
		t.Errorf("missed: %q, want %q", missed, features[:1])
	}
}
