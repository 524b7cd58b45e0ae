package model

// Omission is a set of deviations from the protocol, one bit each.
type Omission uint64

// The omissions of the design's table (protocol (c)), and of its corrections
// (design 5 to 7).
const (
	NoOldMajority Omission = 1 << iota
	NoNewMajority
	UnpromisedSnapshots
	NoUnion
	NoPush
	UnfencedPush
	WriteIfGreater
	GrantBeforeCAS
	UnfencedGrants
	DropBeforeCAS
	LosePromise
	LoseClaims
	CopyLeadersSet
	RingsCohort
	VoteTwice
	CompareEpochAndCohort

	HighestToken
	NoTerminalFacts
	FactsToLeaderOnly
	ProposalsNotNamed
	LoseProposals
	LatestProposalOnly
	StartFromProposed
	DropBelowPromise
	ForgetPromise
	KeepFactsToYourself
	HandOverToLeaderOnly
	HandOverToCohortOnly

	ReleaseWins
	StaleIfUnreleased
	UnfencedReleases
	KnownIsFree

	lastOmission = KnownIsFree
)

// Name is one line for tables; "" for what is no single omission.
func (o Omission) Name() string {
	switch o {
	case 0:
		return "correct protocol"
	case NoOldMajority:
		return "step 4 left out: no majority of the old cohort"
	case NoNewMajority:
		return "step 5 left out: no majority of the new cohort"
	case UnpromisedSnapshots:
		return "step 6 from a majority that has not promised"
	case NoUnion:
		return "step 6 left out: no union of the snapshots"
	case NoPush:
		return "step 7 left out: the union is not pushed"
	case UnfencedPush:
		return "pushes are taken below the promise"
	case WriteIfGreater:
		return "register writes if the epoch is greater"
	case GrantBeforeCAS:
		return "grants before the compare-and-set"
	case UnfencedGrants:
		return "grants are taken below the promise"
	case DropBeforeCAS:
		return "zombies drop before the compare-and-set"
	case LosePromise:
		return "a restart loses the promise"
	case LoseClaims:
		return "a restart loses claims"
	case CopyLeadersSet:
		return "followers copy any leader's claims over their own"
	case RingsCohort:
		return "the leader uses the ring's cohort"
	case VoteTwice:
		return "two votes in one epoch"
	case CompareEpochAndCohort:
		return "unclear outcome judged by epoch and cohort"
	case VoteTwice | CompareEpochAndCohort:
		return "two votes in one epoch, outcome judged by epoch and cohort"
	case ReleaseWins | StaleIfUnreleased | UnfencedReleases:
		return "releases as written, and no claim handed out again in a later epoch"
	}
	return o.correction()
}

func (o Omission) correction() string {
	switch o {
	case HighestToken:
		return "claims by highest token instead of sets"
	case NoTerminalFacts:
		return "no terminal facts in the hand-off"
	case FactsToLeaderOnly:
		return "terminal facts pushed to the leader only"
	case ProposalsNotNamed:
		return "proposals are not named in acks"
	case LoseProposals:
		return "a restart loses open proposals"
	case LatestProposalOnly:
		return "only the latest proposal is named"
	case StartFromProposed:
		return "a coordinator starts from a proposed cohort"
	case DropBelowPromise:
		return "a zombie drops on an epoch below its promise"
	case ForgetPromise:
		return "a zombie forgets promise, proposals and epoch seen"
	case KeepFactsToYourself:
		return "a zombie drops facts it handed to nobody"
	case HandOverToLeaderOnly:
		return "a zombie hands facts to the leader only"
	case HandOverToCohortOnly:
		return "a zombie hands facts to the registered cohort only"
	case ReleaseWins:
		return "a release wins over a later epoch's renewal"
	case StaleIfUnreleased:
		return "a released claim does not supersede lower tokens"
	case UnfencedReleases:
		return "releases are taken below the promise"
	case KnownIsFree:
		return "a known claim is renewed beside another one in force"
	}
	return ""
}
