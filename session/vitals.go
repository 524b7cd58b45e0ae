package session

import (
	"slices"
	"time"
)

// maxChecks bounds health checks that are open at the same time, on either side.
const maxChecks = 8

// vitals are what a worker knows of its own health.
type vitals struct {
	stop     time.Duration // its handlers need
	state    State
	timeouts Timeouts // as told; it judges itself by earlier ones
	stamps   Stamps
	checks   []checkRun
	checked  uint64 // newest check that the dispatcher has credited
}

// checkRun is a health check that runs, or has and is not credited.
type checkRun struct {
	number uint64
	stamp  int64 // of the frame that its dispatcher had when it sent the check
	passed bool
}

// at is the state that follows at mono ns now.
func (v *vitals) at(now int64) State {
	return v.timeouts.Early(v.stop).Health(v.state, v.stamps, now)
}

// next is when it may change.
func (v *vitals) next() int64 { return v.timeouts.Early(v.stop).NextHealth(v.state, v.stamps) }

// begin notes a check that is to run; false when it is known, or there are too many.
func (v *vitals) begin(number uint64, stamp int64) bool {
	if number <= v.checked || len(v.checks) >= maxChecks ||
		slices.ContainsFunc(v.checks, func(c checkRun) bool { return c.number == number }) {
		return false
	}
	v.checks = append(v.checks, checkRun{number: number, stamp: stamp})
	return true
}

// pass notes that a check has run to its end; false when it is not known.
func (v *vitals) pass(number uint64) bool {
	i := slices.IndexFunc(v.checks, func(c checkRun) bool { return c.number == number })
	if i < 0 {
		return false
	}
	v.checks[i].passed = true
	return true
}

// passed is the newest check that has passed in this association.
func (v *vitals) passed() uint64 {
	newest := v.checked
	for _, c := range v.checks {
		if c.passed {
			newest = max(newest, c.number)
		}
	}
	return newest
}

// credited takes the stamp of a check that the dispatcher has counted: that of the
// frame it had received before it sent the check, so it is earlier than what the
// dispatcher counts.
func (v *vitals) credited(number uint64) {
	v.checked = max(v.checked, number)
	v.checks = slices.DeleteFunc(v.checks, func(c checkRun) bool {
		if c.number == number && c.passed {
			v.stamps.Checked, v.stamps.Check = true, max(v.stamps.Check, c.stamp)
		}
		return c.number <= number
	})
}
