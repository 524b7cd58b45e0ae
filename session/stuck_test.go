package session

import (
	"testing"
	"time"
)

// TestAWorkerWhoseHandlersHangIsGivenNothing: it says so by itself, so that its node does not
// hand out again and again what it would refuse; and when it is over.
func TestAWorkerWhoseHandlersHangIsGivenNothing(t *testing.T) {
	w, err := NewWorker(WorkerConfig{Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: 1, Prefetch: 1, Queues: []QueueSlots{{"q", 0, 0}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, w, DispatcherConfig{})
	a, b := Claim{simTask(1), 1}, Claim{simTask(2), 1}
	give := func(claims ...Claim) {
		t.Helper()
		if len(r.out.Want) == 0 {
			t.Fatal("it wants nothing")
		}
		var all []Assignment
		for _, c := range claims {
			all = append(all, Assignment{Claim: c, Queue: "q", Lease: time.Hour})
		}
		no := r.out.Want[len(r.out.Want)-1].No
		r.out = DispatcherReady{}
		r.d.Granted(r.now, no, r.now.Mono, all)
		r.flow()
	}
	give(a, b)
	r.now = r.now.Add(time.Second)
	Stuck(w, r.now, a, true)
	w.Ended(r.now, a, End{Kind: EndFailed})
	r.flow()
	if i := w.Info(); len(i.Running) != 0 || i.Unacked != 0 {
		t.Fatalf("%+v", i)
	}
	if n := len(r.out.Settle); n != 2 || len(r.out.Want) != 0 {
		t.Errorf("%d claims are over, it wants %+v", n, r.out.Want)
	}
	for range 10 {
		r.now = r.now.Add(3 * time.Second)
		w.Tick(r.now)
		r.flow()
	}
	if len(r.out.Want) != 0 || w.Info().State != Healthy {
		t.Errorf("it is %v and wants %+v", w.Info().State, r.out.Want)
	}
	Stuck(w, r.now, a, false)
	r.flow()
	c := Claim{simTask(3), 1}
	give(c)
	if i := w.Info(); len(i.Running) != 1 || i.Running[0] != c || len(r.up.Start) != 2 {
		t.Errorf("%+v, begun %+v", i, r.up.Start)
	}
}
