// Package vnode is one partition on one node: it composes the facts, the
// indexes derived from them, the counters and the claim table.
//
// A task is its set of facts; everything else in the store follows from facts
// and claims and is written in the same batch as they are. One mechanism does
// it: a [place] says in which index a task stands, it is computed before and
// after a change, and the difference is written together with the counters.
// The fast paths (enqueue of a new task, grant, completion of a claimed task)
// know the place before without reading and use the same writer.
//
// Invariant: a task with an enqueue fact stands in exactly one of the indexes
// waiting, scheduled, ready, claimed, finished, and the counter of that state
// in its queue counts it once.
//
// A claim is held by every member of the cohort: the leader grants it
// ([Vnode.Grant]), the others vote on it ([Accept]), each by its own facts and
// clock. So a claim may come before its task, several claims of a task may be
// known at once, and what a leader writes about the expiry of a claim takes
// effect once the claim has lapsed here too. [Snapshot], [Join] and [Absorb]
// carry claims through an election, [Learn] through a refusal.
//
// Every method runs to its end without waiting, writes through the [store.Tx]
// it is handed, and promises nothing: the caller makes the batch durable
// before any answer leaves (design: persist before you speak).
package vnode
