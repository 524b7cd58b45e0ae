package leadership

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	UnpromisedVotes bool // the claims of an election come from members that have not promised yet
	EagerZombie     bool // who a candidate leaves out of the new cohort deletes what it has at once
	OneVoterPulled  bool // a new cohort is given the facts of one voter
	GrantBeforeCAS  bool // a candidate grants before the register has its cell
	PromiseInMemory bool // what an acceptor promises is not written
}
