package job_test

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// unlike is a cluster whose replicas do not hold the same everywhere, or lie.
type unlike struct {
	job.Cluster
	bounds []byte // where a partition is divided
	lies   bool   // of what is read from one replica the last task is missing

	mu        sync.Mutex // guards what follows
	one, many int        // pages that were read from one, and from a majority
}

func (u *unlike) Backup(ctx context.Context, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	if m.GetDivide() > 0 {
		return &nornv1.BackupReply{Bounds: u.bounds, Epoch: 1}, nil
	}
	reply, err := u.Cluster.Backup(ctx, m)
	if err != nil {
		return nil, err
	}
	if reply.Epoch = 1; len(m.GetBounds()) > 0 {
		for i := 0; i < len(reply.Sums); i += 2 * backup.SumSize { // every second one
			binary.BigEndian.PutUint64(reply.Sums[i+16:], math.MaxUint64)
		}
		return reply, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if m.GetOnly() == "" {
		u.many++
		return reply, nil
	}
	u.one++
	if page, err := backup.DecodePage(reply.Tasks, reply.Next); err == nil && u.lies && len(page.Tasks) > 0 {
		reply.Tasks = nil
		for i := range page.Tasks[:len(page.Tasks)-1] {
			reply.Tasks = backup.AppendTask(reply.Tasks, &page.Tasks[i])
		}
	}
	return reply, nil
}

// TestWhatIsAlikeIsReadFromOne: of a partition that is not the same everywhere the runs that are
// come from one replica, and the others from a majority; together they are what is there. Where that
// one does not have what it has summed up all comes from a majority.
func TestWhatIsAlikeIsReadFromOne(t *testing.T) {
	c := filled(t, 3)
	made := id.NewGenerator(1, rand.Uint64)
	var tasks []client.Task
	bounds := make([]byte, id.Size)
	for i := range 1000 {
		at := made.Next(time.Now().Add(-time.Duration(2000-i) * time.Second).UnixNano())
		tasks = append(tasks, client.Task{ID: at, Queue: "mail"})
		if i%100 == 99 {
			bounds = append(append(bounds, at[:4]...), make([]byte, id.Size-4)...)
		}
	}
	if _, err := c.EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	dir := place(t, t.TempDir())
	o := options(c, dir)
	o.Now = clock()
	want := take(t, o, nil)
	for _, lies := range []bool{false, true} {
		u := &unlike{Cluster: job.Over(c), bounds: bounds, lies: lies}
		o.From = u
		got := take(t, o, nil)
		if got.Root != want.Root || got.Tasks != want.Tasks || got.Held != want.Held {
			t.Errorf("lies %v: %d tasks, root %s, not %d, %s", lies, got.Tasks, got.Root, want.Tasks, want.Root)
		}
		verified(t, dir, got)
		if u.one == 0 || u.many == 0 {
			t.Errorf("lies %v: %d pages of one replica, %d of several", lies, u.one, u.many)
		}
	}
}
