package clock

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = int64(time.Second)

func TestLapsed(t *testing.T) {
	known := Lease{Start: 0, End: 10 * second, Duration: 10 * time.Second, Learned: 100 * second}
	recovered := known.Recover(Time{Mono: 100 * second})
	late := known.Recover(Time{Wall: 7 * second, Mono: 100 * second})
	at := func(wall, mono int64) Time { return Time{Wall: wall * second, Mono: mono * second} }
	for _, c := range []struct {
		name      string
		lease     Lease
		now       Time
		confirmed bool
		want      bool
	}{
		{"just begun", known, at(0, 100), true, false},
		{"the lease has run, the buffer has not", known, at(10, 111), true, false},
		{"lease and buffer have run", known, at(12, 112), false, true},
		{"the wall clock a year ahead", known, at(86400*365, 101), true, false},
		{"the wall clock a year behind", known, at(-86400*365, 112), true, true},
		{"the monotonic clock behind", known, at(0, 0), true, false},
		{"recovered late, past its end, not its buffer", late, at(12, 105), true, false},
		{"recovered late, past end and buffer, confirmed", late, at(13, 106), true, true},
		{"recovered late, past end and buffer, not confirmed", late, at(13, 106), false, false},
		{"recovered late, all wall clocks set ahead", late, at(3600, 104), true, false},
		{"recovered late, set ahead, and its end has come", late, at(3600, 106), true, true},
		{"recovered late, the wall clock set back, its end has come", late, at(-3600, 106), true, false},
		{"recovered, elapsed", recovered, at(0, 112), false, true},
	} {
		if got := c.lease.Lapsed(c.now, 2*time.Second, c.confirmed); got != c.want {
			t.Errorf("%s: lapsed is %v, want %v", c.name, got, c.want)
		}
	}
	if known.Lapsed(at(0, 109), -5*time.Second, true) {
		t.Error("a negative buffer has shortened the lease")
	}
}

func drawLease(t *rapid.T) Lease {
	return Lease{
		End:       rapid.Int64Range(-1e12, 1e12).Draw(t, "end"),
		Duration:  time.Duration(rapid.Int64Range(0, 1e11).Draw(t, "duration")),
		Learned:   rapid.Int64Range(-1e12, 1e12).Draw(t, "learned"),
		Recovered: rapid.Bool().Draw(t, "recovered"),
	}
}

// One bad wall clock can neither break a lease nor block one.
func TestWallClockDoesNotEndALeaseSeenToBegin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLease(t)
		mono := rapid.Int64Range(-1e12, 2e12).Draw(t, "mono")
		buffer := time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "buffer"))
		confirmed := !l.Recovered && rapid.Bool().Draw(t, "confirmed")
		one := l.Lapsed(Time{Wall: rapid.Int64().Draw(t, "wall"), Mono: mono}, buffer, confirmed)
		if want := mono >= l.LapseAt(buffer); one != want {
			t.Fatalf("lapsed is %v, by elapsed time %v", one, want)
		}
	})
}

func TestRenewableEndsBeforeLapsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLease(t)
		l.Recovered = false
		now := Time{Mono: rapid.Int64Range(-1e12, 2e12).Draw(t, "mono")}
		buffer := time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "buffer"))
		if l.Renewable(now) && l.Lapsed(now, buffer, true) {
			t.Fatal("a lapsed lease is renewable")
		}
		if l.Renewable(now) != (now.Mono < l.LapseAt(0)) {
			t.Fatal("renewable does not end with the lease itself")
		}
	})
}

func TestRenew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLease(t)
		now := Time{Wall: rapid.Int64Range(-1e12, 1e12).Draw(t, "wall"), Mono: l.Learned + rapid.Int64Range(0, 2e11).Draw(t, "mono")}
		d := time.Duration(rapid.Int64Range(1, 1e11).Draw(t, "d"))
		got := l.Renew(now, d)
		if got.End != max(l.End, now.Wall+int64(got.Duration)) {
			t.Fatalf("end %d after %d renewed at %d by %d: it runs for %d", got.End, l.End, now.Wall, d, got.Duration)
		}
		if got.Learned != now.Mono || got.Recovered || got.Start != l.Start {
			t.Fatalf("renewed at %v: %+v", now, got)
		}
		if got.LapseAt(0) < l.LapseAt(0) || got.LapseAt(0) < now.Mono+int64(d) {
			t.Fatalf("renewing at %d by %d moved the lapse from %d to %d", now.Mono, d, l.LapseAt(0), got.LapseAt(0))
		}
		if left := l.LapseAt(0) - now.Mono; int64(d) >= left && got.Duration != d {
			t.Fatalf("renewed by %d with %d left: runs for %d", d, left, got.Duration)
		}
	})
}

