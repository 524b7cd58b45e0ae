package job

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register/snapshots"
)

const (
	// together is how many partitions are read at a time, and much how many of them at most that have more than
	// [little]. A backup whose rate is bounded takes fewer, so that its pages come one after the other.
	together, togetherPaced = 16, 4
	much, muchPaced         = 4, 1
	// pageTime is how long a page is waited for before the whole cohort is asked.
	pageTime = 10 * time.Second
	// pageTries is how often a page is asked for, pagePause the pause between two.
	pageTries = 30
	pagePause = time.Second
	// nameTries is how many seconds are tried for a name that is free.
	nameTries = 3
)

var (
	// little is how many bytes are read of a partition before it counts as one of those that have much.
	little = 1 << 20
	// muchTime is how long one waits for its turn before it begins anew: what it is read as of may have gone.
	muchTime = 20 * time.Second
	// noteEvery is how often it is noted which partitions are done, at most: so much of the work is done again
	// after the command was killed, and a backup that takes less has no notes.
	noteEvery = time.Second
)

// noteTime bounds the last note of a backup that fails.
const noteTime = 5 * time.Second

// Names of what is there while a backup is under way.
const (
	begunEnd = ".begun"
	doneEnd  = ".done"
)

// Options are how a backup is taken.
type Options struct {
	// From is the cluster.
	From Cluster
	// Place takes the objects.
	Place objects.Store
	// Scope is backup.All or backup.Unfinished; empty: all.
	Scope string
	// Queues are the only ones that are in it; empty: all are.
	Queues []string
	// By is the build that writes it.
	By string
	// Keys encrypt; nil: nothing does.
	Keys *Keys
	// Since is the backup that this one is incremental to; nil: it is a full one.
	Since *backup.Manifest
	// Rate bounds what is read, bytes a second; 0: nothing does.
	Rate int64
	// Resume is the name of a backup that was interrupted; empty: it is a new one.
	Resume string
	// Progress hears how far it is, from several goroutines; nil: nobody does.
	Progress func(Progress)
	// Now is the clock.
	Now func() time.Time
}

// Progress is how far a backup, its verification or a restore is.
type Progress struct {
	Done, Total  int // partitions, or parts
	Tasks, Bytes uint64
}

// create is a backup that is being taken.
type create struct {
	Options
	manifest backup.Manifest
	pace     *pace
	taker    string              // in the names of parts
	ranges   [][]backup.Range    // of Since, by partition
	much     chan *backup.Writer // of those partitions that have much, each with its large buffers

	mu       sync.Mutex // guards all below
	progress Progress
	each     []*piece
	unnoted  []*piece  // done, and in no note yet
	noted    time.Time // when the last note was begun
}

// piece is what one partition has come to: what is noted when it is done.
type piece struct {
	backup.Manifest
}

// Create takes a backup and gives its manifest.
func Create(ctx context.Context, o Options) (*backup.Manifest, error) {
	c := &create{Options: o, pace: newPace(o.Rate), taker: strings.ToLower(rand.Text()[:12]), noted: time.Now()}
	status, err := o.From.Status(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.begin(ctx, status); err != nil {
		return nil, err
	}
	m, err := (*backup.Manifest)(nil), c.partitions(ctx)
	if err == nil {
		m, err = c.end(ctx)
	}
	if err != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
		defer cancel()
		_ = c.note(last, 0) // the first error counts; without the note some of it is done again
		return nil, fmt.Errorf("%w; what is done stays: go on with --resume %s", err, c.manifest.Name)
	}
	return m, nil
}

// begin makes the head of the manifest, and takes the name.
func (c *create) begin(ctx context.Context, s *nornv1.StatusReply) error {
	m := &c.manifest
	*m = backup.Manifest{
		Format: backup.Format, Cluster: s.GetClusterId(), Generation: s.GetRegister().GetGeneration(), Partitions: len(s.GetPartitions()),
		Began: c.Now().UTC().Truncate(time.Second), By: c.By, Scope: c.Scope, Queues: c.Queues, Encrypted: c.Keys.To(),
	}
	if m.Scope == "" {
		m.Scope = backup.All
	}
	if err := c.since(); err != nil {
		return err
	}
	c.each, c.progress.Total = make([]*piece, m.Partitions), m.Partitions
	if c.Resume != "" {
		return c.resume(ctx)
	}
	if err := c.name(ctx); err != nil {
		return err
	}
	state, err := c.From.Export(ctx)
	if err != nil {
		return err
	}
	h, data, err := snapshots.Pack(state, m.Began, "norn backup")
	m.Snapshot = h.Name()
	if err == nil && c.Keys != nil {
		m.Snapshot += SealedEnd
		data, err = c.Keys.Seal(data)
	}
	if err == nil {
		err = c.put(ctx, m.Snapshot, data)
	}
	if err != nil {
		return err
	}
	b, err := m.Encode()
	if err != nil {
		return err
	}
	if err = c.Place.Create(ctx, m.Name+begunEnd, b); errors.Is(err, objects.ErrExists) {
		return fmt.Errorf("another backup to this place began in the same second, or was interrupted then: try again, or go on with it (--resume %s)", m.Name)
	}
	return err
}

