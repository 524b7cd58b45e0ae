package job_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/internal/objects/objectstest"
)

// filled is a server with tasks, of which one is completed and one claimed.
func filled(t *testing.T, n int) *client.Client {
	t.Helper()
	c := norntest.Start(t).Client(t)
	var tasks []client.Task
	for i := range n {
		tasks = append(tasks, client.Task{Queue: "mail", Payload: []byte(strings.Repeat("p", 100*i))})
	}
	if _, err := c.EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	grants, err := c.Claim(t.Context(), client.ClaimRequest{Queues: []string{"mail"}, Max: 2})
	if err != nil || len(grants) != 2 {
		t.Fatalf("%d claims: %v", len(grants), err)
	}
	if _, err := c.Complete(t.Context(), grants[0].ID, grants[0].Token, client.CompleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func place(t testing.TB, address string) objects.Store {
	t.Helper()
	s, err := objects.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func options(c *client.Client, to objects.Store) job.Options {
	return job.Options{From: job.Over(c), Place: to, By: "test", Now: time.Now}
}

// failing is a place in which writing fails after so many objects; late: they are written all the same.
type failing struct {
	objects.Store
	late bool
	mu   sync.Mutex // guards left
	left int
}

var errPlace = errors.New("no room")

func (f *failing) Put(ctx context.Context, name string, b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left--; f.left < 0 {
		if f.late {
			return errors.Join(errPlace, f.Store.Put(ctx, name, b))
		}
		return errPlace
	}
	return f.Store.Put(ctx, name, b)
}

// TestABackupInABucket is taken and verified, and what is damaged there is named.
func TestABackupInABucket(t *testing.T) {
	objectstest.Login(t)
	c, to := filled(t, 50), place(t, objectstest.Serve(t).Address("tasks"))
	m, err := job.Create(t.Context(), options(c, to))
	if err != nil || m.Tasks != 50 || m.Held != 1 || m.Counts["mail"]["completed"] != 1 {
		t.Fatalf("made %+v: %v", m, err)
	}
	found, err := job.Find(t.Context(), to, "")
	if err != nil || found.Name != m.Name {
		t.Fatalf("found %+v: %v", found, err)
	}
	if _, err := job.Verify(t.Context(), to, found, nil, nil); err != nil {
		t.Fatal(err)
	}
	part := m.Parts[len(m.Parts)/2].Name
	if err := to.Delete(t.Context(), part); err != nil {
		t.Fatal(err)
	}
	if _, err := job.Verify(t.Context(), to, found, nil, nil); !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), part) {
		t.Errorf("without %s: %v", part, err)
	}
}

// TestAnInterruptedBackupIsNone until it was gone on with; what is done is not done again.
func TestAnInterruptedBackupIsNone(t *testing.T) {
	c := filled(t, 50)
	for left := 1; ; left++ {
		dir := place(t, t.TempDir())
		to := &failing{Store: dir, left: left}
		_, err := job.Create(t.Context(), options(c, to))
		if err == nil && left > 2 {
			return // there are no more objects than that
		}
		if !errors.Is(err, errPlace) {
			t.Fatalf("cut after %d objects: %v", left, err)
		}
		if _, err := job.Find(t.Context(), dir, ""); !errors.Is(err, job.ErrNone) {
			t.Fatalf("there is a backup: %v", err)
		}
		_, name, found := strings.Cut(err.Error(), "--resume ")
		if !found {
			t.Fatalf("nothing says how to go on: %v", err)
		}
		o := options(c, dir)
		o.Resume = name
		o.Scope = backup.Unfinished
		if _, err := job.Create(t.Context(), o); err == nil || !strings.Contains(err.Error(), "go on with the same") {
			t.Fatalf("gone on with another scope: %v", err)
		}
		o.Scope = ""
		m, err := job.Create(t.Context(), o)
		if err != nil || m.Name != name || m.Tasks != 50 {
			t.Fatalf("gone on with %s: %+v, %v", name, m, err)
		}
		if _, err := job.Verify(t.Context(), dir, m, nil, nil); err != nil {
			t.Fatal(err)
		}
		all, err := dir.List(t.Context(), "norn-")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if strings.HasSuffix(o.Name, ".done") || strings.HasSuffix(o.Name, ".begun") {
				t.Errorf("%s is left", o.Name)
			}
		}
	}
}

