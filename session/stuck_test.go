package session

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
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

// TestALostWorkerLeavesThoughAnEndIsNotWritten: the copies of its partition are away, and those
// of others there. Not before the end was repeated for a while, and not while anything runs.
func TestALostWorkerLeavesThoughAnEndIsNotWritten(t *testing.T) {
	w, err := NewWorker(WorkerConfig{Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: 1, Queues: []QueueSlots{{"q", 0, 0}}}})
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Time{Mono: 1e9}
	say := func(b Body) { w.Step(now, Message{Instance: Instance{1}, Association: 1, Body: b}) }
	w.Turn(now)
	good := HeartbeatReply{Echo: w.Stamp(now), Version: MaxVersion, Good: true, Timeouts: DefaultTimeouts}
	say(&good)
	say(&RunTask{Push: 1, Check: 1, Echo: good.Echo})
	w.CheckPassed(now, 1)
	good.Checked = 1
	say(&good)
	a, b := Claim{simTask(1), 1}, Claim{simTask(2), 1}
	say(&RunTask{Push: 2, Claim: a, Queue: "q", Echo: good.Echo, Lease: time.Hour})
	say(&Notify{Seq: 1, Claims: []Question{{Claim: b, Lease: time.Hour}}}) // denied
	say(&Suicide{Reason: "lost"})
	var over []Claim
	ends, left := 0, 0
	pass := func(d time.Duration) {
		for range d / time.Second {
			now = now.Add(time.Second)
			over = append(over, Forsake(w, now)...)
			w.Tick(now)
			for _, m := range w.Ready().Send {
				switch u := m.Body.(type) {
				case *Leave:
					left++
				case *UpdateStatus:
					if u.Claim == a {
						ends++
					}
				}
			}
		}
	}
	if pass(time.Minute); len(over)+left+ends > 0 || len(w.Info().Running) != 1 {
		t.Fatalf("while it runs: over %v, %d words of leaving, %+v", over, left, w.Info())
	}
	w.Ended(now, a, End{Kind: EndReported})
	if pass(8 * time.Second); ends < 3 || len(over)+left > 0 {
		t.Errorf("soon after: told %d times, over %v, %d words of leaving", ends, over, left)
	}
	if pass(time.Minute); left == 0 || !slices.Equal(over, []Claim{a, b}) || w.Info().Unacked != 0 {
		t.Errorf("a minute later: %d words of leaving, over %v, %+v", left, over, w.Info())
	}
	say(&LeaveAck{})
	if !w.Info().Left {
		t.Error("it has not left")
	}
}
