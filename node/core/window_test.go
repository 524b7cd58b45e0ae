package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// TestIDsDrawnHereAreInTheWindow: those of tasks that come without one.
func TestIDsDrawnHereAreInTheWindow(t *testing.T) {
	const wide, size = 512, 64
	r := newWide(t, wide)
	for i := 0; i < 100 && r.peers[0].core.Leading() < wide; i++ {
		r.tell()
		r.settle()
		r.pass(50 * time.Millisecond)
	}
	enqueue := func() int {
		reply := ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}})
		i := parse(t, reply.GetResults()[0].GetReceipt().GetId())
		for at := range size {
			if id.Window(i.Nanos(), wide, at) == int(ring.Of(i, wide)) {
				return at
			}
		}
		return -1
	}
	seen := map[int]bool{}
	for second := range 3 {
		for range 30 {
			at := enqueue()
			if at < 0 {
				t.Fatalf("second %d: an ID that is not in the window", second)
			}
			seen[at] = true
		}
		r.live(time.Second, 100*time.Millisecond, nothing)
	}
	if len(seen) < 30 {
		t.Errorf("90 IDs are in %d places of the window", len(seen))
	}
}
