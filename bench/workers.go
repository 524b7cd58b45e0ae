package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
)

const (
	// joining is how many workers turn to their nodes at once. All at once would
	// measure how fast connections are made.
	joining = 1024
	// lease is that of the SDK's default.
	lease = 30 * time.Second
)

// fleet is many workers that each keep a session and hold claims on tasks that never
// end: what they cost is heartbeats and renewals.
type fleet struct {
	*run
	s       *stage // of those that come
	began   time.Time
	holding chan struct{} // closed: every worker has its tasks
	ending  chan struct{} // closed: they are to end them, and leave

	measuring atomic.Bool
	held      atomic.Int64
	beats     atomic.Int64 // heartbeats that were answered while measuring
	renewals  atomic.Int64 // claims renewed while measuring
	ended     atomic.Int64 // streams that have ended, and were made anew
}

// scenarioWorkers measures what idle workers cost the servers.
func (r *run) scenarioWorkers(ctx context.Context) error {
	in := newStage(ctx, "enqueue", r.Workers*r.Batch)
	r.enqueue(in, r.Workers*r.Batch, r.Producers, fill)
	r.settle(in)
	if len(in.errs) > 0 {
		return nil // Valid says so
	}
	f := &fleet{run: r, began: time.Now(), holding: make(chan struct{}), ending: make(chan struct{})}
	clients, err := r.links(ctx)
	defer func() {
		for _, c := range clients {
			_ = c.Close() // never an error
		}
	}()
	if err != nil {
		return err
	}
	s := newStage(ctx, "sessions", r.Workers*r.Batch)
	f.s = s
	var told sync.WaitGroup
	over := make(chan struct{})
	told.Go(func() { f.told(s, over) })
	f.work(clients)
	close(over)
	told.Wait()
	s.cancel()
	r.settle(s)
	r.report.Tasks = int(r.tally.completed.Load())
	return nil
}

// links makes the connections: one for each worker, or as many as were asked for.
func (r *run) links(ctx context.Context) (all []*client.Client, err error) {
	n := r.Connections
	if n == 0 {
		n = r.Workers
	}
	for i := range min(n, r.Workers) {
		c, err := r.dialer(ctx, i)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

// work runs the workers: they come, hold their tasks for the time that is measured,
// complete them and leave.
func (f *fleet) work(clients []*client.Client) {
	var all sync.WaitGroup
	room := make(chan struct{}, joining)
	for i := range f.Workers {
		all.Go(func() {
			select {
			case room <- struct{}{}:
			case <-f.s.ctx.Done():
				return
			}
			settled := sync.OnceFunc(func() { <-room })
			defer settled()
			w, err := newIdler(f, fmt.Sprintf("%s-%d", f.Queue, i), clients[i%len(clients)])
			if err == nil {
				err = w.run(settled)
			}
			if err != nil {
				f.s.fail(fmt.Errorf("worker %d: %w", i, err))
			}
		})
	}
	f.measureIdle()
	close(f.ending)
	all.Wait()
}

// measureIdle waits until all tasks are held, and measures for a while.
func (f *fleet) measureIdle() {
	ctx := f.s.ctx
	select {
	case <-f.holding:
	case <-ctx.Done():
		return
	}
	f.report.add("sessions", float64(f.Workers), "")
	f.report.add("claims_held", float64(f.held.Load()), "")
	f.report.add("until_all_held", time.Since(f.began).Seconds(), "s")
	if !f.pause(f.Settle) {
		return
	}
	meter := newMeter(f.HTTP)
	before, err := meter.read(ctx)
	began := time.Now()
	f.measuring.Store(true)
	if !f.pause(f.Duration) {
		return
	}
	f.measuring.Store(false)
	took := time.Since(began).Seconds()
	after, again := meter.read(ctx)
	if err := errors.Join(err, again); err != nil && !f.HTTPGuessed {
		f.s.fail(err)
		return
	} else if err == nil {
		used := after.seconds - before.seconds
		f.report.add("servers_processor", used/took, "cores")
		f.report.add("servers_processor_per_heartbeat", 1e6*used/float64(max(1, f.beats.Load())), "µs")
		f.report.add("servers_rounds", float64(after.syncs-before.syncs)/took, "1/s")
	}
	f.report.add("heartbeats", float64(f.beats.Load())/took, "1/s")
	f.report.add("renewals", float64(f.renewals.Load())/took, "1/s")
	f.report.add("streams_ended", float64(f.ended.Load()), "")
	f.report.latencies("heartbeat", f.s)
	f.report.latencies("renewal", f.s)
}

func (f *fleet) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-f.s.ctx.Done():
		return false
	}
}

// told tells the progress.
func (f *fleet) told(s *stage, over <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		held := int(f.held.Load())
		f.progress("claims held by idle workers", held, s.total)
		select {
		case <-over:
			return
		case <-tick.C:
		}
		select {
		case <-f.holding:
		default:
			if time.Since(f.began)-time.Duration(s.last.Load()) > f.patience {
				s.fail(ErrStalled)
			}
		}
	}
}

// took notes that a worker holds another task.
func (f *fleet) took() {
	f.s.finished(0)
	if f.held.Add(1) == int64(f.s.total) {
		close(f.holding)
	}
}

func newInstance() (i [16]byte, err error) {
	_, err = rand.Read(i[:])
	return i, err
}
