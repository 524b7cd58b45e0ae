package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Bounds of a worker.
const (
	// MaxTakes bounds the claims of a worker: all are in each heartbeat, and
	// renewed as one batch.
	MaxTakes = proto.MaxSessionTakes
	// MaxQueues bounds the queues of a worker, as those of a claim request.
	MaxQueues = proto.MaxClaimQueues
	// maxUnacked bounds endings that wait to be acknowledged beyond MaxTakes; past
	// it nothing new is taken, because the cluster does not keep up.
	maxUnacked = proto.MaxSessionHeld - MaxTakes
	// maxBars bounds the tasks of which the worker has said that it was not running
	// them. Past it such questions are left unanswered, and come again.
	maxBars = 65_536
)

// WorkerConfig is what a worker is.
type WorkerConfig struct {
	// Identity needs a name and an instance.
	Identity Identity
	// Capacity is at least one slot and one queue; at most MaxTakes and MaxQueues.
	Capacity Capacity
	// Stop is what the handlers need from being told to having ended. They are told
	// so much before the lease is over. At most half of the dispatcher's LoseAfter,
	// or the worker is never healthy for long.
	Stop time.Duration
	// Grace is what they may need beyond Stop, counted from the same moment, when the
	// worker is lost: what it ran is handed on no sooner. 0: Stop; at most
	// [proto.MaxSessionStop].
	Grace time.Duration
	// FirstPeriod is between heartbeats until a dispatcher has said that it has the
	// worker's name; 0: 1 s.
	FirstPeriod time.Duration
	// Retry is the first wait before an ending is repeated, doubled up to RetryMax;
	// 0: 500 ms and 5 s. An answer takes two round trips and an fsync.
	Retry, RetryMax time.Duration
}

// ErrConfig is returned when a configuration breaks a rule.
var ErrConfig = errors.New("session: bad configuration")

func (c WorkerConfig) withDefaults() (WorkerConfig, error) {
	if c.FirstPeriod == 0 {
		c.FirstPeriod = time.Second
	}
	if c.Retry == 0 {
		c.Retry = 500 * time.Millisecond
	}
	if c.RetryMax == 0 {
		c.RetryMax = max(5*time.Second, c.Retry)
	}
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
	}
	if c.Identity.Name == "" || c.Identity.Instance.IsZero() {
		bad("a worker needs a name and an instance")
	}
	if c.Capacity.Slots < 1 || c.Capacity.Prefetch < Adaptive || c.Capacity.Takes() > MaxTakes {
		bad("%d slots and %d to prefetch are outside 1 to %d together", c.Capacity.Slots, c.Capacity.Prefetch, MaxTakes)
	}
	if n := len(c.Capacity.Queues); n < 1 || n > MaxQueues {
		bad("%d queues are outside 1 to %d", n, MaxQueues)
	}
	if c.Grace < 0 || c.Grace > proto.MaxSessionStop {
		bad("a grace of %v is outside 0 to %v", c.Grace, proto.MaxSessionStop)
	}
	if c.Stop < 0 || c.FirstPeriod < 0 || c.Retry < 0 || c.RetryMax < c.Retry {
		bad("a time is negative, or RetryMax below Retry")
	}
	return c, errors.Join(problems...)
}

// Start is a task to begin.
type Start struct {
	Claim Claim
	Check uint64 // above 0: a health check, see [Worker.CheckPassed]
	Queue string
	// Deadline is the mono ns at which the worker will be told to stop unless the
	// claim is renewed; see [Worker.Holds].
	Deadline int64
	Grant    *nornv1.Grant
}

// Stop is a task to stop: its context is cancelled, then its handler killed.
type Stop struct {
	Claim Claim
	Cause Cause
}

// WorkerReady is what a worker has to do, in this order: stop, start, send.
type WorkerReady struct {
	Stop   []Stop
	Start  []Start
	Acked  []StatusAck // of claims that are over: nothing holds them any more
	Send   []Message
	WakeAt int64 // mono ns; clock.Never when nothing is due
}

// retry says when something is repeated.
type retry struct {
	at   int64
	wait time.Duration
}

// Worker is the worker's side of the protocol.
type Worker struct {
	cfg   WorkerConfig
	now   clock.Time
	out   WorkerReady
	stamp int64 // newest stamp sent
	life  vitals
	has   holdings

	association uint64
	joined      bool  // it has its name, as told in this association
	echoed      int64 // stamp of the newest heartbeat whose answer counted here
	heard       int64 // stamp of the newest heartbeat that was answered at all
	refused     Refusal
	refusal     string
	version     uint32
	set         SetVersion

	denied map[Claim]*retry // "was not running", not acknowledged
	// Invariant: a claim with a token up to its task's bar is never started. A bar
	// is kept until any RunTask it is against is past its own deadline.
	bars   map[id.ID]bar
	pushes window
	lines  lines
	stuck  map[Claim]struct{} // whose handlers hang: see Stuck
	pace   Ahead              // how long handlers run
	// Why tasks cannot be begun, and whether none is taken because of that: see Trouble.
	trouble string
	resting bool

	beatAt   int64 // of the next heartbeat
	wake     int64 // nothing else is due before
	draining bool
	leave    retry
	waits    int64 // mono ns since which only acknowledgements keep it from leaving: see Forsake; 0: they do not
	left     bool
	why      string // it must die
	final    bool   // an operator wants that
}

