package session

import (
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Message is one frame between a worker and its dispatcher. It may be lost,
// doubled, delayed or overtaken.
type Message struct {
	// Instance is the worker, whichever side sends. A worker drops what is not for
	// its own instance.
	Instance Instance
	// Association numbers the dispatchers that the worker has turned to. The worker
	// mints it; both sides drop frames of older ones.
	Association uint64
	// Stamp is the worker's mono ns when it sent this; 0 in frames to the worker.
	Stamp int64
	Body  Body // nil: nothing but the stamp
}

// Body is what a frame says: one of the types of this file.
type Body interface{ Kind() Kind }

// Kind is the type of a body.
type Kind uint8

// Kinds, those of the worker first.
const (
	KindHeartbeat Kind = iota + 1
	KindRunningTasks
	KindRunReply
	KindNotifyReply
	KindUpdateStatus
	KindLogLines
	KindLeave

	KindHeartbeatReply
	KindRenewed
	KindGetRunningTasks
	KindRunTask
	KindNotify
	KindKillTask
	KindStatusAck
	KindSuicide
	KindGetLogLines
	KindLeaveAck
)

var kindNames = [...]string{
	"none", "heartbeat", "running-tasks", "run-reply", "notify-reply", "update-status", "log-lines", "leave",
	"heartbeat-reply", "renewed", "get-running-tasks", "run-task", "notify", "kill-task", "status-ack", "suicide",
	"get-log-lines", "leave-ack",
}

// String gives the kind as in traces.
func (k Kind) String() string { return kindNames[min(int(k), len(kindNames)-1)] }

// Heartbeat goes from worker to dispatcher every Period. It associates the two,
// says what the worker is and has, and lists every claim it holds, all of which
// are renewed in one go. See [Dispatcher.heartbeat] and [Worker.heartbeatReply].
type Heartbeat struct {
	Identity               Identity
	MinVersion, MaxVersion uint32
	Capacity               Capacity
	Timeouts               Timeouts      // that the worker goes by now; zero: none
	Stop                   time.Duration // its handlers need to end
	Grace                  time.Duration // they may need, when it is lost; less than Stop means that
	Settled                bool          // it was told once that it has its name
	Draining               bool          // it takes nothing new
	Trouble                string        // why it cannot begin tasks; "": it can
	Resting                bool          // it takes nothing for a while, because of that
	Checked                uint64        // newest check that passed in this association; 0: none
	Set                    SetVersion    // newest one it was told
	Claims                 []Claim       // to renew, sorted
}

// Refusal is why a worker does not run a task, or a dispatcher does not take a
// worker. It always means: surely not. Append-only.
type Refusal uint8

// Refusals, first those of a worker.
const (
	Accepted        Refusal = iota
	RefusedState            // not healthy, or not yet told that it has its name
	RefusedDraining         // it takes nothing new
	RefusedFull             // no free slot for it
	RefusedQueue            // it does not serve this queue
	RefusedDeadline         // too little of the lease is left
	RefusedRunning          // it runs the task under another token
	RefusedBarred           // it has said that it was not running this token or a later one
	RefusedBacklog          // too many endings of it wait to be acknowledged

	RefusedVersion // no version in common
	RefusedName    // another instance has the name
	RefusedStale   // a later life of the same worker has the name
	RefusedDead    // this instance was declared lost
	RefusedInvalid // the heartbeat breaks a rule
)

var refusalNames = [...]string{
	"accepted", "state", "draining", "full", "queue", "deadline", "running", "barred", "backlog",
	"version", "name", "stale", "dead", "invalid",
}

// String gives the refusal as in traces and logs.
func (r Refusal) String() string {
	if int(r) < len(refusalNames) {
		return refusalNames[r]
	}
	return "unknown"
}

// HeartbeatReply answers a heartbeat, at once; it comes unasked when something in
// it has changed. Without Good it counts for nothing but what it says.
type HeartbeatReply struct {
	Echo      int64 // stamp of the newest heartbeat
	Version   uint32
	Refused   Refusal // Accepted: it is, or will be
	Text      string  // one line on a refusal: who has the name, what to do
	Good      bool    // the session has its name and is known: health may count this
	Timeouts  Timeouts
	Checked   uint64 // newest check that the dispatcher has credited in this association
	Set       SetVersion
	Cancelled []Stop // claims whose tasks were cancelled, or that an operator stops
	Drain     bool   // take nothing new, finish, leave
}

// Renewal is what became of one claim of a heartbeat.
type Renewal struct {
	Claim Claim
	Lease time.Duration // renewed for so long
	Lost  Cause         // why it could not be; CauseNone: it was
}

// Renewed gives renewals of the claims in one heartbeat, as they come from the
// leaders. Claims it does not name are undecided.
type Renewed struct {
	Echo  int64
	Items []Renewal
}

// GetRunningTasks asks for everything that the worker holds.
type GetRunningTasks struct{ Request uint64 }

// Held is one claim that a worker holds, ended or not.
type Held struct {
	Claim Claim
	Queue string
	Lease time.Duration
	Ended bool // it has ended, and waits for that to be acknowledged
}

// RunningTasks answers GetRunningTasks.
type RunningTasks struct {
	Request uint64
	Held    []Held // sorted by claim
}

// RunTask hands a claim to the worker. It is sent at most once for a claim.
type RunTask struct {
	Push   uint64 // number of this push in the association, from 1
	Check  uint64 // above 0: a health check with this number; there is no claim
	Claim  Claim
	Queue  string
	Echo   int64         // stamp of a frame of the worker
	Waited time.Duration // from its receipt to the asking for the grant
	Lease  time.Duration
	Grant  *nornv1.Grant // the task; the machines do not look at it
}

// RunReply says whether the worker took a RunTask. None at all means unknown.
type RunReply struct {
	Push    uint64
	Claim   Claim
	Refused Refusal // Accepted: it is held
}

// Question is one claim of a [Notify].
type Question struct {
	Claim Claim
	Lease time.Duration // how long a RunTask of it may still be good for
}

// Notify is NotifyIfTasksNotRunning: the worker is to report those of the claims
// that it does not hold.
type Notify struct {
	Seq    uint64
	Claims []Question
}

// NotifyReply says that a Notify was carried out. What was asked and is neither
// reported nor in Ended is held and has not ended.
type NotifyReply struct {
	Seq uint64
	// Ended has claims whose end is being reported; the word of it may have come, and
	// even been acknowledged, before the question was asked.
	Ended []Claim
}

// EndKind is how a claim ended on its worker. Append-only.
type EndKind uint8

// Endings.
const (
	EndNone       EndKind = iota
	EndNotRunning         // it was not running, and this token never will
	EndCompleted          // Result, Seq
	EndFailed             // Error, RetryAt, Uncounted, Discard
	EndReleased           // given back unharmed
	EndReported           // the worker has written the outcome itself, or lost the claim
	EndChecked            // a health check passed: Check
)

var endNames = [...]string{"none", "not-running", "completed", "failed", "released", "reported", "checked"}

// String gives the kind as in traces.
func (k EndKind) String() string {
	if int(k) < len(endNames) {
		return endNames[k]
	}
	return "unknown"
}

// worth orders endings of one claim: what only gives the task back, a failure, a
// completion.
func (k EndKind) worth() int {
	switch k {
	case EndCompleted:
		return 2
	case EndFailed:
		return 1
	}
	return 0
}

// End says how a claim ended.
type End struct {
	Kind      EndKind
	Seq       uint64        // completed: number after the last update
	AutoSeq   bool          // completed: take that number from the visible updates
	Result    []byte        // completed
	Error     string        // failed
	RetryAt   int64         // failed: wall ns of the next attempt; 0: as the policy says
	RetryIn   time.Duration // failed: over 0: the next attempt is so long after a node hears of this, not at RetryAt
	Uncounted bool          // failed: it uses no attempt
	Discard   bool          // failed: straight to dead
	Further   []byte        // fields of a Completion or a Failure that are not above, as an encoded one
}

// UpdateStatus tells that a claim has ended, or was not running. The worker
// repeats it until it is acknowledged, and holds the claim as long.
type UpdateStatus struct {
	Claim Claim
	Check uint64 // with EndChecked
	End   End
}

// StatusAck acknowledges an UpdateStatus: it is written, or can never be.
type StatusAck struct {
	Claim Claim
	Lost  bool         // the claim was over before: the end changed nothing
	State nornv1.State // of the task, where that is known
}

// Cause is why a worker has to stop a task. Append-only.
type Cause uint8

// Causes.
const (
	CauseNone      Cause = iota
	CauseLost            // the claim is over, or cannot be shown to last
	CauseCancelled       // the task was cancelled
	CauseKilled          // an operator stopped this claim
	CauseShutdown        // the worker must die
)

var causeNames = [...]string{"none", "lost", "cancelled", "killed", "shutdown"}

// String gives the cause as in traces and logs.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// KillTask stops one claim. Its end is reported like any other.
type KillTask struct {
	Claim Claim
	Lease time.Duration // as in [Question]
	Cause Cause
}

// Suicide tells the instance in the frame to die. Final: an operator wants it, and
// the program is not to begin anew.
type Suicide struct {
	Reason string
	Final  bool
}

// GetLogLines asks for log lines of a task that runs, or has.
type GetLogLines struct {
	Request uint64
	Claim   Claim
	After   uint64 // give the lines with higher numbers
	Limit   int    // 0: as many as fit
}

// LogLines answers GetLogLines.
type LogLines struct {
	Request uint64
	Claim   Claim
	First   uint64 // number of the first line; they are numbered from 1
	Lines   []string
	Known   bool // the worker remembers the claim
	Ended   bool
}

// Leave says that the worker runs nothing, has reported everything, and will
// never start anything again. It is repeated until it is acknowledged.
type Leave struct{ Dying bool }

// LeaveAck acknowledges Leave.
type LeaveAck struct{}

// Kind implements [Body].
func (*Heartbeat) Kind() Kind { return KindHeartbeat }

// Kind implements [Body].
func (*RunningTasks) Kind() Kind { return KindRunningTasks }

// Kind implements [Body].
func (*RunReply) Kind() Kind { return KindRunReply }

// Kind implements [Body].
func (*NotifyReply) Kind() Kind { return KindNotifyReply }

// Kind implements [Body].
func (*UpdateStatus) Kind() Kind { return KindUpdateStatus }

// Kind implements [Body].
func (*LogLines) Kind() Kind { return KindLogLines }

// Kind implements [Body].
func (*Leave) Kind() Kind { return KindLeave }

// Kind implements [Body].
func (*HeartbeatReply) Kind() Kind { return KindHeartbeatReply }

// Kind implements [Body].
func (*Renewed) Kind() Kind { return KindRenewed }

// Kind implements [Body].
func (*GetRunningTasks) Kind() Kind { return KindGetRunningTasks }

// Kind implements [Body].
func (*RunTask) Kind() Kind { return KindRunTask }

// Kind implements [Body].
func (*Notify) Kind() Kind { return KindNotify }

// Kind implements [Body].
func (*KillTask) Kind() Kind { return KindKillTask }

// Kind implements [Body].
func (*StatusAck) Kind() Kind { return KindStatusAck }

// Kind implements [Body].
func (*Suicide) Kind() Kind { return KindSuicide }

// Kind implements [Body].
func (*GetLogLines) Kind() Kind { return KindGetLogLines }

// Kind implements [Body].
func (*LeaveAck) Kind() Kind { return KindLeaveAck }
