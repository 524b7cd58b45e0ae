package vnode

import (
	"fmt"
	"math"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// LogAfter is a place in the log of a task, behind an update; the zero value is its begin.
type LogAfter struct {
	Is         bool // there is such an update
	Token, Seq uint64
}

// Log gives visible updates of a task (see [crdt.Task.VisibleUpdates]) from a place on, up
// to a number of them and until they have so many bytes, and whether there are more. It
// reads no more than that, however long the log is. Who has seen the update at that place
// has seen those of its claim before it. It returns ErrDamaged when one cannot be read.
func Log(view store.View, p ring.Partition, task id.ID, from LogAfter, limit, bytes int) (all []crdt.Update, more bool, err error) {
	log := crdt.Contiguous{Token: from.Token}
	if from.Is {
		switch key := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindUpdate, A: from.Token, B: from.Seq}); {
		case from.Seq < math.MaxUint64 && hasKey(view, key):
			log.Next = from.Seq + 1
		case from.Token == math.MaxUint64:
			return nil, false, nil
		default: // what comes after it in its claim is hidden
			log.Token++
		}
	}
	begin := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindUpdate, A: log.Token, B: log.Next})
	end := appendFact(nil, p, task, crdt.Key{Kind: crdt.KindCompleted})
	size := 0
	for _, value := range view.Scan(begin, end) {
		u, err := crdt.DecodeUpdate(append([]byte(nil), value...))
		if err != nil {
			return nil, false, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
		}
		if !log.Shows(&u) {
			continue
		}
		if len(all) == limit || size >= bytes {
			return all, true, nil
		}
		size += len(u.Data)
		all = append(all, u)
	}
	return all, false, nil
}
