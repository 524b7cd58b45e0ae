package session

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
)

// newRunning makes a rig whose worker runs a claim.
func newRunning(t *testing.T) (r *rig, c Claim) {
	r, c = newRig(t, aWorker(t, 2), DispatcherConfig{}), Claim{simTask(1), 1}
	r.d.Granted(r.now, r.out.Want[0].No, r.now.Mono, []Assignment{{Claim: c, Queue: "q", Lease: time.Hour}})
	r.flow()
	if _, ok := r.w.Holds(r.now, c); !ok {
		t.Fatal("it does not run")
	}
	return r, c
}

// hear gives the dispatcher what the worker has to say, and gives what that is.
func (r *rig) hear() (all []Message) {
	all = r.w.Ready().Send
	for _, m := range all {
		r.d.Step(r.now, m)
	}
	return all
}

// told counts what of one kind the dispatcher has to say.
func told[B Body](out DispatcherReady) (all []B) {
	for _, m := range out.Send {
		if b, ok := m.Body.(B); ok {
			all = append(all, b)
		}
	}
	return all
}

// TestAnEndThatWasNotWrittenIsNotAcknowledged: the worker goes on saying it, and what it
// says next is written.
func TestAnEndThatWasNotWrittenIsNotAcknowledged(t *testing.T) {
	r, c := newRunning(t)
	r.w.Ended(r.now, c, End{Kind: EndCompleted})
	for _, done := range []bool{false, true} {
		r.hear()
		if out := r.d.Ready(); len(out.Settle) != 1 || out.Settle[0].Claim != c {
			t.Fatalf("to be written: %+v", out.Settle)
		}
		r.d.Settled(r.now, Instance{1}, c, Outcome{Done: done})
		if acks := told[*StatusAck](r.d.Ready()); len(acks) > 0 != done {
			t.Fatalf("written: %v, and acknowledged: %v", done, acks)
		}
		r.now = r.now.Add(time.Second)
		r.w.Tick(r.now)
	}
}

// TestANameCountsFromWhenItWasAskedFor: the answer may have been on its way for long.
func TestANameCountsFromWhenItWasAskedFor(t *testing.T) {
	w := aWorker(t, 1)
	d, err := NewDispatcher(DispatcherConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, w: w, d: d, now: clock.Time{Mono: 1e9}}
	w.Turn(r.now)
	r.hear()
	asked, names := r.now, d.Ready().Names
	if len(names) != 1 {
		t.Fatalf("asked for: %+v", names)
	}
	r.now = r.now.Add(nameWait - 1)
	d.Name(r.now, NameAnswer{No: names[0].No, Instance: Instance{1}, Verdict: NameGranted})
	n := d.sessions[Instance{1}].name
	if want := clock.WorkerDeadline(asked.Mono, 0, names[0].Lease, clock.Margin(names[0].Lease, 0)); !n.held || n.until != want {
		t.Errorf("held %v, until %v after it was asked for, not %v", n.held, time.Duration(n.until-asked.Mono), time.Duration(want-asked.Mono))
	}
}

// TestARepeatedHeartbeatCountsNothing: it says what was true before.
func TestARepeatedHeartbeatCountsNothing(t *testing.T) {
	r := newRig(t, aWorker(t, 1), DispatcherConfig{})
	r.now = r.now.Add(6 * time.Second)
	r.w.Tick(r.now)
	all := r.hear()
	s := r.d.sessions[Instance{1}]
	at, counted := s.stamps.Heartbeat, r.d.Counts().Heartbeats
	if at != r.now.Mono {
		t.Fatal("the first one does not count")
	}
	r.now = r.now.Add(3 * time.Second)
	for _, m := range all {
		r.d.Step(r.now, m)
	}
	if s.stamps.Heartbeat != at || r.d.Counts().Heartbeats != counted {
		t.Errorf("it counts again %v later", time.Duration(s.stamps.Heartbeat-at))
	}
}

// TestACheckCountsFromItsSending: a late word proves no more than it did then.
func TestACheckCountsFromItsSending(t *testing.T) {
	r := newRig(t, aWorker(t, 1), DispatcherConfig{})
	var sent int64
	for sent == 0 {
		r.now = r.now.Add(time.Second)
		r.w.Tick(r.now)
		r.hear()
		r.d.Tick(r.now)
		out := r.d.Ready()
		for _, run := range told[*RunTask](out) {
			if run.Check != 0 {
				sent = r.now.Mono
			}
		}
		for _, m := range out.Send {
			r.w.Step(r.now, m)
		}
	}
	checks := r.w.Ready().Start
	r.now = r.now.Add(2 * time.Second)
	for _, s := range checks {
		r.w.CheckPassed(r.now, s.Check)
	}
	r.hear()
	if s := r.d.sessions[Instance{1}]; s.stamps.Check != sent {
		t.Errorf("it counts from %v after it was sent", time.Duration(s.stamps.Check-sent))
	}
}

// TestTheFirstListCounts: a later copy would bring back what has ended since.
func TestTheFirstListCounts(t *testing.T) {
	r, c := newRunning(t)
	r.w.Turn(r.now)
	r.hear()
	for _, m := range r.d.Ready().Send {
		r.w.Step(r.now, m)
	}
	lists := r.hear()
	if s := r.d.sessions[Instance{1}]; !s.listed || s.book.all[c] == nil {
		t.Fatal("its list has not come")
	}
	r.w.Ended(r.now, c, End{Kind: EndCompleted})
	r.flow()
	for _, m := range lists {
		r.d.Step(r.now, m)
	}
	if s := r.d.sessions[Instance{1}]; s.book.all[c] != nil {
		t.Error("what has ended is back")
	}
}

