package store_test

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/norn-dev/norn/store"
)

// TestAtRestMemtablesAreGivenBack: what Pebble says it has reserved for memtables is no
// more than a new one, everything is still there, and it goes on.
func TestAtRestMemtablesAreGivenBack(t *testing.T) {
	const memTable = 1 << 20
	p := open(t, vfs.NewMem(), func(o *store.PebbleOptions) { o.MemTable = memTable })
	value := make([]byte, 1000)
	n := 0
	for round := range 3 {
		for bytes := 5 * memTable; bytes > 0; bytes -= len(value) {
			var b store.Batch
			b.Set(fmt.Appendf(nil, "%08d", n), value)
			p.Apply(&b)
			n++
		}
		p.Sync()
		before := store.MemTables(p)
		p.Rest()
		if after := store.MemTables(p); before < 2*memTable || after > memTable {
			t.Errorf("round %d: %d bytes for memtables before, %d after", round, before, after)
		}
		for i := range n {
			if _, ok := p.Get(fmt.Appendf(nil, "%08d", i)); !ok {
				t.Fatalf("round %d: key %d is gone", round, i)
			}
		}
	}
	p.Rest() // once more changes nothing
	if after := store.MemTables(p); after > memTable {
		t.Errorf("%d bytes for memtables after a second rest", after)
	}
	if err := p.Close(); err != nil { // it says so when memory for memtables is lost
		t.Error(err)
	}
}
