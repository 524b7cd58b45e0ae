package worker

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/session"
)

// Defaults and limits of [Config].
const (
	DefaultLease = 30 * time.Second
	// MaxSlots bounds Slots and Prefetch together: one renewal takes all claims
	// that are held, and a request has no more items than that.
	MaxSlots = proto.MaxBatchTasks
	// Adaptive is for [Config.Prefetch].
	Adaptive = session.Adaptive
	// MaxQueues is how many queues one claim may name.
	MaxQueues = 1000
	// MaxWeight bounds the weight of a queue, so that shares do not starve.
	MaxWeight = 1000

	// maxGrace is what counts as for ever: with more the end would lie before the beginning.
	maxGrace = 100 * 365 * 24 * time.Hour
)

// Config configures a [Worker].
type Config struct {
	// Queues to take tasks from; empty: those that have a handler. Handlers by kind name none.
	Queues []string
	// Slots is how many tasks run at once; 0: one.
	Slots int
	// PerQueue is what holds for single queues. As soon as one of them has slots or
	// a weight, queues are asked one by one: then the weights say how much of each
	// is taken, and priorities order tasks within their queue only.
	PerQueue map[string]QueueConfig
	// Prefetch is how many claims may be held beyond Slots, so that the next task
	// is there when one ends; 0: none, the worker is strict. [Adaptive]: as many as Slots,
	// but only while all of the last runs took less than 100 ms, as far as they are known;
	// a task that was claimed ahead and has waited for longer than that is given back.
	Prefetch int
	// Name is shown in the claims, and exclusive in the cluster: of several workers
	// with one name the first has the session, the others wait. "": host name, process
	// and four random digits.
	Name string
	// LockFile is a file that the worker keeps locked for as long as its process lives;
	// it is made where it is not there, and its directory must last longer than the
	// worker. With one Name and one LockFile a worker that crashed is known to be dead
	// when the next one comes: that has the name at once, and what the dead one held runs
	// again without waiting for its lease. While another process has the lock, Run
	// returns ErrLocked. "": none. Without a session it only keeps others away.
	LockFile string
	// Lease is the length of the claims, 1 s to 24 h; 0: 30 s.
	Lease time.Duration
	// MinLease is how much of its lease a task must have left, its Grace not
	// counted, to be begun at all; what has less is given back. 0: a tenth of the
	// lease; at most a third of it.
	MinLease time.Duration
	// Grace is how long a handler may take to return once its context has ended:
	// so much before the claim's deadline the context ends. 0: a tenth of the
	// lease; at most a third of it counts there. When the session is lost nobody else
	// begins what it ran before the Grace, up to an hour of it, is over. Handlers
	// that take longer are abandoned: see [Stuck].
	Grace time.Duration
	// Timeout is how long a handler may work on one task; 0: as long as it likes.
	// A queue may have another one, and so may a task: see [TimeoutHeader].
	Timeout time.Duration
	// GiveUp is after how long Run returns [ErrUnable] where a task could not be begun
	// (see [Unable]) and none ever was; 0: it goes on trying.
	GiveUp time.Duration
	// ExitWhenEmpty makes Run return once nothing is ready, nothing runs here, and
	// no retry of what ran here is due within a minute. What nobody hands out, or
	// knows of, as the nodes that have it are out of reach, is waited for.
	ExitWhenEmpty bool
	// Pull asks any node for tasks, again and again, instead of keeping a session with
	// one: the worker is not in `norn worker list`, its name need not be its own, and
	// cancellations reach it with the next renewal. So it is with ExitWhenEmpty, and
	// where no node keeps sessions.
	Pull bool
	// Logger; nil: nothing is logged.
	Logger *slog.Logger
	// TracerProvider of OpenTelemetry: a span for each run of a handler, linked to
	// the span that enqueued the task (see [Inject]); nil: none.
	TracerProvider trace.TracerProvider
	// MeterProvider of OpenTelemetry: the instruments are in docs/how-to/workers.md; nil:
	// none.
	MeterProvider metric.MeterProvider
	// OnEvent, if set, hears what happens to tasks. It is called from several
	// goroutines and must be quick.
	OnEvent func(Event)
}

