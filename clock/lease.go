package clock

import (
	"math"
	"time"

	"github.com/norn-dev/norn/internal/mutant"
)

// Bounds of a lease. Below a second the round trips of renewing would be most
// of it; beyond a day a dead worker would block its task for longer than
// anybody waits.
const (
	MinLease = time.Second
	MaxLease = 24 * time.Hour
)

// Lease is a claim's time as one process must judge it. A process makes one
// when it learns of a grant, and replaces it at each renewal.
type Lease struct {
	Start    int64         // wall ns on the leader, when it was granted
	End      int64         // wall ns on the leader, when it ends; never shrinks
	Duration time.Duration // how long it runs from Learned
	Learned  int64         // mono ns here, when this process learned of the grant or the last renewal
	// Recovered says that it was learned by restart, vote or push ([Lease.Recover]):
	// then Learned says nothing about the grant, and the wall clock may end it earlier.
	Recovered bool
	// Until is the mono ns here at which the wall clock, as it stood when a recovered
	// lease was learned, is past End.
	Until int64
}

// Recover gives the lease as one that this process learns now by restart, vote or
// push: it runs for its whole length from now, or until the wall clock is past its end.
func (l Lease) Recover(now Time) Lease {
	l.Learned, l.Recovered, l.Until = now.Mono, true, math.MinInt64
	return l.Anchor(now)
}

// Anchor gives a recovered lease whose Until is not before its End by the wall clock as
// it stands now.
func (l Lease) Anchor(now Time) Lease {
	l.Until = max(l.Until, add(now.Mono, add(sub(l.End, now.Wall), 1)))
	return l
}

// Lapsed tells whether the lease is over by this process's own rule (design
// 7.3): it has run, with the buffer, on the monotonic clock since it was
// learned of; or it was recovered, the wall clock is past its end and buffer,
// and confirmed says that another node agrees with our wall clock. What the wall
// clock showed when it was learned has to have passed on the monotonic clock, too:
// wall clocks that are set ahead all alike confirm each other. A negative buffer
// counts as none.
//
// So a wall clock that is wrong can neither end a lease that this process saw
// begin, nor block a recovered one for longer than its length; and setting wall
// clocks ends none.
func (l Lease) Lapsed(now Time, buffer time.Duration, confirmed bool) bool {
	if now.Mono >= l.LapseAt(buffer) {
		return true
	}
	return (l.Recovered || mutant.WallEnds.On()) && (confirmed || mutant.WallAlone.On()) && (now.Mono >= l.EndAt(buffer) || mutant.SetAhead.On()) && l.Past(now, buffer)
}

// Past tells whether the wall clock is past the lease's end and the buffer. A
// negative buffer counts as none.
func (l Lease) Past(now Time, buffer time.Duration) bool {
	return now.Wall > add(l.End, int64(max(buffer, 0)))
}

// EndAt is the mono ns of this process before which the wall clock does not end a
// recovered lease. A negative buffer counts as none.
func (l Lease) EndAt(buffer time.Duration) int64 {
	return add(l.Until, int64(max(buffer, 0)))
}

// Renewable tells whether the leader may still renew the lease: it has not run
// out, without any buffer, by the leader's own monotonic clock. The buffer is
// not for renewing, so that expiry is decided once (protocol (b)).
func (l Lease) Renewable(now Time) bool {
	return now.SinceMono(l.Learned) < l.Duration
}

// LapseAt is the mono ns of this process at which [Lease.Lapsed] becomes true
// by elapsed time. A negative buffer counts as none.
func (l Lease) LapseAt(buffer time.Duration) int64 {
	return add(l.Learned, add(int64(l.Duration), int64(max(buffer, 0))))
}

// Renew gives the lease after a renewal by d from now. The elapsed time starts
// anew even when the end does not grow, because a leader with a fast clock may
// have set an end far ahead (protocol (b), variant 3e).
//
// A renewal never shortens: when d is less than what is left, what is left
// stays. Its answer may get lost, and then the worker still goes by the
// deadline it was given before.
func (l Lease) Renew(now Time, d time.Duration) Lease {
	left := time.Duration(sub(int64(l.Duration), int64(max(now.SinceMono(l.Learned), 0))))
	if l.Duration = max(d, left); mutant.RenewShortens.On() {
		l.Duration = d
	}
	l.End = max(l.End, add(now.Wall, int64(l.Duration))) // what is left of a recovered lease may reach beyond its end
	if !mutant.ElapsedKept.On() || l.End == add(now.Wall, int64(l.Duration)) {
		l.Learned = now.Mono
	}
	l.Recovered = false
	return l
}

// EndBy is the wall ns here at which the lease ends: not before what is left of it
// has run, as far as this process knows by its monotonic clock. So wall clocks that
// are set ahead, even all alike, do not end it for those who learn of it from here.
func (l Lease) EndBy(now Time) int64 {
	ends := l.LapseAt(0)
	if l.Recovered {
		ends = min(ends, sub(l.Until, 1))
	}
	return max(l.End, add(now.Wall, sub(ends, now.Mono)))
}

// Margin is how much earlier than its lease a worker gives up: a thousandth of
// the lease for the drift between two clocks, and stop, the time a handler
// needs from being told to having stopped (design 7.3).
func Margin(lease, stop time.Duration) time.Duration {
	drift := max(lease, 0)/1000 + 1 // the division rounds down, a margin may not
	return time.Duration(add(int64(drift), int64(max(stop, 0))))
}

// WorkerDeadline is the mono ns on the worker's own clock up to which it may
// believe in a lease: stampMono is when it sent the frame that is being
// answered, waited how long the coordinator held that frame before it asked
// for the grant, on the coordinator's monotonic clock (design 7.3).
func WorkerDeadline(stampMono int64, waited, lease, margin time.Duration) int64 {
	if mutant.NoStopTime.On() {
		margin = 0
	}
	return sub(add(add(stampMono, int64(waited)), int64(lease)), int64(margin))
}