// What the margin and the order of stamps are for (K6): the worker has stopped
// on every acceptor's clock before the lease lapses there, whatever the
// messages take and whichever answers are lost, while two clocks drift by less
// than a thousandth against each other. The buffer is 0: it is there for what
// is not modelled here, the difference of wall clocks.
func TestWorkerStopsBeforeTheLeaseLapses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Clocks run at (1e6+drift)/1e6 of real time from an origin of their own.
		type local struct{ origin, drift int64 }
		drawClock := func(name string) local {
			return local{rapid.Int64Range(-1e15, 1e15).Draw(t, name+" origin"), rapid.Int64Range(-400, 400).Draw(t, name+" drift")}
		}
		mono := func(c local, real int64) int64 { return c.origin + real + real/1e6*c.drift }
		worker, acceptor, coordinator := drawClock("worker"), drawClock("acceptor"), drawClock("coordinator")
		delay := func(name string) int64 { return rapid.Int64Range(0, 5*second).Draw(t, name) }
		drawLength := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(int64(MinLease), int64(time.Hour)).Draw(t, name))
		}
		stop := time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "stop"))

		length := drawLength("lease")
		stamp := delay("start")
		received := stamp + delay("request")
		asked := received + delay("long poll")
		learned := asked + delay("replication")
		waited := time.Duration(mono(coordinator, asked) - mono(coordinator, received))
		deadline := WorkerDeadline(mono(worker, stamp), waited, length, Margin(length+waited, stop))
		l := Lease{Duration: length, Learned: mono(acceptor, learned)}

		for range rapid.IntRange(0, 4).Draw(t, "renewals") {
			length := drawLength("renewal")
			stamp = learned + delay("pause")
			learned = stamp + delay("renewing")
			now := Time{Mono: mono(acceptor, learned)}
			if mono(worker, stamp) >= deadline || !l.Renewable(now) {
				break
			}
			l = l.Renew(now, length)
			if !rapid.Bool().Draw(t, "answer lost") {
				deadline = WorkerDeadline(mono(worker, stamp), 0, length, Margin(length, stop))
			}
		}
		// Find the real time at which the acceptor lets go; the worker's clock
		// must be past its deadline, with the time to stop on top.
		lapse := l.LapseAt(0)
		low, high := int64(0), int64(1e14)
		for low < high {
			if mid := low + (high-low)/2; mono(acceptor, mid) >= lapse {
				high = mid
			} else {
				low = mid + 1
			}
		}
		if at := mono(worker, low); at < deadline+int64(stop)*999/1000 {
			t.Fatalf("the lease lapsed %v before the worker had stopped", time.Duration(deadline+int64(stop)-at))
		}
	})
}

func TestMargin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lease := rapid.Int64Range(0, int64(MaxLease)).Draw(t, "lease")
		stop := rapid.Int64Range(0, int64(time.Hour)).Draw(t, "stop")
		if got := int64(Margin(time.Duration(lease), time.Duration(stop))); (got-stop)*1000 < lease || got-stop > lease/1000+1 {
			t.Fatalf("margin of %d with stop %d is %d", lease, stop, got)
		}
	})
	if got := Margin(math.MaxInt64, math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("the longest margin is %d", got)
	}
}

func TestWorkerDeadline(t *testing.T) {
	if got := WorkerDeadline(1000, 50, 300, 7); got != 1343 {
		t.Errorf("got %d, want 1343", got)
	}
}

// TestAShorterRenewalOfARecoveredLease: what is left of a lease that was recovered is
// counted from then, beyond its end; the worker is told that much, so the end has to be
// as far away, for those who go by it after a restart.
func TestAShorterRenewalOfARecoveredLease(t *testing.T) {
	l := Lease{End: 30 * second, Duration: 30 * time.Second, Learned: 20 * second, Recovered: true} // at 20 s of 30
	now := Time{Wall: 21 * second, Mono: 21 * second}
	got := l.Renew(now, 5*time.Second)
	if got.End < now.Wall+int64(got.Duration) {
		t.Fatalf("the worker is told %v, and the lease ends in %v", got.Duration, time.Duration(got.End-now.Wall))
	}
}
