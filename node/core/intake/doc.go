// Package intake takes tasks in, and cancels and retries them, one by one, by list or by filter.
//
// What it guarantees:
//
//  1. Each task of a request is judged for itself. The answer to a repeated send is the same:
//     what is known here is let through, whatever limits say now.
//  2. An ID that is older than gc-grace and not known here is refused: it may have been finished
//     and forgotten.
//  3. Nothing is taken in while the disk is nearly full or the cluster is being made ([Disk],
//     package bootstrap); completions are.
//  4. A retry is decided by the leader, once it is certain that it still leads and knows how the
//     task has ended.
//  5. A request that acts by filter is bounded in pages and time; what it has not looked at is for
//     the next one, by its cursor.
//
// Events in: requests, launches of schedules, the free space of the disk. Events out: facts in the
// round's transaction, replies, requests of this node's own.
package intake
