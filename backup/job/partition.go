package job

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/crdt"
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

	only    string       // whom runs that are alike are read from; empty: nobody
	epoch   uint64       // in which it was one of the cohort
	whole   bool         // read all from a majority
	bytes   int          // that were read
	large   bool         // more than little: w is one of much
	segment *backup.Span // that is read next, and whether it is alike
	alike   bool
	alone   crdt.Sum // over what was read from one
}

// partition reads one and notes what it has come to.
func (c *create) partition(ctx context.Context, p int, w *backup.Writer) error {
	r := c.reading(p, w, c.taker)
	err := r.all(ctx)
	if errors.Is(err, errWaited) {
		r = r.again(c.taker)
		err = r.all(ctx)
	}
	if errors.Is(err, errUnlike) {
		r = r.again(c.taker + "w") // other parts: those of the first try count for nothing
		r.whole = true
		err = r.all(ctx)
	}
	if err == nil {
		err = c.flush(ctx, r.out, r.w)
	}
	if r.large {
		c.much <- r.w
	}
	if err != nil {
		return err
	}
	r.at.Tasks, r.at.Facts, r.at.Root = r.out.Tasks, r.out.Facts, r.out.Total().Root
	r.at.Ranges = backup.AppendRanges(nil, backup.Fewer(r.ranges))
	r.out.Each = []backup.Partition{r.at}
	c.mu.Lock()
	c.unnoted = append(c.unnoted, r.out)
	c.mu.Unlock()
	c.done(p, r.out)
	return c.note(ctx, noteEvery)
}

// again begins anew, with the turn if it has come.
func (r *reading) again(taker string) *reading {
	next := r.reading(r.p, r.w, taker)
	next.large = r.large
	return next
}

// errWaited says that a partition has its turn only now, and begins anew.
var errWaited = errors.New("what it was read as of may have gone")

