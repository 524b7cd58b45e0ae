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
	r.parallel(s, producers, func() bool {
		size := batch - max(0, int(taken.Add(int64(batch)))-n)
		if size <= 0 {
			return false
		}
		tasks, numbers := make([]client.Task, size), make([]uint32, size)
		for i := range tasks {
			numbers[i] = r.tally.next.Add(1) - 1
			tasks[i] = client.Task{Queue: r.Queue, Payload: r.tally.payload(numbers[i], r.Payload)}
		}
		began := time.Now()
		if err := r.send(s, tasks, numbers); err != nil {
			s.fail(err)
			return false
		}
		s.record("enqueue", time.Since(began))
		s.finished(size)
		return true
	})
}

// send enqueues tasks in one request and notes what is acknowledged.
func (r *run) send(s *stage, tasks []client.Task, numbers []uint32) error {
	if len(tasks) == 1 {
		_, err := r.producer.Enqueue(s.ctx, tasks[0])
		if err == nil {
			r.tally.acknowledge(numbers[0])
		}
		return err
	}
	results, err := r.producer.EnqueueMany(s.ctx, tasks)
	for i, result := range results {
		if result.Err != nil {
			err = result.Err
			continue
		}
		r.tally.acknowledge(numbers[i])
	}
	return err
}

// consume claims and completes n tasks in so many workers. Each worker takes a
// share before it claims, so that nobody waits for tasks of another.
func (r *run) consume(s *stage, n, workers int) {
	share := max(r.Batch, r.Prefetch)
	var taken atomic.Int64
	r.parallel(s, workers, func() bool {
		left := share - max(0, int(taken.Add(int64(share)))-n)
		if left <= 0 {
			return false
		}
		for left > 0 && s.ctx.Err() == nil {
			got, err := r.work(s, min(left, r.Prefetch))
			if err != nil {
				s.fail(err)
				return false
			}
			left -= got
		}
		return true
	})
}

// work claims up to most tasks in one request and completes them, batch at a
// time. It returns how many.
func (r *run) work(s *stage, most int) (int, error) {
	began := time.Now()
	claims, err := r.worker.Claim(s.ctx, client.ClaimRequest{Queues: []string{r.Queue}, Max: most, Wait: wait, Worker: "bench"})
	if err != nil || len(claims) == 0 {
		return 0, err
	}
	s.record("claim", time.Since(began))
	for _, c := range claims {
		if _, err := r.tally.claim(c.Grant.GetTask().GetPayload()); err != nil {
			return 0, err
		}
	}
	for i := 0; i < len(claims); i += r.Batch {
		some := claims[i:min(i+r.Batch, len(claims))]
		began := time.Now()
		if err := r.complete(s, some); err != nil {
			return 0, err
		}
		s.record("complete", time.Since(began))
		s.finished(len(some))
	}
	return len(claims), nil
}

// complete completes claims in one request and counts what is acknowledged.
func (r *run) complete(s *stage, claims []*client.Claim) error {
	if len(claims) == 1 {
		none := uint64(0) // updates
		_, err := r.worker.Complete(s.ctx, claims[0].ID, claims[0].Token, client.CompleteOptions{Seq: &none})
		if err == nil {
			r.tally.completed.Add(1)
		}
		return err
	}
	done := make([]*nornv1.Completion, len(claims))
	for i, c := range claims {
		done[i] = &nornv1.Completion{Id: c.ID.Bytes(), Token: c.Token}
	}
	results, err := r.worker.CompleteMany(s.ctx, done)
	for _, result := range results {
		if result.Err != nil {
			err = result.Err
			continue
		}
		r.tally.completed.Add(1)
	}
	return err
}
