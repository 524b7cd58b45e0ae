package job_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// killed is a place of a command that is killed at a change of it: that one is made or not, and none after it.
type killed struct {
	objects.Store
	late bool
	mu   sync.Mutex // guards left
	left int
}

var errKilled = errors.New("killed")

func (k *killed) change(do func() error) error {
	k.mu.Lock()
	k.left--
	last, after := k.left == 0, k.left < 0
	k.mu.Unlock()
	switch {
	case after, last && !k.late:
		return errKilled
	case last:
		return errors.Join(do(), errKilled)
	}
	return do()
}

func (k *killed) Put(ctx context.Context, name string, b []byte) error {
	return k.change(func() error { return k.Store.Put(ctx, name, b) })
}

func (k *killed) Create(ctx context.Context, name string, b []byte) error {
	return k.change(func() error { return k.Store.Create(ctx, name, b) })
}

func (k *killed) Delete(ctx context.Context, name string) error {
	return k.change(func() error { return k.Store.Delete(ctx, name) })
}

// asking is a cluster of which it is counted how often each partition is asked for.
type asking struct {
	job.Cluster
	before func(*nornv1.BackupRequest)

	mu   sync.Mutex // guards asks
	asks map[uint32]int
}

func (a *asking) Backup(ctx context.Context, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	a.mu.Lock()
	if a.asks == nil {
		a.asks = make(map[uint32]int)
	}
	a.asks[m.GetPartition()]++
	a.mu.Unlock()
	if a.before != nil {
		a.before(m)
	}
	return a.Cluster.Backup(ctx, m)
}

// TestABackupThatIsKilledAnywhere is whole, or gone on with, or was never begun, and never looks whole when
// it is not: killed before and after each change of the place, with a note for each partition and with none, a full
// backup and an incremental one.
func TestABackupThatIsKilledAnywhere(t *testing.T) {
	c := filled(t, 20)
	for range 4 { // in several partitions
		put(t, c, client.Task{Queue: "mail"})
	}
	for _, every := range []time.Duration{0, time.Hour} {
		back := job.NoteEvery(every)
		for kind := range 3 {
			late, incremental := kind == 1, kind == 2
			steps := 1
			for !killedAt(t, c, steps, late, incremental) {
				steps++
			}
			if steps < 4 {
				t.Errorf("only %d changes of the place", steps)
			}
		}
		back()
	}
}

// killedAt takes a backup, killed at one of its changes, and goes on. It tells whether there are no more changes.
func killedAt(t *testing.T, c *client.Client, left int, late, incremental bool) (ended bool) {
	t.Helper()
	dir := place(t, t.TempDir())
	o := options(c, dir)
	o.Now = clock()
	if incremental {
		o.Since = take(t, o, nil)
		put(t, c, client.Task{Queue: "mail"})
	}
	want := uint64(0)
	n, err := c.Count(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	want = n.GetTotal().GetClaimed() + n.GetTotal().GetCompleted() + n.GetTotal().GetReady()
	at := &killed{Store: dir, left: left, late: late}
	o.Place = at
	_, err = job.Create(t.Context(), o)
	ended = at.left > 0
	m, none := job.Find(t.Context(), dir, "")
	if none == nil && incremental && m.Name == o.Since.Name {
		none = job.ErrNone
	}
	if none != nil {
		if !errors.Is(none, job.ErrNone) || err == nil {
			t.Fatalf("killed at change %d: found %v, and the command said %v", left, none, err)
		}
		o.Place, o.Resume = dir, begun(t, dir)
		if m, err = job.Create(t.Context(), o); err != nil {
			t.Fatalf("killed at change %d, gone on with %q: %v", left, o.Resume, err)
		}
	}
	s, err := job.Verify(t.Context(), dir, m, nil, nil)
	if err != nil || s.Tasks != want || incremental != (m.Since != "") {
		t.Fatalf("killed at change %d: %+v: %v; not %d tasks", left, s, err, want)
	}
	return ended
}

// begun is the backup in a place that was begun and is not done; empty: there is none.
func begun(t *testing.T, dir objects.Store) (name string) {
	t.Helper()
	all, err := dir.List(t.Context(), "norn-")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if one, is := strings.CutSuffix(o.Name, ".begun"); is {
			name = one
		}
	}
	return name
}

