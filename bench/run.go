package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Progress hears how far a stage is; total is 0 where it is not known. It is
// called from one goroutine at a time for each stage, and stages may overlap.
type Progress func(stage string, done, total int)

// Dial makes a client that turns to the n-th node first, counted from 0 and round
// and round. Producers and workers are different programs in practice, and share no
// connection: each has one of its own, unless Config.Clients says otherwise.
type Dial func(ctx context.Context, n int) (*client.Client, error)

// ErrStalled is returned when a stage stands still.
var ErrStalled = errors.New("bench: nothing moves any more")

// patience is how long a stage may stand still. It is longer than any lease or
// call of a run, so that what comes late still comes.
const patience = 40 * time.Second

// run is a scenario under way.
type run struct {
	Config
	producers, workers []*client.Client
	dialer             Dial
	progress           Progress
	patience           time.Duration
	tally              *tally
	ranks              *ranks     // of what is claimed; nil: nobody wants to know
	overtakes          *overtakes // of what is enqueued and claimed; nil: the same
	report             *Report
}

// Run runs one scenario against a cluster. It returns ErrConfig when the
// settings are wrong, and what the cluster says when it cannot be reached; a run
// in which something goes wrong has a report whose Valid says what.
func Run(ctx context.Context, dial Dial, cfg Config, progress Progress) (*Report, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string, int, int) {}
	}
	r := &run{Config: cfg, dialer: dial, progress: progress, patience: patience}
	defer func() {
		for _, c := range append(r.producers, r.workers...) {
			_ = c.Close() // never an error
		}
	}()
	var err error
	if r.producers, err = r.dial(ctx, dial, r.Producers); err != nil {
		return nil, err
	}
	if r.workers, err = r.dial(ctx, dial, r.Workers); err != nil {
		return nil, err
	}
	r.report = newReport(cfg, r.producers[0].Info().ServerVersion)
	var limits *Limits
	if cfg.Limits != "" {
		progress("limits of this machine", 0, 0)
		if limits, err = MeasureLimits(ctx, cfg.Limits); err != nil {
			return nil, err
		}
	}
	r.warmUp(ctx)
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	if limits != nil {
		r.report.relate(limits)
	}
	return r.report, nil
}

// maxOwn bounds the clients that a side has by default: a thousand sessions of the
// scenario workers have connections of their own besides.
const maxOwn = 256

// dial makes the clients of one side, which has so many goroutines.
func (r *run) dial(ctx context.Context, dial Dial, goroutines int) (all []*client.Client, err error) {
	clients := r.Clients
	if clients == 0 {
		clients = min(goroutines, maxOwn)
	}
	for n := range clients {
		c, err := dial(ctx, n)
		if err != nil {
			return all, err
		}
		all = append(all, c)
		if err := c.Connect(ctx); err != nil {
			return all, err
		}
	}
	return all, nil
}

// warmUp runs a little of everything in a queue of its own, so that connections
// stand and the code is warm.
func (r *run) warmUp(ctx context.Context) {
	if r.Scenario == "workers" {
		return // it has its own
	}
	n := min(r.Tasks, 5000)
	warm := *r
	warm.Queue, warm.tally = r.Queue+"-warm-up", newTally(rand.Uint32(), n)
	in := newStage(ctx, "warm-up", 2*n)
	warm.enqueue(in, n, r.Producers, r.Batch)
	out := newStage(ctx, "warm-up", 2*n)
	if len(in.errs) == 0 {
		warm.consume(out, n, r.Workers)
	} else {
		out.cancel()
	}
	r.settle(in, out)
}

// measure runs the scenario between two looks at the queue's counters.
func (r *run) measure(ctx context.Context) error {
	scenario, tasks := r.scenario()
	r.tally = newTally(rand.Uint32(), tasks)
	before, err := r.count(ctx)
	if err != nil {
		return err
	}
	if err := scenario(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	r.report.Duplicates = int(r.tally.twice.Load()) // also where the rest is not judged
	if r.report.Errors > 0 {
		return nil // there may be nobody left to ask
	}
	return r.judge(ctx, before)
}

// catchUp is how long the replica that counts may be behind with what a majority
// has acknowledged; looks is how often it is asked again.
const (
	catchUp = 20 * time.Second
	looks   = 200 * time.Millisecond
)

// judge compares until everything is there, or has had its time.
func (r *run) judge(ctx context.Context, before *nornv1.Count) error {
	for end := time.Now().Add(catchUp); ; {
		after, err := r.count(ctx)
		if err != nil {
			return err
		}
		if r.verify(before, after); r.report.Lost == 0 || time.Now().After(end) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(looks):
		}
	}
}

// verify compares what was acknowledged with what the queue's counters say.
func (r *run) verify(before, after *nornv1.Count) {
	waiting := func(n *nornv1.Count) int { return int(n.GetTotal()) - int(n.GetCompleted()) }
	undone := max(0, int(r.tally.completed.Load())-(int(after.GetCompleted())-int(before.GetCompleted())))
	r.report.Lost = max(0, r.tally.lost()-(waiting(after)-waiting(before))) + undone
	r.report.Gone = max(0, min(undone, int(before.GetTotal())+r.tally.known()-int(after.GetTotal())))
}

func (r *run) count(ctx context.Context) (*nornv1.Count, error) {
	reply, err := r.producers[0].Count(ctx, r.Queue)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return reply.GetTotal(), nil
}
