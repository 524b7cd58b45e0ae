package bench

import (
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// wait is how long a claim waits for tasks in one request.
const wait = time.Second

// enqueue adds n tasks from so many producers, batch at a time.
func (r *run) enqueue(s *stage, n, producers, batch int) {
	var taken atomic.Int64
	r.parallel(s, producers, func(i int) bool {
		size := batch - max(0, int(taken.Add(int64(batch)))-n)
		if size <= 0 {
			return false
		}
		tasks, numbers := make([]client.Task, size), make([]uint32, size)
		for k := range tasks {
			numbers[k] = r.tally.next.Add(1) - 1
			tasks[k] = client.Task{Queue: r.Queue, Payload: r.tally.payload(numbers[k], r.Payload)}
		}
		if r.overtakes != nil {
			r.overtakes.asked(numbers)
		}
		began := time.Now()
		if err := r.send(s, r.producers[i%len(r.producers)], tasks, numbers); err != nil {
			s.fail(err)
			return false
		}
		s.record("enqueue", time.Since(began))
		s.finished(size)
		return true
	})
}

// send enqueues tasks in one request and notes what is acknowledged.
func (r *run) send(s *stage, producer *client.Client, tasks []client.Task, numbers []uint32) error {
	if len(tasks) == 1 {
		_, err := producer.Enqueue(s.ctx, tasks[0])
		if err == nil {
			r.acknowledged(numbers[0])
		}
		return err
	}
	results, err := producer.EnqueueMany(s.ctx, tasks)
	for i, result := range results {
		if result.Err != nil {
			err = result.Err
			continue
		}
		r.acknowledged(numbers[i])
	}
	return err
}

// acknowledged notes that task number n is enqueued.
func (r *run) acknowledged(n uint32) {
	r.tally.acknowledge(n)
	if r.overtakes != nil {
		r.overtakes.acknowledged(n)
	}
}

// consume claims and completes n tasks in so many workers. Each worker takes a
// share before it claims, so that nobody waits for tasks of another.
func (r *run) consume(s *stage, n, workers int) {
	share := max(r.Batch, r.Prefetch)
	var taken atomic.Int64
	all := make([]*worker, workers)
	for i := range all {
		all[i] = &worker{run: r, client: r.workers[i%len(r.workers)], s: s}
	}
	r.parallel(s, workers, func(i int) bool {
		left := share - max(0, int(taken.Add(int64(share)))-n)
		if left <= 0 { // the goroutine ends, and with it the worker
			if err := all[i].finish(0); err != nil {
				s.fail(err)
			}
			return false
		}
		for left > 0 && s.ctx.Err() == nil {
			got, err := all[i].next(min(left, r.Prefetch))
			if err != nil {
				s.fail(err)
				return false
			}
			left -= got
		}
		return true
	})
}

// worker holds the tasks of one claim at a time. Unless the run is alternating it
// completes them and asks for the next ones in one request.
type worker struct {
	*run
	client *client.Client
	s      *stage
	held   []*client.Claim
}

// next completes what is held and claims up to most tasks. It returns how many.
func (w *worker) next(most int) (int, error) {
	keep := w.Batch // for the request that claims
	if w.Alternate {
		keep = 0
	}
	if err := w.finish(keep); err != nil {
		return 0, err
	}
	ask := client.ClaimRequest{Queues: []string{w.Queue}, Max: most, Worker: "bench"}
	began := time.Now()
	claims, err := w.work(ask)
	if err != nil {
		return 0, err
	}
	if len(claims) == 0 { // nothing was ready
		ask.Wait, began = wait, time.Now()
		if claims, err = w.client.Claim(w.s.ctx, ask); err != nil || len(claims) == 0 {
			return 0, err
		}
	}
	w.s.record("claim", time.Since(began))
	return len(claims), w.take(claims)
}

// work completes what is held and claims, in one request; without anything held it does
// nothing.
func (w *worker) work(ask client.ClaimRequest) ([]*client.Claim, error) {
	if len(w.held) == 0 {
		return nil, nil
	}
	began := time.Now()
	result, err := w.client.Work(w.s.ctx, client.WorkRequest{Completions: completions(w.held), Claim: &ask})
	if err != nil {
		return nil, err
	}
	for _, done := range result.Completions {
		if done.Err != nil {
			return nil, done.Err
		}
		w.tally.completed.Add(1)
	}
	w.s.record("complete", time.Since(began))
	w.s.finished(len(w.held))
	w.held = nil
	return result.Claims, result.ClaimErr
}

// take notes what was granted.
func (w *worker) take(claims []*client.Claim) error {
	if w.ranks != nil {
		w.ranks.note(claims)
	}
	for _, c := range claims {
		n, err := w.tally.claim(c.Grant.GetTask().GetPayload())
		if err != nil {
			return err
		}
		if w.overtakes != nil {
			w.overtakes.granted(n, c)
		}
	}
	w.held = claims
	return nil
}

// finish completes what is held but for so many tasks, batch at a time.
func (w *worker) finish(keep int) error {
	for len(w.held) > keep {
		some := w.held[:min(w.Batch, len(w.held))]
		began := time.Now()
		if err := w.complete(w.s, w.client, some); err != nil {
			return err
		}
		w.held = w.held[len(some):]
		w.s.record("complete", time.Since(began))
		w.s.finished(len(some))
	}
	return nil
}

// completions are the ends of claims.
func completions(claims []*client.Claim) []*nornv1.Completion {
	done := make([]*nornv1.Completion, len(claims))
	for i, claim := range claims {
		done[i] = &nornv1.Completion{Id: claim.ID.Bytes(), Token: claim.Token}
	}
	return done
}

// complete completes claims in one request and counts what is acknowledged.
func (r *run) complete(s *stage, c *client.Client, claims []*client.Claim) error {
	if len(claims) == 1 {
		none := uint64(0) // updates
		_, err := c.Complete(s.ctx, claims[0].ID, claims[0].Token, client.CompleteOptions{Seq: &none})
		if err == nil {
			r.tally.completed.Add(1)
		}
		return err
	}
	results, err := c.CompleteMany(s.ctx, completions(claims))
	for _, result := range results {
		if result.Err != nil {
			err = result.Err
			continue
		}
		r.tally.completed.Add(1)
	}
	return err
}
