package session

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
)

// boss is a dispatcher that hears a worker only as a test says, whom all names are granted.
type boss struct {
	t       *testing.T
	d       *Dispatcher
	now     clock.Time
	n       uint64 // association
	stamp   int64
	checked uint64 // newest check that was sent
	out     DispatcherReady
	refuse  NameVerdict // what else becomes of names; 0: they are granted
}

// newBoss has a worker that is healthy, with two slots and room for one task more.
func newBoss(t *testing.T, more ...func(*Heartbeat)) *boss {
	t.Helper()
	d, err := NewDispatcher(DispatcherConfig{MaxSessions: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := &boss{t: t, d: d, now: clock.Time{Mono: 1e12}, n: 1, stamp: 5e11}
	b.settle(more...)
	if s := b.s(); s.state != Healthy || s.room() != 3 {
		t.Fatalf("it is %v, and has room for %d", s.state, s.room())
	}
	return b
}

func (b *boss) settle(more ...func(*Heartbeat)) {
	b.beat(more...)
	b.says(&RunningTasks{Request: b.n})
	b.beat(more...)
}

func (b *boss) s() *session { return b.d.sessions[Instance{1}] }

// says has the dispatcher hear something.
func (b *boss) says(body Body) { b.saysIn(b.n, body) }

func (b *boss) saysIn(association uint64, body Body) {
	b.stamp++
	b.d.Step(b.now, Message{Instance: Instance{1}, Association: association, Stamp: b.stamp, Body: body})
	b.take()
}

// take adds what is to be done to what was, and answers what is about names.
func (b *boss) take() {
	out := b.d.Ready()
	b.out.Send, b.out.Want, b.out.Unwant = append(b.out.Send, out.Send...), append(b.out.Want, out.Want...), append(b.out.Unwant, out.Unwant...)
	b.out.Settle, b.out.Renew, b.out.Names = append(b.out.Settle, out.Settle...), append(b.out.Renew, out.Renew...), append(b.out.Names, out.Names...)
	for _, m := range out.Send {
		if r, is := m.Body.(*RunTask); is && r.Check > 0 {
			b.checked = r.Check
		}
	}
	for _, n := range out.Names {
		a := NameAnswer{No: n.No, Instance: n.Identity.Instance, Verdict: NameGranted}
		switch {
		case b.refuse != NameUnknown:
			a.Verdict = b.refuse
		case n.Op == NameRevoke:
			a.Verdict = NameRevoked
		}
		b.d.Name(b.now, a)
	}
	if len(out.Names) > 0 {
		b.take()
	}
}

func (b *boss) beat(more ...func(*Heartbeat)) { b.beatIn(b.n, more...) }

func (b *boss) beatIn(association uint64, more ...func(*Heartbeat)) {
	h := &Heartbeat{
		Identity: Identity{Name: "w", Instance: Instance{1}, Machine: "m"}, MinVersion: MinVersion, MaxVersion: MaxVersion,
		Capacity: Capacity{Slots: 2, Prefetch: 1, Queues: []QueueSlots{{Queue: "q"}}}, Settled: true, Checked: b.checked,
	}
	for _, f := range more {
		f(h)
	}
	b.saysIn(association, h)
}

// pass lets time pass.
func (b *boss) pass(d time.Duration) {
	b.now = b.now.Add(d)
	b.d.Tick(b.now)
	b.take()
}

// done gives what there was to do since it was asked last.
func (b *boss) done() DispatcherReady {
	out := b.out
	b.out = DispatcherReady{}
	return out
}

// frames gives the frames of a kind among some.
func frames[B Body](all []Message) (some []B) {
	for _, m := range all {
		if x, is := m.Body.(B); is {
			some = append(some, x)
		}
	}
	return some
}

// grant answers the open want.
func (b *boss) grant(claims ...Claim) {
	b.t.Helper()
	s := b.s()
	if s.want == nil {
		b.t.Fatal("it wants nothing")
	}
	var all []Assignment
	for _, c := range claims {
		all = append(all, Assignment{Claim: c, Queue: "q", Lease: time.Minute})
	}
	b.d.Granted(b.now, s.want.no, b.now.Mono, all)
	b.take()
}

func claims(n int) (all []Claim) {
	for i := range n {
		all = append(all, Claim{simTask(i), uint64(i + 1)})
	}
	return all
}

// known gives what a dispatcher believes of a claim.
func (b *boss) known(c Claim) string {
	e := b.s().book.all[c]
	if e == nil {
		return "nothing"
	}
	return [...]string{"sent", "running", "unsure"}[e.state]
}

func (b *boss) wants(c Claim, state string) {
	b.t.Helper()
	if got := b.known(c); got != state {
		b.t.Errorf("claim %d is %s, not %s", c.Token, got, state)
	}
}

// settledFor gives why a claim was settled.
func settledFor(all []Settle, c Claim) (why []Why) {
	for _, x := range all {
		if x.Claim == c {
			why = append(why, x.Why)
		}
	}
	return why
}

func is(why []Why, want ...Why) bool { return slices.Equal(why, want) }
