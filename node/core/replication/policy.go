package replication

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	EarlyAck       bool // a copy is acknowledged before it is on disk
	RefusalIgnored bool // a copy that was refused counts
	LostRound      bool // the answer to a write counts for the one before it, too
	OldSeries      bool // answers to writes of the process before this one count
	OutsiderCounts bool // a copy outside of the cohort counts towards its majority
	FenceIgnored   bool // a write need not reach the cohorts that were voted for
	TimeoutFailed  bool // a write that ran out of time is reported as failed
}
