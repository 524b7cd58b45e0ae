package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// stage is one measured part of a run: who did how much in which time.
type stage struct {
	done  atomic.Int64
	mu    sync.Mutex // guards the fields below
	hist  *hdrhistogram.Histogram
	seen  map[id.ID]bool
	again int
	errs  []error
}

func newStage() *stage { return &stage{hist: newHistogram(), seen: make(map[id.ID]bool)} }

func (s *stage) record(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	_ = s.hist.RecordValue(max(1, took.Microseconds()))
}

// watch tells the progress until the stage is over.
func (r *run) watch(name string, s *stage, total int, over <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			r.progress(name, int(s.done.Load()), total)
			return
		case <-tick.C:
			r.progress(name, int(s.done.Load()), total)
		}
	}
}

// parallel runs fn from n goroutines until it returns false, and gives the
// time it took.
func (r *run) parallel(name string, s *stage, n, total int, fn func() bool) time.Duration {
	over := make(chan struct{})
	var watching, working sync.WaitGroup
	watching.Go(func() { r.watch(name, s, total, over) })
	began := time.Now()
	for range n {
		working.Go(func() {
			for fn() {
			}
		})
	}
	working.Wait()
	took := time.Since(began)
	close(over)
	watching.Wait()
	return took
}

// enqueue adds n tasks from the producers, batch at a time.
func (r *run) enqueue(ctx context.Context, name string, n, producers, batch int) (*stage, time.Duration) {
	s := newStage()
	var taken atomic.Int64
	payload := make([]byte, r.Payload)
	took := r.parallel(name, s, producers, n, func() bool {
		at := taken.Add(int64(batch))
		size := batch - max(0, int(at)-n)
		if size <= 0 || ctx.Err() != nil {
			return false
		}
		began := time.Now()
		var err error
		if size == 1 {
			_, err = r.c.Enqueue(ctx, client.Task{Queue: r.Queue, Payload: payload})
		} else {
			err = r.enqueueBatch(ctx, size, payload)
		}
		s.record(time.Since(began), err)
		s.done.Add(int64(size))
		return true
	})
	return s, took
}

func (r *run) enqueueBatch(ctx context.Context, n int, payload []byte) error {
	tasks := make([]client.Task, n)
	for i := range tasks {
		tasks[i] = client.Task{Queue: r.Queue, Payload: payload}
	}
	results, err := r.c.EnqueueMany(ctx, tasks)
	for i := 0; err == nil && i < len(results); i++ {
		err = results[i].Err
	}
	return err
}

// consume claims and completes until n tasks are done.
func (r *run) consume(ctx context.Context, name string, n, workers, batch int) (*stage, time.Duration) {
	s := newStage()
	took := r.parallel(name, s, workers, n, func() bool {
		if int(s.done.Load()) >= n || ctx.Err() != nil {
			return false
		}
		began := time.Now()
		claims, err := r.c.Claim(ctx, client.ClaimRequest{Queues: []string{r.Queue}, Max: batch, Wait: 100 * time.Millisecond, Worker: "bench"})
		if err == nil && len(claims) > 0 {
			err = r.complete(ctx, s, claims)
		}
		if err != nil || len(claims) > 0 {
			s.record(time.Since(began), err)
		}
		return true
	})
	return s, took
}

func (r *run) complete(ctx context.Context, s *stage, claims []*client.Claim) error {
	s.mu.Lock()
	for _, c := range claims {
		if s.seen[c.ID] {
			s.again++
		}
		s.seen[c.ID] = true
	}
	s.mu.Unlock()
	defer s.done.Add(int64(len(claims)))
	if len(claims) == 1 {
		seq := uint64(0)
		_, err := r.c.Complete(ctx, claims[0].ID, claims[0].Token, client.CompleteOptions{Seq: &seq})
		return err
	}
	done := make([]*nornv1.Completion, len(claims))
	for i, c := range claims {
		done[i] = &nornv1.Completion{Id: c.ID.Bytes(), Token: c.Token}
	}
	results, err := r.c.CompleteMany(ctx, done)
	for i := 0; err == nil && i < len(results); i++ {
		err = results[i].Err
	}
	return err
}

// settle takes a stage's errors and duplicates into the report.
func (r *run) settle(s *stage) {
	for _, err := range s.errs {
		r.report.fail(err)
	}
	r.report.Duplicates += s.again
}

// drained checks that nothing is left in the queue.
func (r *run) drained(ctx context.Context, want int) error {
	n, err := r.c.Count(ctx, r.Queue)
	if err != nil {
		return fmt.Errorf("bench: count: %w", err)
	}
	r.report.Lost += max(0, want-int(n.GetTotal().GetCompleted()))
	return nil
}
