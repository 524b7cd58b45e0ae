package history

import "github.com/norn-dev/norn/id"

// Phase tells the begin of an operation from its three ends.
type Phase uint8

// Phases. Note is no operation: something that the test did.
const (
	Note Phase = iota
	Invoke
	OK
	Fail
	Info
)

// Func says what an operation asks for.
type Func string

// Functions of clients. Inspect is the test itself looking into a node.
const (
	Enqueue  Func = "enqueue"
	Claim    Func = "claim"
	Renew    Func = "renew"
	Update   Func = "update"
	Complete Func = "complete"
	FailTask Func = "fail"
	Release  Func = "release"
	Cancel   Func = "cancel"
	Retry    Func = "retry"
	Get      Func = "get"
	List     Func = "list"
	Count    Func = "count"
	Log      Func = "log"
	Explain  Func = "explain"
	Key      Func = "key"
	Queues   Func = "queues"
	SetQueue Func = "set-queue"
	Inspect  Func = "inspect"
)

// Functions of the register: reading a partition's cell, and setting it where
// it still is what it was. A swap that has found another value ends with Fail.
const (
	CellRead Func = "cell-read"
	CellSwap Func = "cell-swap"
)

// Try is what somebody tries that it may have no right to: Text is the function, By who it is, and
// Queues are those that it may do everything on; none: all. See check.Rights.
const Try Func = "try"

// Look asks a node which cells it knows: it may be behind.
const Look Func = "look"

// What the test has seen happen, as notes that say more than their text: a
// node became the leader of a partition, and a client's process died, so that
// it believes in nothing any more.
const (
	Lead Func = "lead"
	Died Func = "died"
)

// State is a task's state as one word, as the CLI prints it. Empty: none was
// told. Absent: surely not there.
type State string

// States of a task.
const (
	Absent    State = "absent"
	Waiting   State = "waiting"
	Scheduled State = "scheduled"
	Ready     State = "ready"
	Claimed   State = "claimed"
	Completed State = "completed"
	Dead      State = "dead"
	Cancelled State = "cancelled"
)

// Finished tells whether the state is completed, dead or cancelled.
func (s State) Finished() bool { return s == Completed || s == Dead || s == Cancelled }

// Spec is what a task is, as a client asked for it or was shown it.
type Spec struct {
	Queue       string  `json:"queue"`
	Priority    int32   `json:"priority,omitempty"`
	Payload     uint64  `json:"payload,omitempty"` // digest, see [Digest]
	NotBefore   int64   `json:"not_before,omitempty"`
	Deps        []id.ID `json:"deps,omitempty"`
	OnFailure   string  `json:"on_failure,omitempty"` // run or wait; empty: cancel
	MaxAttempts uint32  `json:"max_attempts,omitempty"`
	Key         string  `json:"key,omitempty"`
	Window      int64   `json:"window,omitempty"` // ns
}

// ClaimSeen is one claim in a task that was read.
type ClaimSeen struct {
	Token   uint64 `json:"token"`
	Worker  string `json:"worker,omitempty"`
	Outcome string `json:"outcome"` // active, completed, failed, released, expired, ended
}

// Entry is one update in a task that was read.
type Entry struct {
	Token uint64 `json:"token"`
	Seq   uint64 `json:"seq"`
	Data  uint64 `json:"data"` // digest
}

// Item is one task's part in an operation: what was asked for in its Invoke,
// what came of it in its end. Items of an end stand in the order of those of
// the Invoke, where the answer has a result per item.
type Item struct {
	Task  id.ID  `json:"task"`
	Spec  *Spec  `json:"spec,omitempty"`
	State State  `json:"state,omitempty"`
	Error string `json:"error,omitempty"` // kind of the refusal of this item
	// Text is the task's error, or the message of the refusal.
	Text string `json:"text,omitempty"`

	Token uint64 `json:"token,omitempty"`
	Seq   uint64 `json:"seq,omitempty"`
	Data  uint64 `json:"data,omitempty"` // digest of update, result or, with a grant, checkpoint
	// Until is the true time up to which a worker believes in its claim.
	Until   int64 `json:"until,omitempty"`
	Existed bool  `json:"existed,omitempty"`
	// Unsure says that it may have happened or not, whatever else is said.
	Unsure bool `json:"unsure,omitempty"`
	// Start is when the lease began, wall ns of the leader.
	Start int64 `json:"start,omitempty"`
	// Uncounted, Discard and RetryAt are the options of a failure, Output of an update,
	// Auto of a completion.
	Uncounted bool `json:"uncounted,omitempty"`
	Discard   bool `json:"discard,omitempty"`
	Output    bool `json:"output,omitempty"`
	Auto      bool `json:"auto,omitempty"`
	// RetryAt is the wall ns before which a failed task is not to be tried again; 0:
	// its policy says.
	RetryAt int64 `json:"retry_at,omitempty"`

	Attempts uint32      `json:"attempts,omitempty"`
	Claims   []ClaimSeen `json:"claims,omitempty"`
	Log      []Entry     `json:"log,omitempty"`
	Reasons  []string    `json:"reasons,omitempty"` // of an explain
}

