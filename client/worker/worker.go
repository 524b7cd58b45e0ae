package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

const (
	// reportFor is how long a report is repeated.
	reportFor = 15 * time.Minute
	// lastReports is how long reports are repeated after StopNow.
	lastReports = 5 * time.Second
	// lastReturn is how long a job may take to return once its report has ended.
	lastReturn = time.Second
)

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
	// ErrTimeout is returned by context.Cause of a handler's context when it has
	// worked on its task for as long as it may.
	ErrTimeout = errors.New("worker: the handler's time is over")
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
	direct *pull // asks for tasks, and reports what no session does
	cfg    Config
	tel    *telemetry
	grace  time.Duration // of the lease, see Config.Grace
	stamp  func() stamp

	stopped  context.Context // ended: take nothing new
	soft     context.CancelFunc
	finished chan struct{}   // closed: Run has returned
	final    context.Context // ended: reports end now
	endFinal context.CancelFunc
	locked   *lockFile     // nil: none; from Run on
	room     *ledger       // of claims held, running or not; from Run on
	slots    chan struct{} // a token per handler that runs
	queue    chan *job     // granted and without a slot; it has room for all held

	trouble trouble
	away    away

	mu       sync.Mutex // guards the fields below
	started  bool
	killed   bool
	ousted   bool                      // by an operator, while something ran
	gaveUp   error                     // it never could begin a task
	ending   *time.Timer               // from StopNow to the end of final
	handlers map[string]func() Handler // by queue; wrapped, at the first call
	kinds    map[string]func() Handler // by kind, likewise
	wrap     []func(Handler) Handler
	source   source
	jobs     map[*job]struct{}
	byClaim  map[client.Ref]*job
	byTask   map[id.ID]*job     // the latest of each
	retries  map[id.ID]struct{} // tasks that ran here and will again
}

// New makes a worker. What is wrong with the configuration is told by Run.
func New(c *client.Client, cfg Config) *Worker {
	cfg = cfg.complete()
	w := &Worker{
		client: c, cfg: cfg, tel: newTelemetry(cfg.TracerProvider, cfg.MeterProvider, cfg.Logger), grace: min(cfg.Grace, cfg.Lease/3), stamp: readClocks, finished: make(chan struct{}),
		handlers: make(map[string]func() Handler), kinds: make(map[string]func() Handler), jobs: make(map[*job]struct{}), byClaim: make(map[client.Ref]*job), byTask: make(map[id.ID]*job), retries: make(map[id.ID]struct{}),
	}
	w.direct = &pull{
		client: c, lease: cfg.Lease, name: cfg.Name, shared: cfg.shared(), clock: func() stamp { return w.stamp() }, log: cfg.Logger,
	}
	w.source = w.direct
	w.stopped, w.soft = context.WithCancel(context.Background())
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
	if h == nil {
		delete(w.handlers, queue)
		return
	}
	w.handlers[queue] = sync.OnceValue(func() Handler { return wrapped(w, h) })
}

// Use wraps every handler, those set later too, each once, before its first task; the
// first one added is the outermost. Call it before Run.
func (w *Worker) Use(middleware ...func(Handler) Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrap = append(w.wrap, middleware...)
}

// handler finds the handler of a task, nil when there is none.
func (w *Worker) handler(t *Task) Handler {
	w.mu.Lock()
	h := w.kinds[t.Kind()]
	if h == nil {
		h = w.handlers[t.Queue()]
	}
	if h == nil {
		h = w.handlers["*"]
	}
	w.mu.Unlock()
	if h == nil {
		return nil
	}
	return h()
}

// wrapped is a handler with its middleware, which is called without the lock.
func wrapped(w *Worker, h Handler) Handler {
	w.mu.Lock()
	all := slices.Clone(w.wrap)
	w.mu.Unlock()
	for _, wrap := range slices.Backward(all) {
		h = wrap(h)
	}
	return h
}

