// Package queuestats counts what a node has decided about tasks, by queue and kind, for
// /metrics, and remembers rates for curves.
//
// A node counts what it has decided itself, where it is decided (message.Decided), so that
// the sum over all nodes is that of the cluster. Whoever counts hands over the decisions of
// a round; whoever reads copies them in small pieces, so that neither waits for the other,
// and the loop of the node is asked for nothing.
//
// What it takes is bounded, whatever the names are:
//
//   - Series in /metrics: of the first Named queues that something was decided about, and as
//     many again by kind, at most 50 a queue. The rest is summed up under the names _other.
//     A queue keeps its series while it is there: counters that moved to and from _other
//     would look like bursts.
//   - Queues: up to Queues of them are counted, each with the last ten minutes by the minute
//     (about 1 KB). One of which nothing was heard for an hour makes room.
//   - History: the node's whole 24 h at steps of ten seconds (about 280 KB), and an hour of
//     each of its 100 busiest queues (about 12 KB each).
//
// It is gone when the process ends; the answer says since when it is whole.
//
// Invariant: what has no series of its own is summed up under _other and never dropped: the sum
// over all series of a counter is the number of decisions of this
// node (TestDecisionsAreCountedByQueue, TestCountersNeverFall).
package queuestats