// TestWhatIsDoneIsNotReadAgain: what was done when a backup fails is noted, all in one note or each in its own.
func TestWhatIsDoneIsNotReadAgain(t *testing.T) {
	for _, every := range []time.Duration{0, time.Hour} {
		t.Run(every.String(), func(t *testing.T) {
			t.Cleanup(job.NoteEvery(every))
			c, dir := filled(t, 200), place(t, t.TempDir())
			o := options(c, dir)
			others := make(chan struct{})
			o.From = refusing{job.Over(c), others}
			o.Progress = func(p job.Progress) {
				if p.Done == p.Total-1 {
					close(others)
				}
			}
			_, err := job.Create(t.Context(), o)
			if !errors.Is(err, job.ErrFinal) {
				t.Fatal(err)
			}
			again := &asking{Cluster: job.Over(c)}
			o.From, o.Progress = again, nil
			_, o.Resume, _ = strings.Cut(err.Error(), "--resume ")
			m, err := job.Create(t.Context(), o)
			if err != nil || m.Tasks != 200 {
				t.Fatal(m, err)
			}
			if len(again.asks) != 1 {
				t.Errorf("one partition of %d was not done, and %d were read again", m.Partitions, len(again.asks))
			}
			verified(t, dir, m)
		})
	}
}

// refusing is a cluster that does not give one partition, when all others are done.
type refusing struct {
	job.Cluster
	others <-chan struct{}
}

func (r refusing) Backup(ctx context.Context, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	if m.GetPartition() > 0 {
		return r.Cluster.Backup(ctx, m)
	}
	<-r.others
	return nil, job.ErrFinal
}

// TestTwoBackupsAtOnce to one place: each is whole, or says that another one was begun in the same second.
func TestTwoBackupsAtOnce(t *testing.T) {
	c, dir := filled(t, 60), place(t, t.TempDir())
	o := options(c, dir)
	type end struct {
		m   *backup.Manifest
		err error
	}
	ends := make(chan end, 3)
	for range cap(ends) {
		go func() {
			m, err := job.Create(t.Context(), o)
			ends <- end{m, err}
		}()
	}
	whole := map[string]bool{}
	for range cap(ends) {
		e := <-ends
		if e.err != nil {
			if !strings.Contains(e.err.Error(), "same second") {
				t.Errorf("%v", e.err)
			}
			continue
		}
		if whole[e.m.Name] {
			t.Errorf("two are %s", e.m.Name)
		}
		whole[e.m.Name] = true
		if s := verified(t, dir, e.m); s.Tasks != 60 {
			t.Errorf("%d tasks", s.Tasks)
		}
	}
	if len(whole) == 0 {
		t.Error("none is whole")
	}
}

// TestNothingHasChanged: then an incremental backup asks once for each partition, and writes no part.
func TestNothingHasChanged(t *testing.T) {
	c, dir := manyTasks(t, 100), place(t, t.TempDir())
	o := options(c, dir)
	o.Now = clock()
	full := take(t, o, nil)
	asks := &asking{Cluster: job.Over(c)}
	o.From = asks
	same := take(t, o, full)
	n := 0
	for _, one := range asks.asks { // Any order: they are added.
		n += one
	}
	if len(same.Parts) != 0 || same.Tasks != 0 || n != same.Partitions {
		t.Errorf("%d parts, %d tasks, %d requests for %d partitions", len(same.Parts), same.Tasks, n, same.Partitions)
	}
	if got, want := verified(t, dir, same), verified(t, dir, full); !got.Same(want) {
		t.Errorf("the chain gives %+v, not %+v", got, want)
	}
}

// TestOneThatHasMuchWaits: of partitions with much only some are read at a time; who has waited for long
// begins anew, and what it gives is whole. Beside it tasks come all the time.
func TestOneThatHasMuchWaits(t *testing.T) {
	t.Cleanup(job.MuchIs(1000, 0))
	for _, rate := range []int64{0, 1 << 30} {
		c, dir := manyTasks(t, 6000), place(t, t.TempDir())
		o := options(c, dir)
		o.Rate = rate
		asks := &asking{Cluster: job.Over(c), before: func(*nornv1.BackupRequest) { put(t, c, client.Task{Queue: "mail"}) }}
		o.From = asks
		m := take(t, o, nil)
		if s := verified(t, dir, m); s.Tasks < 6000 {
			t.Errorf("%d tasks", s.Tasks)
		}
	}
}

// manyTasks is a server with so many tasks of 1000 bytes.
func manyTasks(t *testing.T, n int) *client.Client {
	t.Helper()
	c := norntest.Start(t).Client(t)
	tasks := make([]client.Task, n)
	for i := range tasks {
		tasks[i] = client.Task{Queue: "mail", Payload: make([]byte, 1000)}
	}
	for len(tasks) > 0 {
		some := tasks[:min(len(tasks), 500)]
		if _, err := c.EnqueueMany(t.Context(), some); err != nil {
			t.Fatal(err)
		}
		tasks = tasks[len(some):]
	}
	return c
}