// name takes the name of a second of which there is no backup yet: one over it would have its
// manifest in the place of the other one's.
func (c *create) name(ctx context.Context) error {
	m := &c.manifest
	for range nameTries {
		m.Name = backup.Name(m.Cluster, m.Generation, m.Began)
		_, err := c.Place.Get(ctx, m.Name+backup.ManifestEnd)
		if errors.Is(err, objects.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = sleep(ctx, time.Second)
		}
		if err != nil {
			return err
		}
		m.Began = c.Now().UTC().Truncate(time.Second)
	}
	return fmt.Errorf("there is a backup %s already, of the same second: try again", m.Name)
}

// resume goes on with a backup that has begun.
func (c *create) resume(ctx context.Context) error {
	name, now := c.Resume+begunEnd, c.manifest
	b, err := c.Place.Get(ctx, name)
	if errors.Is(err, objects.ErrNotFound) {
		return fmt.Errorf("there is no backup %s that was interrupted: %w", c.Resume, err)
	}
	if err != nil {
		return err
	}
	was, err := backup.DecodeNote(name, b)
	if err != nil {
		return err
	}
	if was.Cluster != now.Cluster || was.Generation != now.Generation || was.Partitions != now.Partitions {
		return fmt.Errorf("backup %s is of cluster %s, generation %d, %d partitions, and this is %s, %d, %d: begin a new one", was.Name, was.Cluster, was.Generation, was.Partitions, now.Cluster, now.Generation, now.Partitions)
	}
	if was.Since != now.Since {
		return fmt.Errorf("backup %s began incremental to %q: go on with the same", was.Name, was.Since)
	}
	if was.Scope != now.Scope || fmt.Sprint(was.Queues, was.Encrypted) != fmt.Sprint(now.Queues, now.Encrypted) {
		return fmt.Errorf("backup %s began with scope %s, queues %q, encrypted to %q: go on with the same", was.Name, was.Scope, was.Queues, was.Encrypted)
	}
	c.manifest = *was
	notes, err := c.notes(ctx)
	if err != nil {
		return err
	}
	for _, name := range notes {
		b, err := c.Place.Get(ctx, name)
		if errors.Is(err, objects.ErrNotFound) {
			continue // another one has finished meanwhile
		}
		if err != nil {
			return err
		}
		all, err := backup.DecodeNotes(name, b)
		if err != nil {
			return err
		}
		for _, m := range all {
			if len(m.Each) != 1 || m.Name != was.Name || m.Each[0].Partition < 0 || m.Each[0].Partition >= len(c.each) {
				return fmt.Errorf("%w: %s: it is not about a partition of backup %s", backup.ErrDamaged, name, was.Name)
			}
			if p := m.Each[0].Partition; c.each[p] == nil {
				c.done(p, &piece{*m})
			}
		}
	}
	return nil
}

// notes are the names of those about partitions that are done, by whoever has read them.
func (c *create) notes(ctx context.Context) (names []string, err error) {
	infos, err := c.Place.List(ctx, c.manifest.Name+".p")
	for _, i := range infos {
		if strings.HasSuffix(i.Name, doneEnd) {
			names = append(names, i.Name)
		}
	}
	return names, err
}

// note notes what is done, when so much time has passed since the last note. The parts of it are there.
func (c *create) note(ctx context.Context, every time.Duration) error {
	c.mu.Lock()
	some := c.unnoted
	if len(some) == 0 || time.Since(c.noted) < every {
		c.mu.Unlock()
		return nil
	}
	c.unnoted, c.noted = nil, time.Now()
	c.mu.Unlock()
	var all []byte
	for _, one := range some {
		b, err := one.Encode()
		if err != nil {
			return err
		}
		all = append(all, b...)
	}
	err := c.put(ctx, noteName(c.manifest.Name, some[0].Each[0].Partition, c.taker), all)
	if err != nil { // another partition has ended the backup, perhaps: the last note has these, too
		c.mu.Lock()
		c.unnoted = append(c.unnoted, some...)
		c.mu.Unlock()
	}
	return err
}

// noteName is the name of the note that partitions are done, of which one is named. The taker is in it, as in
// the names of parts.
func noteName(name string, p int, taker string) string {
	return fmt.Sprintf("%s.p%04d-%s%s", name, p, taker, doneEnd)
}

