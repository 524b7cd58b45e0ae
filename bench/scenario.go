package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
)

// Run runs one scenario against a cluster. It returns ErrConfig when the
// settings are wrong; an invalid run has a report that says so.
func Run(ctx context.Context, c *client.Client, cfg Config, progress Progress) (*Report, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string, int, int) {}
	}
	if err := c.Connect(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	r := &run{Config: cfg, c: c, progress: progress, report: newReport(cfg, c.Info().ServerVersion)}
	// Warm up in a queue of its own, so that connections stand and code is hot.
	warm := *r
	warm.Queue, warm.report = cfg.Queue+"-warm", newReport(cfg, "")
	n := min(cfg.Tasks, 2000)
	warm.enqueue(ctx, "warm-up", n, cfg.Producers, cfg.Batch)
	warm.consume(ctx, "warm-up", n, cfg.Workers, max(cfg.Batch, 10))
	var err error
	switch cfg.Scenario {
	case "enqueue":
		err = r.scenarioEnqueue(ctx)
	case "claim":
		err = r.scenarioClaim(ctx)
	case "cycle":
		err = r.scenarioCycle(ctx)
	case "latency":
		err = r.scenarioLatency(ctx)
	case "backlog":
		err = r.scenarioBacklog(ctx)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return r.report, err
}

func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

func (r *run) scenarioEnqueue(ctx context.Context) error {
	s, took := r.enqueue(ctx, "enqueue", r.Tasks, r.Producers, r.Batch)
	r.settle(s)
	r.report.Tasks = r.Tasks
	r.report.add("enqueue_rate", rate(r.Tasks, took), "tasks/s")
	r.report.latencies("enqueue", s.hist)
	n, err := r.c.Count(ctx, r.Queue)
	if err != nil {
		return fmt.Errorf("bench: count: %w", err)
	}
	r.report.Lost = max(0, r.Tasks-int(n.GetTotal().GetTotal()))
	return nil
}

func (r *run) scenarioClaim(ctx context.Context) error {
	fill, _ := r.enqueue(ctx, "fill", r.Tasks, r.Producers, 500)
	r.settle(fill)
	s, took := r.consume(ctx, "claim+complete", r.Tasks, r.Workers, r.Batch)
	r.settle(s)
	r.report.Tasks = r.Tasks
	r.report.add("claim_complete_rate", rate(r.Tasks, took), "tasks/s")
	r.report.latencies("claim_complete", s.hist)
	return r.drained(ctx, r.Tasks)
}

func (r *run) scenarioCycle(ctx context.Context) error {
	var both sync.WaitGroup
	var in, out *stage
	var took time.Duration
	quiet := *r
	quiet.progress = func(string, int, int) {}
	both.Go(func() { in, _ = quiet.enqueue(ctx, "enqueue", r.Tasks, r.Producers, r.Batch) })
	both.Go(func() { out, took = r.consume(ctx, "cycle", r.Tasks, r.Workers, r.Batch) })
	both.Wait()
	r.settle(in)
	r.settle(out)
	r.report.Tasks = r.Tasks
	r.report.add("cycle_rate", rate(r.Tasks, took), "tasks/s")
	r.report.latencies("enqueue", in.hist)
	r.report.latencies("claim_complete", out.hist)
	return r.drained(ctx, r.Tasks)
}

// scenarioLatency sends on a schedule that is fixed ahead; the payload says
// when a task should have left, and that is where its latency begins.
func (r *run) scenarioLatency(ctx context.Context) error {
	total := int(r.Duration.Seconds() * float64(r.Rate))
	gap := time.Second / time.Duration(r.Rate)
	s := newStage()
	began := time.Now()
	var workers, senders sync.WaitGroup
	for range r.Workers {
		workers.Go(func() { r.receive(ctx, s, began, total) })
	}
	slots := make(chan struct{}, r.Producers) // at most so many sends under way
	tick := time.NewTicker(max(gap, time.Millisecond))
	defer tick.Stop()
	for i := 0; i < total && ctx.Err() == nil; {
		for ; i < total && time.Since(began) >= time.Duration(i)*gap; i++ {
			due := time.Duration(i) * gap
			slots <- struct{}{}
			senders.Go(func() {
				defer func() { <-slots }()
				_, err := r.c.Enqueue(ctx, client.Task{Queue: r.Queue, Payload: r.stamped(due)})
				if err != nil {
					s.record(0, err)
				}
			})
		}
		r.progress("latency", int(s.done.Load()), total)
		<-tick.C
	}
	senders.Wait()
	workers.Wait()
	r.settle(s)
	r.report.Tasks = total
	r.report.add("sent_rate", rate(total, time.Since(began)), "tasks/s")
	r.report.latencies("enqueue_to_claim", s.hist)
	return r.drained(ctx, total)
}

func (r *run) stamped(due time.Duration) []byte {
	b := make([]byte, max(r.Payload, 20))
	copy(b, strconv.FormatInt(int64(due), 10)+" ")
	return b
}

// receive claims by long poll and notes how long each task took.
func (r *run) receive(ctx context.Context, s *stage, began time.Time, total int) {
	for int(s.done.Load()) < total && ctx.Err() == nil {
		claims, err := r.c.Claim(ctx, client.ClaimRequest{Queues: []string{r.Queue}, Max: 1, Wait: time.Second, Worker: "bench"})
		now := time.Since(began)
		if err != nil {
			s.record(0, err)
			return
		}
		if len(claims) == 0 {
			continue
		}
		var due int64
		_, err = fmt.Sscan(string(claims[0].Grant.GetTask().GetPayload()), &due)
		s.record(now-time.Duration(due), err)
		if err := r.complete(ctx, s, claims); err != nil {
			s.record(0, err)
		}
	}
}

// scenarioBacklog compares the claim rate with a few and with many waiting.
func (r *run) scenarioBacklog(ctx context.Context) error {
	few := min(10_000, r.Tasks)
	var rates []float64
	var claimed atomic.Int64
	for _, waiting := range []int{few, r.Tasks} {
		fill, _ := r.enqueue(ctx, fmt.Sprintf("fill %d", waiting), waiting, r.Producers, 500)
		r.settle(fill)
		n := min(waiting, 50_000)
		s, took := r.consume(ctx, fmt.Sprintf("claim of %d", waiting), n, r.Workers, r.Batch)
		r.settle(s)
		claimed.Add(s.done.Load())
		rates = append(rates, rate(n, took))
	}
	r.report.Tasks = int(claimed.Load())
	r.report.add(fmt.Sprintf("rate_%d_waiting", few), rates[0], "tasks/s")
	r.report.add(fmt.Sprintf("rate_%d_waiting", r.Tasks), rates[1], "tasks/s")
	r.report.add("ratio", rates[1]/rates[0], "")
	return nil
}
