package job

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

const (
	// requestBytes is about how much is in one request of a restore at most.
	//
	// What lies in a row becomes a table of a node's store at once where it has half a MiB, and so do the entries
	// of the ready index, which take a quarter of what a small task does.
	requestBytes = 3 << 20
	// requests is how many are under way.
	requests = 4
	// gatherBytes is how much is gathered over all partitions before the fullest is sent.
	gatherBytes = 4 * requestBytes
	// restoreTries is how often a request is made.
	restoreTries = 30
)

// RestoreOptions are how tasks are restored.
type RestoreOptions struct {
	// From has the backup.
	From objects.Store
	// Manifest says which one.
	Manifest *backup.Manifest
	// To is the cluster.
	To Cluster
	// Keys decrypt; nil: nothing does.
	Keys *Keys
	// Buffer is what is waited for beyond the lease of a claim that was held.
	Buffer time.Duration
	// DryRun reads everything and writes nothing.
	DryRun bool
	// Scratch says that the cluster is thrown away: it may be another one, and of claims nothing
	// is made.
	Scratch bool
	// Rate bounds what is written, bytes a second; 0: nothing does.
	Rate int64
	// Memory bounds the bytes of the parts that are read at a time, unpacked, where they are read in the order of IDs;
	// what does not fit is read part by part, which costs the cluster more. 0: twenty parts of the usual size.
	Memory int64
	// Progress hears how far it is; nil: nobody does.
	Progress func(Progress)
}

// Report says what a restore has done, or would do.
type Report struct {
	Tasks uint64 // in the backup
	// Written were sent, of which Fresh were not known, and the rest was.
	Written, Fresh uint64
	// Freed are claims that were held: their tasks are free when the leases and the buffer are
	// over, the last of them at FreeAt.
	Freed  uint64
	FreeAt time.Time
	// LeftOut are unknown to a cluster that is older than they are: they may have been finished
	// and forgotten. It has the first of them.
	LeftOut    uint64
	LeftOutIDs []string
}

// maxNamed bounds the tasks that a report names.
const maxNamed = 100

// restore is one that is under way.
type restore struct {
	RestoreOptions
	partitions int
	living     bool // it has not begun anew since the backup: claims of then may be held still
	pace       *pace
	flow       *flow

	send    chan batch
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu       sync.Mutex // guards all below, and calls of Progress
	report   Report
	progress Progress
}

type batch struct {
	partition int
	tasks     []byte
}

// gathering is what was read of one partition of the backup and is not sent yet.
type gathering struct {
	*restore
	batches  []gathered // by partition of the cluster
	targets  int        // of those, how many tasks can go to
	gathered int        // bytes
	report   Report     // of what was read
}

// gathered is tasks for one partition. They are in the order of their IDs unless mixed: what [merge] gives is.
type gathered struct {
	tasks []byte
	last  id.ID
	mixed bool
}

// Restore gives a cluster the tasks of a backup of itself: the same cluster, with the same
// ID, that has begun anew since (norn backup restore), of any shape, or that lives. All of the backup is
// read and checked before the first task is written.
func Restore(ctx context.Context, o RestoreOptions) (*Report, error) {
	status, err := o.To.Status(ctx)
	if err != nil {
		return nil, err
	}
	if err := fits(o.Manifest, status, o.Scratch); err != nil {
		return nil, err
	}
	whole, err := Verify(ctx, o.From, o.Manifest, o.Keys, nil)
	if err != nil {
		return nil, err
	}
	if err := rises(o.Manifest, whole.MaxToken, status); err != nil && !o.Scratch {
		return nil, err
	}
	r := &restore{RestoreOptions: o, partitions: len(status.GetPartitions()), living: status.GetRegister().GetGeneration() == o.Manifest.Generation, pace: newPace(o.Rate), flow: newFlow(), send: make(chan batch)}
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	for range requests {
		r.running.Go(func() {
			for b := range r.send {
				if err := r.write(ctx, b, true); err != nil {
					r.cancel(err)
				}
			}
		})
	}
	err = r.read(ctx)
	close(r.send)
	r.running.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return &r.report, err
}

