package session

import (
	"testing"
	"time"
)

// offers lets time pass, answers each want at once with a task, and has the worker do something
// with each: it gives how many it was given, and the longest time between two of them.
func (b *boss) offers(d time.Duration, do func(*RunTask)) (n int, longest time.Duration) {
	last := b.now
	for end := b.now.Add(d); b.now.Mono < end.Mono; b.pass(50 * time.Millisecond) {
		if b.now.Mono%int64(5*time.Second) == 0 {
			b.beat()
		}
		for b.s().want != nil && n < 1e4 {
			n++
			longest, last = max(longest, time.Duration(b.now.Mono-last.Mono)), b.now
			b.grant(Claim{simTask(n), uint64(n)})
			for _, r := range frames[*RunTask](b.done().Send) {
				if r.Check == 0 {
					do(r)
				}
			}
		}
	}
	return n, longest
}

// TestAWorkerThatGivesAllBackRests, however it does that, for longer and longer; what is under way
// to it when it begins to is one refusal. Once a task ends well it is given all again.
func TestAWorkerThatGivesAllBackRests(t *testing.T) {
	var b *boss
	refuse := func(why Refusal) func(*RunTask) {
		return func(r *RunTask) { b.says(&RunReply{Push: r.Push, Claim: r.Claim, Refused: why}) }
	}
	giveBack := func(kind EndKind, accept bool) func(*RunTask) {
		return func(r *RunTask) {
			if accept {
				b.says(&RunReply{Push: r.Push, Claim: r.Claim})
			}
			b.says(&UpdateStatus{Claim: r.Claim, End: End{Kind: kind}})
			b.d.Settled(b.now, Instance{1}, r.Claim, Outcome{Done: true})
			b.take()
		}
	}
	ways := map[string]func(*RunTask){
		"released": giveBack(EndReleased, true), "released unanswered": giveBack(EndReleased, false),
		"not running": giveBack(EndNotRunning, true), "reported": giveBack(EndReported, true),
	}
	for why := RefusedState; why < 40; why++ {
		ways["refused "+why.String()] = refuse(why)
	}
	for way, do := range ways {
		b = newBoss(t)
		n, longest := b.offers(2*time.Minute, do)
		if n < 8 || n > 20 || longest < maxRest/2 || longest > maxRest+time.Second {
			t.Errorf("%s: %d tasks in 2 min, up to %v apart", way, n, longest)
		}
		i, _ := b.d.Info(b.now, Instance{1})
		if i.Declined != uint64(n) || b.s().state != Healthy {
			t.Errorf("%s: %d of %d are counted; it is %v", way, i.Declined, n, b.s().state)
		}
		rested := false
		for range 40 {
			b.pass(time.Second)
			i, _ = b.d.Info(b.now, Instance{1})
			rested = rested || i.Resting > time.Second
			if b.s().want == nil {
				continue
			}
			c := Claim{simTask(0), 1 << 20}
			b.grant(c)
			b.says(&RunReply{Push: b.s().push, Claim: c})
			b.says(&UpdateStatus{Claim: c, End: End{Kind: EndCompleted}})
			break
		}
		if !rested || b.s().room() != 3 || b.s().want == nil {
			t.Errorf("%s: shown as resting %v; after a good end it has room for %d", way, rested, b.s().room())
		}
	}
}

// TestATaskThatRunsUnderAnEarlierClaimIsPutOff for longer and longer, and its worker is given
// others meanwhile.
func TestATaskThatRunsUnderAnEarlierClaimIsPutOff(t *testing.T) {
	b := newBoss(t)
	want := runningRest
	for n := range 8 {
		for range 2 {
			b.pass(5 * time.Second)
			b.beat()
		}
		c := Claim{simTask(1), uint64(n + 1)}
		b.done()
		b.grant(c)
		b.says(&RunReply{Push: b.s().push, Claim: c, Refused: RefusedRunning})
		out := b.done().Settle
		if len(out) != 1 || out[0].End.RetryIn != want || !out[0].End.Uncounted || out[0].End.Kind != EndFailed {
			t.Fatalf("the %d. time: %+v, want a pause of %v", n+1, out, want)
		}
		want = min(2*want, maxRunningRest)
		if n > 0 && b.s().room() == 0 {
			t.Fatalf("after the %d. time it is given nothing", n+1)
		}
	}
}
