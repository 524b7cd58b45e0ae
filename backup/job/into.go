package job

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// intoTasks and intoBytes bound what is enqueued at a time.
	intoTasks = 1000
	intoBytes = 4 << 20
	// spread is the time over which new IDs lie, before the restore began: in the order of
	// the old ones, and not all in one instant.
	spread = time.Hour
	// intoEnd ends the name of the note that says when new IDs were given.
	intoEnd = ".into"
)

// IntoOptions are how unfinished tasks of a backup are enqueued in a cluster that is in use, of
// which the backup need not be.
type IntoOptions struct {
	// From has the backup.
	From objects.Store
	// Manifest says which one.
	Manifest *backup.Manifest
	// To is the cluster.
	To *client.Client
	// Keys decrypt; nil: nothing does.
	Keys *Keys
	// Prefix is put before the names of queues, and all get new IDs; empty: IDs stay, and keyed
	// tasks are named anew, as the key says there.
	Prefix string
	// Grace is gc-grace of the cluster: IDs of an older backup do not stay.
	Grace time.Duration
	// DryRun reads everything and writes nothing.
	DryRun bool
	// Told hears what became of each task: the new ID, zero where it has none, and why not.
	Told func(old, now id.ID, why string)
	// Progress hears how far it is; nil: nobody does.
	Progress func(Progress)
	// Now is the clock.
	Now func() time.Time
}

// IntoReport says what came of it.
type IntoReport struct {
	// Tasks are in the backup, Finished of them are not to be done any more.
	Tasks, Finished uint64
	// Enqueued were, Existed were there already and left as they are, LeftOut were refused.
	Enqueued, Existed, LeftOut uint64
}

// need is a task that others depend on.
type need struct {
	finished bool
	now      id.ID // as it is called there; zero: as [into.named] says
}

type into struct {
	IntoOptions
	begun  time.Time // when new IDs were given
	low    int64     // time of the first ID in the backup, and how long after it the last one is
	long   int64
	needed map[id.ID]need // that tasks depend on
	old    bool           // the backup is older than Grace
	batch  []client.Task
	was    []id.ID
	bytes  int
	report IntoReport
}

// Into enqueues the unfinished tasks of a backup anew: with their queue, kind, tags, payload,
// priority, time, headers, key, retry policy and dependencies; attempts begin anew. It may be
// repeated: new IDs follow from the old ones and from a note in the place of the backup.
func Into(ctx context.Context, o IntoOptions) (*IntoReport, error) {
	if _, err := Verify(ctx, o.From, o.Manifest, o.Keys, nil); err != nil {
		return nil, err
	}
	status, err := o.To.Status(ctx)
	if err != nil {
		return nil, err
	}
	if o.Prefix == "" && status.GetClusterId() == o.Manifest.Cluster {
		return nil, errors.New("this is the cluster that the backup is of: restore without --skip-existing, which joins what is there and what is in the backup")
	}
	m := &into{IntoOptions: o, begun: o.Now(), needed: make(map[id.ID]need), old: o.Now().Sub(o.Manifest.Began) > o.Grace}
	if o.Prefix != "" {
		if err := m.span(ctx); err != nil {
			return nil, err
		}
		if !o.DryRun {
			if err := m.note(ctx, status.GetClusterId()); err != nil {
				return nil, err
			}
		}
	}
	for _, pass := range []func(context.Context, *backup.Task) error{m.dependencies, m.finished, m.task} {
		if err := Each(ctx, o.From, o.Manifest, o.Keys, nil, func(t *backup.Task) error { return pass(ctx, t) }); err != nil {
			return &m.report, err
		}
	}
	return &m.report, m.flush(ctx)
}