// read reads the backup, some partitions of it at a time.
func (r *restore) read(ctx context.Context) error {
	chain, err := Chain(ctx, r.From, r.Manifest)
	if err != nil {
		return err
	}
	m := newMerge(r, chain)
	if together := cmp.Or(r.Memory, 20*backup.PartBytes) / max(m.largest(), 1); together > 0 {
		return m.run(ctx, int(min(together, int64(runtime.GOMAXPROCS(0)))))
	}
	w := &walk{from: r.From, chain: chain, keys: r.Keys, tell: r.Progress, together: runtime.GOMAXPROCS(0), verified: true}
	w.begin = func() (do func(int, *backup.Task) error, end func() error) {
		g := &gathering{restore: r, batches: make([]gathered, r.partitions), targets: r.partitions}
		return func(_ int, t *backup.Task) error { return g.task(ctx, t) }, func() error {
			r.seen(&g.report)
			return g.flushAll(ctx)
		}
	}
	return w.run(ctx)
}

// fits refuses a cluster that the tasks do not belong to.
func fits(m *backup.Manifest, s *nornv1.StatusReply, scratch bool) error {
	if scratch {
		return nil
	}
	if s.GetClusterId() != m.Cluster {
		return fmt.Errorf("the backup is of cluster %s, and this is cluster %s: begin that one anew from %s (norn backup restore) and restore the tasks into it", m.Cluster, s.GetClusterId(), m.Snapshot)
	}
	if g := s.GetRegister().GetGeneration(); g < m.Generation {
		return fmt.Errorf("the backup is of generation %d of the cluster, and this is generation %d, which is older", m.Generation, g)
	}
	return nil
}

// rises refuses a cluster whose tokens would be lower than one of the backup.
func rises(m *backup.Manifest, token uint64, s *nornv1.StatusReply) error {
	for _, p := range s.GetPartitions() {
		if epoch := token >> 32; p.GetEpoch() < epoch {
			return fmt.Errorf("partition %d is in epoch %d, and the backup has tokens of epoch %d: tokens would not rise; begin the cluster anew from %s (norn backup restore)", p.GetId(), p.GetEpoch(), epoch, m.Snapshot)
		}
	}
	return nil
}

// task gathers one task.
func (g *gathering) task(ctx context.Context, t *backup.Task) error {
	r := g.restore
	g.report.Tasks++
	if r.living || r.Scratch {
		t.Claims = nil
	}
	for i := range t.Claims {
		g.report.Freed++
		if at := time.Unix(0, t.Claims[i].End).Add(r.Buffer).UTC(); at.After(g.report.FreeAt) {
			g.report.FreeAt = at
		}
	}
	t.Free(r.Buffer)
	if r.DryRun {
		return ctx.Err()
	}
	p := int(ring.Of(t.ID, r.partitions))
	if t.Size() > requestBytes {
		return r.large(ctx, p, t)
	}
	return g.add(ctx, p, t.ID, func(b []byte) []byte { return backup.AppendTask(b, t) })
}

// record gathers a task that has the form in which it is sent.
func (g *gathering) record(ctx context.Context, t *backup.Record) error {
	g.report.Tasks++
	if g.DryRun {
		return ctx.Err()
	}
	return g.add(ctx, int(ring.Of(t.ID, g.partitions)), t.ID, func(b []byte) []byte { return append(b, t.Bytes...) })
}

// add adds a task to those for a partition, and sends what is enough for a request.
func (g *gathering) add(ctx context.Context, p int, task id.ID, form func([]byte) []byte) error {
	b := &g.batches[p]
	if b.tasks == nil {
		b.tasks = make([]byte, 0, min(requestBytes+requestBytes/16, gatherBytes/g.targets))
	}
	before := len(b.tasks)
	b.mixed = b.mixed || before > 0 && task.Compare(b.last) <= 0
	b.tasks, b.last = form(b.tasks), task
	g.gathered += len(b.tasks) - before
	if most, _ := g.flow.next(); len(b.tasks) >= most {
		return g.flush(ctx, p)
	}
	if g.gathered >= gatherBytes {
		fullest := 0
		for p := range g.batches {
			if len(g.batches[p].tasks) > len(g.batches[fullest].tasks) {
				fullest = p
			}
		}
		return g.flush(ctx, fullest)
	}
	return nil
}