// partitions reads all that are not done, some at a time.
func (c *create) partitions(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	n, large := together, much
	if c.Rate > 0 {
		n, large = togetherPaced, muchPaced
	}
	c.much = make(chan *backup.Writer, large)
	for range large {
		c.much <- backup.NewWriter(c.manifest.Name, c.Keys.seal(), packer())
	}
	for range n {
		workers.Go(func() {
			w := backup.NewWriter(c.manifest.Name, c.Keys.seal(), packer())
			for p := range next {
				if err := c.partition(ctx, p, w); err != nil {
					cancel(fmt.Errorf("partition %d: %w", p, err))
				}
			}
		})
	}
feed:
	for p, done := range c.each {
		if done != nil {
			continue
		}
		select {
		case next <- p:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// since takes over what an incremental backup builds on.
func (c *create) since() error {
	base, m := c.Since, &c.manifest
	if base == nil {
		return nil
	}
	if base.Cluster != m.Cluster || base.Generation != m.Generation || base.Partitions != m.Partitions {
		return fmt.Errorf("backup %s is of cluster %s, generation %d, %d partitions, and this is %s, %d, %d: take a full one", base.Name, base.Cluster, base.Generation, base.Partitions, m.Cluster, m.Generation, m.Partitions)
	}
	if base.Scope != m.Scope || fmt.Sprint(base.Queues) != fmt.Sprint(m.Queues) {
		return fmt.Errorf("backup %s has scope %s and queues %q: an incremental one has to have the same", base.Name, base.Scope, base.Queues)
	}
	m.Since, m.SinceSum, m.Depth = base.Name, base.Checksum(), base.Depth+1
	for p := range base.Each {
		ranges, err := backup.DecodeRanges(base.Each[p].Ranges)
		if err != nil {
			return fmt.Errorf("backup %s: partition %d: %w", base.Name, p, err)
		}
		c.ranges = append(c.ranges, ranges)
	}
	return nil
}

// add puts a task into the backup of its partition.
func (c *create) add(ctx context.Context, out *piece, w *backup.Writer, t *backup.Seen) error {
	out.AddSeen(t, c.manifest.Began)
	if w.Add(t.Task) {
		return c.flush(ctx, out, w)
	}
	return nil
}

// flush writes a part.
func (c *create) flush(ctx context.Context, out *piece, w *backup.Writer) error {
	part, b, some, err := w.Part()
	if err != nil || !some {
		return err
	}
	out.Parts = append(out.Parts, part)
	c.tell(func(p *Progress) { p.Tasks, p.Bytes = p.Tasks+part.Tasks, p.Bytes+uint64(part.Bytes) })
	return c.put(ctx, part.Name, b)
}

// put writes an object and reads it back.
func (c *create) put(ctx context.Context, name string, b []byte) error {
	if err := c.Place.Put(ctx, name, b); err != nil {
		return err
	}
	got, err := c.Place.Get(ctx, name)
	if err == nil && !bytes.Equal(got, b) {
		err = fmt.Errorf("%w: %s reads as %d bytes that are not the %d that were written", backup.ErrDamaged, name, len(got), len(b))
	}
	return err
}

// page asks until it is answered.
func (c *create) page(ctx context.Context, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	for try := 1; ; try++ {
		ask, cancel := context.WithTimeout(ctx, pageTime)
		if m.WholeCohort = try > 1; m.WholeCohort {
			m.Only = ""
		}
		reply, err := c.From.Backup(ask, m)
		cancel()
		switch {
		case err == nil:
			return reply, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case try == pageTries || final(err):
			return nil, err
		}
		if err := sleep(ctx, pagePause); err != nil {
			return nil, err
		}
	}
}

func (c *create) done(p int, out *piece) {
	c.mu.Lock()
	c.each[p] = out
	c.mu.Unlock()
	c.tell(func(p *Progress) { p.Done++ })
}

func (c *create) tell(change func(*Progress)) {
	c.mu.Lock()
	change(&c.progress)
	now := c.progress
	c.mu.Unlock()
	if c.Progress != nil {
		c.Progress(now)
	}
}

// end writes the manifest.
func (c *create) end(ctx context.Context) (*backup.Manifest, error) {
	m := &c.manifest
	for _, p := range c.each {
		m.Each, m.Parts = append(m.Each, p.Each...), append(m.Parts, p.Parts...)
		if err := m.Join(&p.Summary); err != nil {
			return nil, err
		}
	}
	m.Ended = c.Now().UTC().Truncate(time.Second)
	b, err := m.Encode()
	if err != nil {
		return nil, err
	}
	if err := c.put(ctx, m.Name+backup.ManifestEnd, b); err != nil {
		return nil, err
	}
	notes, _ := c.notes(ctx) // they are of no use any more, and do no harm
	for _, name := range notes {
		_ = c.Place.Delete(ctx, name)
	}
	_ = c.Place.Delete(ctx, m.Name+begunEnd)
	return backup.DecodeManifest(m.Name+backup.ManifestEnd, b)
}