// span finds the first and the last time of an ID.
func (m *into) span(ctx context.Context) error {
	chain, err := Chain(ctx, m.From, m.Manifest)
	if err != nil {
		return err
	}
	first := true
	for _, link := range chain {
		for i := range link.Parts {
			for _, text := range []string{link.Parts[i].First, link.Parts[i].Last} {
				task, err := id.Parse(text)
				if err != nil {
					return fmt.Errorf("%w: %s: %w", backup.ErrDamaged, link.Parts[i].Name, err)
				}
				at := task.Nanos()
				if first || at < m.low {
					m.long, m.low = m.long+m.low-at, at
					if first {
						m.long = 0
					}
				}
				m.long, first = max(m.long, at-m.low), false
			}
		}
	}
	return nil
}

// note reads when a restore of this backup into this cluster under this prefix has given new IDs, and
// leaves it where none has.
func (m *into) note(ctx context.Context, cluster string) error {
	sum := sha256.Sum256([]byte(cluster + "\x00" + m.Prefix))
	name := fmt.Sprintf("%s.%x%s", m.Manifest.Name, sum[:6], intoEnd)
	type content struct {
		Cluster string    `json:"cluster"`
		Prefix  string    `json:"prefix"`
		Begun   time.Time `json:"begun_at"`
	}
	b, err := json.Marshal(content{cluster, m.Prefix, m.begun})
	if err != nil {
		return err
	}
	if err = m.From.Create(ctx, name, append(b, '\n')); !errors.Is(err, objects.ErrExists) {
		if err != nil {
			err = fmt.Errorf("a note has to be left beside the backup, so that the same restore again enqueues nothing twice: %w", err)
		}
		return err
	}
	b, err = m.From.Get(ctx, name)
	var c content
	if err == nil {
		if err = json.Unmarshal(b, &c); err != nil || c.Begun.IsZero() {
			err = fmt.Errorf("%w: %s is no note of a restore", backup.ErrDamaged, name)
		}
	}
	if err != nil {
		return err
	}
	if m.begun = c.Begun; m.Now().Sub(c.Begun) > m.Grace {
		return fmt.Errorf("this backup was restored here with this prefix at %s, more than gc-grace ago: tasks of then may have been finished and forgotten; take another prefix", c.Begun.Format(time.RFC3339))
	}
	return nil
}

// ended tells whether a task is not to be done any more, or is none.
func ended(t *backup.Task) (*crdt.Task, bool, error) {
	v, err := crdt.View(t.ID, slices.Values(t.Facts))
	if err != nil {
		return nil, false, fmt.Errorf("%w: task %s: %w", backup.ErrDamaged, t.ID, err)
	}
	state := v.Outcome()
	return v, v.Enqueued == nil || state == crdt.StateCompleted || state == crdt.StateCancelled, nil
}

// dependencies notes what is depended on.
func (m *into) dependencies(_ context.Context, t *backup.Task) error {
	v, done, err := ended(t)
	if err == nil && !done {
		for _, d := range v.Enqueued.Dependencies {
			m.needed[d] = need{}
		}
	}
	return err
}

// finished notes which of those are finished.
func (m *into) finished(ctx context.Context, t *backup.Task) error {
	n, needed := m.needed[t.ID]
	if !needed {
		return nil
	}
	v, done, err := ended(t)
	if n.finished = done; err == nil && !done && v.Enqueued.Key != "" && !m.DryRun {
		n.now, _, err = m.To.LookupKey(ctx, m.Prefix+v.Enqueued.Queue, v.Enqueued.Key, time.Duration(v.Enqueued.KeyWindow))
	}
	m.needed[t.ID] = n
	return err
}

// named is what a task without a key is called there.
func (m *into) named(old id.ID) id.ID {
	if m.Prefix == "" {
		return old
	}
	return m.fresh(old)
}

