package session

import (
	"container/heap"
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// HealthQueue is the queue that health checks carry. It is no queue: no task is
// ever in it.
const HealthQueue = "norn.health"

// DispatcherConfig is how a node looks after its workers. What is 0 takes the
// default.
type DispatcherConfig struct {
	// Timeouts are told to every worker. Default: 5 s between heartbeats, unhealthy
	// after 15 s without one or 75 s without a check, must_die 30 s later. Shorter
	// ones find a dead worker earlier and lose more that were only slow; tasks of a
	// dead worker go by their own leases, which are not affected.
	Timeouts Timeouts
	// CheckPeriod is between health checks of a healthy worker; 30 s. CheckGap is to
	// hold two of them and a heartbeat.
	CheckPeriod time.Duration
	// NameLease is how long a name is granted for, at least twice Life; 2 min. After
	// dispatcher and worker have died together, the name is taken for so long.
	NameLease time.Duration
	// NameRetry is between attempts at a name; 500 ms.
	NameRetry time.Duration
	// AskAfter is how long the outcome of a push may be unknown before the worker is
	// asked, doubled with each question up to AskMax; 250 ms and 16 s: a lost push
	// runs again within a second. Bistro's 1 s to 256 s are too long for leases of
	// 30 s.
	AskAfter, AskMax time.Duration
	// Bump lets a newcomer replace a worker that is only unhealthy.
	Bump bool
	// MaxSessions bounds the sessions of a node; 16,384, as its connections.
	MaxSessions int
	// ForgetAfter is how long a lost worker is remembered after it was last heard, so
	// that it is told to die; 10 min.
	ForgetAfter time.Duration
}

// DefaultTimeouts are those of a dispatcher that is told none.
var DefaultTimeouts = Timeouts{Period: 5 * time.Second, HeartbeatGap: 15 * time.Second, CheckGap: 75 * time.Second, LoseAfter: 30 * time.Second}

func orElse[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c DispatcherConfig) withDefaults() (DispatcherConfig, error) {
	orElse(&c.Timeouts, DefaultTimeouts)
	orElse(&c.CheckPeriod, 30*time.Second)
	orElse(&c.NameLease, max(2*time.Minute, 2*c.Timeouts.Life()))
	orElse(&c.NameRetry, 500*time.Millisecond)
	orElse(&c.AskAfter, 250*time.Millisecond)
	orElse(&c.AskMax, max(16*time.Second, c.AskAfter))
	orElse(&c.MaxSessions, 16_384)
	orElse(&c.ForgetAfter, 10*time.Minute)
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...))
	}
	t := c.Timeouts
	if t.Period <= 0 || t.HeartbeatGap < 2*t.Period {
		bad("a heartbeat gap of %v does not hold two periods of %v", t.HeartbeatGap, t.Period)
	}
	if max(t.HeartbeatGap, t.CheckGap, t.LoseAfter) > proto.MaxSessionTimeout {
		bad("a time-out is over %v, which no other node takes", proto.MaxSessionTimeout)
	}
	if t.CheckGap < 2*c.CheckPeriod+t.Period {
		bad("a check gap of %v does not hold two check periods of %v and a heartbeat", t.CheckGap, c.CheckPeriod)
	}
	if t.LoseAfter <= 0 || c.NameLease < 2*t.Life() {
		bad("a name lease of %v is under twice %v, the life of a worker after a heartbeat", c.NameLease, t.Life())
	}
	if c.CheckPeriod < 0 || c.NameRetry < 0 || c.AskAfter < 0 || c.AskMax < c.AskAfter || c.MaxSessions < 0 || c.ForgetAfter < 0 {
		bad("a setting is negative, or AskMax below AskAfter")
	}
	return c, errors.Join(problems...)
}

// Want asks for tasks for one worker. It is answered by [Dispatcher.Granted].
type Want struct {
	No       uint64
	Instance Instance
	Name     string       // the worker's, for the claims
	Max      int          // tasks: its credit
	Queues   []QueueSlots // that have room, in the worker's order; Slots: the most of each
	Lease    time.Duration
	// Association of the worker: with the number of the want it names a request of
	// the cluster for ever, also across restarts of the dispatcher.
	Association uint64
}

