package session

import (
	"testing"
	"time"
)

// TestAhead: a worker claims ahead only while all runs it knows of were short, and it knows
// of some.
func TestAhead(t *testing.T) {
	var a Ahead
	for n := range aheadKnown {
		if a.Allows() {
			t.Fatalf("it claims ahead after %d runs", n)
		}
		a.Ran(time.Millisecond)
	}
	if !a.Allows() {
		t.Fatal("it does not claim ahead though its runs are short")
	}
	a.Ran(AheadFor + 1)
	for n := range aheadRuns - 1 {
		if a.Allows() {
			t.Fatalf("it claims ahead %d runs after a long one", n)
		}
		a.Ran(AheadFor)
	}
	if a.Allows() {
		t.Fatal("a long run is forgotten too soon")
	}
	if a.Ran(AheadFor); !a.Allows() {
		t.Fatal("a long run is never forgotten")
	}
	if a.Late(); a.Allows() {
		t.Fatal("it claims ahead though a task has just been late")
	}
}

// adaptive is a session whose worker has a slot and may claim one task ahead.
func adaptive(t *testing.T) (*Worker, *rig, func(c Claim)) {
	w, err := NewWorker(WorkerConfig{Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: 1, Prefetch: Adaptive, Queues: []QueueSlots{{"q", 0, 0}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, w, DispatcherConfig{})
	return w, r, func(c Claim) {
		t.Helper()
		if len(r.out.Want) == 0 {
			t.Fatal("it wants nothing")
		}
		no := r.out.Want[len(r.out.Want)-1].No
		r.out = DispatcherReady{}
		r.d.Granted(r.now, no, r.now.Mono, []Assignment{{Claim: c, Queue: "q", Lease: time.Hour}})
		r.flow()
	}
}

// TestAWorkerClaimsAheadWhileItsRunsAreShort: at first it is strict, then it wants one task more
// than it has slots, and when that one has to wait it is given back unharmed, and the worker is
// strict again.
func TestAWorkerClaimsAheadWhileItsRunsAreShort(t *testing.T) {
	w, r, give := adaptive(t)
	for n := range aheadKnown {
		c := Claim{simTask(n + 1), 1}
		give(c)
		if len(r.out.Want) != 0 {
			t.Fatalf("it wants more after %d runs, and its slot is taken", n)
		}
		r.now = r.now.Add(time.Millisecond)
		w.Ended(r.now, c, End{Kind: EndCompleted})
		r.flow()
	}
	long, ahead := Claim{simTask(50), 1}, Claim{simTask(51), 1}
	give(long)
	give(ahead) // it wants that one, too
	if last := r.up.Start[len(r.up.Start)-1]; last.Claim != long || len(r.up.Start) != aheadKnown+1 || len(w.Info().Running) != 2 {
		t.Fatalf("%d begun, %v at last, it has %v", len(r.up.Start), last.Claim, w.Info().Running)
	}
	r.now = r.now.Add(AheadFor - time.Millisecond)
	w.Tick(r.now)
	r.flow()
	if n := len(r.out.Settle); n != 0 {
		t.Fatalf("%d tasks are over before their time", n)
	}
	r.now = r.now.Add(time.Millisecond)
	w.Tick(r.now)
	r.flow()
	if len(r.out.Settle) != 1 || r.out.Settle[0].Claim != ahead || r.out.Settle[0].End.Kind != EndReleased {
		t.Fatalf("what waited is not given back: %+v", r.out.Settle)
	}
	if len(r.out.Want) != 0 {
		t.Errorf("it wants tasks though it is strict again and its slot is taken: %+v", r.out.Want)
	}
}
