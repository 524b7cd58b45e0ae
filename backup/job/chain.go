package job

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/objects"
)

// Chain gives a backup with all those that it builds on, the full one first. One that is
// missing, or another one than it was, is backup.ErrDamaged with its name.
func Chain(ctx context.Context, from objects.Store, m *backup.Manifest) ([]*backup.Manifest, error) {
	chain := []*backup.Manifest{m}
	for m.Since != "" {
		base, err := read(ctx, from, m.Since+backup.ManifestEnd)
		switch {
		case errors.Is(err, objects.ErrNotFound):
			return nil, fmt.Errorf("%w: %s is incremental to %s, which is missing: without it nothing of %[2]s can be restored; use a backup before %[3]s", backup.ErrDamaged, m.Name, m.Since)
		case err != nil:
			return nil, err
		case base.Checksum() != m.SinceSum:
			return nil, fmt.Errorf("%w: %s is incremental to %s, and the one of that name is another one than it was then", backup.ErrDamaged, m.Name, m.Since)
		case base.Depth != m.Depth-1 || base.Partitions != m.Partitions || base.Cluster != m.Cluster || base.Generation != m.Generation:
			return nil, fmt.Errorf("%w: %s cannot follow %s", backup.ErrDamaged, m.Name, m.Since)
		}
		m = base
		chain = append(chain, m)
	}
	slices.Reverse(chain)
	return chain, nil
}

// walk reads the parts of a chain, partition by partition.
type walk struct {
	from  objects.Store
	chain []*backup.Manifest
	keys  *Keys
	tell  func(Progress)
	// stored is given each task as it lies in a link; do each as it is after all of them. Those of
	// one partition are given one after the other, and so many partitions together; 0: one.
	stored   func(link int, p *backup.Part, t *backup.Seen) error
	do       func(partition int, t *backup.Task) error
	together int
	// begin, where it is given, makes do for one partition, and what is done at its end.
	begin func() (do func(partition int, t *backup.Task) error, end func() error)
	// verified says that all of it was looked at just now ([Verify]): what each task is is not again.
	verified bool

	mu       sync.Mutex // guards progress, and calls of tell
	progress Progress
}

// walkOne is one partition of a walk.
type walkOne struct {
	*walk
	spans  [][]backup.Span          // by link
	claims map[id.ID][]backup.Claim // of the newest link, of tasks in others; nil: there is one link
	do     func(partition int, t *backup.Task) error
}

