package placement

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// TestAnEntryThatIsLostKeepsNoOthersWaiting: one of 64 is on its way at once, and each comes to be
// asked for, though one of them never comes to be.
func TestAnEntryThatIsLostKeepsNoOthersWaiting(t *testing.T) {
	const lost = 3
	s := cluster(64, 3, "abc")
	var e Entries
	in := map[ring.Partition]bool{}
	for now := int64(time.Second); len(in) < 63; now += int64(100 * time.Millisecond) {
		if now > int64(90*time.Second) {
			t.Fatalf("%d of 63 have come to be", len(in))
		}
		var ready []register.Change
		for p := range s.Cells {
			if p := ring.Partition(p); !in[p] {
				ready = append(ready, register.Change{Partition: p, Old: s.Cells[p], New: register.Cell{Epoch: s.Cells[p].Epoch + 1}})
			}
		}
		ask, wake := e.Pick(now, See(s, nil), ready)
		if len(ask) > 1 || wake > now+int64(time.Second) {
			t.Fatalf("%d are asked for at once, and looked at again after %v", len(ask), time.Duration(wake-now))
		}
		for _, c := range ask {
			if c.Partition != lost {
				s, _, _ = s.Apply(&register.Request{Changes: []register.Change{c}})
				in[c.Partition] = true
			}
		}
	}
}