type bar struct {
	token uint64
	until int64
}

// NewWorker makes a worker that has met no dispatcher. It returns ErrConfig for a
// configuration that breaks a rule, every problem at once.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{
		cfg: cfg, life: vitals{stop: cfg.Stop}, has: newHoldings(), beatAt: clock.Never, wake: clock.Never,
		denied: make(map[Claim]*retry), bars: make(map[id.ID]bar), stuck: make(map[Claim]struct{}),
	}, nil
}

// Turn is called when the worker has a new stream, to whichever node, also to the
// same one again. From now on frames of earlier streams count for nothing.
func (w *Worker) Turn(now clock.Time) {
	w.advance(now)
	w.association++
	w.joined, w.echoed, w.refused, w.refusal, w.waits = false, 0, Accepted, "", 0
	w.life.checks, w.life.checked, w.pushes = nil, 0, window{}
	w.beat()
	w.repeatSoon()
}

// Step takes a message of the dispatcher. What is not for this instance and this
// association is dropped.
func (w *Worker) Step(now clock.Time, m Message) {
	w.advance(now)
	if m.Instance != w.cfg.Identity.Instance || m.Association != w.association && !mutant.OldDispatcher.On() || w.left {
		return
	}
	switch b := m.Body.(type) {
	case *HeartbeatReply:
		w.heartbeatReply(b)
	case *Renewed:
		w.renewed(b)
	case *GetRunningTasks:
		w.getRunningTasks(b)
	case *RunTask:
		w.runTask(b)
	case *Notify:
		w.notify(b)
	case *KillTask:
		w.killTask(b)
	case *StatusAck:
		w.statusAck(b)
	case *Suicide:
		w.final = w.final || b.Final
		w.die("told to: " + b.Reason)
	case *GetLogLines:
		w.send(w.lines.answer(b, w.has.all[b.Claim]))
	case *LeaveAck:
		w.left = w.leave.at != 0
	}
	w.leaveIfDone()
}

// Tick does what is due.
func (w *Worker) Tick(now clock.Time) {
	w.advance(now)
	w.leaveIfDone()
}

// Ready gives what is to be done, once.
func (w *Worker) Ready() WorkerReady {
	out := w.out
	out.WakeAt = min(w.beatAt, w.wake, w.life.next())
	if w.left {
		out.WakeAt = clock.Never
	}
	w.out = WorkerReady{}
	return out
}

// advance lets time pass up to now: health, deadlines, repetitions, heartbeats.
// Whatever comes in is looked at only after it, so that a process which was frozen
// first gives up what it lost meanwhile.
func (w *Worker) advance(now clock.Time) {
	if now.Mono < w.now.Mono {
		now.Mono = w.now.Mono // a caller's mistake must not lengthen a lease
	}
	w.now = now
	w.judge()
	if now.Mono >= w.wake {
		w.due()
	}
	if now.Mono >= w.beatAt {
		w.beat()
	}
}

// judge takes the health that follows from the stamps.
func (w *Worker) judge() {
	next := w.life.at(w.now.Mono)
	if next == MustDie && w.life.state != MustDie {
		w.die("no dispatcher has confirmed it in time")
		return
	}
	if next == Unhealthy && w.life.state == Healthy {
		w.giveBack() // others can run it now
	}
	w.life.state = next
}

// due goes through everything that waits for a time, and finds the next one.
func (w *Worker) due() {
	w.wake = clock.Never
	for _, c := range w.has.sorted() {
		h := w.has.all[c]
		switch {
		case h.phase == ended:
			if w.now.Mono >= h.retry.at {
				w.report(h)
			}
			w.wake = min(w.wake, h.retry.at)
		case h.stopped != CauseNone:
		case w.now.Mono >= h.deadline:
			w.stop(h, CauseLost)
		default:
			w.wake = min(w.wake, h.deadline)
		}
	}
	giveBackLate(w)
	for _, c := range slices.SortedFunc(maps.Keys(w.denied), Claim.Compare) {
		if r := w.denied[c]; w.now.Mono >= r.at {
			w.deny(c)
		}
		w.wake = min(w.wake, w.denied[c].at)
	}
	for task, b := range w.bars {
		if w.now.Mono >= b.until {
			delete(w.bars, task)
		}
	}
	if w.leave.at != 0 {
		w.leaveIfDone()
	}
	if w.leave.at > w.now.Mono { // otherwise it waits for an acknowledgement first
		w.wake = min(w.wake, w.leave.at)
	}
}

// send puts a frame into the next Ready. Without a stream there is nobody to send
// to; whatever matters is repeated.
func (w *Worker) send(b Body) {
	if w.association == 0 {
		return
	}
	w.stamp = max(w.stamp, w.now.Mono, 1)
	w.out.Send = append(w.out.Send, Message{Instance: w.cfg.Identity.Instance, Association: w.association, Stamp: w.stamp, Body: b})
}

// again puts a repetition off, longer each time.
func (w *Worker) again(r *retry) {
	r.wait = min(max(w.cfg.Retry, 2*r.wait), w.cfg.RetryMax)
	r.at = addNs(w.now.Mono, r.wait)
	w.wake = min(w.wake, r.at)
}
