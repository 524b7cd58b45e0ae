package session

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
)

var someTimeouts = Timeouts{Period: 5 * time.Second, HeartbeatGap: 15 * time.Second, CheckGap: 60 * time.Second, LoseAfter: 30 * time.Second}

// TestHealth walks through the states by hand.
func TestHealth(t *testing.T) {
	second := int64(time.Second)
	settled := Stamps{Settled: true, Checked: true}
	for name, c := range map[string]struct {
		t      Timeouts
		before State
		s      Stamps
		now    int64
		want   State
	}{
		"told nothing, never dies":       {Timeouts{}, New, Stamps{}, 1e18, New},
		"not settled":                    {someTimeouts, New, Stamps{}, 1 * second, New},
		"settled and checked":            {someTimeouts, New, settled, 14 * second, Healthy},
		"settled, no check yet":          {someTimeouts, New, Stamps{Settled: true}, 1 * second, Unhealthy},
		"heartbeats missing":             {someTimeouts, Healthy, settled, 15 * second, Unhealthy},
		"almost lost":                    {someTimeouts, Unhealthy, settled, 45*second - 1, Unhealthy},
		"lost":                           {someTimeouts, Unhealthy, settled, 45 * second, MustDie},
		"lost while frozen":              {someTimeouts, Healthy, settled, 45 * second, MustDie},
		"new and silent":                 {someTimeouts, New, Stamps{}, 45 * second, MustDie},
		"back in time":                   {someTimeouts, Unhealthy, Stamps{true, true, 20 * second, 0}, 30 * second, Healthy},
		"checks missing":                 {someTimeouts, Healthy, Stamps{true, true, 60 * second, 0}, 60 * second, Unhealthy},
		"lost by checks, though it beat": {someTimeouts, Unhealthy, Stamps{true, true, 90 * second, 0}, 90 * second, MustDie},
		"dead stays dead":                {someTimeouts, MustDie, Stamps{true, true, 100 * second, 100 * second}, 100 * second, MustDie},
	} {
		if got := c.t.Health(c.before, c.s, c.now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestWorkerDiesFirst is the promise that all of health exists for: whatever the
// stamps, a worker with earlier stamps and a clock that differs in rate by less
// than a thousandth is must_die, and its handlers have stopped, before its
// dispatcher says so.
func TestWorkerDiesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, most int64) int64 {
			return rapid.Int64Range(0, most).Draw(t, name) * int64(time.Millisecond)
		}
		to := Timeouts{time.Second, time.Duration(1 + ms("gap", 60_000)), time.Duration(1 + ms("check gap", 60_000)), time.Duration(1 + ms("lose", 60_000))}
		stop := time.Duration(rapid.Int64Range(0, int64(to.LoseAfter)/2).Draw(t, "stop"))
		rate := 1 + rapid.Float64Range(-0.0009, 0.0009).Draw(t, "rate")
		// Real times: the dispatcher's clock is real time, the worker's runs at rate.
		heard, checked := ms("heard", 1e6), ms("checked", 1e6)
		sent, echoed := heard-ms("delay", 5_000), checked-ms("check delay", 5_000)
		worker := func(real int64) int64 { return int64(float64(real) * rate) }
		now := max(heard, checked) + ms("now", 200_000)

		d := to.Health(Unhealthy, Stamps{true, true, heard, checked}, now)
		if d != MustDie {
			return
		}
		stopped := now - int64(stop) // it must have known this long ago
		w := to.Early(stop).Health(Unhealthy, Stamps{true, true, worker(sent), worker(echoed)}, worker(stopped))
		// Rounding of the rate costs microseconds at most.
		if later := to.Early(stop).Health(Unhealthy, Stamps{true, true, worker(sent), worker(echoed)}, worker(stopped)+int64(time.Microsecond)); w != MustDie && later != MustDie {
			t.Fatalf("the dispatcher says must_die at %v, the worker said %v %v before", time.Duration(now), w, stop)
		}
	})
}

// TestNextHealth: nothing changes before the announced time, and at it something may.
func TestNextHealth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Stamps{rapid.Bool().Draw(t, "settled"), rapid.Bool().Draw(t, "checked"), rapid.Int64Range(0, 1e11).Draw(t, "beat"), rapid.Int64Range(0, 1e11).Draw(t, "check")}
		now := rapid.Int64Range(0, 2e11).Draw(t, "now")
		state := someTimeouts.Health(New, s, now)
		next := someTimeouts.NextHealth(state, s)
		if state == MustDie {
			if next != clock.Never {
				t.Fatalf("must_die is to change at %d", next)
			}
			return
		}
		at := rapid.Int64Range(now, next-1).Draw(t, "at")
		if got := someTimeouts.Health(state, s, at); got != state {
			t.Fatalf("%v became %v at %d, before %d", state, got, at, next)
		}
		if got := someTimeouts.Health(state, s, next); got == state {
			t.Fatalf("%v did not change at %d", state, next)
		}
	})
}

// TestNegotiate: the highest in common, never a version that nobody named.
func TestNegotiate(t *testing.T) {
	for _, c := range [][5]uint32{{1, 1, 1, 1, 1}, {1, 3, 2, 5, 3}, {2, 5, 1, 3, 3}, {1, 1, 2, 2, 0}, {0, 0, 0, 0, 0}, {0, 0, 1, 1, 0}, {0, 2, 0, 2, 0}, {3, 1, 1, 3, 0}} {
		if got := Negotiate(c[0], c[1], c[2], c[3]); got != c[4] {
			t.Errorf("Negotiate(%v) = %d", c[:4], got)
		}
	}
}

// TestReplaces is the table of replacements.
func TestReplaces(t *testing.T) {
	a := Identity{Name: "n", Instance: Instance{1}, Machine: "m", Lock: "/run/w", Started: 100}
	later, earlier, elsewhere, unlocked := a, a, a, a
	later.Instance, later.Started = Instance{2}, 200
	earlier.Instance, earlier.Started = Instance{3}, 50
	elsewhere.Instance, elsewhere.Machine, elsewhere.Started = Instance{4}, "other", 200
	unlocked.Instance, unlocked.Lock, unlocked.Started = Instance{5}, "", 200
	noLock := a
	noLock.Lock = ""
	for name, c := range map[string]struct {
		holder Identity
		health State
		next   Identity
		bump   bool
		want   Replacement
	}{
		"the same":                           {a, Healthy, a, false, ReplaceSame},
		"the same, lost":                     {a, MustDie, a, false, ReplaceSame},
		"same lock, later":                   {a, Healthy, later, false, ReplaceDead},
		"same lock, earlier":                 {a, Healthy, earlier, false, ReplaceStale},
		"same lock, earlier, holder lost":    {a, MustDie, earlier, false, ReplaceStale},
		"elsewhere, healthy":                 {a, Healthy, elsewhere, true, ReplaceRefused},
		"elsewhere, unhealthy":               {a, Unhealthy, elsewhere, false, ReplaceRefused},
		"elsewhere, unhealthy, bump":         {a, Unhealthy, elsewhere, true, ReplaceLost},
		"elsewhere, lost":                    {a, MustDie, elsewhere, false, ReplaceLost},
		"no lock, same machine":              {a, Healthy, unlocked, false, ReplaceRefused},
		"both without lock, same machine":    {noLock, Healthy, unlocked, false, ReplaceRefused},
		"both without lock, the holder lost": {noLock, MustDie, unlocked, false, ReplaceLost},
	} {
		if got := Replaces(c.holder, c.health, c.next, c.bump); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
