package node

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/metrics"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestANodeThatWasSetBackBecomesAnother: by itself, whether those who knew it run
// since or were restarted; it keeps its facts, also those that nobody else has.
func TestANodeThatWasSetBackBecomesAnother(t *testing.T) {
	t.Parallel()
	t.Run("those who know it run", func(t *testing.T) { setBack(t, false) })
	t.Run("those who know it were restarted", func(t *testing.T) { setBack(t, true) })
}

// TestASetBackNodeThatWaitsSaysSo: once, and again after the others could go on
// without it for a while.
func TestASetBackNodeThatWaitsSaysSo(t *testing.T) {
	var log bytes.Buffer
	m := &membership{n: &Node{log: slog.New(slog.NewTextHandler(&log, nil))}}
	for i, err := range []error{nil, standing.ErrForgot, standing.ErrForgot, nil, standing.ErrForgot} {
		m.sayForgotten(err)
		if got, want := strings.Count(log.String(), "msg=node.forgot"), []int{0, 1, 1, 1, 2}[i]; got != want {
			t.Errorf("after %d: said %d times, want %d", i, got, want)
		}
	}
	if !strings.Contains(log.String(), "majority of the others") {
		t.Error(log.String())
	}
}

// TestClashesAreLogged: with the task, and once for many at a time.
func TestClashesAreLogged(t *testing.T) {
	var log bytes.Buffer
	m, s := metrics.New(), &core.Stats{Clashes: 3}
	for range 5 {
		m.Clash(slog.New(slog.NewTextHandler(&log, nil)), s)
	}
	if strings.Count(log.String(), "msg=task.clash task="+s.Clashed.String()+" total=3") != 1 {
		t.Error(log.String())
	}
}

// TestUnreadVotesAreLogged: with who sent the last one, and once for many at a time.
func TestUnreadVotesAreLogged(t *testing.T) {
	var log bytes.Buffer
	m, s := metrics.New(), &core.Stats{Unread: 2, UnreadLast: leadership.Unread{Peer: "n2", Partition: 7, Why: "cut short"}}
	for range 5 {
		m.Unread(slog.New(slog.NewTextHandler(&log, nil)), s)
	}
	if strings.Count(log.String(), `level=ERROR msg=vote.unread peer=n2 partition=7 total=2 error="cut short"`) != 1 {
		t.Error(log.String())
	}
}

// trioOnDisk are three nodes that are stopped and started on their directories.
type trioOnDisk struct {
	t       *testing.T
	configs []*config.Config
	nodes   []*Node
}

func (r *trioOnDisk) begin(i int) {
	r.nodes[i] = start(r.t, r.configs[i], Options{Fatal: func(error) {}})
}

func (r *trioOnDisk) end(i int) {
	stop(r.t, r.nodes[i])
	r.nodes[i] = nil
}

func newTrioOnDisk(t *testing.T) *trioOnDisk {
	r := &trioOnDisk{t: t, nodes: make([]*Node, 3)}
	t.TempDir() // directories go after the nodes have stopped: what is registered first is done last
	t.Cleanup(func() {
		for _, n := range r.nodes {
			if n != nil {
				stop(t, n)
			}
		}
	})
	for i, name := range []string{"n1", "n2", "n3"} {
		c := joinConfig(t, name, r.nodes[:min(i, 1)]...)
		r.configs = append(r.configs, c)
		r.begin(i)
		c.PeerListen = r.nodes[i].PeerAddr().String()
	}
	for _, n := range r.nodes {
		full(t, n, 3)
	}
	eventually(t, "three vote in the register", func() bool { return len(r.nodes[0].members.group.Load().Status().Voters) == 3 })
	return r
}

// onAll asks for tasks that all of them have.
func onAll(tasks int) *nornv1.EnqueueRequest {
	var all []*nornv1.TaskSpec
	for range tasks {
		all = append(all, &nornv1.TaskSpec{Queue: "q"})
	}
	return &nornv1.EnqueueRequest{Tasks: all, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}}
}

// enqueue adds tasks that all of them have.
func (r *trioOnDisk) enqueue(tasks int) {
	through(r.t, r.nodes[0], nornv1.Method_METHOD_ENQUEUE, onAll(tasks), &nornv1.EnqueueReply{})
}

func setBack(t *testing.T, restart bool) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	data, backup, old := r.configs[2].Data, t.TempDir(), r.nodes[2].self.Incarnation
	r.enqueue(40)
	r.end(2)
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	r.begin(2)
	eventually(t, "the others have told it what they know", func() bool {
		told := 0
		for _, n := range through(t, r.nodes[2], nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{}, &nornv1.StatusReply{}).Nodes {
			if n.ClockErrorMs > 0 {
				told++
			}
		}
		return told == 2
	})
	full(t, r.nodes[2], 3)
	r.enqueue(20)
	r.nodes[0], r.nodes[1] = r.nodes[1], r.nodes[0]
	r.enqueue(20) // through both: what one of them alone knows of its disk ends no incarnation
	r.nodes[0], r.nodes[1] = r.nodes[1], r.nodes[0]
	r.end(2)
	if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if restart {
			r.end(i)
			r.begin(i)
		}
	}
	r.begin(2)
	n := r.nodes[2]
	eventually(t, "it ends", func() bool { return n.Alive() != nil })
	if err := n.Failure(); !forgot(err) || !errors.Is(err, ErrStartAgain) {
		t.Fatalf("it ends with %v", err)
	}
	r.end(2)
	r.begin(2)
	full(t, r.nodes[2], 3)
	if now := r.nodes[2].self.Incarnation; now == old {
		t.Fatal("it is the same incarnation as before")
	}
	if _, err := os.Stat(filepath.Join(data, oldLifeFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the note is still there: %v", err)
	}
	eventually(t, "everything is there", func() bool {
		return through(t, r.nodes[2], nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{}, &nornv1.CountReply{}).Total.Total == 80
	})
}
