package bench

import (
	"errors"
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
	all, each := make([]*worker, workers), make(chan *worker, workers)
	for i := range all {
		all[i] = &worker{run: r, client: r.workers[i%len(r.workers)], s: s, claimed: make(chan []*client.Claim), done: make(chan error, 1)}
		go all[i].finisher()
		each <- all[i]
	}
	r.parallel(s, workers, func(int) bool {
		left := share - max(0, int(taken.Add(int64(share)))-n)
		w := <-each
		if left <= 0 { // the goroutine ends, and with it one worker
			if err := w.wait(); err != nil {
				s.fail(err)
			}
			return false
		}
		defer func() { each <- w }()
		for left > 0 && s.ctx.Err() == nil {
			got, err := w.work(min(left, r.Prefetch))
			if err != nil {
				s.fail(err)
				return false
			}
			left -= got
		}
		return true
	})
	for _, w := range all {
		close(w.claimed)
		_ = w.wait() // only after a failure, which is known
	}
}

// worker holds the tasks of one claim at a time. Unless the run is alternating
// it asks for the next ones while the completion of the last is on its way, as
// the worker SDK does.
type worker struct {
	*run
	client  *client.Client
	s       *stage
	claimed chan []*client.Claim // to the finisher
	done    chan error           // from it; room for one
	under   bool                 // a completion is on its way
}

// finisher completes what it is given until there is no more. One goroutine for
// all of it: new ones would spend their time on growing their stacks.
func (w *worker) finisher() {
	for claims := range w.claimed {
		w.done <- w.finish(claims)
	}
}

// wait waits for the completion that is on its way.
func (w *worker) wait() error {
	if !w.under {
		return nil
	}
	w.under = false
	return <-w.done
}

// work claims up to most tasks in one request and completes them, batch at a
// time. It returns how many.
func (w *worker) work(most int) (int, error) {
	began := time.Now()
	claims, err := w.client.Claim(w.s.ctx, client.ClaimRequest{Queues: []string{w.Queue}, Max: most, Wait: wait, Worker: "bench"})
	if err != nil || len(claims) == 0 {
		return 0, errors.Join(err, w.wait())
	}
	w.s.record("claim", time.Since(began))
	if w.ranks != nil {
		w.ranks.note(claims)
	}
	for _, c := range claims {
		n, err := w.tally.claim(c.Grant.GetTask().GetPayload())
		if err != nil {
			return 0, err
		}
		if w.overtakes != nil {
			w.overtakes.granted(n, c)
		}
	}
	if err := w.wait(); err != nil {
		return 0, err
	}
	if w.Alternate {
		return len(claims), w.finish(claims)
	}
	w.under = true
	w.claimed <- claims
	return len(claims), nil
}

// finish completes claims, batch at a time.
func (w *worker) finish(claims []*client.Claim) error {
	for i := 0; i < len(claims); i += w.Batch {
		some := claims[i:min(i+w.Batch, len(claims))]
		began := time.Now()
		if err := w.complete(w.s, w.client, some); err != nil {
			return err
		}
		w.s.record("complete", time.Since(began))
		w.s.finished(len(some))
	}
	return nil
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
	done := make([]*nornv1.Completion, len(claims))
	for i, claim := range claims {
		done[i] = &nornv1.Completion{Id: claim.ID.Bytes(), Token: claim.Token}
	}
	results, err := c.CompleteMany(s.ctx, done)
	for _, result := range results {
		if result.Err != nil {
			err = result.Err
			continue
		}
		r.tally.completed.Add(1)
	}
	return err
}
