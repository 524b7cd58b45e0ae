package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// entryPatience is for how long others wait for one admission: an election on a busy machine.
const entryPatience = time.Second

// Entries are the admissions that a newcomer has asked for. Nobody leads a partition while its
// cohort changes, so that one in 64 is on its way at once, and one that does not come to be
// keeps no others waiting. The zero value is ready to use.
type Entries struct {
	asked map[ring.Partition]entry
}

// entry is one of them: the cell as it was, and when it was asked for last, mono ns.
type entry struct {
	cell register.Cell
	at   int64
}

// Pick gives those of the admissions to ask for now, and when to look again, mono ns.
func (e *Entries) Pick(now int64, v *View, ready []register.Change) (ask []register.Change, wake int64) {
	if e.asked == nil {
		e.asked = make(map[ring.Partition]entry)
	}
	room, wake := max(1, len(v.state.Cells)/64), clock.Never
	for p, x := range e.asked { // Any order: they are counted.
		switch until := x.at + int64(entryPatience); {
		case !v.cell(p).Same(&x.cell):
			delete(e.asked, p)
		case until > now:
			room--
			wake = min(wake, until)
		}
	}
	slices.SortStableFunc(ready, func(a, b register.Change) int {
		return cmp.Compare(e.asked[a.Partition].at, e.asked[b.Partition].at)
	})
	ask = ready[:max(0, min(room, len(ready)))]
	for i := range ask {
		e.asked[ask[i].Partition] = entry{ask[i].Old, now}
		wake = min(wake, now+int64(entryPatience))
	}
	return ask, wake
}
