package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

// Defaults and limits of [Config].
const (
	DefaultBatch   = 500
	DefaultPoll    = 500 * time.Millisecond
	DefaultTimeout = 10 * time.Second
	DefaultLease   = 30 * time.Second
	DefaultHorizon = 7 * 24 * time.Hour // gc-grace of a cluster, unless configured
	// MaxBatch bounds a batch: what one request to the cluster may hold.
	MaxBatch = 10_000
	// batchBytes bounds the payloads of a batch: a relay needs little memory,
	// whatever lies in the table.
	batchBytes = 4 << 20
	// statements is how long the database may take for a batch, besides what
	// the cluster takes.
	statements = 30 * time.Second
	// watchEvery is how often the age of the oldest row is looked at.
	watchEvery = time.Minute
)

var (
	// ErrRunning is returned by Run when the relay runs already.
	ErrRunning = errors.New("outbox: the relay runs already")
	// ErrConfig is returned when a setting of a relay makes no sense.
	ErrConfig = errors.New("outbox: bad configuration")
)

// Enqueuer is where a relay sends tasks: a [client.Client].
type Enqueuer interface {
	EnqueueMany(ctx context.Context, tasks []client.Task, opts ...client.WriteOption) ([]client.Result, error)
}

// Config configures a [Relay]. The zero value is good.
type Config struct {
	// Batch is how many rows are sent at once, 1 to 10,000; 0: 500. A batch ends
	// after 4 MiB of payloads too.
	Batch int
	// Poll is how long the relay waits before it looks again once nothing is due;
	// 0: 500 ms. [Relay.Wake] ends the wait.
	Poll time.Duration
	// Timeout bounds how long the cluster may take for a batch, 1 s at least; 0:
	// 10 s. Rows are locked for as long.
	Timeout time.Duration
	// Leases holds no transaction open while rows are sent: always so with SQLite.
	// For PostgreSQL and MySQL it costs two more writes per row, and suits
	// versions without SKIP LOCKED and poolers that hand out single statements.
	Leases bool
	// Lease is how long the rows of a relay that dies wait with Leases; 0: 30 s. It
	// is longer than Timeout.
	Lease time.Duration
	// Horizon is the cluster's gc-grace: the relay warns when a row has waited
	// for half of it. 0: seven days, the cluster's default.
	Horizon time.Duration
	// Durability is how many copies the cluster makes before a row is deleted;
	// the zero value is a majority.
	Durability client.Durability
	// ExitWhenEmpty makes Run return once nothing is due: rows that are set aside
	// stay, and so do those that are put off.
	ExitWhenEmpty bool
	// Logger; nil: nothing is logged.
	Logger *slog.Logger
	// OnAside, if set, hears of every row that is set aside. It is called by the
	// goroutine of Run and must be quick.
	OnAside func(Aside)
}

// Aside is a row that the cluster has refused for good.
type Aside struct {
	// ID is what stands in the row, the text form of a task's ID as a rule. A row that
	// had none is given one, by which it can be asked for.
	ID string
	// Queue is "" in a row that could not be read.
	Queue string
	// Created is when the row was written, by the clock of who wrote it; zero where
	// nothing says so.
	Created time.Time
	// Attempts is how often it was sent.
	Attempts int
	// Reason is why it was refused.
	Reason string
}

var _ Enqueuer = (*client.Client)(nil)

// Relay carries rows to the cluster. Make it with [Outbox.Relay], run it with
// [Relay.Run].
type Relay struct {
	source source
	to     Enqueuer
	cfg    Config
	log    *slog.Logger

	running atomic.Bool
	wake    chan struct{} // holds at most one wish to look now

	mu    sync.Mutex // guards stats
	stats Stats
}

// Relay makes a relay of the table in db to a cluster. The error is an
// ErrConfig. It uses one or two connections of db.
func (o *Outbox) Relay(db *sql.DB, to Enqueuer, cfg Config) (*Relay, error) {
	if db == nil || to == nil {
		return nil, fmt.Errorf("%w: no database, or nowhere to send tasks", ErrConfig)
	}
	cfg.Leases = cfg.Leases || o.table.dialect == SQLite
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return newRelay(&database{
		db: db, table: o.table, leases: cfg.Leases, lease: cfg.Lease, maxRows: cfg.Batch, maxBytes: batchBytes,
	}, to, cfg), nil
}

func newRelay(s source, to Enqueuer, cfg Config) *Relay {
	return &Relay{source: s, to: to, cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1)}
}

// complete fills in defaults.
func (c *Config) complete() error {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	set(&c.Poll, DefaultPoll)
	set(&c.Timeout, DefaultTimeout)
	set(&c.Lease, max(DefaultLease, 2*c.Timeout))
	set(&c.Horizon, DefaultHorizon)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Batch < 1 || c.Batch > MaxBatch:
		return fmt.Errorf("%w: a batch of %d rows is not between 1 and %d", ErrConfig, c.Batch, MaxBatch)
	case c.Poll < 0 || c.Horizon < 0:
		return fmt.Errorf("%w: Poll and Horizon are under zero", ErrConfig)
	case c.Timeout < time.Second:
		return fmt.Errorf("%w: a timeout of %v is under 1s", ErrConfig, c.Timeout)
	case c.Lease <= c.Timeout:
		return fmt.Errorf("%w: a lease of %v is not longer than the timeout (%v): other relays would send the same rows", ErrConfig, c.Lease, c.Timeout)
	}
	return nil
}

