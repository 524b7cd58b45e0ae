package proto

import "time"

// Versions of the client protocol this build speaks.
const (
	MinVersion = 1
	MaxVersion = 1
)

// Limits of requests. Each has a reason, and a test of what happens past it.
const (
	// MaxPayload is the default payload limit in bytes: a queue carries
	// references to large things, not the things.
	MaxPayload = 1 << 20
	// MaxPayloadCeiling is the highest payload limit that can be configured.
	MaxPayloadCeiling = 16 << 20
	// MaxUpcoming bounds the instants of one schedule that one answer tells, so that none
	// is long in the making.
	MaxUpcoming = 1000
	// MaxBatchTasks bounds the items of one request, so that one client cannot
	// hold the core loop for more than some tenths of a second.
	MaxBatchTasks = 10_000
	// MaxBatchBytes bounds the payload bytes of one enqueue request.
	MaxBatchBytes = 16 << 20
	// MaxRetryDelay bounds how far ahead a failure may put the next attempt.
	MaxRetryDelay = 365 * 24 * time.Hour
	// MaxRetryIn bounds how long after its failure a task may be said to be retried.
	MaxRetryIn = 36500 * 24 * time.Hour
	// MaxDependencies bounds the dependencies of one task.
	MaxDependencies = 1_000
	// MaxBatchDependencies bounds those of all tasks of one request: each is a
	// few writes in two partitions.
	MaxBatchDependencies = 10_000
	// MaxHeaders and MaxHeaderBytes bound the headers of one task.
	MaxHeaders     = 64
	MaxHeaderBytes = 16 << 10
	// MaxKindBytes bounds the kind of a task: it is a label of metrics. MaxTags and MaxTagBytes
	// bound its tags, which each list that filters by them compares.
	MaxKindBytes = 128
	MaxTags      = 16
	MaxTagBytes  = 64
	// MaxPayloadPaths bounds the conditions on values in payloads of one filter, MaxPathBytes the
	// path, and MaxSoughtBytes what is looked for, in bytes.
	MaxPayloadPaths = 16
	MaxPathBytes    = 256
	MaxSoughtBytes  = 1 << 10
	// MaxUpdateBytes bounds one update: a checkpoint, not a result store.
	MaxUpdateBytes = 1 << 20
	// MaxLogUpdates and MaxLogBytes bound the log of one task, of all its claims: it is
	// deleted in one step, with its task, and that step must not hold the core loop for more
	// than some tenths of a second. Each node counts what it has: where two sides of a split
	// each took some, or copies are behind, there may be more.
	MaxLogUpdates = 1 << 17
	MaxLogBytes   = 256 << 20
	// MaxLastUpdates and MaxLastBytes are how much beyond that the log of one task takes of
	// what its claims say at last.
	MaxLastUpdates = 1 << 14
	MaxLastBytes   = 16 << 20
	// MaxErrorBytes bounds the text of a failure; what is longer is cut at the
	// front, because the end of a trace says most.
	MaxErrorBytes = 16 << 10
	// MaxWorkerName bounds the name a worker gives itself.
	MaxWorkerName = 256
	// MaxKeyBytes bounds a unique key.
	MaxKeyBytes = 1 << 10
	// MaxNoteBytes bounds the note of an operator on a queue.
	MaxNoteBytes = 1 << 10
	// MaxPausedBy bounds the name of who has paused a queue.
	MaxPausedBy = 256
	// MaxClaimQueues bounds the queues of one claim request.
	MaxClaimQueues = 1_000
	// MaxUnanswered bounds the earlier requests that a claim request names as
	// unanswered.
	MaxUnanswered = 100
	// MaxGrantBytes bounds the payload bytes of one claim answer: once they are
	// reached, the rest stays ready. With the largest payload on top an answer
	// still fits a frame.
	MaxGrantBytes = 4 << 20
	// MaxUpdatesInTask bounds the update bytes shown with a task that is read
	// by itself, MaxUpdatesInList with one in a list or a grant: the newest
	// ones. The log gives them all, page by page.
	MaxUpdatesInTask = 4 << 20
	MaxUpdatesInList = 64 << 10
	// MaxListPage bounds the tasks of one page, and MaxPageBytes their bytes.
	MaxListPage  = 1_000
	MaxPageBytes = 4 << 20
	// MaxNames bounds the queues, or workers, that are asked for by name.
	MaxNames = 1_000
	// MaxVerify bounds the partitions of one verification, MaxVerifyQueues those
	// with the counters of each queue.
	MaxVerify       = 256
	MaxVerifyQueues = 16
	// MaxFrame bounds a frame: a full batch and its headers.
	MaxFrame = 24 << 20
	// MaxInFlight is the default credit of one connection in requests.
	MaxInFlight = 4096
)

// Defaults and bounds of times.
const (
	DefaultLease = 30 * time.Second
	MaxWait      = 5 * time.Minute
	// A window of a unique key: shorter ones are rate limits, which this is not.
	MinKeyWindow    = time.Second
	MaxKeyWindow    = 366 * 24 * time.Hour
	DefaultAttempts = 25
)
