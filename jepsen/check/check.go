package check

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/ring"
)

// Invariants, as they are named in a [Violation].
const (
	Lost       = "lost"       // an acknowledged write is gone (I1, I17)
	Phantom    = "phantom"    // something appears that nobody asked for (I2)
	Honesty    = "honesty"    // what was reported as failed has happened (I16)
	Content    = "content"    // a task, update or result differs from what was sent (I2, I9)
	Undone     = "undone"     // a completed, cancelled or dead task goes on (I3)
	Overlap    = "overlap"    // two workers hold valid claims on one task (I4)
	Token      = "token"      // claim tokens do not rise (I5)
	Contiguous = "contiguous" // a log with a hole (I9)
	Order      = "order"      // a better ready task of the partition was passed over (I10)
	Dependency = "dependency" // a task is ready before its dependencies are (I11)
	Early      = "early"      // a task is handed out before its time
	Paused     = "paused"     // a paused queue hands out, a draining one takes in
	UniqueKey  = "unique-key" // two tasks for one key
	StateRule  = "state"      // a state that cannot be
	Counting   = "counting"   // counts or lists that disagree with the tasks
	Collected  = "collected"  // a task was forgotten too early, or came back (I13)
	Stuck      = "stuck"      // what could be finished is not (I14)
	Internal   = "internal"   // the server reports a bug or damage (I18)
	Lock       = "lock"       // claims of a task are no fenced lock (I4, I5)
	Register   = "register"   // the register's cells are not linearizable, or epochs do not rise (I6)
	Leader     = "leader"     // a new leader does not know what its predecessors committed (I7)
)

// Settled is the text of the note after which nothing goes wrong any more. Equal is that of
// the note that all replicas were equal, after the faults and after the last answer to a
// client. ClockStepped says that a node's wall clock was set, from which on nothing is
// said about times.
const (
	Settled      = "settled"
	Equal        = "equal"
	ClockStepped = "clock stepped"
)

// never is a time that does not come.
const never int64 = math.MaxInt64

// Options say what a checker cannot see in a history.
type Options struct {
	// Partitions is the number of partitions of the cluster.
	Partitions int
	// Retention is the least time for which finished tasks are kept, and Grace
	// that for which it is remembered that they were there, ns; 0: for ever.
	Retention, Grace int64
	// Slack is how long the node may take to act on what it knows, ns.
	Slack int64
	// Lease is the least lease that anybody asks for, Backoff the least pause after a
	// failure, ns; 0: nothing is known, and nothing is said that needs it. Skew is how
	// far wall clocks are from each other while none is set, ns.
	Lease, Backoff, Skew int64
	// Attempts is how many a task has whose spec does not say; 0: at least one.
	Attempts uint32
	// Unfenced says that the history is of several nodes whose claims are neither
	// replicated nor fenced: until partitions have elections, those of a leader
	// that dies are forgotten, and one that is cut off goes on granting. So
	// nothing is said about exclusive claims, tokens, the order of grants and what
	// claims and their ends need; what goes from node to node may come twice, so
	// that a write may find itself there already; and a reading may be behind until [Settled]: up
	// to then only what nobody asked for, what differs from what was asked for,
	// logs with holes and damage are wrong. After it all readings count in full.
	Unfenced bool
	// Elected says that the history is of several nodes whose partitions have
	// elections: at any time claims are exclusive, tokens rise, what a majority
	// has acknowledged as finished is neither granted nor renewed, and no claim is
	// taken from its worker. All else is as with Unfenced: readings may be behind
	// until [Settled]. The order of grants is left to a [Ledger], because a leader
	// may hear of a task late, and pauses are not held to, because it may hear of those
	// late as well. Writes that ask for less than a majority must be
	// marked as weak in the history.
	Elected bool
	// Sessions says that workers keep sessions: one that is lost fails its claims at once.
	Sessions bool
	// Lossy says that disks get lost: what a single replica has shown may be gone.
	Lossy bool
}

// many tells whether the history is of several nodes.
func (o *Options) many() bool { return o.Unfenced || o.Elected }