// start checks that the worker can run, and makes room for tasks.
func (w *Worker) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return fmt.Errorf("%w: it was run before", ErrNotRunnable)
	}
	queues := slices.Clone(w.cfg.Queues)
	if len(queues) == 0 {
		for q := range w.handlers { // Any order: sorted below
			if q != "*" {
				queues = append(queues, q)
			}
		}
		slices.Sort(queues)
	}
	queues = unique(queues)
	if err := w.cfg.check(queues); err != nil {
		return err
	}
	for _, q := range queues {
		if w.handlers[q] == nil && w.handlers["*"] == nil && len(w.kinds) == 0 {
			return fmt.Errorf("%w: queue %q has no handler", ErrNotRunnable, q)
		}
	}
	w.started = true
	w.room = newLedger(w.cfg, queues)
	w.slots, w.queue = make(chan struct{}, w.cfg.Slots), make(chan *job, w.room.size)
	return nil
}

// Run takes tasks and runs them until Stop, StopNow, the end of ctx (which is
// StopNow), or an error that no retry changes, and returns when all handlers
// have; after a kill by an operator, as after StopNow, it does not wait long for
// those that hang. Handlers get the values of ctx. The error is nil after a stop.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.start(); err != nil {
		return err
	}
	defer close(w.finished)
	var lock *lockFile
	if w.cfg.LockFile != "" {
		var err error
		if lock, err = openLock(w.cfg.LockFile); err != nil {
			w.soft()
			w.endFinal()
			return err
		}
		w.locked = lock // for as long as a handler may run
	}
	defer w.soft()
	defer context.AfterFunc(ctx, w.StopNow)()
	keeping, quiet := context.WithCancel(context.WithoutCancel(ctx))
	var keepers sync.WaitGroup
	keepers.Go(func() { w.renewals(keeping) })
	keepers.Go(func() { w.watch(keeping) })
	keepers.Go(w.dispatch)

	err := w.open(ctx, lock)
	if err == nil {
		err = w.fetch(ctx)
	}
	if errors.Is(err, ErrKilled) {
		w.StopNow() // handlers that hang are not waited for
	}
	close(w.queue)
	left := w.drain()
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d", ErrAbandoned, left))
	}
	endTrouble(w)
	w.from().end(w.final)
	if lock != nil && left == 0 {
		lock.close() // with handlers left it would be no proof that nothing runs
	}
	quiet()
	keepers.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gaveUp != nil {
		err = errors.Join(w.gaveUp, err)
	}
	if w.ousted && !errors.Is(err, ErrKilled) {
		err = errors.Join(ErrKilled, err)
	}
	if w.ending != nil {
		w.ending.Stop()
	}
	w.endFinal()
	return err
}

// open begins a session, unless tasks are to be asked for.
func (w *Worker) open(ctx context.Context, lock *lockFile) error {
	if w.cfg.asks() {
		return nil
	}
	p := newPushed(w.client, w.cfg, w.grace, keeping{w}, func() stamp { return w.stamp() }, w.direct)
	p.lock = lock
	if err := p.start(ctx, w.cfg, w.room.order); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRunnable, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.source = p
	return nil
}

// from is where tasks come from.
func (w *Worker) from() source {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.source
}

// ask gives up the session: no node keeps one with this worker. Nothing came by it.
func (w *Worker) ask() {
	w.cfg.Logger.Warn("no node keeps a session with this worker, asking for tasks instead")
	w.from().end(w.final)
	w.room.asks()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.source = w.direct
}

// drain waits for the jobs, and gives the number of those abandoned.
func (w *Worker) drain() int {
	var last <-chan time.Time // when there is no waiting any longer
	final := w.final.Done()
	for {
		held, changed := w.room.left()
		if held == 0 {
			return 0
		}
		select {
		case <-changed:
		case <-final:
			// Reports end now; a handler that does not would hold us up for ever.
			t := time.NewTimer(lastReturn)
			defer t.Stop()
			final, last = nil, t.C
		case <-last:
			return held
		}
	}
}

// Stop takes nothing new, lets what runs finish, and returns when Run has. When
// ctx ends before, it goes on like StopNow and returns ctx's error.
func (w *Worker) Stop(ctx context.Context) error {
	w.soft()
	w.mu.Lock()
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
	w.soft()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killed {
		return
	}
	w.killed = true
	for j := range w.jobs { // Any order: all of them end
		j.end(ErrShutdown)
	}
	w.ending = time.AfterFunc(w.cfg.Grace+lastReports, w.endFinal)
}
