package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
)

// scenarioLatency sends on a schedule that is fixed ahead: task number i is due
// at i/Rate. Its latency counts from there, however late it was sent.
func (r *run) scenarioLatency(ctx context.Context) error {
	clock, err := newAlarm()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer clock.stop()
	cost := r.costs(ctx)
	s := newStage(ctx, "latency", r.Tasks)
	due := func(number uint32) time.Duration {
		return time.Duration(float64(number) / float64(r.Rate) * float64(time.Second))
	}
	var sending sync.WaitGroup
	sending.Go(func() { r.sendOnTime(s, clock, due) })
	var taken atomic.Int64
	all := make([]*worker, r.Workers)
	for i := range all {
		all[i] = &worker{run: r, client: r.workers[i%len(r.workers)], s: s}
	}
	r.parallel(s, r.Workers, func(i int) bool {
		err := all[i].receive(int(taken.Add(1)) <= r.Tasks, due)
		if err != nil {
			s.fail(err)
		}
		return err == nil && len(all[i].held) > 0
	})
	sending.Wait()
	r.settle(s)
	r.report.Tasks = int(s.done.Load())
	r.report.add("rate", s.rate(), "tasks/s")
	cost.per(ctx, r.report.Tasks)
	r.report.latencies("enqueue_to_claim", s)
	r.report.latencies("enqueue", s)
	r.report.latencies("sent_late", s)
	return nil
}

// sendOnTime sends every task when it is due, or as soon after that as there is
// a producer for it.
func (r *run) sendOnTime(s *stage, clock *alarm, due func(uint32) time.Duration) {
	var senders sync.WaitGroup
	defer senders.Wait()
	free := make(chan int, r.Producers)
	for i := range r.Producers {
		free <- i
	}
	for range r.Tasks {
		number := r.tally.next.Add(1) - 1
		if early := due(number) - time.Since(s.began); early > 0 {
			clock.sleep(early)
		}
		var i int
		select {
		case i = <-free:
		case <-s.ctx.Done():
			return
		}
		senders.Go(func() {
			defer func() { free <- i }()
			late := time.Since(s.began) - due(number)
			err := r.send(s, r.producers[i%len(r.producers)], []client.Task{{Queue: r.Queue, Payload: r.tally.payload(number, r.Payload)}}, []uint32{number})
			if err != nil {
				s.fail(err)
				return
			}
			s.record("sent_late", late)
			s.record("enqueue", time.Since(s.began)-due(number))
		})
	}
}

// receive completes the task that is held, claims another one if there are more, and notes its
// age. It waits for one by long poll.
func (w *worker) receive(more bool, due func(uint32) time.Duration) error {
	if !more {
		return w.finish(0)
	}
	ask := client.ClaimRequest{Queues: []string{w.Queue}, Max: 1, Worker: "bench"}
	claims, err := w.work(ask)
	for ; err == nil && len(claims) == 0; err = w.s.ctx.Err() {
		ask.Wait = wait
		if claims, err = w.client.Claim(w.s.ctx, ask); err != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	at := time.Since(w.s.began)
	number, err := w.tally.claim(claims[0].Grant.GetTask().GetPayload())
	if err != nil {
		return err
	}
	w.s.record("enqueue_to_claim", at-due(number))
	w.held = claims
	return nil
}
