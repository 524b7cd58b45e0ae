package mutant

import "fmt"

// ID is one mistake; its number is its place in the list, from 1 on.
type ID uint8

// The mistakes. None is the program as it is.
const (
	None                ID = iota
	AckBeforeSync          // answers leave before what they depend on is on disk
	PromiseInMemory        // what an acceptor promises is not written
	UnpromisedVotes        // the claims of an election come from members that have not promised yet
	NoOldMajority          // an election asks for no majority of the old cohort
	NoPush                 // what the voters know of claims is not brought to the new cohort
	GrantBeforeCAS         // a candidate grants before the register has its cell
	CASIfGreater           // the register takes any cell with a greater epoch
	EagerZombie            // who a candidate leaves out of the new cohort deletes what it has at once
	UngatedClaims          // a follower drops what another node says it does not hold, whatever epoch and lease
	PlannedCohort          // claims go to the cohort that is planned, not the registered one
	UnpromisedGrant        // an acceptor takes claims without a look at its promise
	OutsiderCounts         // a copy outside of the cohort counts towards its majority
	DeadlineReceipt        // a worker counts its lease from the answer, not from the request
	UnfencedRenewal        // a renewal is taken whatever its epoch, and needs no majority
	NoHandOver             // a new cohort is not given the facts of the old one
	PurgeByTime            // what is collected goes when its time is over, whoever has not heard of it
	LargerWins             // of two replicas' facts of a task the larger set is kept, not the union
	LocalHash              // the hash that replicas compare has something of the node in it
	LaunchAtNow            // a launch is named by when it was launched, not by when it was to be
	FsyncRetried           // an fsync that fails is tried again
	TimeoutFailed          // a write that ran out of time is reported as failed
	AbsentIsDone           // a dependency that is not known counts as completed
	GapShown               // an update is shown before the one that comes before it
	StaleLeader            // a leader that was overtaken answers what it has under way as if it still led
	PageEnd                // the last task of a page left out where a node has more
	QueuePageEnd           // the last queue of a page left out where a node has more
	WorkerPageEnd          // a page of workers goes beyond what a node has shown
	FirstDues              // collection looks at the first 64 finished tasks
	FirstKeys              // unique keys beyond the first 64 are never forgotten
	FirstClaims            // a vote tells of the first 100 claims
	WindowForgotten        // a key is free when its task is forgotten, though its window is not over
	KeyForgotten           // a key that is old is forgotten while its task is known
	NoRewind               // schedules go on from where a clock was that has come back
	NoBars                 // launches of a clock that was ahead are made again when it has come back
	NotPlacedAnew          // schedules wait for times of a clock that has come back
	JumpCollects           // tasks are collected by a clock that has just jumped
	WallEnds               // the wall clock ends a lease that this process saw begin
	WallAlone              // a wall clock that nobody confirms ends a lease
	SetAhead               // wall clocks that are set ahead all alike end leases
	ElapsedKept            // a renewal that does not move the end does not count
	RenewShortens          // a shorter renewal shortens a lease
	StepUnseen             // a leader renews by a clock that was set a moment ago
	CommitUnsure           // an fsync error of a write is not looked at
	TableUnsure            // a table that could not be synced is taken in
	RegisterUnsynced       // members of the register vote before that is on disk
	NewestOnly             // of two claims on a task only the newer one holds
	DeadTooSoon            // one of two claims that lapses uses up the last attempt of the other
	RetryNamesLast         // a retry that names the last claim does not end it
	RetryCountsLast        // the last attempt before a retry counts for it
	RetentionStale         // tasks go by the retention of when their archive began
	ReleaseUnnoted         // a release that comes before its grant is forgotten
	ExpiredAtOnce          // a member frees a task when a leader says that its claim expired
	TakeoverUncounted      // a new leader counts claims from before it led
	HastyFailure           // a failure that may have been retried is acted on
	LateOutcome            // a failure from before a retry counts for a task that came after it
	KeyGivenTwice          // a key that was given back to an older task goes to one that comes late
	KeyUnheard             // a new leader gives a key away before it has heard who has it
	MarkOfBefore           // what a member was compared with counts after it has left and come back
	SkippedAgreed          // a comparison that has left something out counts
	GraveOpened            // facts of a collected task are taken
	StoneUnraised          // a completion that comes after the collection of a dead task is lost
	FutureEnd              // the end of a run whose retry is not known yet is overlooked
	CancelWins             // a cancellation undoes a completion
	FirstStays             // of two bodies of one fact the first that came stays
	LastCompletion         // of two completions the later one counts
	Unsuspended            // the claims of a dead task end for good, though a retry may be on its way
	EarlyAck               // a copy is acknowledged before it is on disk
	RefusalIgnored         // a copy that was refused counts
	LostRound              // the answer to a round counts for those before it that were lost
	SameEpoch              // two candidates get a vote for the same epoch
	StaleBallot            // a ballot from an overtaken cell gets a vote
	ProposalLost           // a member forgets the cohorts that it has voted for
	ForgetAnyway           // a member deletes what a candidate may still count on
	WonByEpoch             // a candidate takes the cell of another one in its epoch for its own
	FenceIgnored           // a write does not reach the cohorts that were voted for
	OneVoterPulled         // a new cohort is given the facts of one voter
	MarksUnsaved           // what was seen of other disks is not written
	TrustsAlways           // a node votes before others have said that its disk is whole
	HandedEarly            // a partition is deleted when one of the cohort has it
	Reborn                 // a worker that was to die lives on
	OldDispatcher          // a worker takes frames of a dispatcher that it has left
	NoBar                  // a task that was said not to be running begins late
	Unlisted               // tasks go to a session before it has said what it runs
	OldBeat                // a heartbeat that was overtaken counts
	NoMargin               // a worker gives up when its dispatcher does, not before
	EarlierWins            // a dispatcher that a worker has left may take its name
	EarlyEndLost           // a claim that ended while the list was on its way is taken for running
	OpenForgotten          // a launch begins while the one before is not concluded
	RestoreLaunches        // a restored register launches what was launched after its snapshot
	DoubtFinal             // a launch that one node refuses counts as not made, whatever another one has taken
	HeadBeyond             // a task beyond the window of its queue goes before those between
	PageToLast             // a page goes as far as the node that got furthest
	LargePage              // a page that is full by its bytes taken for the last
	FirstLook              // a new leader looks through the first 100 waiting tasks
	ArchivedAll            // all that was to be archived collected when a part of it is
	WindowByStart          // a key is refused gc-grace after its window began, not ended
	SoleUnasked            // a leader ends a lapsed claim that another one may have renewed
	ComparedLate           // a comparison counts from when the other side hears of it
	ClaimRefusalIgnored    // a claim that a member refuses counts as taken by it
	OldSeries              // answers to the process before this one count
	OldGrants              // answers to claims of the process before this one count
	Unprobed               // a partition is deleted though its cohort may be about to change
	LacksIgnored           // what came during a comparison is deleted with its partition
	LogPage                // a page of a log that is full taken for the last
	ArchiveUnsynced        // an archive counts before its file is on disk
	ArchiveUnnamed         // an archive counts before the name of its file is on disk
	ManifestKept           // an archive whose manifest may not be on disk stays
	GraveEarly             // tombstones go before the last clock says that they may
	OldTaken               // a node that is no member brings back what was collected and forgotten
	RepeatOfBefore         // a repeated request gets the claims of a leader before, who may have taken them back
	CountsForgotten        // the copy of a disk that has forgotten something counts
	OneWord                // one member ends an incarnation
	CopiedEarly            // a newcomer counts before it has what a majority has
	TermForgotten          // a member of the register votes before its vote is on disk
	SumUnchecked           // a flipped bit of a fact is taken for its content
	MasterUnfenced         // a master that was deposed goes on to launch
	GrantedAgain           // a claim request that is repeated is granted other tasks
	PausedGranted          // a queue that is paused hands out tasks
	NoStopTime             // a worker is told the end of its lease, not when to stop
	ScopeLost              // the scope of a request does not go along to other nodes
	ScopeText              // what somebody may not see is refused in words of its own
	ExpiryReversed         // a token lets in after its end, and not before
	TenantSibling          // the prefix acme of a tenant has the queues of acme2
	RouteUnjudged          // a method is carried out without a look at who asks
	TableBeforeLog         // a table is made of what the log does not have on disk yet
	TablesHidden           // what is earlier in the log is applied again over tables that were taken in
	ClaimOfOthers          // a claim is ended by somebody who may work on its queue, and did not claim it
	BatchesSwapped         // of the batches of one record of the log the last one is applied again first
	ChainSkipped           // a record of the log is taken whatever record it followed
	ReplayPartial          // of a batch of the log only the first write is applied again: a claim without its deadline
	PromiseUnlogged        // a batch of one write, as a promise is, is not in the log
	TailTooFar             // the last record of the log that is whole is cut with the torn one
	PlaceAlone             // the index notes a place in the log without the writes up to it that wait
	DeleteKept             // the delete of a key that is most often soon deleted is not passed on to an index that has the key
	RunUnsaid              // a completed claim has no record, though its completion does not say whose it was
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
	"the last task of a page left out where a node has more",
	"the last queue of a page left out where a node has more",
	"a page of workers goes beyond what a node has shown",
	"collection looks at the first 64 finished tasks",
	"unique keys beyond the first 64 are never forgotten",
	"a vote tells of the first 100 claims",
	"a key is free when its task is forgotten, though its window is not over",
	"a key that is old is forgotten while its task is known",
	"schedules go on from where a clock was that has come back",
	"launches of a clock that was ahead are made again when it has come back",
	"schedules wait for times of a clock that has come back",
	"tasks are collected by a clock that has just jumped",
	"the wall clock ends a lease that this process saw begin",
	"a wall clock that nobody confirms ends a lease",
	"wall clocks that are set ahead all alike end leases",
	"a renewal that does not move the end does not count",
	"a shorter renewal shortens a lease",
	"a leader renews by a clock that was set a moment ago",
	"an fsync error of a write is not looked at",
	"a table that could not be synced is taken in",
	"members of the register vote before that is on disk",
	"of two claims on a task only the newer one holds",
	"one of two claims that lapses uses up the last attempt of the other",
	"a retry that names the last claim does not end it",
	"the last attempt before a retry counts for it",
	"tasks go by the retention of when their archive began",
	"a release that comes before its grant is forgotten",
	"a member frees a task when a leader says that its claim expired",
	"a new leader counts claims from before it led",
	"a failure that may have been retried is acted on",
	"a failure from before a retry counts for a task that came after it",
	"a key that was given back to an older task goes to one that comes late",
	"a new leader gives a key away before it has heard who has it",
	"what a member was compared with counts after it has left and come back",
	"a comparison that has left something out counts",
	"facts of a collected task are taken",
	"a completion that comes after the collection of a dead task is lost",
	"the end of a run whose retry is not known yet is overlooked",
	"a cancellation undoes a completion",
	"of two bodies of one fact the first that came stays",
	"of two completions the later one counts",
	"the claims of a dead task end for good, though a retry may be on its way",
	"a copy is acknowledged before it is on disk",
	"a copy that was refused counts",
	"the answer to a round counts for those before it that were lost",
	"two candidates get a vote for the same epoch",
	"a ballot from an overtaken cell gets a vote",
	"a member forgets the cohorts that it has voted for",
	"a member deletes what a candidate may still count on",
	"a candidate takes the cell of another one in its epoch for its own",
	"a write does not reach the cohorts that were voted for",
	"a new cohort is given the facts of one voter",
	"what was seen of other disks is not written",
	"a node votes before others have said that its disk is whole",
	"a partition is deleted when one of the cohort has it",
	"a worker that was to die lives on",
	"a worker takes frames of a dispatcher that it has left",
	"a task that was said not to be running begins late",
	"tasks go to a session before it has said what it runs",
	"a heartbeat that was overtaken counts",
	"a worker gives up when its dispatcher does, not before",
	"a dispatcher that a worker has left may take its name",
	"a claim that ended while the list was on its way is taken for running",
	"a launch begins while the one before is not concluded",
	"a restored register launches what was launched after its snapshot",
	"a launch that one node refuses counts as not made, whatever another one has taken",
	"a task beyond the window of its queue goes before those between",
	"a page goes as far as the node that got furthest",
	"a page that is full by its bytes taken for the last",
	"a new leader looks through the first 100 waiting tasks",
	"all that was to be archived collected when a part of it is",
	"a key is refused gc-grace after its window began, not ended",
	"a leader ends a lapsed claim that another one may have renewed",
	"a comparison counts from when the other side hears of it",
	"a claim that a member refuses counts as taken by it",
	"answers to the process before this one count",
	"answers to claims of the process before this one count",
	"a partition is deleted though its cohort may be about to change",
	"what came during a comparison is deleted with its partition",
	"a page of a log that is full taken for the last",
	"an archive counts before its file is on disk",
	"an archive counts before the name of its file is on disk",
	"an archive whose manifest may not be on disk stays",
	"tombstones go before the last clock says that they may",
	"a node that is no member brings back what was collected and forgotten",
	"a repeated request gets the claims of a leader before, who may have taken them back",
	"the copy of a disk that has forgotten something counts",
	"one member ends an incarnation",
	"a newcomer counts before it has what a majority has",
	"a member of the register votes before its vote is on disk",
	"a flipped bit of a fact is taken for its content",
	"a master that was deposed goes on to launch",
	"a claim request that is repeated is granted other tasks",
	"a queue that is paused hands out tasks",
	"a worker is told the end of its lease, not when to stop",
	"the scope of a request does not go along to other nodes", "what somebody may not see is refused in words of its own",
	"a token lets in after its end, and not before", "the prefix of a tenant has the queues of a neighbour", "a method is carried out without a look at who asks",
	"a table is made of what the log does not have on disk yet", "what is earlier in the log is applied again over tables that were taken in",
	"a claim is ended by somebody who did not make it",
	"of the batches of one record of the log the last one is applied again first",
	"a record of the log is taken whatever record it followed",
	"of a batch of the log only the first write is applied again",
	"a batch of one write, as a promise is, is not in the log",
	"the last record of the log that is whole is cut with the torn one",
	"the index notes a place in the log without the writes up to it that wait",
	"the delete of a key that the index has is kept from it",
	"a completed claim has no record, though its completion does not say whose it was",
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
