package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// few is the short queue that a long one is compared with.
	few = 10_000
	// rounds is how often the short queue is filled and drained: once is too short
	// to measure.
	rounds = 5
	// fill is how many tasks a request carries that only fills a queue.
	fill = 500
)

// scenario is what to run, and how many tasks it enqueues.
func (r *run) scenario() (run func(context.Context) error, tasks int) {
	switch r.Scenario {
	case "enqueue":
		return r.scenarioEnqueue, r.Tasks
	case "claim":
		return r.scenarioClaim, r.Tasks
	case "latency":
		return r.scenarioLatency, r.Tasks
	case "failover":
		return r.scenarioFailover, r.Tasks
	case "workers":
		return r.scenarioWorkers, r.Tasks
	case "backlog":
		return r.scenarioBacklog, rounds*min(few, r.Tasks) + r.Tasks
	}
	return r.scenarioCycle, r.Tasks
}

func (r *run) scenarioEnqueue(ctx context.Context) error {
	cost := r.costs(ctx)
	s := newStage(ctx, "enqueue", r.Tasks)
	r.enqueue(s, r.Tasks, r.Producers, r.Batch)
	r.settle(s)
	r.report.Tasks = int(s.done.Load())
	r.report.add("enqueue_rate", s.rate(), "tasks/s")
	cost.per(ctx, r.report.Tasks)
	r.report.latencies("enqueue", s)
	return nil
}

func (r *run) scenarioClaim(ctx context.Context) error {
	if r.Tasks <= maxRanked {
		r.ranks, r.overtakes = &ranks{}, newOvertakes(r.Tasks)
	}
	s, cost := r.filledAndDrained(ctx, r.Tasks, r.Tasks, r.Settle)
	r.report.Tasks = int(s.done.Load())
	if r.ranks != nil {
		r.report.ranks(r.ranks.errors())
	}
	r.report.overtaken(r.overtakes)
	r.report.add("claim_complete_rate", s.rate(), "tasks/s")
	cost.per(ctx, r.report.Tasks)
	r.report.latencies("claim", s)
	r.report.latencies("complete", s)
	return nil
}

// filledAndDrained adds tasks to the queue, then, after a pause, claims and
// completes some. The costs are those of the latter.
func (r *run) filledAndDrained(ctx context.Context, add, take int, pause time.Duration) (*stage, *costs) {
	in := newStage(ctx, fmt.Sprintf("fill with %d", add), add)
	r.enqueue(in, add, r.Producers, fill)
	if pause > 0 && len(in.errs) == 0 {
		r.progress(fmt.Sprintf("pause of %v", pause), 0, 0)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	cost := r.costs(ctx)
	out := newStage(ctx, fmt.Sprintf("claim+complete with %d waiting", add), take)
	if len(in.errs) == 0 {
		r.consume(out, take, r.Workers)
	} else {
		out.cancel()
	}
	r.settle(in, out)
	return out, cost
}

func (r *run) scenarioCycle(ctx context.Context) error {
	if r.Tasks <= maxRanked {
		r.overtakes = newOvertakes(r.Tasks)
	}
	cost := r.costs(ctx)
	var both sync.WaitGroup
	quiet := *r
	quiet.progress = func(string, int, int) {} // the slower half tells the progress
	in, out := newStage(ctx, "enqueue", r.Tasks), newStage(ctx, "cycle", r.Tasks)
	both.Go(func() {
		quiet.enqueue(in, r.Tasks, r.Producers, r.Batch)
		if in.done.Load() < int64(r.Tasks) {
			out.cancel() // what is missing never comes
		}
	})
	both.Go(func() {
		r.consume(out, r.Tasks, r.Workers)
		in.cancel()
	})
	both.Wait()
	r.settle(in, out)
	r.report.Tasks = int(out.done.Load())
	r.report.add("cycle_rate", out.rate(), "tasks/s")
	r.report.add("enqueue_rate", in.rate(), "tasks/s")
	cost.per(ctx, r.report.Tasks)
	r.report.latencies("enqueue", in)
	r.report.latencies("claim", out)
	r.report.latencies("complete", out)
	r.report.overtaken(r.overtakes)
	return nil
}

// scenarioBacklog compares the claim rate with few and with many waiting.
func (r *run) scenarioBacklog(ctx context.Context) error {
	short := min(few, r.Tasks)
	var done int64
	var took time.Duration
	for range rounds {
		s, _ := r.filledAndDrained(ctx, short, short, 0)
		done += s.done.Load()
		took += s.took()
		if r.report.Errors > 0 {
			return nil // Valid says so
		}
	}
	some := min(r.Tasks, rounds*few)
	long, _ := r.filledAndDrained(ctx, r.Tasks, some, r.Settle)
	r.report.Tasks = int(done + long.done.Load())
	rate := float64(done) / took.Seconds()
	r.report.add("claim_complete_rate_short", rate, "tasks/s")
	r.report.add("claim_complete_rate_long", long.rate(), "tasks/s")
	r.report.add("waiting_short", float64(short), "tasks")
	r.report.add("waiting_long", float64(r.Tasks), "tasks")
	r.report.add("ratio", long.rate()/rate, "")
	return nil
}