// turn counts what was read, and waits for the partition's turn when that becomes much.
func (r *reading) turn(ctx context.Context, bytes int) error {
	if r.bytes += bytes; r.large || r.bytes <= little {
		return nil
	}
	from := time.Now()
	select {
	case w := <-r.much:
		r.w, r.large = r.w.MoveTo(w), true
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if time.Since(from) > muchTime {
		return errWaited
	}
	return nil
}

// reading begins to read one.
func (c *create) reading(p int, w *backup.Writer, taker string) *reading {
	m := &c.manifest
	w.Begin(p, taker)
	r := &reading{
		create: c, p: p, at: backup.Partition{Partition: p, Began: c.Now().UTC()}, out: &piece{backup.Manifest{Format: backup.Format, Name: m.Name}},
		w: w, filter: backup.Filter{Scope: m.Scope, Queues: m.Queues, At: m.Began},
	}
	_, _ = rand.Read(r.session[:])
	return r
}

// all reads all of it, or what has changed.
//
// The trees of the replicas say first which runs of IDs a majority holds alike: those are read
// from one of them, and only of the others is the union of a majority read.
func (r *reading) all(ctx context.Context) error {
	was := r.create.ranges
	if was == nil {
		return r.full(ctx)
	}
	all := was[r.p]
	m := r.request()
	m.Claims = true
	reply, err := r.sums(ctx, m, backup.Bounds(all))
	if err != nil {
		return err
	}
	sums := reply.GetSums()
	spans, err := backup.Changed(all, sums)
	if err != nil {
		return err
	}
	r.at.Changed = backup.AppendSpans(nil, spans)
	if err := r.held(ctx, reply, spans); err != nil {
		return err
	}
	alike := backup.Alike(all, sums)
	for i := range all {
		if !backup.InSpans(spans, all[i].From) {
			if err := r.read(ctx); err != nil {
				return err
			}
			r.ranges = append(r.ranges, all[i])
			continue
		}
		if err := r.next(ctx, backup.SpanOf(all, i), alike[i]); err != nil {
			return err
		}
	}
	if err := r.read(ctx); err != nil {
		return err
	}
	return r.release(ctx, nil)
}

// runFacts is about how many facts there are in a run of IDs whose sums are compared, where not all
// of a partition is alike.
const runFacts = 1024

// full reads all of it.
func (r *reading) full(ctx context.Context) error {
	all := []backup.Range{{}}
	reply, err := r.sums(ctx, r.request(), backup.Bounds(all))
	if err != nil {
		return err
	}
	sums := reply.GetSums()
	alike := backup.Alike(all, sums)
	if !alike[0] && r.one() {
		m := r.request()
		m.Divide, m.Only = runFacts, r.only
		divided, err := r.page(ctx, m)
		if err != nil {
			return err
		}
		if reply, err = r.sums(ctx, r.request(), divided.GetBounds()); err != nil {
			return err
		}
		if all, err = backup.RangesAt(divided.GetBounds()); err != nil {
			return err
		}
		sums = reply.GetSums()
		alike = backup.Alike(all, sums)
	}
	var want crdt.Sum // of what is alike
	for i := range alike {
		if alike[i] && r.one() {
			sum, _ := backup.SumAt(sums, i)
			want = want.Add(sum)
		}
		if err := r.next(ctx, backup.SpanOf(all, i), alike[i]); err != nil {
			return err
		}
	}
	if err := r.read(ctx); err != nil {
		return err
	}
	if r.alone != want {
		return errUnlike
	}
	return nil
}

// errUnlike says that a replica does not have what its tree has counted, or has read at two
// moments: then all of the partition is read from a majority.
var errUnlike = errors.New("a replica holds something else than it has said")

// one tells whether what is alike is read from one replica.
func (r *reading) one() bool { return r.only != "" && !r.whole }

// next adds a run of IDs to the segment that is to be read, and reads that before where it ends.
func (r *reading) next(ctx context.Context, s backup.Span, alike bool) error {
	alike = alike && r.one()
	if r.segment != nil && r.segment.To == s.From && r.alike == alike {
		r.segment.To = s.To
		return nil
	}
	if err := r.read(ctx); err != nil {
		return err
	}
	r.segment, r.alike = &s, alike
	return nil
}

// read reads the segment that is to be read, if there is one.
func (r *reading) read(ctx context.Context) error {
	s := r.segment
	if s == nil {
		return nil
	}
	r.segment = nil
	return r.span(ctx, *s)
}

func (r *reading) request() *nornv1.BackupRequest {
	return &nornv1.BackupRequest{Partition: uint32(r.p), Session: r.session[:]}
}

// sums asks for the sums over runs of IDs, of a majority: at the first one each of them begins to
// read as of one moment. It notes of whom the runs can be read that are alike.
func (r *reading) sums(ctx context.Context, m *nornv1.BackupRequest, bounds []byte) (*nornv1.BackupReply, error) {
	m.Bounds = bounds
	reply, err := r.page(ctx, m)
	if err != nil {
		return nil, err
	}
	r.heard(reply)
	if r.only = ""; len(reply.GetNodes()) > 0 {
		r.only, r.epoch = reply.GetNodes()[0], reply.GetEpoch()
	}
	return reply, nil
}

// held gathers the claims of tasks that have not changed, of which a first page is there.
func (r *reading) held(ctx context.Context, reply *nornv1.BackupReply, changed []backup.Span) error {
	for m := r.request(); ; {
		page, err := backup.DecodePage(reply.GetTasks(), reply.GetNext())
		if err != nil {
			return err
		}
		for _, t := range page.Tasks {
			if !backup.InSpans(changed, t.ID) {
				r.claims = append(r.claims, t)
			}
		}
		if m.After, m.Claims = reply.GetNext(), true; len(m.After) == 0 {
			return nil
		}
		if reply, err = r.page(ctx, m); err != nil {
			return err
		}
	}
}

// release writes the claims of tasks before one; nil: all that are left.
func (r *reading) release(ctx context.Context, before *id.ID) error {
	for len(r.claims) > 0 && (before == nil || r.claims[0].ID.Compare(*before) < 0) {
		if err := r.add(ctx, r.out, r.w, &backup.Seen{Task: &r.claims[0]}); err != nil {
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
	if !s.From.IsZero() {
		m.From = s.From.Bytes()
	}
	if r.alike {
		m.Only = r.only
	}
	if !s.To.IsZero() {
		m.Before = s.To.Bytes()
	}
	for last := false; !last; {
		reply, err := r.page(ctx, m)
		if err != nil {
			return err
		}
		if m.Only != "" && reply.GetEpoch() != r.epoch {
			m.Only = "" // it may not be one of the cohort any more
			continue
		}
		if m.Only == "" {
			r.heard(reply)
		}
		m.After, last = reply.GetNext(), len(reply.GetNext()) == 0
		if err := whole.Add(reply.GetTasks(), last, func(t *backup.Task) error { return r.task(ctx, ranger, t) }); err != nil {
			return err
		}
		if err := r.pace.spend(ctx, len(reply.GetTasks())); err != nil {
			return err
		}
		if err := r.turn(ctx, len(reply.GetTasks())); err != nil {
			return err
		}
	}
	if s.To.IsZero() {
		ranger.End()
	}
	r.ranges = append(r.ranges, ranger.Ranges()...)
	return nil
}

// task takes one that was read.
func (r *reading) task(ctx context.Context, ranger *backup.Ranger, one *backup.Task) error {
	t, err := backup.See(one)
	if err != nil {
		return err
	}
	if ranger.Saw(&t); r.alike {
		r.alone = r.alone.Add(t.Sum)
	}
	if err := r.release(ctx, &t.ID); err != nil {
		return err
	}
	take, err := r.filter.TakeSeen(&t)
	if err != nil || !take {
		return err
	}
	ranger.Kept(&t)
	return r.add(ctx, r.out, r.w, &t)
}
