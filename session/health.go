package session

import (
	"fmt"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/proto"
)

// State is the health of a session.
type State uint8

// States: new → healthy ⇄ unhealthy → must_die. A session leaves new once, and
// must_die never.
const (
	// New: what the worker runs is not known yet; nothing is handed to it.
	New State = iota
	// Healthy: tasks go to it.
	Healthy
	// Unhealthy: it keeps what it runs and gets nothing new.
	Unhealthy
	// MustDie: lost to the dispatcher; the worker stops everything.
	MustDie
)

// String gives the name of the state as in logs and answers.
func (s State) String() string {
	switch s {
	case New:
		return "new"
	case Healthy:
		return "healthy"
	case Unhealthy:
		return "unhealthy"
	case MustDie:
		return "must_die"
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Timeouts are what both sides judge health by. The dispatcher sends its own in
// every answer to a heartbeat; a worker that was told none yet has zero ones and
// never dies.
type Timeouts struct {
	Period       time.Duration // between heartbeats
	HeartbeatGap time.Duration // without a heartbeat for so long: unhealthy
	CheckGap     time.Duration // without a passed check for so long: unhealthy
	LoseAfter    time.Duration // unhealthy for so long: must_die
}

// IsZero tells that no time-outs were told yet.
func (t Timeouts) IsZero() bool { return t == Timeouts{} }

// fits tells whether a node would take them from a worker that says it goes by
// them.
func (t Timeouts) fits() bool {
	return max(t.Period, t.HeartbeatGap, t.CheckGap, t.LoseAfter) <= proto.MaxSessionTimeout
}

// Max is the longer of each. A dispatcher goes by the longer of its own and
// those that the worker says it uses: the worker may not have heard the new ones.
func (t Timeouts) Max(o Timeouts) Timeouts {
	return Timeouts{
		Period:       max(t.Period, o.Period),
		HeartbeatGap: max(t.HeartbeatGap, o.HeartbeatGap),
		CheckGap:     max(t.CheckGap, o.CheckGap),
		LoseAfter:    max(t.LoseAfter, o.LoseAfter),
	}
}

// Life is the longest that a worker lives after a heartbeat that was answered.
func (t Timeouts) Life() time.Duration { return t.HeartbeatGap + t.LoseAfter }

// Early gives the time-outs that a worker judges itself by: each shorter by a
// thousandth, for the drift between two clocks, and the last one also by stop,
// the time its handlers need to end. So whoever hands its work on after the full
// time-outs finds it stopped.
func (t Timeouts) Early(stop time.Duration) Timeouts {
	t.HeartbeatGap = max(0, t.HeartbeatGap-clock.Margin(t.HeartbeatGap, 0))
	t.CheckGap = max(0, t.CheckGap-clock.Margin(t.CheckGap, 0))
	if !mutant.NoMargin.On() {
		t.LoseAfter = max(0, t.LoseAfter-clock.Margin(t.LoseAfter, stop))
	}
	return t
}

// Stamps are what health follows from, as mono ns of the process that judges.
// A worker takes its stamps before it sends and counts them once they are
// answered; a dispatcher takes them when it receives. So for the same message the
// worker's lies earlier, whatever the network does.
type Stamps struct {
	// Settled: the dispatcher has the worker's name and list of tasks, or the
	// worker has been told so.
	Settled bool
	// Checked: a check has passed since the session began here.
	Checked bool
	// Heartbeat: the newest heartbeat received, or sent and answered.
	Heartbeat int64
	// Check: sending of the newest check that passed; where none has, the
	// beginning of the session.
	Check int64
}

// Health is the state that follows from the one before, the stamps, and the mono
// ns now. Both sides call it, the worker with [Timeouts.Early] ones (Bistro's
// worker protocol, states; there it remembers when it saw a worker become
// unhealthy, here that follows from the stamps, so that a process that was frozen
// misses nothing).
//
// It must be called before anything that came in is looked at: what arrives after
// the time to die changes nothing.
func (t Timeouts) Health(before State, s Stamps, now int64) State {
	if before == MustDie && !mutant.Reborn.On() {
		return MustDie
	}
	if t.IsZero() {
		return New
	}
	bad := t.badAt(s)
	switch {
	case now >= addNs(bad, t.LoseAfter):
		return MustDie
	case !s.Settled:
		return New
	case now < bad && s.Checked:
		return Healthy
	}
	return Unhealthy
}

// NextHealth is the mono ns at which Health may change without anything coming
// in; clock.Never when it cannot.
func (t Timeouts) NextHealth(state State, s Stamps) int64 {
	switch {
	case state == MustDie || t.IsZero():
		return clock.Never
	case state == Healthy:
		return t.badAt(s)
	}
	return addNs(t.badAt(s), t.LoseAfter)
}

// badAt is when the session turns, or turned, unhealthy.
func (t Timeouts) badAt(s Stamps) int64 {
	return min(addNs(s.Heartbeat, t.HeartbeatGap), addNs(s.Check, t.CheckGap))
}

// addNs adds a duration to mono ns, held at the end of the range.
func addNs(at int64, d time.Duration) int64 { return clock.Time{Mono: at}.Add(d).Mono }