// Tally is the number of tasks per state of one queue.
type Tally struct {
	Queue  string           `json:"queue"`
	Counts map[State]uint64 `json:"counts"`
	Total  uint64           `json:"total"`
}

// Change is a change of a queue's settings.
type Change struct {
	Queue     string `json:"queue"`
	Paused    bool   `json:"paused,omitempty"`
	Draining  bool   `json:"draining,omitempty"`
	IfVersion uint64 `json:"if_version,omitempty"`
	// Version is the version after it, in the answer.
	Version uint64 `json:"version,omitempty"`
}

// Cell is the register's cell of one partition.
type Cell struct {
	Partition int      `json:"partition"`
	Epoch     uint64   `json:"epoch"`
	Leader    string   `json:"leader,omitempty"`
	Nonce     uint64   `json:"nonce"`
	Cohort    []string `json:"cohort,omitempty"`
}

// Event is one line of a history.
type Event struct {
	At      int64  `json:"at"` // ns of true time
	Op      uint64 `json:"op,omitempty"`
	Process int    `json:"process"`
	Phase   Phase  `json:"phase"`
	Func    Func   `json:"func,omitempty"`

	// By is the principal of an Invoke; empty: nobody has to show who it is.
	By     string   `json:"by,omitempty"`
	Items  []Item   `json:"items,omitempty"`
	Queues []string `json:"queues,omitempty"`
	// Session and Request name a claim request: the same pair again is the same
	// request again.
	Session uint64 `json:"session,omitempty"`
	Request uint64 `json:"request,omitempty"`
	Max     int    `json:"max,omitempty"`
	Wait    int64  `json:"wait,omitempty"`  // ns
	Lease   int64  `json:"lease,omitempty"` // ns
	// Only are the states that a cancel, retry or list is bound to.
	Only   []State `json:"only,omitempty"`
	Cursor string  `json:"cursor,omitempty"` // list: where a page begins, in hex
	More   bool    `json:"more,omitempty"`   // list, log: there is more
	// After is what a log reader has seen, in an Invoke; of a get what it has to show at
	// least, because somebody has seen it.
	After   *Entry  `json:"after,omitempty"`
	Tallies []Tally `json:"tallies,omitempty"`
	Change  *Change `json:"change,omitempty"`

	// Weak says, in the Invoke of a write, that it asks for the acknowledgement
	// of fewer nodes than a majority of the cohort; of a read, that it asks fewer.
	Weak bool `json:"weak,omitempty"`
	// Cell is what was read of the register, or is to be set; From what it has to
	// be for that. With a Lead note it is the cell that was won, and Items are
	// what the new leader knows: claims by task and token, and finished tasks by
	// their state, these only where From has another cohort than Cell.
	Cell *Cell `json:"cell,omitempty"`
	From *Cell `json:"from,omitempty"`
	// Known is when a new leader knew no more than that, ns: it asked for the cell
	// then. 0: when the note was made. Began is when it asked for the first vote; 0:
	// then as well.
	Known int64 `json:"known,omitempty"`
	Began int64 `json:"began,omitempty"`
	// Since is since when its worker has asked, in the end of a claim of which nobody can
	// tell which request it answers; 0: this one.
	Since int64 `json:"since,omitempty"`

	// Cells are what a look has shown; Text of its Invoke names the node.
	Cells []Cell `json:"cells,omitempty"`

	Error string `json:"error,omitempty"` // kind of the refusal
	Text  string `json:"text,omitempty"`  // of a note or an error
}

// AskedSince is when what has ended was asked for at the earliest, if the request that
// it seems to answer was made then.
func (e *Event) AskedSince(then int64) int64 {
	if e.Since > 0 {
		return min(then, e.Since)
	}
	return then
}