// forgets tells whether a dependency may be too old to be enqueued any more when
// something else depends on it: that one is cancelled then, under each policy.
func (o *Options) forgets() bool { return o.many() && o.Grace > 0 && o.Grace < int64(time.Hour) }

// unfenced are the invariants that hold at any time without fences.
func unfenced(invariant string) bool {
	switch invariant {
	case Phantom, Honesty, Content, Contiguous, Internal:
		return true
	}
	return false
}

// fenced are those that say nothing without fences, at any time.
func fenced(invariant string) bool {
	switch invariant {
	case Overlap, Token, Order:
		return true
	}
	return false
}

// Violation is a broken promise.
type Violation struct {
	Invariant string
	At        int64 // ns of true time
	Task      id.ID // zero: it is not about one task
	Text      string
}

// Error gives the violation in one line.
func (v *Violation) Error() string {
	if v.Task.IsZero() {
		return fmt.Sprintf("%s: %s", v.Invariant, v.Text)
	}
	return fmt.Sprintf("%s: task %s: %s", v.Invariant, v.Task, v.Text)
}

// Checker holds one history to the promises. It is used from one goroutine.
type Checker struct {
	o        Options
	now      int64
	found    *Violation
	tasks    map[id.ID]*task
	order    []*task // by first appearance
	ops      map[uint64]*history.Event
	requests map[request]int64 // first invocation of a claim request
	queues   map[string]*queue
	parts    []partition
	keys     map[key][]*task
	settled  int64
	stepped  bool           // a wall clock was set
	dead     map[int]bool   // processes that have ended: they run nothing any more
	counted  *history.Event // the last count of everything after settling
	listed   map[id.ID]bool // what the last full list after settling gave
	listing  map[id.ID]bool // the list that is under way
}

type request struct{ session, number uint64 }

// queue is what is known of one queue.
type queue struct {
	asking   int // claim requests under way or with an unknown outcome
	paused   int64
	draining int64
	resumes  []uint64 // if-versions of changes with an unknown outcome that may end a pause or a drain
}

// partition is what is known of the tokens of one partition.
type partition struct {
	byToken map[uint64]*task
	// seen are the highest tokens so far by when they were seen, both ascending.
	seen []seenToken
}

type seenToken struct {
	at    int64
	token uint64
}

// New makes a checker of one history.
func New(o Options) *Checker {
	c := &Checker{
		o: o, tasks: make(map[id.ID]*task), ops: make(map[uint64]*history.Event),
		requests: make(map[request]int64), queues: make(map[string]*queue), keys: make(map[key][]*task),
		dead: make(map[int]bool), parts: make([]partition, o.Partitions), settled: never,
	}
	for p := range c.parts {
		c.parts[p].byToken = make(map[uint64]*task)
	}
	return c
}

// fail keeps the first violation.
func (c *Checker) fail(invariant string, t *task, format string, args ...any) {
	if c.o.Elected && (invariant == Order || c.now < c.settled && !unfenced(invariant) && !fenced(invariant)) {
		return
	}
	c.breach(invariant, t, format, args...)
}

// breach keeps the first violation, of what holds at any time where there are
// fences.
func (c *Checker) breach(invariant string, t *task, format string, args ...any) {
	if c.o.Unfenced && (fenced(invariant) || c.now < c.settled && !unfenced(invariant)) {
		return
	}
	if c.found == nil {
		c.found = &Violation{Invariant: invariant, At: c.now, Text: fmt.Sprintf(format, args...)}
		if t != nil {
			c.found.Task = t.id
		}
	}
}

// Event takes in the next event and gives the first violation so far, or nil.
func (c *Checker) Event(e *history.Event) *Violation {
	c.now = e.At
	switch e.Phase {
	case history.Note:
		switch e.Text {
		case Settled:
			c.settled = e.At
		case ClockStepped:
			c.stepped = true
		}
		if e.Func == history.Died {
			c.dead[e.Process] = true
		}
	case history.Invoke:
		c.ops[e.Op] = e
		c.invoke(e)
	default:
		asked := c.ops[e.Op]
		if asked == nil {
			c.fail(Phantom, nil, "operation %d ends without a beginning", e.Op)
			break
		}
		delete(c.ops, e.Op)
		c.end(asked, e)
	}
	return c.found
}

