package witness

import (
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// A copy counts once no crash takes it away, and not before: what a node has applied and
// not synced is no copy. After a crash it is one if it has survived.
func TestACopyIsWhatACrashLeaves(t *testing.T) {
	n := &lone{disk: disk.New()}
	written := func(view store.View, _ ring.Partition, _ id.ID) bool {
		_, ok := view.Get([]byte("b"))
		return ok
	}
	put := func(key string) {
		var b store.Batch
		b.Set([]byte(key), []byte("1"))
		n.disk.Write(&b)
	}
	put("a")
	n.disk.Secure(n.disk.Applied)
	put("b")
	for _, c := range []struct {
		what string
		do   func()
		want bool // that it counts
	}{
		{"applied", func() {}, false},
		{"lost with the power", func() { n.disk.Fail(0) }, false},
		{"applied again", func() { put("b") }, false},
		{"synced", func() { n.disk.Secure(n.disk.Applied) }, true},
		{"after the next crash", func() { put("c"); n.disk.Fail(0) }, true},
	} {
		c.do()
		n.found = ""
		copied(n, &nornv1.Receipt{Id: id.ID{1}.String(), DurableCopies: 1}, written)
		if counts := !n.Look().Found; counts != c.want || !counts && n.found != check.Lost {
			t.Errorf("%s: it counts as a copy: %t (%v)", c.what, counts, n.found)
		}
	}
	if _, there := n.disk.Get([]byte("c")); there {
		t.Error("what was not synced has survived")
	}
	if _, there := n.disk.Get([]byte("a")); !there {
		t.Error("what was synced is gone")
	}
}
