package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// stage is one part of a run: what was done, how long each call took, and what
// went wrong. The first error ends it.
type stage struct {
	name   string
	total  int
	began  time.Time
	done   atomic.Int64 // tasks
	last   atomic.Int64 // nanoseconds from began to the end of the last call that did something
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex // guards the fields below
	calls map[string]*hdrhistogram.Histogram
	errs  []error
}

// maxStage ends a stage that nothing else has ended.
const maxStage = 24 * time.Hour

// maxDuration leaves a stage time for what is around its schedule.
const maxDuration = maxStage - time.Hour

// newStage begins a stage that ends with ctx.
func newStage(ctx context.Context, name string, total int) *stage {
	s := &stage{name: name, total: total, began: time.Now(), calls: make(map[string]*hdrhistogram.Histogram)}
	// A deadline for all calls: one of each call's own would cost a timer each.
	// What stands still is ended by watch long before.
	s.ctx, s.cancel = context.WithTimeout(ctx, maxStage)
	return s
}

// newHistogram holds 1 µs to 10 min with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)
}

// record notes how long something took.
func (s *stage) record(call string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.calls[call]
	if h == nil {
		h = newHistogram()
		s.calls[call] = h
	}
	// What is outside counts as the end of the range: dropped it would look fast.
	_ = h.RecordValue(min(max(took.Microseconds(), h.LowestTrackableValue()), h.HighestTrackableValue()))
}

// finished notes that n tasks more are done.
func (s *stage) finished(n int) {
	at := int64(time.Since(s.began))
	for was := s.last.Load(); at > was && !s.last.CompareAndSwap(was, at); was = s.last.Load() {
	}
	s.done.Add(int64(n))
}

// took is the time until the last task was done.
func (s *stage) took() time.Duration { return time.Duration(s.last.Load()) }

// rate is tasks done per second.
func (s *stage) rate() float64 {
	if s.took() <= 0 {
		return 0
	}
	return float64(s.done.Load()) / s.took().Seconds()
}

// fail ends the stage with an error. What fails because the stage has ended is
// no error.
func (s *stage) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}
	s.errs = append(s.errs, err)
	s.cancel()
}

// parallel runs step from n goroutines, which it is told the number of, until it says
// that there is no more, and shows the progress meanwhile. It ends the stage.
func (r *run) parallel(s *stage, n int, step func(i int) bool) {
	var watching, working sync.WaitGroup
	over := make(chan struct{})
	watching.Go(func() { r.watch(s, over) })
	for i := range n {
		working.Go(func() {
			for s.ctx.Err() == nil && step(i) {
			}
		})
	}
	working.Wait()
	close(over)
	watching.Wait()
	s.cancel()
}

// watch tells the progress until the stage is over, and ends a stage that
// stands still.
func (r *run) watch(s *stage, over <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		r.progress(s.name, int(s.done.Load()), s.total)
		select {
		case <-over:
			r.progress(s.name, int(s.done.Load()), s.total)
			return
		case <-tick.C:
		}
		if time.Since(s.began)-s.took() > r.patience {
			s.fail(ErrStalled)
		}
	}
}

// settle takes what went wrong in a stage into the report.
func (r *run) settle(stages ...*stage) {
	for _, s := range stages {
		for _, err := range s.errs {
			r.report.fail(err)
		}
	}
}
