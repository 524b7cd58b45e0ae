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

// refuses is a cluster that takes so many requests to restore, and then fails; late: the one at which it does is taken, and
// nobody hears of it.
type refuses struct {
	*canned
	err  error
	late bool

	mu   sync.Mutex // guards left
	left int
}

func (r *refuses) Restore(ctx context.Context, partition int, tasks []byte) (*nornv1.RestoreReply, error) {
	r.mu.Lock()
	r.left--
	left := r.left
	r.mu.Unlock()
	if left >= 0 {
		return r.canned.Restore(ctx, partition, tasks)
	}
	if left == -1 && r.late {
		_, _ = r.canned.Restore(ctx, partition, tasks)
	}
	return nil, r.err
}

// union is the root over the tasks that it was sent, each once, and how many those are.
func (c *canned) union(t *testing.T) (root string, n int) {
	t.Helper()
	all := make(map[string]backup.Task)
	for _, requests := range c.taken { // Any order: they are added.
		for _, b := range requests {
			tasks, err := backup.Unordered(b)
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range tasks {
				all[task.ID.String()] = task
			}
		}
	}
	var s backup.Summary
	for _, task := range all { // Any order: they are added.
		if err := s.Add(&task, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return s.Total().Root, len(all)
}

// TestARestoreThatEndsAnywhereIsRepeated: after any number of requests, taken or not, it ends with the reason; the same again
// gives the cluster all tasks.
func TestARestoreThatEndsAnywhereIsRepeated(t *testing.T) {
	const tasks = 1000
	from, dir := newCanned(8, tasks, 2500), place(t, t.TempDir())
	m := from.saved(t, dir)
	for _, late := range []bool{false, true} {
		ends := 0
		for n := 0; ; n++ {
			to := &refuses{canned: newCanned(4, 0, 0), err: job.ErrFinal, late: late, left: n}
			_, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: to})
			if err == nil {
				break
			}
			ends++
			if !errors.Is(err, job.ErrFinal) || !strings.Contains(err.Error(), "partition ") {
				t.Fatalf("ended after %d requests: %v", n, err)
			}
			if _, has := to.union(t); has >= tasks && !late {
				t.Errorf("ended after %d requests with all %d tasks", n, has)
			}
			to.left = 1 << 30
			report, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: to})
			root, has := to.union(t)
			if err != nil || report.Tasks != tasks || has != tasks || root != m.Root {
				t.Fatalf("ended after %d requests, again: %+v, %v: %d tasks with root %s", n, report, err, has, root)
			}
		}
		if ends < 4 {
			t.Errorf("there were %d requests", ends)
		}
	}
}

// TestARestoreOntoAFullDisk goes on when there is room again, and ends with that reason when there is none for long.
func TestARestoreOntoAFullDisk(t *testing.T) {
	defer job.AnswersWithin(time.Minute)()
	from, dir := newCanned(4, 400, 1000), place(t, t.TempDir())
	m := from.saved(t, dir)
	full := &client.Error{Op: "restore", Err: client.ErrDiskFull}
	for refusals, ends := range map[int]bool{20: false, 1 << 30: true} { // Any order: each stands for itself.
		to := &recovers{canned: newCanned(1, 0, 0), err: full, left: refusals}
		report, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: to})
		if ends {
			if !errors.Is(err, client.ErrDiskFull) || !strings.Contains(err.Error(), "partition 0") || report.Written > 0 {
				t.Errorf("no room: %+v, %v", report, err)
			}
			continue
		}
		if root, n := to.union(t); err != nil || n != 400 || root != m.Root {
			t.Errorf("room after %d refusals: %+v, %v: %d tasks", refusals, report, err, n)
		}
	}
}

// recovers is a cluster that refuses so many requests.
type recovers struct {
	*canned
	err error

	mu   sync.Mutex // guards left
	left int
}

func (r *recovers) Restore(ctx context.Context, partition int, tasks []byte) (*nornv1.RestoreReply, error) {
	r.mu.Lock()
	r.left--
	left := r.left
	r.mu.Unlock()
	if left >= 0 {
		return nil, r.err
	}
	return r.canned.Restore(ctx, partition, tasks)
}

// unreadable is a place in which reading fails after so many objects.
type unreadable struct {
	objects.Store
	mu   sync.Mutex // guards left
	left int
}

func (u *unreadable) Get(ctx context.Context, name string) ([]byte, error) {
	u.mu.Lock()
	u.left--
	left := u.left
	u.mu.Unlock()
	if left < 0 {
		return nil, errPlace
	}
	return u.Store.Get(ctx, name)
}

// TestAPlaceThatFailsWhileItIsRestored at any object: it ends with that, whatever was written by then; while all of it is read
// for the first time that is nothing. From a place that works again all tasks come.
func TestAPlaceThatFailsWhileItIsRestored(t *testing.T) {
	const tasks = 600
	from, dir := newCanned(6, tasks, 1000), place(t, t.TempDir())
	m := from.saved(t, dir)
	for left := 0; ; left++ {
		to := newCanned(3, 0, 0)
		_, err := job.Restore(t.Context(), job.RestoreOptions{From: &unreadable{Store: dir, left: left}, Manifest: m, To: to})
		_, some := to.union(t)
		if err == nil {
			if some != tasks || left < 2*len(m.Parts) {
				t.Errorf("restored %d tasks with %d reads of %d parts", some, left, len(m.Parts))
			}
			return
		}
		if !errors.Is(err, errPlace) || left < len(m.Parts) && some > 0 || some >= tasks {
			t.Fatalf("failed after %d reads: %v; %d tasks were restored", left, err, some)
		}
		if _, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: to}); err != nil {
			t.Fatal(err)
		}
		if root, all := to.union(t); all != tasks || root != m.Root {
			t.Fatalf("failed after %d reads, again: %d tasks with root %s", left, all, root)
		}
	}
}

// TestTwoRestoresAtOnce of one backup into one cluster: each is whole, each task is new to one of them, and all are there once.
func TestTwoRestoresAtOnce(t *testing.T) {
	const tasks = 1500
	c, dir := manyTasks(t, tasks), place(t, t.TempDir())
	m := take(t, options(c, dir), nil)
	to := norntest.Start(t).Client(t)
	type end struct {
		r   *job.Report
		err error
	}
	ends := make(chan end, 3)
	for range cap(ends) {
		go func() {
			r, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: job.Over(to), Scratch: true})
			ends <- end{r, err}
		}()
	}
	fresh := uint64(0)
	for range cap(ends) {
		e := <-ends
		if e.err != nil || e.r.Written != tasks || e.r.LeftOut > 0 {
			t.Fatalf("%+v: %v", e.r, e.err)
		}
		fresh += e.r.Fresh
	}
	if fresh != tasks {
		t.Errorf("%d tasks were new", fresh)
	}
	again := take(t, options(to, place(t, t.TempDir())), nil)
	if again.Tasks != tasks || again.Root != m.Root || again.Counts["mail"]["ready"] != tasks {
		t.Errorf("%d tasks with root %s are there, not %d with root %s: %v", again.Tasks, again.Root, m.Tasks, m.Root, again.Counts)
	}
}