// Assignment is a claim that was granted for a want.
type Assignment struct {
	Claim Claim
	Queue string
	Lease time.Duration
	Grant *nornv1.Grant
}

// Renew asks for the claims of one heartbeat to be renewed. It is answered by
// [Dispatcher.Renewed], in parts if need be.
type Renew struct {
	Instance    Instance
	Name        string // the worker's: only its own claims are renewed
	Association uint64
	Echo        int64
	Claims      []Claim
	// Lease is the shortest of the claims', as far as it is known; 0: of one it is not.
	// Whoever renews may let renewals gather for a small part of it: the deadline
	// counts from when the heartbeat was sent.
	Lease time.Duration
}

// Why is what makes sure that a worker does not run a claim.
type Why uint8

// Reasons.
const (
	WhyUnsent     Why = iota + 1 // it was never written to the worker
	WhyRefused                   // the worker refused it
	WhyNotRunning                // the worker says so, and has barred it
	WhyEnded                     // the worker says how: write End
	WhyLost                      // the worker is dead, and the cluster has agreed on it
	WhyLeft                      // the worker has left, and never starts anything again
)

// String gives the reason as in traces and logs.
func (w Why) String() string {
	if names := [...]string{"none", "unsent", "refused", "not-running", "ended", "lost", "left"}; int(w) < len(names) {
		return names[w]
	}
	return "unknown"
}

// Settle ends a claim at its leader: the worker does not run it. Only a claim of this
// instance under this name may be ended so, but for a completion, which anybody may say:
// a worker may name claims that it never held. With WhyEnded its
// End is written first, and with WhyRefused, where it has one. What is refused as over is done. Those with WhyEnded and
// WhyNotRunning are answered by [Dispatcher.Settled].
type Settle struct {
	Instance Instance // zero: whose the claim is, was never known here
	Name     string   // the worker's; empty: not known here
	Claim    Claim
	Why      Why
	End      End
	Grace    time.Duration // lost: what its handlers may need to end, as it said
}

// Doubt lists claims of a worker that has turned to another dispatcher. Whoever
// that is should be asked, by [Dispatcher.Doubt] there.
type Doubt struct {
	Instance Instance
	Claims   []Question
}

// Order is what an operator wants of a worker that has turned to another dispatcher, and
// that may not have heard of it. Whoever that is should be told, by [Dispatcher.Kill] or
// [Dispatcher.Drain] there.
type Order struct {
	Identity Identity
	Kill     bool   // else it is to drain
	Reason   string // of a kill
}

// DispatcherReady is what a dispatcher has to do. Messages whose worker has no
// stream any more are dropped; see [Dispatcher.Unsent] for a RunTask.
type DispatcherReady struct {
	Names  []NameRequest
	Renew  []Renew
	Want   []Want
	Unwant []uint64 // wants that are not wanted any more; what is granted all the same is settled
	Settle []Settle
	Doubt  []Doubt
	Orders []Order
	Send   []Message
	Lines  []LogLines // answers to [Dispatcher.AskLines]
	WakeAt int64      // mono ns; clock.Never when nothing is due
}

// Dispatcher is the sessions of one node.
type Dispatcher struct {
	cfg      DispatcherConfig
	now      clock.Time
	out      DispatcherReady
	sessions map[Instance]*session
	order    wakeHeap
	wants    map[uint64]*session
	names    map[uint64]*session // open requests
	// settling are statuses that are being written, by worker and claim, also those
	// of workers without a session: they are facts, whoever passes them on.
	settling map[settleKey]*settled
	numbers  uint64
	left     departed
	set      SetVersion
	counts   Counts
}

// Counts are what a dispatcher has done since it began.
type Counts struct {
	Heartbeats uint64 // counted, of workers that are taken
	Renewals   uint64 // claims renewed
	Pushes     uint64 // tasks sent to workers
	Refused    uint64 // of those: that the worker did not take
	Asked      uint64 // claims of which a worker was asked whether it runs them
	HandedOver uint64 // sessions that went on with another node
	Lost       uint64 // sessions of which nothing was heard in time
}