// TestAWorkerThatTurnsAnew: nothing is handed to it before it has said what it runs, and
// what it was to stop it is told again.
func TestAWorkerThatTurnsAnew(t *testing.T) {
	r, c := newRunning(t)
	r.d.Cancel(r.now, Instance{1}, c, CauseKilled)
	r.d.Ready() // lost with the stream
	r.w.Turn(r.now)
	r.hear()
	if i, _ := r.d.Info(r.now, Instance{1}); i.Listed || i.State != New {
		t.Errorf("before its list: %+v", i)
	}
	out := r.d.Ready()
	if len(out.Want) > 0 {
		t.Errorf("before its list it is to be given %+v", out.Want)
	}
	for _, n := range out.Names {
		r.d.Name(r.now, NameAnswer{No: n.No, Instance: Instance{1}, Verdict: NameGranted})
	}
	for _, m := range out.Send {
		r.w.Step(r.now, m)
	}
	r.flow()
	if n := r.d.sessions[Instance{1}].book.cancels; n != 1 {
		t.Errorf("after its list %d claims are to stop", n)
	}
	if len(r.up.Stop) != 1 || r.up.Stop[0] != (Stop{c, CauseKilled}) {
		t.Errorf("it is to stop %+v", r.up.Stop)
	}
}

// TestARefusalOfWhatRunsIsNotBelieved: the worker decides each push once. A refusal of
// another push, or of a claim that it is known to run, says nothing of this one.
func TestARefusalOfWhatRunsIsNotBelieved(t *testing.T) {
	r, c := newRunning(t)
	s := r.d.sessions[Instance{1}]
	push := s.book.all[c].push
	say := func(push uint64) int {
		r.d.Step(r.now, Message{Instance: Instance{1}, Association: 1, Stamp: r.w.stamp, Body: &RunReply{Push: push, Claim: c, Refused: RefusedFull}})
		return len(r.d.Ready().Settle)
	}
	if n := say(push); n != 0 || s.book.all[c] == nil {
		t.Error("a claim that runs is free by a refusal")
	}
	s.book.put(s.book.all[c], unsure, r.now.Mono)
	if n := say(push + 1); n != 0 || s.book.all[c] == nil {
		t.Error("a claim is free by the refusal of another push")
	}
	if n := say(push); n != 1 || s.book.all[c] != nil {
		t.Error("a claim is not free by the refusal of its push")
	}
}

// TestWhoTakesANameFreesNothingWithoutProof: the worker that has lost its name may run on
// for a while; only the same lock on the same machine shows that it is dead.
func TestWhoTakesANameFreesNothingWithoutProof(t *testing.T) {
	for name, c := range map[string]struct {
		next Identity
		free int
	}{
		"another machine": {Identity{Instance: Instance{9}, Machine: "other", Lock: "l", Started: 5}, 0},
		"no lock":         {Identity{Instance: Instance{9}, Machine: "m", Started: 5}, 0},
		"its lock":        {Identity{Instance: Instance{9}, Machine: "m", Lock: "l", Started: 5}, 1},
	} {
		r, _ := newRunning(t)
		s := r.d.sessions[Instance{1}]
		s.id.Machine, s.id.Lock, s.id.Started = "m", "l", 3
		c.next.Name = "w"
		r.d.Name(r.now, NameAnswer{Instance: Instance{1}, Verdict: NameRefused, Holder: c.next})
		out := r.d.Ready()
		if len(out.Settle) != c.free || len(told[*Suicide](out)) == 0 || s.state != MustDie {
			t.Errorf("%s: free %+v, %v", name, out.Settle, s.state)
		}
	}
}

// TestAHeartbeatNamesNoMoreThanItMay: of a worker that runs as much as it may, and whose ends
// are not all acknowledged. A node refuses a longer list, with all that comes with it.
func TestAHeartbeatNamesNoMoreThanItMay(t *testing.T) {
	w, err := NewWorker(WorkerConfig{Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: MaxTakes, Queues: []QueueSlots{{"q", 0, 0}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, w, DispatcherConfig{})
	give := func(from, to int) {
		var all []Assignment
		for n := from; n < to; n++ {
			task := simTask(n)
			task[18] = byte(n >> 8)
			all = append(all, Assignment{Claim: Claim{task, 1}, Queue: "q", Lease: time.Hour})
		}
		r.d.Granted(r.now, r.out.Want[len(r.out.Want)-1].No, r.now.Mono, all)
	}
	give(0, MaxTakes)
	r.flow()
	for _, s := range r.up.Start[:2] {
		w.Ended(r.now, s.Claim, End{Kind: EndCompleted})
	}
	r.hear()
	r.out.Want = r.d.Ready().Want // the ends are being written
	give(MaxTakes, MaxTakes+2)
	for _, m := range r.d.Ready().Send {
		w.Step(r.now, m)
	}
	_ = w.Ready()
	r.now = r.now.Add(DefaultTimeouts.Period)
	w.Tick(r.now)
	all := w.Ready().Send
	if _, err := Unbundle(Bundle(Instance{1}, 1, 1, all, 0)); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if b, ok := m.Body.(*Heartbeat); ok {
			for _, s := range r.up.Start[:2] {
				if _, found := slices.BinarySearchFunc(b.Claims, s.Claim, Claim.Compare); found {
					t.Error("what has ended is named, and something that runs is not")
				}
			}
			if len(b.Claims) != MaxTakes {
				t.Errorf("%d claims are named", len(b.Claims))
			}
		}
	}
}