// Wake makes the relay look at once: call it after the commit of a transaction
// that wrote tasks, where both are in one program. It never waits.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run carries rows until ctx ends, and returns nil then: what is on its way is
// finished first, for as long as Timeout allows. Neither the database's nor the
// cluster's absence ends it: it logs and tries again, after 100 ms at first and 30 s
// at most. The error is ErrRunning.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	var watched time.Time
	failures := 0
	for ctx.Err() == nil {
		if now := time.Now(); now.Sub(watched) >= watchEvery {
			r.watch(ctx, now)
			watched = now
		}
		pause := time.Duration(0)
		empty, more, err := r.batch(ctx)
		switch {
		case err != nil:
			failures++
			pause = backoff(failures-1, firstPause, longestPause)
			r.failed(err, failures, pause)
		case !more && !r.cfg.ExitWhenEmpty:
			pause = r.cfg.Poll
		}
		if err == nil {
			r.succeeded(failures)
			failures = 0
			if empty && r.cfg.ExitWhenEmpty {
				return nil
			}
		}
		if pause > 0 && !r.sleep(ctx, pause, err == nil) {
			break
		}
	}
	return nil
}

// sleep waits for d, or until Wake where that may end it. It is false when ctx
// has ended.
func (r *Relay) sleep(ctx context.Context, d time.Duration, wakes bool) bool {
	wake := r.wake
	if !wakes {
		wake = nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return true
}

// batch carries one batch. empty: no row was due; more: there may be more that
// are. An error means that the database or the cluster could not do its part.
func (r *Relay) batch(ctx context.Context) (empty, more bool, err error) {
	// The end of ctx does not cut off what was begun: a shutdown would leave rows
	// that are sent twice.
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Timeout+statements)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.cfg.Timeout, cancel) })()
	t, err := r.source.take(whole, time.Now())
	if err != nil {
		return false, false, fmt.Errorf("the database: %w", err)
	}
	if t == nil {
		return true, false, nil
	}
	call, stop := context.WithTimeout(whole, r.cfg.Timeout)
	done, refused, err := r.send(call, t)
	stop()
	texts := make([]string, len(done))
	for i, one := range done {
		texts[i] = one.String()
	}
	if bad := t.settle(whole, texts, refused, time.Now()); bad != nil {
		return false, false, errors.Join(err, fmt.Errorf("the database: %w", bad))
	}
	r.settled(t, len(done), refused)
	return false, t.full, err
}

// send asks the cluster for the rows of a batch. An error means that nothing
// can be had from the cluster now.
func (r *Relay) send(ctx context.Context, t *taken) (done []id.ID, refused []refusal, err error) {
	refused = t.strange
	tasks := make([]client.Task, 0, len(t.rows))
	attempts := make([]int, 0, len(t.rows))
	for i := range t.rows {
		task, bad := decode(&t.rows[i])
		if bad != nil {
			refused = append(refused, refusal{id: t.rows[i].id.String(), aside: true, err: bad})
			continue
		}
		tasks, attempts = append(tasks, task), append(attempts, t.rows[i].attempts)
	}
	results, err := r.ask(ctx, tasks)
	if err != nil {
		return nil, refused, fmt.Errorf("the cluster: %w", err)
	}
	duplicates := uint64(0)
	var first error // of those to be tried again for what the cluster lacks
	for i, got := range results {
		if got.Err == nil {
			done = append(done, tasks[i].ID)
			if got.Receipt.GetExisted() {
				duplicates++
			}
			continue
		}
		verdict := judge(&tasks[i], got.Err, attempts[i], time.Now())
		if !verdict.aside && !verdict.own && first == nil {
			first = got.Err
		}
		refused = append(refused, verdict)
	}
	r.sent(duplicates)
	if len(tasks) > 0 && len(done) == 0 && first != nil {
		// Not one was taken: the next batch would fare no better.
		return nil, refused, fmt.Errorf("the cluster: %w", first)
	}
	return done, refused, nil
}

// ask is EnqueueMany, so that a task that is wrong harms no other: what is
// refused together is asked for again alone.
func (r *Relay) ask(ctx context.Context, tasks []client.Task) ([]client.Result, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	results, err := r.to.EnqueueMany(ctx, tasks, client.WithDurability(r.cfg.Durability))
	switch {
	case errors.Is(err, client.ErrInvalid) && len(tasks) == 1:
		return []client.Result{{ID: tasks[0].ID, Err: err}}, nil
	case errors.Is(err, client.ErrInvalid):
		half := len(tasks) / 2
		left, err := r.ask(ctx, tasks[:half])
		if err != nil {
			return nil, err
		}
		right, err := r.ask(ctx, tasks[half:])
		if err != nil {
			right = unanswered(tasks[half:], err)
		}
		return append(left, right...), nil
	case err != nil:
		return nil, err
	case len(results) != len(tasks):
		return nil, fmt.Errorf("%w: %d results for %d tasks", client.ErrInternal, len(results), len(tasks))
	}
	if len(tasks) > 1 {
		for i := range results {
			if !errors.Is(results[i].Err, client.ErrInvalid) {
				continue
			}
			alone, err := r.ask(ctx, tasks[i:i+1])
			if err != nil {
				alone = unanswered(tasks[i:i+1], err)
			}
			results[i] = alone[0]
		}
	}
	return results, nil
}

// unanswered are the results of tasks that nothing was heard of, beside others that were
// judged: what is known of those is kept, or a batch of which too much is to be asked for
// again in the time that it has would never end.
func unanswered(tasks []client.Task, err error) []client.Result {
	results := make([]client.Result, len(tasks))
	for i := range tasks {
		results[i] = client.Result{ID: tasks[i].ID, Err: err}
	}
	return results
}
