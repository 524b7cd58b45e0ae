// Package uniquekeys names the tasks of unique keys (design 3): which ID a key has now, and when it moves
// on to the next one.
//
// What it guarantees:
//
//  1. All tasks of a key without a window are in one partition: who keeps it knows whether the key
//     is free ([Machine.Home]).
//  2. A key is given to a new task only by a leader that knows what a majority has acknowledged of
//     the one before ([Machine.Sure]).
//  3. A task that had a key stays as it ended once the key is given away ([Machine.Bar]); of two
//     that hold it because leaders changed, the younger one waits among the dead ([Machine.Learn]).
//  4. The generation of a key does not go back while somebody remembers a later one
//     ([Machine.Pass]).
//
// Events in: enqueues, retries, facts of other replicas, tombstones. Events out: records of keys in
// the round's transaction.
package uniquekeys
