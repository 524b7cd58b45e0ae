package job

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/id"
)

// merge reads a chain in streams, each in the order of its IDs: then what goes to a partition of the cluster
// lies in a row there, whatever its shape.
type merge struct {
	*restore
	chain []*backup.Manifest
	// A task is in partition hash modulo their number. So partitions that are the same modulo the greatest common
	// divisor of both numbers belong together, and what goes to one partition of the cluster comes in one stream.
	streams int
}

func newMerge(r *restore, chain []*backup.Manifest) *merge {
	from, to := r.Manifest.Partitions, r.partitions
	for to > 0 {
		from, to = to, from%to
	}
	return &merge{r, chain, max(from, 1)}
}

// largest gives about how many bytes the largest stream holds: a part of each link and partition.
func (m *merge) largest() int64 {
	streams := make([]int64, m.streams)
	for _, link := range m.chain {
		parts := make([]int64, link.Partitions) // the largest of each
		for i := range link.Parts {
			part := &link.Parts[i]
			parts[part.Partition] = max(parts[part.Partition], part.Raw)
		}
		for p, n := range parts {
			streams[p%m.streams] += n
		}
	}
	return slices.Max(streams)
}

// run reads all, so many streams at a time.
func (m *merge) run(ctx context.Context, together int) error {
	for _, link := range m.chain {
		m.progress.Total += len(link.Parts)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range together {
		workers.Go(func() {
			for s := next.Add(1) - 1; s < int64(m.streams) && ctx.Err() == nil; s = next.Add(1) - 1 {
				if err := m.stream(ctx, int(s)); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// stream reads one of them.
func (m *merge) stream(ctx context.Context, first int) error {
	var all []*source
	for p := first; p < m.Manifest.Partitions; p += m.streams {
		s, err := m.source(ctx, p)
		if err != nil {
			return err
		}
		if len(s.links) > 0 {
			all = append(all, s)
		}
	}
	g := &gathering{restore: m.restore, batches: make([]gathered, m.partitions), targets: m.partitions / m.streams}
	for len(all) > 0 {
		least := 0
		for i := range all {
			if all[i].next.Compare(all[least].next) < 0 {
				least = i
			}
		}
		s := all[least]
		if err := s.give(ctx, g); err != nil {
			return err
		}
		if len(s.links) == 0 {
			all = append(all[:least], all[least+1:]...)
		}
	}
	m.seen(&g.report)
	return g.flushAll(ctx)
}

// source is one partition of a chain.
type source struct {
	*merge
	links []*cursor // that have tasks left, the newest first
	spans []*spans  // of all links, the newest first
	next  id.ID     // the least ID that they are at
}

// source begins a partition.
func (m *merge) source(ctx context.Context, p int) (*source, error) {
	s := &source{merge: m}
	for i, link := range slices.Backward(m.chain) {
		all, err := backup.DecodeSpans(link.Each[p].Changed)
		if err != nil {
			return nil, fmt.Errorf("%s: partition %d: %w", link.Name, p, err)
		}
		s.spans = append(s.spans, &spans{all})
		c := &cursor{merge: m, link: i, name: link.Name}
		for i := range link.Parts {
			if part := &link.Parts[i]; part.Partition == p {
				c.parts = append(c.parts, part)
			}
		}
		more, err := c.step(ctx)
		if err != nil {
			return nil, err
		}
		if more {
			s.links = append(s.links, c)
		}
	}
	s.least()
	return s, nil
}

func (s *source) least() {
	for i, c := range s.links {
		if i == 0 || c.at.ID.Compare(s.next) < 0 {
			s.next = c.at.ID
		}
	}
}

// give sends the next task, and goes behind it. Of all links that have it the newest one counts whose facts no
// later link has read again. Claims count that the newest link has.
func (s *source) give(ctx context.Context, g *gathering) error {
	var facts, claims *backup.Record
	newest := len(s.chain) - 1
	for _, c := range s.links {
		if c.at.ID != s.next {
			continue
		}
		if c.link == newest {
			claims = &c.at
		}
		if facts == nil && c.at.Facts > 0 && !s.later(c.link) {
			facts = &c.at
		}
	}
	if facts != nil {
		if err := s.send(ctx, g, facts, claims); err != nil {
			return err
		}
	}
	for i := 0; i < len(s.links); {
		c := s.links[i]
		if c.at.ID != s.next {
			i++
			continue
		}
		more, err := c.step(ctx)
		switch {
		case err != nil:
			return err
		case more:
			i++
		default:
			s.links = append(s.links[:i], s.links[i+1:]...)
		}
	}
	s.least()
	return nil
}

// later tells whether a link behind one has read the next task again, if only to find that it is gone.
func (s *source) later(link int) bool {
	return slices.ContainsFunc(s.spans[:len(s.chain)-1-link], func(of *spans) bool { return of.hold(s.next) })
}

// send sends a task with the facts of one record and the claims of another one, or none.
func (s *source) send(ctx context.Context, g *gathering, facts, claims *backup.Record) error {
	if facts.Claims == 0 && (claims == nil || claims.Claims == 0) && len(facts.Bytes) <= requestBytes {
		return g.record(ctx, facts)
	}
	t, err := facts.Task()
	if err == nil && claims != facts {
		t.Claims = nil
		if claims != nil {
			var held backup.Task
			held, err = claims.Task()
			t.Claims = held.Claims
		}
	}
	if err != nil {
		return err
	}
	return g.task(ctx, &t)
}

// spans are those of a link, asked about IDs that ascend.
type spans struct{ rest []backup.Span }

func (s *spans) hold(task id.ID) bool {
	for len(s.rest) > 1 && s.rest[1].From.Compare(task) <= 0 {
		s.rest = s.rest[1:]
	}
	return len(s.rest) > 0 && s.rest[0].Holds(task)
}

// cursor is at a task of one partition of a backup.
type cursor struct {
	*merge
	link  int
	name  string         // of the backup
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
		if c.rest, err = openPart(ctx, c.From, c.name, part, c.Keys); err != nil {
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
