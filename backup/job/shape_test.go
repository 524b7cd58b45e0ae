package job_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/objects"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// canned is a cluster that gives pages of waiting tasks, and takes what is restored.
type canned struct {
	pages [][]*nornv1.BackupReply // by partition
	sums  [][]byte                // likewise
	// cluster, generation and epoch are those of what is restored into it.
	cluster           string
	generation, epoch uint64
	// register is the state of one that a backup takes a snapshot of.
	register []byte

	mu    sync.Mutex // guards taken
	taken map[int][][]byte
}

// pageBytes is about how much is on a page.
const pageBytes = 1 << 20

// newCanned has so many tasks in so many partitions.
func newCanned(partitions, tasks, payload int) *canned {
	c := &canned{pages: make([][]*nornv1.BackupReply, partitions), cluster: "x", epoch: 1, taken: make(map[int][][]byte)}
	random := rand.New(rand.NewPCG(1, 2))
	made, at := id.NewGenerator(1, random.Uint64), time.Now().UnixNano()
	sums, facts := make([]crdt.Sum, partitions), make([]uint64, partitions)
	for p := range c.pages {
		c.pages[p] = []*nornv1.BackupReply{{Epoch: 1}}
	}
	for range tasks {
		at += int64(10 * time.Microsecond)
		e := crdt.Enqueued{Queue: "fill", Payload: make([]byte, payload), Admission: at}
		for i := range e.Payload {
			e.Payload[i] = byte(random.Uint32())
		}
		f := e.Fact(made.Next(at))
		p := ring.Of(f.Task, partitions)
		sums[p], facts[p] = sums[p].Add(crdt.HashFact(f)), facts[p]+1
		page := c.pages[p][len(c.pages[p])-1]
		page.Tasks = backup.AppendTask(page.Tasks, &backup.Task{ID: f.Task, Facts: []crdt.Fact{f}})
		if len(page.Tasks) > pageBytes {
			page.Next = backup.Position{Task: f.Task, Key: f.Key}.Encode()
			c.pages[p] = append(c.pages[p], &nornv1.BackupReply{Epoch: 1})
		}
	}
	for p := range sums {
		c.sums = append(c.sums, backup.AppendSum(nil, sums[p], facts[p]))
	}
	return c
}

func (c *canned) Status(context.Context) (*nornv1.StatusReply, error) {
	m := &nornv1.StatusReply{ClusterId: c.cluster, Register: &nornv1.RegisterStatus{Generation: c.generation}}
	for range c.pages {
		m.Partitions = append(m.Partitions, &nornv1.PartitionStatus{Epoch: c.epoch})
	}
	return m, nil
}

func (c *canned) Export(context.Context) ([]byte, error) { return c.register, nil }

func (c *canned) Backup(_ context.Context, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	p := m.GetPartition()
	if len(m.GetBounds()) > 0 {
		return &nornv1.BackupReply{Sums: c.sums[p], Nodes: []string{"a"}, Epoch: 1}, nil
	}
	if len(m.GetAfter()) == 0 {
		return c.pages[p][0], nil
	}
	i := slices.IndexFunc(c.pages[p], func(page *nornv1.BackupReply) bool { return string(page.Next) == string(m.GetAfter()) })
	return c.pages[p][i+1], nil
}

func (c *canned) Restore(_ context.Context, partition int, tasks []byte) (*nornv1.RestoreReply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken[partition] = append(c.taken[partition], tasks)
	return &nornv1.RestoreReply{}, nil
}

// saved takes a backup of it.
func (c *canned) saved(t testing.TB, to objects.Store) *backup.Manifest {
	t.Helper()
	if c.register == nil {
		var err error
		if c.register, err = job.Over(norntest.Start(t).Client(t)).Export(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m, err := job.Create(t.Context(), job.Options{From: c, Place: to, By: "x", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestARestoreLiesInARow whatever the shape: what goes to one partition comes in the order of its IDs, a request does not
// overlap with another one, and each task comes once.
func TestARestoreLiesInARow(t *testing.T) {
	const tasks = 6000
	from, dir := newCanned(8, tasks, 2500), place(t, t.TempDir())
	m := from.saved(t, dir)
	for _, partitions := range []int{1, 4, 6, 7, 8, 16} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			to := newCanned(partitions, 0, 0)
			report, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: to})
			if err != nil || report.Tasks != tasks {
				t.Fatalf("restored %+v: %v", report, err)
			}
			all := to.row(t)
			var sum crdt.Sum
			for i := range all {
				sum = sum.Add(backup.SumOf(&all[i]))
			}
			if len(all) != tasks || backup.Root(sum) != m.Root {
				t.Errorf("%d tasks with root %s of %d with root %s", len(all), backup.Root(sum), tasks, m.Root)
			}
		})
	}
}

// row gives what it was sent by ID, each task in its partition, in the order of the IDs within a request, and no request
// within another one.
func (c *canned) row(t *testing.T) (all []backup.Task) {
	t.Helper()
	partitions := len(c.pages)
	for p, requests := range c.taken {
		var spans []backup.Span
		for _, b := range requests {
			var s backup.Span
			for task, err := range backup.Tasks(b) { // it refuses what is out of order
				if err != nil {
					t.Fatal(err)
				}
				if ring.Of(task.ID, partitions) != ring.Partition(p) {
					t.Fatalf("task %s in partition %d", task.ID, p)
				}
				if s.From.IsZero() {
					s.From = task.ID
				}
				s.To = task.ID
				all = append(all, task)
			}
			spans = append(spans, s)
		}
		slices.SortFunc(spans, func(a, b backup.Span) int { return a.From.Compare(b.From) })
		for i := 1; i < len(spans); i++ {
			if spans[i].From.Compare(spans[i-1].To) <= 0 {
				t.Errorf("partition %d: a request from %s on is within one up to %s", p, spans[i].From, spans[i-1].To)
			}
		}
	}
	slices.SortFunc(all, func(a, b backup.Task) int { return a.ID.Compare(b.ID) })
	return all
}

