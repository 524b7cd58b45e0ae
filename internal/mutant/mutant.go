package mutant

import "fmt"

// ID is one mistake; its number is that of the list of mistakes (m1 to m24).
type ID uint8

// The mistakes. None is the program as it is.
const (
	None            ID = iota
	AckBeforeSync      // answers leave before what they depend on is on disk
	PromiseInMemory    // what an acceptor promises is not written
	UnpromisedVotes    // the claims of an election come from members that have not promised yet
	NoOldMajority      // an election asks for no majority of the old cohort
	NoPush             // what the voters know of claims is not brought to the new cohort
	GrantBeforeCAS     // a candidate grants before the register has its cell
	CASIfGreater       // the register takes any cell with a greater epoch
	EagerZombie        // who a candidate leaves out of the new cohort deletes what it has at once
	UngatedClaims      // a follower drops what another node says it does not hold, whatever epoch and lease
	PlannedCohort      // claims go to the cohort that is planned, not the registered one
	UnpromisedGrant    // an acceptor takes claims without a look at its promise
	OutsiderCounts     // a copy outside of the cohort counts towards its majority
	DeadlineReceipt    // a worker counts its lease from the answer, not from the request
	UnfencedRenewal    // a renewal is taken whatever its epoch, and needs no majority
	NoHandOver         // a new cohort is not given the facts of the old one
	PurgeByTime        // what is collected goes when its time is over, whoever has not heard of it
	LargerWins         // of two replicas' facts of a task the larger set is kept, not the union
	LocalHash          // the hash that replicas compare has something of the node in it
	LaunchAtNow        // a launch is named by when it was launched, not by when it was to be
	FsyncRetried       // an fsync that fails is tried again
	TimeoutFailed      // a write that ran out of time is reported as failed
	AbsentIsDone       // a dependency that is not known counts as completed
	GapShown           // an update is shown before the one that comes before it
	StaleLeader        // a leader that was overtaken answers what it has under way as if it still led
	last
)

// Count is the number of mistakes.
const Count = int(last) - 1

var names = [...]string{
	"none",
	"skip the sync before an answer", "promise not persisted", "claims from an unpromised majority", "no majority of the old cohort",
	"no push to the new cohort", "grant before the compare-and-set", "register takes any greater epoch", "zombie drops on a candidate's word",
	"ungated anti-entropy of claims", "cohort from the plan instead of the register", "grants without a look at the promise",
	"copies outside of the cohort counted", "worker's deadline from receipt", "renewal without epoch and majority", "hand-over without facts",
	"collection by time alone", "merge keeps the larger set", "hash over local bytes", "launch named by now", "fsync retried",
	"failed returned on time-out", "unknown dependency taken for completed", "gap in updates shown", "stale leader goes on",
}

// String is the mistake in words.
func (m ID) String() string { return names[m] }

// Number is the mistake's number in the list: "m7".
func (m ID) Number() string { return fmt.Sprintf("m%d", uint8(m)) }

// All gives every mistake.
func All() (all []ID) {
	for m := None + 1; m < last; m++ {
		all = append(all, m)
	}
	return all
}
