package transfer

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	HandedEarly  bool // a partition is deleted when one of the cohort has it
	Unprobed     bool // a partition is deleted though its cohort may be about to change
	LacksIgnored bool // what came during a comparison is deleted with its partition
}
