package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// dependents lists what depends on a task, page by page, and says how many were looked at.
func (r *trio) dependents(i int, s *guard.Scope, on id.ID, limit uint32, states ...nornv1.State) (ids []string, looked uint64) {
	r.t.Helper()
	m := &nornv1.ListRequest{States: states, Limit: limit, Filter: &nornv1.Filter{DependsOn: on.Bytes()}}
	for {
		reply, is := r.by(i, "", m, s).Message.(*nornv1.ListReply)
		if !is {
			r.t.Fatalf("node %d does not answer", i+1)
		}
		for _, task := range reply.GetTasks() {
			ids = append(ids, task.GetId())
		}
		looked += reply.GetLookedAt()
		if len(reply.GetNextCursor()) == 0 {
			return ids, looked
		}
		m.Cursor = reply.GetNextCursor()
	}
}

// TestDependentsAreListed: what depends on a task is found wherever it is kept and whichever node is asked, page by
// page, in the order of IDs; of what is not finished by the index, which finds what a walk through all tasks does, and
// does not look at others. A scope shows of them what it shows elsewhere.
func TestDependentsAreListed(t *testing.T) {
	r := newCluster(t, 4, 0)
	const queues = "ab"
	top, other := r.stored("q", 0), r.stored("q", 1)
	var want []string
	for n := range 8 {
		task, s := r.at(ring.Partition(n%4)), after(queues[n%2:n%2+1], onFailCancel, top)
		s.Id = task.Bytes()
		if n >= 6 {
			s.Dependencies = [][]byte{other.Bytes()}
		} else {
			want = append(want, task.String())
		}
		ask[*nornv1.EnqueueReply](r, n%4, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	}
	r.pass(time.Second)
	r.settle()
	slices.Sort(want)
	open := []nornv1.State{nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY, nornv1.State_STATE_CLAIMED}
	list := r.dependents
	onlyA := scopeOf(guard.Rule{Verbs: guard.See, Pattern: "a"})
	for i := range r.peers {
		for _, limit := range []uint32{0, 1, 2} {
			if got, looked := list(i, nil, top, limit, open...); !slices.Equal(got, want) || limit == 0 && looked != 6 {
				t.Errorf("node %d, %d a page: %q of %d, want %q", i+1, limit, got, looked, want)
			}
		}
		if got, looked := list(i, nil, top, 0); !slices.Equal(got, want) || looked < 10 {
			t.Errorf("node %d, in any state: %q of %d, want %q", i+1, got, looked, want)
		}
		if got, _ := list(i, onlyA, top, 0, open...); len(got) != 3 {
			t.Errorf("node %d, of queue a: %q", i+1, got)
		}
		if got, _ := list(i, nil, r.at(0), 0, open...); len(got) != 0 {
			t.Errorf("node %d, of none: %q", i+1, got)
		}
	}
	// Those that are released stay, and what has ended is found by the walk only.
	g := r.claimedBy(0, "", "q")
	for g.GetTask().GetId() != top.String() {
		g = r.claimedBy(0, "", "q")
	}
	ask[*nornv1.WriteReply](r, 0, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: top.Bytes(), Token: g.GetToken(), AutoSeq: true}}})
	r.pass(time.Second)
	r.settle()
	gone := r.claimedBy(0, "", "a")
	task, err := id.Parse(gone.GetTask().GetId())
	if err != nil {
		t.Fatal(err)
	}
	ask[*nornv1.WriteReply](r, 0, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: gone.GetToken(), AutoSeq: true}}})
	r.pass(time.Second)
	r.settle()
	left := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s == task.String() })
	for i := range r.peers {
		if got, _ := list(i, nil, top, 0, open...); !slices.Equal(got, left) {
			t.Errorf("node %d, after one has ended: %q, want %q", i+1, got, left)
		}
		if got, _ := list(i, nil, top, 0); !slices.Equal(got, want) {
			t.Errorf("node %d, after one has ended, in any state: %q, want %q", i+1, got, want)
		}
	}
	bad := r.by(0, "", &nornv1.ListRequest{Filter: &nornv1.Filter{DependsOn: []byte{1}}}, nil)
	if bad.Err == nil || bad.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("half an ID: %v", bad)
	}
}
