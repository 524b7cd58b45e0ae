package lease

// Policy says which rules of this machine are left out: none in any program that is
// shipped. The hunt (package jepsen/hunt) leaves out one at a time, to see that a test
// or a simulation finds it.
type Policy struct {
	OldGrants           bool // answers to claims of the process before this one count
	PlannedCohort       bool // claims go to the cohort that is planned, not the registered one
	StaleLeader         bool // a leader that was overtaken answers what it has under way as if it still led
	UngatedClaims       bool // a follower drops what another node says it does not hold, whatever epoch and lease
	UnpromisedGrant     bool // an acceptor takes claims without a look at its promise
	UnfencedRenewal     bool // a renewal is taken whatever its epoch, and needs no majority
	ClaimRefusalIgnored bool // a claim that a member refuses counts as taken by it
	ClaimOfOthers       bool // everybody ends and renews the claims of every principal
}
