// Package index has the keys of the indexes by which a vnode finds tasks by their state, and finds tasks by them.
//
// Contract. A task whose enqueue is known is in one index, that of its state, in every view of a store; but of waiting
// tasks there is none. What is claimed is found by its claims that have not ended. A change of a key is one of the
// data directory's format.
//
// The keys of one partition, after the table and two bytes of its number, big-endian:
//
//	ready      queue 0 rank                  in the order in which tasks are handed out
//	scheduled  wall ns (8), task             in the order in which they come due
//	active     task, token                   claims that have not ended
//	finished   state, queue 0, wall ns, task in the order in which they ended, per queue and way
//	queues     queue 0                       counters per state, see package record
//
// Invariant: numbers are big-endian and names end with a zero that no name contains, so that
// keys sort as what they say: a scan from a prefix on meets its entries side by side, oldest
// first, and ends at [After] the prefix.
package index