func (c *Checker) invoke(e *history.Event) {
	switch e.Func {
	case history.Claim:
		r := request{e.Session, e.Request}
		if _, again := c.requests[r]; !again {
			c.requests[r] = e.At
		}
		for _, name := range e.Queues {
			c.queue(name).asking++
		}
	case history.SetQueue:
		c.change(e.Change)
	default:
		for i := range e.Items {
			if i := &e.Items[i]; !i.Task.IsZero() { // else the node draws the ID
				c.asked(e, c.task(i.Task), i)
			}
		}
	}
}

// end takes in what came of an operation.
func (c *Checker) end(asked, e *history.Event) {
	if e.Error == "INTERNAL" {
		c.fail(Internal, nil, "%s: %s", e.Func, e.Text)
	}
	for i := range e.Items {
		if e.Items[i].Error == "INTERNAL" {
			c.fail(Internal, c.task(e.Items[i].Task), "%s: %s", e.Func, e.Items[i].Text)
		}
	}
	switch {
	case e.Func == history.Claim:
		granting{c}.claimed(asked, e)
	case e.Func == history.SetQueue:
		c.changed(asked, e)
	case e.Phase == history.Info:
	case e.Phase == history.Fail:
		for i := range asked.Items {
			if i := &asked.Items[i]; !i.Task.IsZero() {
				c.refused(asked, c.task(i.Task), i)
			}
		}
	case e.Func == history.List:
		whole{c}.list(asked, e)
	case e.Func == history.Count:
		whole{c}.count(asked, e)
	case e.Func == history.Log:
		logs{c}.page(asked, e)
	case e.Func == history.Key:
		c.keyed(asked, e)
	case e.Func == history.Get, e.Func == history.Inspect, e.Func == history.Explain:
		for i := range e.Items {
			c.observe(asked, &e.Items[i])
		}
	default:
		c.written(asked, e)
	}
}

// task gives the model of a task. The zero ID, which names none, has one too:
// whatever is said of it is said of nothing that was asked for.
func (c *Checker) task(i id.ID) *task {
	t := c.tasks[i]
	if t == nil {
		t = newTask(i, ring.Of(i, c.o.Partitions))
		c.tasks[i] = t
		c.order = append(c.order, t)
	}
	return t
}

func (c *Checker) queue(name string) *queue {
	q := c.queues[name]
	if q == nil {
		q = &queue{paused: never, draining: never}
		c.queues[name] = q
	}
	return q
}

// change hears that somebody wants to change a queue.
func (c *Checker) change(want *history.Change) {
	q := c.queue(want.Queue)
	if !want.Paused || !want.Draining {
		q.resumes = append(q.resumes, want.IfVersion)
	}
	if !want.Paused {
		q.paused = never
	}
	if !want.Draining {
		q.draining = never
	}
}

// changed hears what came of it.
func (c *Checker) changed(asked, e *history.Event) {
	q, want := c.queue(asked.Change.Queue), asked.Change
	drop := func(is func(uint64) bool) {
		if i := slices.IndexFunc(q.resumes, is); i >= 0 {
			q.resumes = slices.Delete(q.resumes, i, i+1)
		}
	}
	if e.Phase == history.Info {
		return
	}
	if !want.Paused || !want.Draining {
		drop(func(v uint64) bool { return v == want.IfVersion })
	}
	if e.Phase != history.OK {
		return
	}
	// A change bound to an older version has either happened before this one, or
	// never will.
	q.resumes = slices.DeleteFunc(q.resumes, func(v uint64) bool { return v != 0 && v < e.Change.Version })
	if len(q.resumes) > 0 || c.o.Elected {
		return // leaders hear of it one after the other, and those that are cut off late
	}
	if want.Paused {
		q.paused = min(q.paused, c.now)
	}
	if want.Draining {
		q.draining = min(q.draining, c.now)
	}
}
