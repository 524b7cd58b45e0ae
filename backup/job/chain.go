package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	from     objects.Store
	chain    []*backup.Manifest
	keys     *Keys
	tell     func(Progress)
	progress Progress
	spans    [][]backup.Span          // of the present partition, by link
	claims   map[id.ID][]backup.Claim // of the newest link, of tasks in others; nil: there is one link
	// stored is given each task as it lies in a link; do each as it is after all of them.
	stored func(link int, p *backup.Part, t *backup.Task) error
	do     func(partition int, t *backup.Task) error
}

// run reads all.
func (w *walk) run(ctx context.Context) error {
	newest := w.chain[len(w.chain)-1]
	for _, m := range w.chain {
		w.progress.Total += len(m.Parts)
	}
	for p := range newest.Partitions {
		if err := w.partition(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// partition reads what is of one partition: first the newest link, whose claims count.
func (w *walk) partition(ctx context.Context, p int) error {
	w.spans = w.spans[:0]
	for _, m := range w.chain {
		spans, err := backup.DecodeSpans(m.Each[p].Changed)
		if err != nil {
			return fmt.Errorf("%s: partition %d: %w", m.Name, p, err)
		}
		w.spans = append(w.spans, spans)
	}
	if len(w.chain) > 1 {
		w.claims = make(map[id.ID][]backup.Claim)
	}
	for link := len(w.chain) - 1; link >= 0; link-- {
		if err := w.link(ctx, link, p); err != nil {
			return err
		}
	}
	return nil
}

// link reads what one backup has of a partition.
func (w *walk) link(ctx context.Context, link, partition int) error {
	m := w.chain[link]
	first, _ := slices.BinarySearchFunc(m.Parts, partition, func(p backup.Part, want int) int { return p.Partition - want })
	for i := first; i < len(m.Parts) && m.Parts[i].Partition == partition; i++ {
		p := &m.Parts[i]
		b, err := w.from.Get(ctx, p.Name)
		if errors.Is(err, objects.ErrNotFound) {
			return fmt.Errorf("%w: %s: it is missing", backup.ErrDamaged, p.Name)
		}
		if err != nil {
			return err
		}
		tasks, err := backup.OpenPart(m.Name, p, b, w.keys.open())
		if err != nil {
			return err
		}
		if err := backup.ReadPart(p, tasks, func(t *backup.Task) error { return w.task(link, p, t) }); err != nil {
			return err
		}
		w.progress.Done++
		w.progress.Tasks, w.progress.Bytes = w.progress.Tasks+p.Tasks, w.progress.Bytes+uint64(p.Bytes)
		if w.tell != nil {
			w.tell(w.progress)
		}
	}
	return nil
}

// task gives one on, if no later backup says what it is.
func (w *walk) task(link int, p *backup.Part, t *backup.Task) error {
	if w.stored != nil {
		if err := w.stored(link, p, t); err != nil {
			return err
		}
	}
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
type verification struct {
	chain  []*backup.Manifest
	links  []backup.Summary
	parts  [][]backup.Summary // by link and partition
	last   []string           // ID, by link
	whole  backup.Summary
	ranges [][]backup.Range // of the newest one, by partition
	found  [][]backup.Range // what was found of them
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
	v := &verification{chain: chain, links: make([]backup.Summary, len(chain)), last: make([]string, len(chain))}
	for range chain {
		v.parts = append(v.parts, make([]backup.Summary, m.Partitions))
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
	w := &walk{from: from, chain: chain, keys: keys, tell: tell, stored: v.stored, do: v.task}
	if err := w.run(ctx); err != nil {
		return nil, err
	}
	if err := v.compare(); err != nil {
		return nil, err
	}
	return &v.whole, nil
}

// stored takes a task of a link.
func (v *verification) stored(link int, p *backup.Part, t *backup.Task) error {
	if p.Number > 0 && t.ID.String() <= v.last[link] {
		return fmt.Errorf("%w: %s: task %s after %s", backup.ErrDamaged, p.Name, t.ID, v.last[link])
	}
	v.last[link] = t.ID.String()
	if err := v.parts[link][p.Partition].Add(t, v.chain[link].Began); err != nil {
		return err
	}
	return v.links[link].Add(t, v.chain[link].Began)
}

// task takes one as it is after all links.
func (v *verification) task(partition int, t *backup.Task) error {
	found := v.found[partition]
	i, is := slices.BinarySearchFunc(found, t.ID, func(r backup.Range, task id.ID) int { return r.From.Compare(task) })
	if !is {
		i--
	}
	if i < 0 {
		return fmt.Errorf("%w: partition %d has no ranges", backup.ErrDamaged, partition)
	}
	found[i].Tasks, found[i].Kept, found[i].KeptSum = found[i].Tasks+1, found[i].Kept+uint64(len(t.Facts)), found[i].KeptSum.Add(backup.SumOf(t))
	return v.whole.Add(t, v.chain[len(v.chain)-1].Began)
}

// compare compares what was read with what the manifests say.
func (v *verification) compare() error {
	for link, m := range v.chain {
		for i := range v.parts[link] {
			if got, want := &v.parts[link][i], &m.Each[i]; got.Tasks != want.Tasks || got.Tasks > 0 && got.Root != want.Root {
				return fmt.Errorf("%w: %s: partition %d has other facts than were written", backup.ErrDamaged, m.Name, i)
			}
		}
		if !v.links[link].Same(&m.Summary) {
			return fmt.Errorf("%w: %s: what its parts have is not what its manifest says", backup.ErrDamaged, m.Name)
		}
	}
	for p := range v.ranges {
		for i := range v.ranges[p] {
			if got, want := &v.found[p][i], &v.ranges[p][i]; got.Tasks != want.Tasks || got.Kept != want.Kept || got.KeptSum != want.KeptSum {
				return fmt.Errorf("%w: %s: of partition %d from ID %s on it should have %d tasks with %d facts, and the chain has %d with %d", backup.ErrDamaged, v.chain[len(v.chain)-1].Name, p, want.From, want.Tasks, want.Kept, got.Tasks, got.Kept)
			}
		}
	}
	return nil
}
