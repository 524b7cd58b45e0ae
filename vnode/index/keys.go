package index

import (
	"encoding/binary"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
)

// Tables, which vnode has the list of.
const (
	Active    = 'a'
	Ready     = 'r'
	Scheduled = 's'
	Finished  = 't'
	Queues    = 'q'
	Facts     = 'f'
	Ended     = 'c'
	Waiting   = 'w'
	Edges     = 'd'
	News      = 'u'
	Releases  = 'x'
	Graves    = 'g'
	Partition = 'p'
	Logs      = 'l'
	Orphans   = 'o'
)

// PrefixSize is what table and partition take of a key.
const PrefixSize = 3

// taskKeySize is what the key of a fact takes; no other key of a task takes more.
const taskKeySize = PrefixSize + id.Size + max(crdt.KeySize, id.Size)

// AppendTask is how the keys of a task begin in a table.
func AppendTask(dst []byte, table byte, p ring.Partition, task id.ID) []byte {
	if dst == nil {
		dst = make([]byte, 0, taskKeySize)
	}
	return append(AppendPrefix(dst, table, p), task[:]...)
}

// AppendClaim is the key of a claim of a task.
func AppendClaim(dst []byte, table byte, p ring.Partition, task id.ID, token uint64) []byte {
	return binary.BigEndian.AppendUint64(AppendTask(dst, table, p, task), token)
}

// AppendPrefix is how the keys of a table begin in a partition.
func AppendPrefix(dst []byte, table byte, p ring.Partition) []byte {
	return append(dst, table, byte(p>>8), byte(p))
}

// AppendQueue is how the keys of a queue begin. Its name has no zero byte, so the zero ends it in order.
func AppendQueue(dst []byte, table byte, p ring.Partition, queue string) []byte {
	return append(append(AppendPrefix(dst, table, p), queue...), 0)
}

// AppendReady is the key of a task that is ready.
func AppendReady(dst []byte, p ring.Partition, queue string, r *claim.Rank) []byte {
	return append(AppendQueue(dst, Ready, p, queue), r[:]...)
}

// AppendTimed is a key of a table that is in the order of a time, wall ns.
func AppendTimed(dst []byte, table byte, p ring.Partition, at int64, task id.ID) []byte {
	dst = binary.BigEndian.AppendUint64(AppendPrefix(dst, table, p), uint64(at))
	return append(dst, task[:]...)
}

// AppendFinished is the key of a task that was finished at a wall ns.
func AppendFinished(dst []byte, p ring.Partition, s crdt.State, queue string, at int64, task id.ID) []byte {
	dst = AppendFinishedRun(dst, p, s, queue)
	dst = binary.BigEndian.AppendUint64(dst, uint64(at))
	return append(dst, task[:]...)
}

// AppendFinishedRun is how the keys of the tasks of a queue begin that are finished in one way.
func AppendFinishedRun(dst []byte, p ring.Partition, s crdt.State, queue string) []byte {
	dst = append(AppendPrefix(dst, Finished, p), byte(s))
	return append(append(dst, queue...), 0)
}

// After is the smallest key that is greater than every key with this prefix.
// It reuses nothing of prefix.
func After(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