// TestAPlaceThatAnswersTooLate: what was written counts, though nobody heard that it was. What has a
// manifest is whole, and what has none can be gone on with.
func TestAPlaceThatAnswersTooLate(t *testing.T) {
	c := filled(t, 50)
	for left := 1; ; left++ {
		dir := place(t, t.TempDir())
		_, err := job.Create(t.Context(), options(c, &failing{Store: dir, left: left, late: true}))
		if err == nil && left > 2 {
			return
		}
		if !errors.Is(err, errPlace) {
			t.Fatalf("late after %d objects: %v", left, err)
		}
		m, none := job.Find(t.Context(), dir, "")
		if errors.Is(none, job.ErrNone) {
			_, name, _ := strings.Cut(err.Error(), "--resume ")
			o := options(c, dir)
			o.Resume = name
			if m, err = job.Create(t.Context(), o); err != nil {
				t.Fatalf("late after %d objects, gone on with: %v", left, err)
			}
		}
		if s, err := job.Verify(t.Context(), dir, m, nil, nil); err != nil || s.Tasks != 50 {
			t.Fatalf("late after %d objects: %+v, %v", left, s, err)
		}
	}
}

// TestAsOf: of several backups the newest that began at a time or before is taken.
func TestAsOf(t *testing.T) {
	c, dir := filled(t, 3), place(t, t.TempDir())
	o := options(c, dir)
	now := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { return now }
	var all []*backup.Manifest
	for range 3 {
		m, err := job.Create(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
		now = now.Add(time.Hour)
	}
	for after, want := range map[time.Duration]int{0: 0, time.Minute: 0, time.Hour: 1, 119 * time.Minute: 1, 1000 * time.Hour: 2} { // Any order: each stands for itself.
		m, err := job.FindAsOf(t.Context(), dir, "", all[0].Began.Add(after))
		if err != nil || m.Name != all[want].Name {
			t.Errorf("as of %s after the first: %+v, %v; not %s", after, m, err, all[want].Name)
		}
	}
	if m, err := job.FindAsOf(t.Context(), dir, "", all[0].Began.Add(-time.Second)); !errors.Is(err, job.ErrNone) || !strings.Contains(err.Error(), "or before") {
		t.Errorf("as of before the first: %+v, %v", m, err)
	}
}

// TestTwoBackupsInOneSecond: the second one is refused and harms nothing.
func TestTwoBackupsInOneSecond(t *testing.T) {
	c, dir := filled(t, 10), place(t, t.TempDir())
	o := options(c, dir)
	now := time.Now()
	o.Now = func() time.Time { return now }
	to := &failing{Store: dir, left: 2}
	o.Place = to
	if _, err := job.Create(t.Context(), o); !errors.Is(err, errPlace) {
		t.Fatal(err)
	}
	o.Place = dir
	if _, err := job.Create(t.Context(), o); err == nil || !strings.Contains(err.Error(), "same second") {
		t.Fatalf("the second one: %v", err)
	}
}

// TestARestoreIntoTheLivingCluster changes nothing where nothing was lost: a claim that is
// held stays so. Another cluster is refused.
func TestARestoreIntoTheLivingCluster(t *testing.T) {
	c, dir := filled(t, 20), place(t, t.TempDir())
	m, err := job.Create(t.Context(), options(c, dir))
	if err != nil {
		t.Fatal(err)
	}
	r, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: job.Over(c)})
	if err != nil || r.Written != 20 || r.Fresh != 0 || r.Freed != 0 {
		t.Fatalf("restored %+v: %v", r, err)
	}
	n, err := c.Count(t.Context(), "mail")
	if got := fmt.Sprint(n.GetTotal().GetClaimed(), n.GetTotal().GetCompleted(), n.GetTotal().GetReady()); err != nil || got != "1 1 18" {
		t.Errorf("claimed, completed and ready are %s: %v", got, err)
	}
	other := *m
	other.Cluster = "00000000-0000-0000-0000-000000000000"
	if _, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: &other, To: job.Over(c)}); err == nil || !strings.Contains(err.Error(), "is of cluster") {
		t.Errorf("another cluster: %v", err)
	}
}

// TestADryRunWritesNothing, and a backup that is damaged is not begun.
func TestADryRunWritesNothing(t *testing.T) {
	c, dir := filled(t, 20), place(t, t.TempDir())
	m, err := job.Create(t.Context(), options(c, dir))
	if err != nil {
		t.Fatal(err)
	}
	r, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: job.Over(c), DryRun: true})
	if err != nil || r.Tasks != 20 || r.Written != 0 {
		t.Fatalf("dry run %+v: %v", r, err)
	}
	name := m.Parts[len(m.Parts)-1].Name
	b, err := dir.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := dir.Put(t.Context(), name, b); err != nil {
		t.Fatal(err)
	}
	r, err = job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: job.Over(c)})
	if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), name) || r != nil {
		t.Errorf("restored %+v from a damaged backup: %v", r, err)
	}
}