// fresh is the new ID of a task: it follows from the old one, in the same order.
func (m *into) fresh(old id.ID) id.ID {
	at := m.begun.Add(-spread).UnixNano()
	if m.long > 0 {
		at += int64(float64(old.Nanos()-m.low) / float64(m.long) * float64(spread))
	}
	sum := sha256.Sum256([]byte(m.Manifest.Name + "\x00" + m.Prefix + "\x00" + old.String()))
	order := id.OrderOf(at, id.KindTask)
	var out id.ID
	copy(out[copy(out[:], order[:]):], sum[:])
	return out
}

// task enqueues one.
func (m *into) task(ctx context.Context, t *backup.Task) error {
	m.report.Tasks++
	v, done, err := ended(t)
	if err != nil {
		return err
	}
	if done {
		m.report.Finished++
		return nil
	}
	e := v.Enqueued
	spec := client.Task{ID: t.ID, Queue: m.Prefix + e.Queue, Payload: e.Payload, Priority: e.Priority, Key: e.Key, KeyWindow: time.Duration(e.KeyWindow)}
	further := &nornv1.TaskSpec{}
	if err := gproto.Unmarshal(e.Further, further); err != nil {
		return fmt.Errorf("%w: task %s: %w", backup.ErrDamaged, t.ID, err)
	}
	spec.Kind, spec.Tags, spec.OnDependencyFailure = further.GetKind(), further.GetTags(), nornv1.DependencyFailure(e.OnDepFailure)
	if r := e.Retry; !r.FromQueue {
		spec.Retry = &nornv1.RetryPolicy{MaxAttempts: r.MaxAttempts, InitialSeconds: r.Initial.Seconds(), MaxSeconds: r.Max.Seconds(), Multiplier: float64(r.Multiplier) / 1000, Jitter: float64(r.Jitter) / 1000}
	}
	for _, h := range e.Headers {
		if spec.Headers == nil {
			spec.Headers = make(map[string]string)
		}
		spec.Headers[h.Key] = h.Value
	}
	if at := time.Unix(0, e.NotBefore); e.NotBefore > 0 && at.After(m.Now()) {
		spec.NotBefore = at
	}
	for _, d := range e.Dependencies {
		n := m.needed[d]
		if n.finished {
			continue
		}
		if n.now.IsZero() {
			n.now = m.named(d)
		}
		spec.Dependencies = append(spec.Dependencies, n.now)
	}
	switch {
	case m.Prefix == "" && m.old:
		return m.leave(t.ID, "the backup is older than gc-grace: it may have been finished and forgotten")
	case spec.Key != "":
		spec.ID = id.ID{} // it follows from the key
	default:
		spec.ID = m.named(t.ID)
	}
	if m.DryRun {
		m.report.Enqueued++
		return ctx.Err()
	}
	m.batch, m.was, m.bytes = append(m.batch, spec), append(m.was, t.ID), m.bytes+len(spec.Payload)
	if len(m.batch) >= intoTasks || m.bytes >= intoBytes {
		return m.flush(ctx)
	}
	return nil
}

func (m *into) leave(old id.ID, why string) error {
	m.report.LeftOut++
	if m.Told != nil {
		m.Told(old, id.ID{}, strings.TrimSpace(why))
	}
	return nil
}

// flush enqueues what was gathered.
func (m *into) flush(ctx context.Context) error {
	if len(m.batch) == 0 {
		return nil
	}
	results, err := m.To.EnqueueMany(ctx, m.batch)
	if err != nil {
		return err
	}
	for i, r := range results {
		why := ""
		switch {
		case errors.Is(r.Err, client.ErrAlreadyExists):
			m.report.Existed++
			why = "another task is there"
		case r.Err != nil:
			if err := m.leave(m.was[i], r.Err.Error()); err != nil {
				return err
			}
			continue
		case r.Receipt.GetExisted():
			m.report.Existed++
			why = "it was there"
		default:
			m.report.Enqueued++
		}
		if m.Told != nil {
			m.Told(m.was[i], r.ID, why)
		}
	}
	m.batch, m.was, m.bytes = m.batch[:0], m.was[:0], 0
	return nil
}