// QueueConfig is what holds for one queue, in [Config].
type QueueConfig struct {
	// Slots is how many tasks of the queue are held at once, of those that
	// Config.Slots and Config.Prefetch allow together; 0: any number.
	Slots int
	// Weight is the queue's share, relative to the others', of the tasks taken
	// while all have some; 0: 1. A queue that is empty leaves its share to the
	// others.
	Weight int
	// Timeout, if not 0, counts instead of Config.Timeout; below 0: none.
	Timeout time.Duration
}

// complete fills in what was left out.
func (c Config) complete() Config {
	c.Slots = max(c.Slots, 1)
	c.Prefetch = max(c.Prefetch, Adaptive)
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Grace = min(c.Grace, maxGrace); c.Grace <= 0 {
		c.Grace = c.Lease / 10
	}
	if c.MinLease <= 0 {
		c.MinLease = c.Lease / 10
	}
	c.MinLease = min(c.MinLease, c.Lease/3)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Name == "" {
		host, _ := os.Hostname() // a name for people; without one the process must do
		c.Name = fmt.Sprintf("%s-%d-%04x", host, os.Getpid(), rand.N(1<<16))
	}
	return c
}

// check says what is wrong with a configuration whose queues are these.
func (c Config) check(queues []string) error {
	switch {
	case len(queues) == 0:
		return fmt.Errorf("%w: no queue to take tasks from", ErrNotRunnable)
	case len(queues) > MaxQueues:
		return fmt.Errorf("%w: %d queues are over the limit of %d", ErrNotRunnable, len(queues), MaxQueues)
	case c.Slots > MaxSlots || c.Prefetch > MaxSlots-c.Slots: // their sum may not fit an int
		return fmt.Errorf("%w: %d slots and %d to prefetch are over the limit of %d together", ErrNotRunnable, c.Slots, c.Prefetch, MaxSlots)
	case c.Lease < 0: // the shortest one is the server's affair
		return fmt.Errorf("%w: a lease of %v", ErrNotRunnable, c.Lease)
	case !utf8.ValidString(c.Name): // no message could be sent with it
		return fmt.Errorf("%w: the worker's name %q is not UTF-8", ErrNotRunnable, c.Name)
	}
	for _, q := range sortedQueues(c.PerQueue) {
		o := c.PerQueue[q]
		switch {
		case !slices.Contains(queues, q):
			return fmt.Errorf("%w: PerQueue names %q, which no tasks are taken from", ErrNotRunnable, q)
		case o.Slots < 0 || o.Weight < 0 || o.Weight > MaxWeight:
			return fmt.Errorf("%w: queue %q: %d slots, weight %d: slots are not negative, weights 0 to %d", ErrNotRunnable, q, o.Slots, o.Weight, MaxWeight)
		}
	}
	return nil
}

// most is how many claims may be held.
func (c Config) most() int {
	if c.Prefetch == Adaptive {
		return min(2*c.Slots, MaxSlots)
	}
	return c.Slots + c.Prefetch
}

// asks tells whether tasks are asked for, without a session.
func (c Config) asks() bool { return c.Pull || c.ExitWhenEmpty }

// shared tells whether queues have slots or weights of their own.
func (c Config) shared() bool {
	for _, o := range c.PerQueue { // Any order: it is a question about all
		if o.Slots > 0 || o.Weight > 0 {
			return true
		}
	}
	return false
}

func sortedQueues(m map[string]QueueConfig) []string {
	names := make([]string, 0, len(m))
	for q := range m { // Any order: sorted below
		names = append(names, q)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}

// unique drops what is there twice, and keeps the order.
func unique(queues []string) []string {
	var out []string
	for _, q := range queues {
		if !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	return out
}