// Counts gives them, and Open how many sessions there are.
func (d *Dispatcher) Counts() Counts { return d.counts }

// Open is how many sessions there are, those of lost workers too that are remembered.
func (d *Dispatcher) Open() int { return len(d.sessions) }

type settleKey struct {
	instance Instance
	claim    Claim
}

// settled is a status that is being written.
type settled struct {
	association uint64 // that will hear of it
	kind        EndKind
	better      End // came meanwhile, and is written next; EndNone: none did
}

// maxSettling bounds statuses that are being written; past it they are left to be
// repeated.
const maxSettling = 100_000

// NewDispatcher makes a dispatcher without sessions. It returns ErrConfig for a
// configuration that breaks a rule, every problem at once.
func NewDispatcher(cfg DispatcherConfig) (*Dispatcher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Dispatcher{
		cfg: cfg, sessions: make(map[Instance]*session), wants: make(map[uint64]*session),
		names: make(map[uint64]*session), settling: make(map[settleKey]*settled),
	}, nil
}

// Step takes a message of a worker.
func (d *Dispatcher) Step(now clock.Time, m Message) {
	d.pass(now)
	s := d.sessions[m.Instance]
	if b, ok := m.Body.(*Heartbeat); ok {
		d.heartbeat(s, m, b)
		return
	}
	switch b := m.Body.(type) {
	case *UpdateStatus:
		if s == nil || b.End.Kind != EndChecked {
			d.updateStatus(s, m, b)
			return
		}
	case *Leave:
		d.out.Send = append(d.out.Send, Message{Instance: m.Instance, Association: m.Association, Body: &LeaveAck{}})
		d.left.add(m.Instance)
		if s != nil {
			s.judge()
			s.leave()
			s.reschedule()
		}
		return
	case *LogLines:
		d.out.Lines = append(d.out.Lines, *b)
		return
	}
	if s == nil || m.Association != s.association {
		return
	}
	s.judge()
	s.stamped(m.Stamp)
	switch b := m.Body.(type) {
	case *RunningTasks:
		s.runningTasks(b)
	case *RunReply:
		s.runReply(b)
	case *NotifyReply:
		s.notifyReply(b)
	case *UpdateStatus:
		s.credit(b.Check)
	}
	s.reschedule()
}

// Tick does what is due.
func (d *Dispatcher) Tick(now clock.Time) { d.pass(now) }

// Ready gives what is to be done, once.
func (d *Dispatcher) Ready() DispatcherReady {
	out := d.out
	out.WakeAt = clock.Never
	if len(d.order) > 0 {
		out.WakeAt = d.order[0].wake
	}
	d.out = DispatcherReady{}
	return out
}

// pass lets time pass up to now, in the sessions that wait for it.
func (d *Dispatcher) pass(now clock.Time) {
	now.Mono = max(now.Mono, d.now.Mono)
	d.now = now
	for len(d.order) > 0 && d.order[0].wake <= now.Mono {
		s := d.order[0]
		s.judge()
		s.due()
		s.reschedule()
	}
}

// number mints a number for a want or a request.
func (d *Dispatcher) number() uint64 {
	d.numbers++
	return d.numbers
}

// drop forgets a session.
func (d *Dispatcher) drop(s *session) {
	s.unwant()
	delete(d.names, s.name.no)
	delete(d.sessions, s.id.Instance)
	if s.index >= 0 {
		heap.Remove(&d.order, s.index)
	}
	s.gone = true
}

// wakeHeap orders sessions by when they have something to do, then by instance.
type wakeHeap []*session

func (h wakeHeap) Len() int { return len(h) }
func (h wakeHeap) Less(i, j int) bool {
	if h[i].wake != h[j].wake {
		return h[i].wake < h[j].wake
	}
	return string(h[i].id.Instance[:]) < string(h[j].id.Instance[:])
}

func (h wakeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *wakeHeap) Push(x any) {
	s := x.(*session)
	s.index = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *wakeHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	s.index = -1
	*h = (*h)[:last]
	return s
}
