package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

// Defaults of [Config].
const (
	DefaultLease = 30 * time.Second
	// reportFor is how long a report is repeated.
	reportFor = 15 * time.Minute
	// lastReports is how long reports are repeated after StopNow.
	lastReports = 5 * time.Second
	// lastReturn is how long a job may take to return once its report has ended.
	lastReturn = time.Second
)

// Config configures a [Worker].
type Config struct {
	// Queues to take tasks from; empty: those that have a handler.
	Queues []string
	// Slots is how many tasks run at once; 0: one.
	Slots int
	// Prefetch is how many claims may be held beyond Slots, so that the next task
	// is there when one ends. It suits tasks of milliseconds.
	Prefetch int
	// Name is shown in the claims; "": host name and process.
	Name string
	// Lease is the length of the claims, 1 s to 24 h; 0: 30 s.
	Lease time.Duration
	// Grace is how long a handler may take to return once its context has ended:
	// so much before the claim's deadline the context ends. 0: a tenth of the
	// lease; at most a third of it counts there. After StopNow handlers that take
	// longer are abandoned.
	Grace time.Duration
	// ExitWhenEmpty makes Run return once nothing is ready, nothing runs here, and
	// no retry of what ran here is due within a minute.
	ExitWhenEmpty bool
	// Logger; nil: nothing is logged.
	Logger *slog.Logger
	// OnEvent, if set, hears what happens to tasks. It is called from several
	// goroutines and must be quick.
	OnEvent func(Event)
}

// Handler does the work of a task. See the package comment for its context and
// for what its error means.
type Handler func(ctx context.Context, t *Task) error

var (
	// ErrClaimLost is returned by context.Cause of a handler's context when the
	// claim is lost or about to be: someone else may have the task.
	ErrClaimLost = client.ErrClaimLost
	// ErrCancelled is returned by context.Cause of a handler's context when the
	// task was cancelled.
	ErrCancelled = client.ErrCancelled
	// ErrShutdown is returned by context.Cause of a handler's context when the
	// worker stops at once.
	ErrShutdown = errors.New("worker: shutting down")
	// ErrAbandoned is returned by Run when handlers did not return in time after
	// StopNow. They still run.
	ErrAbandoned = errors.New("worker: handlers did not return in time")
	// ErrNotRunnable is returned by Run when it was called before, or when the
	// configuration makes no sense.
	ErrNotRunnable = errors.New("worker: cannot run")
)

// Worker takes tasks and runs them. Make it with [New], add handlers, call
// [Worker.Run].
type Worker struct {
	client *client.Client
	cfg    Config
	grace  time.Duration // of the lease, see Config.Grace
	boot   func() time.Duration

	soft     chan struct{}   // closed: take nothing new
	finished chan struct{}   // closed: Run has returned
	final    context.Context // ended: reports end now
	endFinal context.CancelFunc
	held     chan struct{} // a token per claim held, running or not
	slots    chan struct{} // a token per handler that runs
	queue    chan *job     // granted and without a slot; it has room for all held

	mu       sync.Mutex // guards the fields below
	started  bool
	stopping bool
	killed   bool
	ending   *time.Timer // from StopNow to the end of final
	handlers map[string]Handler
	wrap     []func(Handler) Handler
	jobs     map[*job]struct{}
	retries  map[id.ID]struct{} // tasks that ran here and will again
}

