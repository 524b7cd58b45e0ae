package vnode

import (
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode/index"
)

// Tables of the store. Each key starts with the table and the partition, so
// that a partition can be copied and dropped table by table.
const (
	tableFacts      = index.Facts     // task, fact key -> CRC and canonical bytes ([crdt.Fact.AppendStored])
	tableActive     = index.Active    // task, token -> claim record that has not ended
	tableEnded      = index.Ended     // task, token -> claim record that has ended, where no completion says it all
	tableSuspended  = 'e'             // task, token -> nothing: one that has ended and may come back
	tableReady      = index.Ready     // queue, 0, rank -> 1 when never claimed
	tableScheduled  = index.Scheduled // wall ns, task -> nothing
	tableWaiting    = index.Waiting   // waiting task, dependency that holds it back -> nothing
	tableEdges      = index.Edges     // dependency, unfinished dependent -> nothing
	tableNews       = index.News      // finished dependency whose dependents have not all been told -> nothing
	tableReleases   = index.Releases  // finished task whose own edges have not all been dropped -> nothing
	tableGraves     = index.Graves    // wall ns at which it was collected, task -> when its tombstone came here
	tableKeys       = 'k'             // first ID of a unique key -> generation in use
	tableFinished   = index.Finished  // state, queue, 0, wall ns, task -> when its end came here
	tableQueues     = index.Queues    // queue -> counters and low-water rank
	tableSizes      = 'i'             // queue whose name has a first part -> what its tasks hold, with its counters
	tablePartition  = index.Partition // nothing -> partition record
	tableLogs       = index.Logs      // task -> how much its log has; task, token -> how much of it a claim has
	tableTries      = 'h'             // task -> what its older failures and expiries come to, where there are many
	tableOrphans    = index.Orphans   // task -> nothing: facts without their enqueue
	tableTree       = 'm'             // path -> node of the tree over the facts
	tableTouched    = 'j'             // nothing -> leaves of the tree that have changed since it was written
	tableGrown      = 'n'             // nothing -> nothing: the tree counts every fact
	tableBallot     = 'b'             // nothing -> what the acceptor has promised; never dropped
	tableAside      = 'y'             // task -> when its facts were put aside, and their bytes
	tableAsideFacts = 'v'             // task, fact key -> the same of a fact that is kept aside
	tableDropping   = 'z'             // nothing -> nothing: the partition is being deleted
)

// ShortLived are the tables whose keys are soon deleted, and then come never again: of what a store has
// not put in order until then it need keep nothing ([store.PebbleOptions.ShortLived]).
const ShortLived = string(tableActive)

// Rewritten are the tables whose keys are written again and again: of such writes a store
// may keep the last one only ([store.PebbleOptions.WriteBack]).
const Rewritten = string(tableQueues) + string(tableSizes) + string(tablePartition) + string(tableTree) + string(tableTouched)

const prefixSize = index.PrefixSize

func appendPrefix(dst []byte, table byte, p ring.Partition) []byte {
	return append(dst, table, byte(p>>8), byte(p))
}

func appendTask(dst []byte, table byte, p ring.Partition, task id.ID) []byte {
	return index.AppendTask(dst, table, p, task)
}

func appendFact(dst []byte, p ring.Partition, task id.ID, k crdt.Key) []byte {
	return k.Append(appendTask(dst, tableFacts, p, task))
}

func appendClaim(dst []byte, table byte, p ring.Partition, task id.ID, token uint64) []byte {
	return index.AppendClaim(dst, table, p, task, token)
}

func appendQueue(dst []byte, table byte, p ring.Partition, queue string) []byte {
	return index.AppendQueue(dst, table, p, queue)
}

func appendReady(dst []byte, p ring.Partition, queue string, r *claim.Rank) []byte {
	return index.AppendReady(dst, p, queue, r)
}

func appendEdge(dst []byte, table byte, p ring.Partition, a, b id.ID) []byte {
	return append(appendTask(dst, table, p, a), b[:]...)
}

func appendTimed(dst []byte, table byte, p ring.Partition, at int64, task id.ID) []byte {
	return index.AppendTimed(dst, table, p, at, task)
}

func appendFinished(dst []byte, p ring.Partition, s crdt.State, queue string, at int64, task id.ID) []byte {
	return index.AppendFinished(dst, p, s, queue, at, task)
}

func appendFinishedRun(dst []byte, p ring.Partition, s crdt.State, queue string) []byte {
	return index.AppendFinishedRun(dst, p, s, queue)
}

// after is the smallest key that is greater than every key with this prefix.
func after(prefix []byte) []byte { return index.After(prefix) }