// seen counts what was read of a partition.
func (r *restore) seen(of *Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Tasks, r.report.Freed = r.report.Tasks+of.Tasks, r.report.Freed+of.Freed
	if of.FreeAt.After(r.report.FreeAt) {
		r.report.FreeAt = of.FreeAt
	}
}

// flushAll sends all that was gathered.
func (g *gathering) flushAll(ctx context.Context) error {
	for p := range g.batches {
		if err := g.flush(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// flush sends what was gathered for a partition.
func (g *gathering) flush(ctx context.Context, p int) error {
	b := g.batches[p]
	if len(b.tasks) == 0 {
		return nil
	}
	g.gathered -= len(b.tasks)
	g.batches[p] = gathered{}
	if b.mixed {
		var err error
		if b.tasks, err = inOrder(b.tasks); err != nil {
			return err
		}
	}
	if err := g.pace.spend(ctx, len(b.tasks)); err != nil {
		return err
	}
	select {
	case g.send <- batch{p, b.tasks}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// large sends a task in pieces, the enqueue with the last one: before that nobody can
// claim it, so that one that is finished does not run.
func (r *restore) large(ctx context.Context, p int, t *backup.Task) error {
	for end := len(t.Facts); end > 0; {
		from, size := end, 0
		for from > 0 && (size == 0 || size+len(t.Facts[from-1].Body) < requestBytes) {
			from--
			size += len(t.Facts[from].Body) + 64
		}
		piece := &backup.Task{ID: t.ID, Facts: t.Facts[from:end]}
		if err := r.pace.spend(ctx, size); err != nil {
			return err
		}
		if err := r.write(ctx, batch{p, backup.AppendTask(nil, piece)}, end == len(t.Facts)); err != nil {
			return err
		}
		end = from
	}
	return nil
}

// write sends tasks until all are answered: they may be sent again, and are in smaller requests when answers do not come in
// time. It counts what came of them.
func (r *restore) write(ctx context.Context, b batch, count bool) error {
	for try := 1; len(b.tasks) > 0; {
		most, wait := r.flow.next()
		some, rest, err := cut(b.tasks, most)
		if err != nil {
			return err
		}
		from := time.Now()
		ask, cancel := context.WithTimeout(ctx, wait)
		m, err := r.To.Restore(ask, b.partition, some)
		cancel()
		switch {
		case err == nil:
			r.flow.answered(len(some), time.Since(from))
			if count {
				r.count(m)
			}
			b.tasks, try = rest, 1
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case try == restoreTries || final(err):
			return fmt.Errorf("partition %d: %w", b.partition, err)
		case unanswered(err):
			r.flow.late(len(some), wait)
		}
		if err := sleep(ctx, restorePause); err != nil {
			return err
		}
		try++
	}
	return nil
}

func (r *restore) count(m *nornv1.RestoreReply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Written += uint64(m.GetTasks()) - uint64(len(m.GetLeftOut()))
	r.report.Fresh += uint64(m.GetFresh())
	r.report.LeftOut += uint64(len(m.GetLeftOut()))
	for _, b := range m.GetLeftOut() {
		if task, err := id.FromBytes(b); err == nil && len(r.report.LeftOutIDs) < maxNamed {
			r.report.LeftOutIDs = append(r.report.LeftOutIDs, task.String())
		}
	}
}

// inOrder sorts tasks that follow each other in the form of [backup.Tasks].
func inOrder(b []byte) ([]byte, error) {
	tasks, err := backup.Unordered(b)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(tasks, func(a, b backup.Task) int { return a.ID.Compare(b.ID) })
	out := make([]byte, 0, len(b))
	for i := range tasks {
		out = backup.AppendTask(out, &tasks[i])
	}
	return out, nil
}
