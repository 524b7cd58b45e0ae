// Package arrivals keeps the facts that other nodes send: of writes, reads, comparisons and moves.
//
// What it guarantees:
//
//  1. Nothing is kept of a partition that is being deleted here, and no fact of a task that
//     belongs elsewhere.
//  2. What is not kept is refused to the coordinator, which does not count this node's copy
//     ([Machine.Take]). An acknowledgement leaves when all is durable (design 5).
//  3. Facts that say more of a task that was collected than its tombstone are answered with that;
//     those below the horizon that come from outside the cohort are left with their sender.
//  4. What is new here is made known: its queue, its unique key, its dependencies.
//
// Events in: facts of other nodes. Events out: facts in the round's transaction,
// acknowledgements, tombstones sent back.
package arrivals