// run reads all.
func (w *walk) run(ctx context.Context) error {
	newest := w.chain[len(w.chain)-1]
	for _, m := range w.chain {
		w.progress.Total += len(m.Parts)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range max(1, w.together) {
		workers.Go(func() {
			for p := next.Add(1) - 1; p < int64(newest.Partitions) && ctx.Err() == nil; p = next.Add(1) - 1 {
				if err := w.partition(ctx, int(p)); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// partition reads what is of one partition: first the newest link, whose claims count.
func (w *walk) partition(ctx context.Context, p int) error {
	one, end := walkOne{walk: w, do: w.do}, func() error { return nil }
	if w.begin != nil {
		one.do, end = w.begin()
	}
	for _, m := range w.chain {
		spans, err := backup.DecodeSpans(m.Each[p].Changed)
		if err != nil {
			return fmt.Errorf("%s: partition %d: %w", m.Name, p, err)
		}
		one.spans = append(one.spans, spans)
	}
	if len(w.chain) > 1 {
		one.claims = make(map[id.ID][]backup.Claim)
	}
	for link := len(w.chain) - 1; link >= 0; link-- {
		if err := one.link(ctx, link, p); err != nil {
			return err
		}
	}
	return end()
}

// link reads what one backup has of a partition.
func (w *walkOne) link(ctx context.Context, link, partition int) error {
	m := w.chain[link]
	first, _ := slices.BinarySearchFunc(m.Parts, partition, func(p backup.Part, want int) int { return p.Partition - want })
	for i := first; i < len(m.Parts) && m.Parts[i].Partition == partition; i++ {
		p := &m.Parts[i]
		tasks, err := openPart(ctx, w.from, m.Name, p, w.keys)
		switch {
		case err != nil:
		case w.verified:
			err = backup.WalkPart(p, tasks, func(t *backup.Task) error { return w.task(link, p, t) })
		default:
			err = backup.ReadPart(p, tasks, func(t *backup.Seen) error {
				if w.stored != nil {
					if err := w.stored(link, p, t); err != nil {
						return err
					}
				}
				return w.task(link, p, t.Task)
			})
		}
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.progress.Done++
		w.progress.Tasks, w.progress.Bytes = w.progress.Tasks+p.Tasks, w.progress.Bytes+uint64(p.Bytes)
		if w.tell != nil {
			w.tell(w.progress)
		}
		w.mu.Unlock()
	}
	return nil
}

// openPart reads a part of a backup of some name, and gives the tasks in it.
func openPart(ctx context.Context, from objects.Store, name string, p *backup.Part, keys *Keys) ([]byte, error) {
	b, err := from.Get(ctx, p.Name)
	if errors.Is(err, objects.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s: it is missing", backup.ErrDamaged, p.Name)
	}
	if err != nil {
		return nil, err
	}
	return backup.OpenPart(name, p, b, keys.open(), unpacker())
}

// task gives one on, if no later backup says what it is.
func (w *walkOne) task(link int, p *backup.Part, t *backup.Task) error {
	newest := len(w.chain) - 1
	if len(t.Facts) == 0 {
		if link == newest && newest > 0 {
			w.claims[t.ID] = t.Claims
		}
		return nil
	}
	for later := link + 1; later <= newest; later++ {
		if backup.InSpans(w.spans[later], t.ID) {
			return nil
		}
	}
	if link < newest {
		t.Claims = w.claims[t.ID]
	}
	return w.do(p.Partition, t)
}

// Each gives every task that a backup has, over the chain that it ends, each once; of one
// partition after the other, not in order. Errors as [Verify].
func Each(ctx context.Context, from objects.Store, m *backup.Manifest, keys *Keys, tell func(Progress), do func(*backup.Task) error) error {
	chain, err := Chain(ctx, from, m)
	if err != nil {
		return err
	}
	w := &walk{from: from, chain: chain, keys: keys, tell: tell, do: func(_ int, t *backup.Task) error { return do(t) }}
	return w.run(ctx)
}

// verification is what all of a chain comes to.
//
// Each partition is read by one at a time, several at once: what is counted is counted by partition.
type verification struct {
	chain  []*backup.Manifest
	parts  [][]backup.Summary // by link and partition
	last   [][]id.ID          // likewise: the last task
	whole  []backup.Summary   // by partition: as it is after all links
	ranges [][]backup.Range   // of the newest one, by partition
	found  [][]backup.Range   // what was found of them
	at     []int              // likewise: that of the task before
}

// Verify reads all of a backup and of those that it builds on, compares it with the manifests,
// and gives what a restore would give. Beside errors of the place it returns backup.ErrDamaged
// with the place, backup.ErrNewer, backup.ErrSealed.
func Verify(ctx context.Context, from objects.Store, m *backup.Manifest, keys *Keys, tell func(Progress)) (*backup.Summary, error) {
	if len(m.Encrypted) > 0 && keys == nil {
		return nil, fmt.Errorf("%w: %s is encrypted to %v: give the key file (--key-file)", backup.ErrSealed, m.Name, m.Encrypted)
	}
	chain, err := Chain(ctx, from, m)
	if err != nil {
		return nil, err
	}
	v := &verification{chain: chain, whole: make([]backup.Summary, m.Partitions), at: make([]int, m.Partitions)}
	for range chain {
		v.parts, v.last = append(v.parts, make([]backup.Summary, m.Partitions)), append(v.last, make([]id.ID, m.Partitions))
	}
	for p := range m.Each {
		ranges, err := backup.DecodeRanges(m.Each[p].Ranges)
		if err != nil {
			return nil, fmt.Errorf("%s: partition %d: %w", m.Name, p, err)
		}
		found := make([]backup.Range, len(ranges))
		for i := range ranges {
			found[i].From = ranges[i].From
		}
		v.ranges, v.found = append(v.ranges, ranges), append(v.found, found)
	}
	w := &walk{from: from, chain: chain, keys: keys, tell: tell, stored: v.stored, do: v.task, together: runtime.GOMAXPROCS(0)}
	if err := w.run(ctx); err != nil {
		return nil, err
	}
	return v.compare()
}

// stored takes a task of a link.
func (v *verification) stored(link int, p *backup.Part, t *backup.Seen) error {
	last := &v.last[link][p.Partition]
	if p.Number > 0 && t.ID.Compare(*last) <= 0 {
		return fmt.Errorf("%w: %s: task %s after %s", backup.ErrDamaged, p.Name, t.ID, *last)
	}
	*last = t.ID
	v.parts[link][p.Partition].AddSeen(t, v.chain[link].Began)
	if len(v.chain) == 1 {
		return v.inRange(p.Partition, t)
	}
	return nil
}

// task takes one as it is after all links.
func (v *verification) task(partition int, t *backup.Task) error {
	if len(v.chain) == 1 {
		return nil // it was counted as it lies there
	}
	seen, err := backup.See(t)
	if err != nil {
		return err
	}
	v.whole[partition].AddSeen(&seen, v.chain[len(v.chain)-1].Began)
	return v.inRange(partition, &seen)
}

// inRange counts a task in its range.
func (v *verification) inRange(partition int, t *backup.Seen) error {
	found, i := v.found[partition], v.at[partition]
	if i >= len(found) || !backup.SpanOf(found, i).Holds(t.ID) { // most lie where the one before does
		var is bool
		if i, is = slices.BinarySearchFunc(found, t.ID, func(r backup.Range, task id.ID) int { return r.From.Compare(task) }); !is {
			i--
		}
		if i < 0 {
			return fmt.Errorf("%w: partition %d has no ranges", backup.ErrDamaged, partition)
		}
		v.at[partition] = i
	}
	found[i].Tasks, found[i].Kept, found[i].KeptSum = found[i].Tasks+1, found[i].Kept+uint64(len(t.Facts)), found[i].KeptSum.Add(t.Sum)
	return nil
}

// compare compares what was read with what the manifests say, and gives what a restore would give.
func (v *verification) compare() (*backup.Summary, error) {
	for link, m := range v.chain {
		var whole backup.Summary
		for i := range v.parts[link] {
			got, want := v.parts[link][i].Total(), &m.Each[i]
			if err := whole.Join(got); err != nil {
				return nil, err
			}
			if got.Tasks != want.Tasks || got.Tasks > 0 && got.Root != want.Root {
				return nil, fmt.Errorf("%w: %s: partition %d has other facts than were written", backup.ErrDamaged, m.Name, i)
			}
		}
		if !whole.Same(&m.Summary) {
			return nil, fmt.Errorf("%w: %s: what its parts have is not what its manifest says", backup.ErrDamaged, m.Name)
		}
	}
	for p := range v.ranges {
		for i := range v.ranges[p] {
			if got, want := &v.found[p][i], &v.ranges[p][i]; got.Tasks != want.Tasks || got.Kept != want.Kept || got.KeptSum != want.KeptSum {
				return nil, fmt.Errorf("%w: %s: of partition %d from ID %s on it should have %d tasks with %d facts, and the chain has %d with %d", backup.ErrDamaged, v.chain[len(v.chain)-1].Name, p, want.From, want.Tasks, want.Kept, got.Tasks, got.Kept)
			}
		}
	}
	var whole backup.Summary
	if len(v.chain) == 1 {
		v.whole = v.parts[0]
	}
	for i := range v.whole {
		if err := whole.Join(v.whole[i].Total()); err != nil {
			return nil, err
		}
	}
	return &whole, nil
}
