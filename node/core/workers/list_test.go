package workers

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/query"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestPagesOfSeveralNodesJoin: what a part has not shown may come before what others have,
// and a page of large entries ends before it fits no frame.
func TestPagesOfSeveralNodesJoin(t *testing.T) {
	worker := func(name string, instance byte, bytes int) *nornv1.Worker {
		return &nornv1.Worker{Name: name, Instance: append(make([]byte, 15), instance), Machine: strings.Repeat("x", bytes)}
	}
	left := Policy{WorkerPageEnd: mutant.WorkerPageEnd.On()}
	two, one := worker("a", 2, 0), worker("a", 1, 0)
	l := &lists{policy: left, whole: &nornv1.WorkersReply{Workers: []*nornv1.Worker{two}}}
	l.Take(nil, &nornv1.WorkersReply{Workers: []*nornv1.Worker{one, worker("b", 0, 0)}, NextCursor: query.WorkerCursor.Seal(placeOf(one))})
	if m, _ := l.Answer(); !gproto.Equal(m, &nornv1.WorkersReply{Workers: []*nornv1.Worker{one}, NextCursor: query.WorkerCursor.Seal(placeOf(one))}) {
		t.Errorf("workers: %v", m)
	}
	l = &lists{policy: left, whole: &nornv1.WorkersReply{Workers: []*nornv1.Worker{worker("a", 1, 3<<20), worker("b", 1, 3<<20)}}}
	if m, _ := l.Answer(); len(m.(*nornv1.WorkersReply).GetWorkers()) != 1 || !past(worker("b", 0, 0), m.(*nornv1.WorkersReply).GetNextCursor()) {
		t.Error("a page has no bound in bytes")
	}
}