// New makes a worker. What is wrong with the configuration is told by Run.
func New(c *client.Client, cfg Config) *Worker {
	cfg.Slots = max(cfg.Slots, 1)
	cfg.Prefetch = max(cfg.Prefetch, 0)
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Grace <= 0 {
		cfg.Grace = cfg.Lease / 10
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Name == "" {
		host, _ := os.Hostname() // a name for people; without one the process must do
		cfg.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	w := &Worker{
		client: c, cfg: cfg, grace: min(cfg.Grace, cfg.Lease/3), boot: bootTime,
		soft: make(chan struct{}), finished: make(chan struct{}),
		held: make(chan struct{}, cfg.Slots+cfg.Prefetch), slots: make(chan struct{}, cfg.Slots),
		queue:    make(chan *job, cfg.Slots+cfg.Prefetch),
		handlers: make(map[string]Handler), jobs: make(map[*job]struct{}), retries: make(map[id.ID]struct{}),
	}
	w.final, w.endFinal = context.WithCancel(context.Background())
	return w
}

// Handle sets the handler of a queue; "" or "*" means every queue without its
// own.
func (w *Worker) Handle(queue string, h Handler) {
	if queue == "" {
		queue = "*"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[queue] = h
}

// Use wraps every handler, those set later too; the first one added is the
// outermost. Call it before Run.
func (w *Worker) Use(middleware ...func(Handler) Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrap = append(w.wrap, middleware...)
}

// handler finds the handler of a queue, nil when there is none.
func (w *Worker) handler(queue string) Handler {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.handlers[queue]
	if h == nil {
		h = w.handlers["*"]
	}
	if h == nil {
		return nil
	}
	for _, wrap := range slices.Backward(w.wrap) {
		h = wrap(h)
	}
	return h
}

// start checks that the worker can run, and says from which queues it takes.
func (w *Worker) start() ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queues := slices.Clone(w.cfg.Queues)
	if len(queues) == 0 {
		for q := range w.handlers {
			if q != "*" {
				queues = append(queues, q)
			}
		}
		slices.Sort(queues)
	}
	switch {
	case w.started:
		return nil, fmt.Errorf("%w: it was run before", ErrNotRunnable)
	case len(queues) == 0:
		return nil, fmt.Errorf("%w: no queue to take tasks from", ErrNotRunnable)
	}
	for _, q := range queues {
		if w.handlers[q] == nil && w.handlers["*"] == nil {
			return nil, fmt.Errorf("%w: queue %q has no handler", ErrNotRunnable, q)
		}
	}
	w.started = true
	return queues, nil
}

// Run takes tasks and runs them until Stop, StopNow, the end of ctx (which is
// StopNow), or an error that no retry changes, and returns when all handlers
// have. Handlers get the values of ctx. The error is nil after a stop.
func (w *Worker) Run(ctx context.Context) error {
	queues, err := w.start()
	if err != nil {
		return err
	}
	defer close(w.finished)
	unlink := context.AfterFunc(ctx, w.StopNow)
	defer unlink()
	keeping, quiet := context.WithCancel(context.WithoutCancel(ctx))
	var keepers sync.WaitGroup
	keepers.Go(func() { w.renewals(keeping) })
	keepers.Go(func() { w.watch(keeping) })

	keepers.Go(w.dispatch)

	err = w.fetch(ctx, queues)
	close(w.queue)
	if left := w.drain(); left > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d", ErrAbandoned, left))
	}
	quiet()
	keepers.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending != nil {
		w.ending.Stop()
	}
	w.endFinal()
	return err
}

// drain waits for the jobs, and gives the number of those abandoned.
func (w *Worker) drain() int {
	for n := range cap(w.held) {
		select {
		case w.held <- struct{}{}:
			continue
		case <-w.final.Done():
		}
		// Reports end now; a handler that does not would hold us up for ever.
		t := time.NewTimer(lastReturn)
		defer t.Stop()
		select {
		case w.held <- struct{}{}:
		case <-t.C:
			return cap(w.held) - n
		}
	}
	return 0
}

// Stop takes nothing new, lets what runs finish, and returns when Run has. When
// ctx ends before, it goes on like StopNow and returns ctx's error.
func (w *Worker) Stop(ctx context.Context) error {
	w.mu.Lock()
	if !w.stopping {
		w.stopping = true
		close(w.soft)
	}
	started := w.started
	w.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-w.finished:
		return nil
	case <-ctx.Done():
		w.StopNow()
		<-w.finished
		return ctx.Err()
	}
}

// StopNow ends the contexts of the handlers with ErrShutdown and releases their
// tasks, which costs no attempt. It does not wait: Run returns when the handlers
// have, at the latest after Grace and a few seconds for reports.
func (w *Worker) StopNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopping {
		w.stopping = true
		close(w.soft)
	}
	if w.killed {
		return
	}
	w.killed = true
	for j := range w.jobs {
		j.end(ErrShutdown)
	}
	w.ending = time.AfterFunc(w.cfg.Grace+lastReports, w.endFinal)
}
