package job

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/norn-dev/norn/backup"
)

// maxMerged bounds the partitions of a backup that are read together, each with a part.
const maxMerged = 8

// mergedStreams gives how many streams the partitions of a backup make, so that what goes to one
// partition of the cluster comes in one stream: a task is in partition hash modulo their number, and so those
// that are the same modulo the greatest common divisor belong together.
func mergedStreams(from, to int) int {
	for to > 0 {
		from, to = to, from%to
	}
	return max(from, 1)
}

// merge reads a backup that builds on no other, in so many streams, each in the order of its IDs: then what goes to
// a partition of the cluster lies in a row there, whatever its shape.
func (r *restore) merge(ctx context.Context, streams int) error {
	r.progress.Total = len(r.Manifest.Parts)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for s := next.Add(1) - 1; s < int64(streams) && ctx.Err() == nil; s = next.Add(1) - 1 {
				if err := r.stream(ctx, int(s), streams); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// stream reads one of so many.
func (r *restore) stream(ctx context.Context, first, streams int) error {
	var all []*cursor
	for p := first; p < r.Manifest.Partitions; p += streams {
		c := &cursor{restore: r}
		for i := range r.Manifest.Parts {
			if part := &r.Manifest.Parts[i]; part.Partition == p {
				c.parts = append(c.parts, part)
			}
		}
		more, err := c.step(ctx)
		if err != nil {
			return err
		}
		if more {
			all = append(all, c)
		}
	}
	g := &gathering{restore: r, batches: make([]gathered, r.partitions), targets: r.partitions / streams}
	for len(all) > 0 {
		least := 0
		for i := range all {
			if all[i].at.ID.Compare(all[least].at.ID) < 0 {
				least = i
			}
		}
		c := all[least]
		err := c.give(ctx, g)
		if err == nil {
			var more bool
			if more, err = c.step(ctx); !more {
				all = append(all[:least], all[least+1:]...)
			}
		}
		if err != nil {
			return err
		}
	}
	r.seen(&g.report)
	return g.flushAll(ctx)
}

// cursor is at a task of one partition of a backup.
type cursor struct {
	*restore
	parts []*backup.Part // that are not read yet
	rest  []byte         // of the part that is being read
	at    backup.Record
}

// step goes to the next task; false: there is none.
func (c *cursor) step(ctx context.Context) (more bool, err error) {
	for len(c.rest) == 0 {
		if len(c.parts) == 0 {
			return false, nil
		}
		part := c.parts[0]
		c.parts = c.parts[1:]
		// Its checksum is that of the manifest: it is what was verified a moment ago.
		if c.rest, err = openPart(ctx, c.From, c.Manifest.Name, part, c.Keys); err != nil {
			return false, err
		}
		c.mu.Lock()
		c.progress.Done, c.progress.Tasks, c.progress.Bytes = c.progress.Done+1, c.progress.Tasks+part.Tasks, c.progress.Bytes+uint64(part.Bytes)
		if c.Progress != nil {
			c.Progress(c.progress)
		}
		c.mu.Unlock()
	}
	c.at, c.rest, err = backup.NextRecord(c.rest)
	return err == nil, err
}

// give has the task sent.
func (c *cursor) give(ctx context.Context, g *gathering) error {
	if c.at.Claims == 0 && len(c.at.Bytes) <= requestBytes {
		return g.record(ctx, &c.at)
	}
	for t, err := range backup.Tasks(c.at.Bytes) {
		if err == nil {
			err = g.task(ctx, &t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
