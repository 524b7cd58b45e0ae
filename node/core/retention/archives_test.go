package retention

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/archive"
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// TestAVeryLongLogIsArchived: of more updates and claims than an archive takes of one
// task the newest are in it. Refused, it would keep all tasks with it for ever.
func TestAVeryLongLogIsArchived(t *testing.T) {
	task := id.NewGenerator(1, func() uint64 { return 1 }).Next(time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC).UnixNano())
	facts := func(yield func(crdt.Fact) bool) {
		for i := range uint64(archive.MaxFields + 1) {
			if !yield(crdt.Update{Token: 1, Seq: i, Output: true}.Fact(task)) {
				return
			}
		}
	}
	view, err := crdt.View(task, facts)
	if err != nil {
		t.Fatal(err)
	}
	view.Enqueued = &crdt.Enqueued{Queue: "q"}
	w := archived(&vnode.Detail{Task: view, Log: view.VisibleUpdates(), State: crdt.StateCompleted, Claims: make([]claim.Record, archive.MaxFields+1)})
	n := len(w.Updates)
	if n+len(w.Claims) > archive.MaxFields-2000 || n < 100_000 || len(w.Claims) < 1000 || w.Updates[n-1].Seq != archive.MaxFields {
		t.Fatalf("%d updates and %d claims are archived", n, len(w.Claims))
	}
	a, err := archive.Open(t.TempDir(), archive.Options{Cluster: "0f9e8d7c-6b5a-4938-8776-655443322110", Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write(t.Context(), time.Unix(0, task.Nanos()), []*nornv1.Task{w}); err != nil {
		t.Error(err)
	}
}
