package job

import (
	"context"
	"crypto/rand"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// reading is one partition that is being read.
type reading struct {
	*create
	p       int
	session [16]byte
	at      backup.Partition
	out     *piece
	w       *backup.Writer
	filter  backup.Filter
	ranges  []backup.Range
	claims  []backup.Task // that are not written yet, of tasks that have not changed
}

// partition reads one and notes what it has come to.
func (c *create) partition(ctx context.Context, p int) error {
	m := &c.manifest
	r := &reading{
		create: c, p: p, at: backup.Partition{Partition: p, Began: c.Now().UTC()}, out: &piece{backup.Manifest{Format: backup.Format, Name: m.Name}},
		w: backup.NewWriter(m.Name, p, c.taker, c.Keys.seal()), filter: backup.Filter{Scope: m.Scope, Queues: m.Queues, At: m.Began},
	}
	_, _ = rand.Read(r.session[:])
	err := r.all(ctx)
	if err == nil {
		err = c.flush(ctx, r.out, r.w)
	}
	if err != nil {
		return err
	}
	r.at.Tasks, r.at.Facts, r.at.Root = r.out.Tasks, r.out.Facts, r.out.Root
	r.at.Ranges = backup.AppendRanges(nil, backup.Fewer(r.ranges))
	r.out.Each = []backup.Partition{r.at}
	b, err := r.out.Encode()
	if err == nil {
		err = c.put(ctx, noteName(m.Name, p, c.taker), b)
	}
	if err == nil {
		c.done(p, r.out)
	}
	return err
}

// all reads all of it, or what has changed.
func (r *reading) all(ctx context.Context) error {
	if r.create.ranges == nil {
		return r.span(ctx, backup.Span{})
	}
	was := r.create.ranges[r.p]
	spans, err := r.changed(ctx, was)
	if err != nil {
		return err
	}
	if len(spans) == 1 && spans[0] == (backup.Span{}) { // all of it
		r.at.Changed = backup.AppendSpans(nil, spans)
		return r.span(ctx, spans[0])
	}
	if err := r.held(ctx, spans); err != nil {
		return err
	}
	r.at.Changed = backup.AppendSpans(nil, spans)
	next := 0
	for _, one := range was {
		switch {
		case !backup.InSpans(spans, one.From):
			r.ranges = append(r.ranges, one)
		case next < len(spans) && one.From == spans[next].From:
			if err := r.span(ctx, spans[next]); err != nil {
				return err
			}
			next++
		}
	}
	return r.release(ctx, nil)
}

func (r *reading) request() *nornv1.BackupRequest {
	return &nornv1.BackupRequest{Partition: uint32(r.p), Session: r.session[:]}
}

// changed asks which ranges are not what they were.
func (r *reading) changed(ctx context.Context, was []backup.Range) ([]backup.Span, error) {
	m := r.request()
	m.Bounds = backup.Bounds(was)
	reply, err := r.page(ctx, m)
	if err != nil {
		return nil, err
	}
	r.heard(reply)
	return backup.Changed(was, reply.GetSums())
}

// held gathers the claims of tasks that have not changed.
func (r *reading) held(ctx context.Context, changed []backup.Span) error {
	for m, last := r.request(), false; !last; {
		m.Claims = true
		reply, err := r.page(ctx, m)
		if err != nil {
			return err
		}
		page, err := backup.DecodePage(reply.GetTasks(), reply.GetNext())
		if err != nil {
			return err
		}
		for _, t := range page.Tasks {
			if !backup.InSpans(changed, t.ID) {
				r.claims = append(r.claims, t)
			}
		}
		m.After, last = reply.GetNext(), len(reply.GetNext()) == 0
	}
	return nil
}

// release writes the claims of tasks before one; nil: all that are left.
func (r *reading) release(ctx context.Context, before *id.ID) error {
	for len(r.claims) > 0 && (before == nil || r.claims[0].ID.Compare(*before) < 0) {
		if err := r.add(ctx, r.out, r.w, &r.claims[0]); err != nil {
			return err
		}
		r.claims = r.claims[1:]
	}
	return nil
}

// heard takes what every reply says.
func (r *reading) heard(reply *nornv1.BackupReply) {
	if r.at.Epoch = max(r.at.Epoch, reply.GetEpoch()); r.at.Replicas == 0 || int(reply.GetReplicas()) < r.at.Replicas {
		r.at.Replicas = int(reply.GetReplicas())
	}
	r.at.Cohort = int(reply.GetCohort())
}

// span reads a run of IDs.
func (r *reading) span(ctx context.Context, s backup.Span) error {
	ranger := backup.NewRanger(s.From)
	var whole backup.Assembler
	m := r.request()
	if s != (backup.Span{}) {
		m.From = s.From.Bytes()
	}
	if !s.To.IsZero() {
		m.Before = s.To.Bytes()
	}
	for last := false; !last; {
		reply, err := r.page(ctx, m)
		if err != nil {
			return err
		}
		m.After, last = reply.GetNext(), len(reply.GetNext()) == 0
		r.heard(reply)
		page, err := backup.DecodePage(reply.GetTasks(), reply.GetNext())
		if err != nil {
			return err
		}
		tasks, err := whole.Add(&page, last)
		if err != nil {
			return err
		}
		for i := range tasks {
			if err := r.task(ctx, ranger, &tasks[i]); err != nil {
				return err
			}
		}
		if err := r.pace.spend(ctx, len(reply.GetTasks())); err != nil {
			return err
		}
	}
	r.ranges = append(r.ranges, ranger.Ranges()...)
	return nil
}

// task takes one that was read.
func (r *reading) task(ctx context.Context, ranger *backup.Ranger, t *backup.Task) error {
	ranger.Saw(t)
	if err := r.release(ctx, &t.ID); err != nil {
		return err
	}
	take, err := r.filter.Take(t)
	if err != nil || !take {
		return err
	}
	ranger.Kept(t)
	return r.add(ctx, r.out, r.w, t)
}
