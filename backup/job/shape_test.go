package job_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
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
	// register is the state of one that a backup takes a snapshot of.
	register []byte

	mu    sync.Mutex // guards taken
	taken map[int][][]byte
}

// pageBytes is about how much is on a page.
const pageBytes = 1 << 20

// newCanned has so many tasks in so many partitions.
func newCanned(partitions, tasks, payload int) *canned {
	c := &canned{pages: make([][]*nornv1.BackupReply, partitions), taken: make(map[int][][]byte)}
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
	m := &nornv1.StatusReply{ClusterId: "x", Register: &nornv1.RegisterStatus{}}
	for range c.pages {
		m.Partitions = append(m.Partitions, &nornv1.PartitionStatus{Epoch: 1})
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
			var sum crdt.Sum
			n := 0
			for p, requests := range to.taken {
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
						s.To, sum = task.ID, sum.Add(backup.SumOf(&task))
						n++
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
			if n != tasks || backup.Root(sum) != m.Root {
				t.Errorf("%d tasks with root %s of %d with root %s", n, backup.Root(sum), tasks, m.Root)
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
