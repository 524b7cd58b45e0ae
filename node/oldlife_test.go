package node

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register/snapshots"
)

// lines is a log that is read while it is written.
type lines struct {
	mu  sync.Mutex // guards all
	all strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// enqueueAll enqueues tasks that all replicas have on disk then.
func enqueueAll(t *testing.T, n *Node, queue string, count int) {
	t.Helper()
	r := &nornv1.EnqueueRequest{Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}}
	for range count {
		r.Tasks = append(r.Tasks, &nornv1.TaskSpec{Queue: queue})
	}
	through(t, n, nornv1.Method_METHOD_ENQUEUE, r, &nornv1.EnqueueReply{})
}

func countOf(t *testing.T, n *Node, queue string) *nornv1.Count {
	t.Helper()
	return through(t, n, nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{Queue: queue}, &nornv1.CountReply{}).Total
}

// leavesItsLife starts a node with its old directory, and waits until it has to be
// started again.
func leavesItsLife(t *testing.T, c *config.Config) {
	t.Helper()
	n := start(t, c, Options{})
	select {
	case <-n.Failed():
	case <-time.After(time.Minute):
		t.Fatal("it goes on in the life before")
	}
	if !errors.Is(n.Failure(), ErrStartAgain) {
		t.Fatal(n.Failure())
	}
	stop(t, n)
}

// TestOldDisksAreTakenIn: the cluster began anew from a snapshot while the disks of
// the nodes of before were only out of reach. Such a node, told to join, finds
// that out, takes a new incarnation, and its tasks are the cluster's again:
// finished ones stay finished. Its register is kept as a snapshot. It enters no other cluster with them.
func TestOldDisksAreTakenIn(t *testing.T) {
	t.Parallel() // it waits most of the time
	place := filepath.Join(t.TempDir(), "snapshots")
	first := start(t, backupConfig(t, "n1", place), Options{})
	c := backupConfig(t, "n2", place, first)
	second := start(t, c, Options{})
	full(t, second, 2)
	backedUp(t, first, place)
	snapshot, err := snapshots.List(t.Context(), openPlace(t, place))
	if err != nil {
		t.Fatal(err)
	}
	// What comes after the snapshot that is restored.
	setNote(t, second, "mail", "of after")
	enqueueAll(t, second, "mail", 20)
	var done *nornv1.Grant
	eventually(t, "a claim", func() bool {
		g := through(t, second, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"mail"}, MaxTasks: 1}, &nornv1.ClaimReply{}).Grants
		if len(g) > 0 {
			done = g[0]
		}
		return done != nil
	})
	through(t, second, nornv1.Method_METHOD_COMPLETE, &nornv1.CompleteRequest{
		Completions: []*nornv1.Completion{{Id: taskID(t, done.Task.Id), Token: done.Token}},
		Durability:  &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL},
	}, &nornv1.WriteReply{})
	stop(t, second)
	stop(t, first)

	anew := start(t, restoreConfig(t, "r1", filepath.Join(place, snapshot[len(snapshot)-1].Name)), Options{})
	defer func() { stop(t, anew) }()
	if got := countOf(t, anew, "mail"); got.Total != 0 {
		t.Fatalf("%d tasks in a cluster that has begun anew", got.Total)
	}
	also := start(t, joinConfig(t, "r2", anew), Options{})
	stranger := start(t, joinConfig(t, "s1"), Options{})
	defer func() { stop(t, also); stop(t, stranger) }()

	before := c.Join
	c.Join = []string{anew.PeerAddr().String(), also.PeerAddr().String(), anew.PeerAddr().String()} // all say the same
	leavesItsLife(t, c)
	kept, err := snapshots.List(t.Context(), openPlace(t, filepath.Join(c.Data, beforeDir)))
	if err != nil || len(kept) != 1 || kept[0].Revision <= snapshot[len(snapshot)-1].Revision {
		t.Errorf("the register of before is kept as %+v, %v", kept, err)
	}
	c.Join = nil
	if _, err := Start(c, Options{}); !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), "--join") {
		t.Errorf("without an address to join: %v", err)
	}
	c.Join = []string{stranger.PeerAddr().String()}
	var said lines
	lost := start(t, c, Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	eventually(t, "a stranger refuses", func() bool { return strings.Contains(said.String(), "belongs to cluster") })
	stop(t, lost)
	c.Join = append(before, anew.PeerAddr().String())
	back := start(t, c, Options{})
	defer func() { stop(t, back) }()
	eventually(t, "the tasks of before", func() bool {
		got := countOf(t, anew, "mail")
		return got.Total == 20 && got.Completed == 1
	})
	full(t, back, 3)
	if state := through(t, anew, nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: taskID(t, done.Task.Id)}, &nornv1.GetReply{}).Task.State; state != nornv1.State_STATE_COMPLETED {
		t.Errorf("the finished task is %v", state)
	}
	if exists(filepath.Join(c.Data, oldLifeFile)) || exists(filepath.Join(c.Data, joiningFile)) {
		t.Error("the directory still waits")
	}
}
