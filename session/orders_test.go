package session

import (
	"testing"
	"time"
)

// says has the worker hear something of its dispatcher.
func (r *rig) says(b Body) { r.saysOf(r.w.association, b) }

func (r *rig) saysOf(association uint64, b Body) {
	r.w.Step(r.now, Message{Instance: Instance{1}, Association: association, Body: b})
}

// pushed has the worker hear of a push, and gives what it says to it; -1: nothing.
func (r *rig) pushed(push uint64, c Claim, lease time.Duration) Refusal {
	r.w.Ready()
	r.says(&RunTask{Push: push, Claim: c, Queue: "q", Echo: r.w.stamp, Lease: lease})
	for _, m := range r.w.Ready().Send {
		if b, is := m.Body.(*RunReply); is {
			return b.Refused
		}
	}
	return Refusal(255)
}

// TestWhatWasDeniedNeverBegins: neither the claim nor an older one of its task, for as long as
// a push of it may come; a newer one does.
func TestWhatWasDeniedNeverBegins(t *testing.T) {
	for name, deny := range map[string]func(c Claim, lease time.Duration) Body{
		"killed": func(c Claim, lease time.Duration) Body { return &KillTask{Claim: c, Lease: lease} },
		"asked": func(c Claim, lease time.Duration) Body {
			return &Notify{Seq: 1, Claims: []Question{{Claim: c, Lease: lease}}}
		},
	} {
		r, _ := newRunning(t)
		task := simTask(2)
		r.says(deny(Claim{task, 7}, time.Hour))
		r.says(deny(Claim{task, 5}, time.Minute)) // an older one, and a shorter lease
		r.now = r.now.Add(time.Second)
		for i, token := range []uint64{7, 6, 5} {
			if got := r.pushed(100+uint64(i), Claim{task, token}, time.Hour); got != RefusedBarred {
				t.Errorf("%s: claim %d is answered with %v", name, token, got)
			}
		}
		if b := r.w.bars[task]; b.until < r.now.Add(time.Hour).Mono-int64(time.Second) {
			t.Errorf("%s: barred for %v", name, time.Duration(b.until-r.now.Mono))
		}
		if got := r.pushed(200, Claim{task, 8}, time.Hour); got != Accepted {
			t.Errorf("%s: the next claim is answered with %v", name, got)
		}
	}
}

// TestAnAcknowledgementOfWhatRuns says nothing: the claim is held on.
func TestAnAcknowledgementOfWhatRuns(t *testing.T) {
	r, c := newRunning(t)
	r.says(&StatusAck{Claim: c})
	if _, ok := r.w.Holds(r.now, c); !ok {
		t.Error("a claim that runs is forgotten")
	}
}

// TestOrdersOfADispatcherBefore count for nothing, and the pushes of the next one count anew.
func TestOrdersOfADispatcherBefore(t *testing.T) {
	r, c := newRunning(t)
	used := r.w.pushes
	r.w.Turn(r.now)
	r.saysOf(r.w.association-1, &KillTask{Claim: c, Cause: CauseKilled})
	r.saysOf(r.w.association-1, &Suicide{Reason: "old"})
	if _, ok := r.w.Holds(r.now, c); !ok || len(r.w.Ready().Stop) > 0 {
		t.Error("an order of the dispatcher before is obeyed")
	}
	if !used.decided(1) || r.w.pushes.decided(1) {
		t.Error("the first push of a dispatcher is taken for one of the dispatcher before")
	}
}

// TestAClaimCountsWithTheTimeToStop: what a handler needs to stop is taken off, of a push and
// of a renewal; and a renewal from before, that comes late, takes nothing away.
func TestAClaimCountsWithTheTimeToStop(t *testing.T) {
	r, c := newRunning(t)
	r.w.cfg.Stop = 5 * time.Second
	echo := r.w.Stamp(r.now)
	r.says(&Renewed{Echo: echo, Items: []Renewal{{Claim: c, Lease: 2 * time.Hour}}})
	until, ok := r.w.Holds(r.now, c)
	if want := echo + int64(2*time.Hour-2*time.Hour/1000-r.w.cfg.Stop); !ok || until > want {
		t.Errorf("renewed until %v, want %v at most", until, want)
	}
	r.says(&Renewed{Echo: echo, Items: []Renewal{{Claim: c, Lease: time.Minute}}})
	if again, _ := r.w.Holds(r.now, c); again != until {
		t.Errorf("a shorter renewal moves the end by %v", time.Duration(again-until))
	}
	r.says(&Renewed{Echo: echo + int64(time.Hour), Items: []Renewal{{Claim: c, Lease: 3 * time.Hour}}})
	if again, _ := r.w.Holds(r.now, c); again != until {
		t.Error("a renewal of a heartbeat that was never sent counts")
	}
	d := Claim{simTask(2), 1}
	const lease, waited = time.Minute, 20 * time.Minute // by the clock of the node, which may go a thousandth too fast
	r.says(&RunTask{Push: 300, Claim: d, Queue: "q", Echo: echo, Waited: waited, Lease: lease})
	if until, ok := r.w.Holds(r.now, d); !ok || until > echo+int64(waited-waited/1000+lease-lease/1000-r.w.cfg.Stop) {
		t.Errorf("pushed until %v after the stamp, held: %v", time.Duration(until-echo), ok)
	}
}

// TestWhoMustDieHoldsNothing, however long its claims would last.
func TestWhoMustDieHoldsNothing(t *testing.T) {
	r, c := newRunning(t)
	if _, ok := r.w.Holds(r.now.Add(10*time.Minute), c); ok {
		t.Error("a worker that nobody has confirmed for ten minutes holds a claim")
	}
}

// TestNoMoreBeginsThanThereAreSlots: what was taken beforehand waits, and does not begin when
// its claim is over by then.
func TestNoMoreBeginsThanThereAreSlots(t *testing.T) {
	for _, lease := range []time.Duration{time.Hour, time.Second} {
		w, err := NewWorker(WorkerConfig{
			Identity: Identity{Name: "w", Instance: Instance{1}},
			Capacity: Capacity{Slots: 1, Prefetch: 1, Queues: []QueueSlots{{"q", 0, 0}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, w, DispatcherConfig{})
		first := Claim{simTask(1), 1}
		for i, c := range []Claim{first, {simTask(2), 1}} {
			r.says(&RunTask{Push: 100 + uint64(i), Claim: c, Queue: "q", Echo: r.w.Stamp(r.now), Lease: []time.Duration{time.Hour, lease}[i]})
		}
		if got := r.w.Ready().Start; len(got) != 1 || got[0].Claim != first {
			t.Errorf("begun: %+v", got)
		}
		r.w.Ended(r.now.Add(2*time.Second), first, End{Kind: EndCompleted})
		if got := r.w.Ready().Start; len(got) != 1 && lease == time.Hour || len(got) != 0 && lease == time.Second {
			t.Errorf("with a lease of %v, two seconds later: %+v", lease, got)
		}
	}
}
