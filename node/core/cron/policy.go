package cron

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	NotPlacedAnew   bool // schedules wait for times of a clock that has come back
	RestoreLaunches bool // what a register of an older life left open is launched again
	LaunchAtNow     bool // a launch is named by when it was launched, not by when it was to be
	DoubtFinal      bool // a refusal ends a launch whose task may be there
}
