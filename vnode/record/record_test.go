package record

import (
	"errors"
	"testing"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/vnode/tally"
)

// TestWhatIsWrittenIsRead, and nothing else is.
func TestWhatIsWrittenIsRead(t *testing.T) {
	c := tally.Counts{crdt.StateReady: 3, crdt.StateDead: 1 << 40}
	low := claim.Rank{1, 2, 3}
	for _, has := range []bool{true, false} {
		b := AppendQueue(nil, &c, low, has)
		got, rank, is, err := Queue(b)
		if err != nil || got != c || is != has || has && rank != low {
			t.Errorf("%v: %v, %v, %v, %v", has, got, rank, is, err)
		}
		for _, bad := range [][]byte{nil, b[:3], append([]byte{9}, b[1:]...), append(append([]byte(nil), b...), 1)} {
			if _, _, _, err := Queue(bad); !errors.Is(err, ErrDamaged) {
				t.Errorf("%x: %v", bad, err)
			}
		}
	}
	b := AppendSize(nil, 1<<35, &c)
	if n, ok := Size(b, &c); !ok || n != 1<<35 {
		t.Errorf("%d, %v", n, ok)
	}
	other := c
	other[crdt.StateReady]++
	if n, ok := Size(b, &other); ok || n != 0 {
		t.Errorf("of other counters: %d, %v", n, ok)
	}
	for _, bad := range [][]byte{nil, b[:3], append([]byte{9}, b[1:]...), append(append([]byte(nil), b...), 1)} {
		if _, ok := Size(bad, &c); ok {
			t.Errorf("%x is taken", bad)
		}
	}
}