// forgetful is a cluster in which nothing is known any more of a task that waited.
type forgetful struct {
	job.Cluster
	task id.ID
}

func (f *forgetful) Backup(ctx context.Context, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	reply, err := f.Cluster.Backup(ctx, m)
	if err != nil || f.task.IsZero() || m.GetDivide() > 0 || ring.Of(f.task, 4) != ring.Partition(m.GetPartition()) {
		return reply, err
	}
	if len(m.GetBounds()) > 0 {
		at := 0
		for i := 0; i < len(m.GetBounds()) && f.task.Compare(id.ID(m.GetBounds()[i:i+id.Size])) >= 0; i += id.Size {
			at = i / id.Size
		}
		sum, facts := backup.SumAt(reply.Sums, at)
		copy(reply.Sums[at*backup.SumSize:], backup.AppendSum(nil, sum, facts-1))
		return reply, nil
	}
	page, err := backup.DecodePage(reply.Tasks, reply.Next)
	reply.Tasks = nil
	for i := range page.Tasks {
		if page.Tasks[i].ID != f.task {
			reply.Tasks = backup.AppendTask(reply.Tasks, &page.Tasks[i])
		}
	}
	return reply, err
}

// spread enqueues tasks that were made over a time, so that a partition has several ranges.
func spread(t *testing.T, c *client.Client, n, payload int) (all []client.Task) {
	t.Helper()
	made := id.NewGenerator(1, rand.Uint64)
	for i := range n {
		all = append(all, client.Task{ID: made.Next(time.Now().Add(-time.Duration(n+500-i) * time.Second).UnixNano()), Queue: "mail", Payload: make([]byte, payload)})
	}
	if _, err := c.EnqueueMany(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestAChainLiesInARow as a full backup of the same moment does, and gives the same, whatever the shape: what was completed, is held,
// was given back and was forgotten since the first link, what is held since then and what is new; also where it is read part by part.
func TestAChainLiesInARow(t *testing.T) {
	c, dir := filled(t, 10), place(t, t.TempDir())
	old := spread(t, c, 1500, 10_000)
	claim := func(n int) []*client.Claim {
		t.Helper()
		grants, err := c.Claim(t.Context(), client.ClaimRequest{Queues: []string{"mail"}, Max: n})
		if err != nil || len(grants) != n {
			t.Fatal(len(grants), err)
		}
		return grants
	}
	o := options(c, dir)
	o.Now = clock()
	forgets := &forgetful{Cluster: o.From}
	o.From = forgets
	held := claim(6)
	last := take(t, o, nil)
	for i := range 3 { // each link has what the one before has, a new task, and what became of two claims
		if _, err := c.Complete(t.Context(), held[2*i].ID, held[2*i].Token, client.CompleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Release(t.Context(), client.Ref{ID: held[2*i+1].ID, Token: held[2*i+1].Token}); err != nil {
			t.Fatal(err)
		}
		claim(1)
		put(t, c, client.Task{Queue: "new"})
		if i == 1 {
			forgets.task = old[1000].ID
		}
		last = take(t, o, last)
	}
	again := take(t, o, nil)
	restored := func(m *backup.Manifest, partitions int, memory int64) *canned {
		t.Helper()
		to := newCanned(partitions, 0, 0)
		to.cluster, to.generation, to.epoch = m.Cluster, m.Generation+1, 1<<20
		report, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: to, Memory: memory})
		if err != nil || report.Tasks != 1512 || report.Freed != 4 {
			t.Fatalf("restored %+v: %v", report, err)
		}
		return to
	}
	for _, partitions := range []int{1, 2, 3, 4, 8} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			want := restored(again, partitions, 0).row(t)
			if got := restored(last, partitions, 0).row(t); !reflect.DeepEqual(got, want) {
				t.Errorf("the chain gives %d tasks, and a full backup %d, which are not the same", len(got), len(want))
			}
			var got []backup.Task
			for _, requests := range restored(last, partitions, 1).taken {
				for _, b := range requests {
					tasks, err := backup.Unordered(b)
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, tasks...)
				}
			}
			slices.SortFunc(got, func(a, b backup.Task) int { return a.ID.Compare(b.ID) })
			if !reflect.DeepEqual(got, want) {
				t.Errorf("read part by part the chain gives %d tasks, and a full backup %d, which are not the same", len(got), len(want))
			}
		})
	}
}

// BenchmarkJob is what the command does for each task of 100 bytes, over a cluster that costs nothing.
func BenchmarkJob(b *testing.B) {
	const tasks = 300_000
	c, dir := newCanned(8, tasks, 100), place(b, b.TempDir())
	m := c.saved(b, dir)
	each := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tasks, "ns/task")
		})
	}
	each("create", func() error {
		c.saved(b, place(b, b.TempDir()))
		return nil
	})
	each("verify", func() error {
		_, err := job.Verify(b.Context(), dir, m, nil, nil)
		return err
	})
	each("restore", func() error {
		clear(c.taken)
		_, err := job.Restore(b.Context(), job.RestoreOptions{From: dir, Manifest: m, To: c})
		return err
	})
}
