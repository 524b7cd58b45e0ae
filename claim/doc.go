// Package claim holds the claim table of one partition and the order in which
// its ready tasks are handed out.
//
// A claim is a lease on a task: (task, token, worker, start, end). The table
// maps each task to a set of claims by token; a task is free only when every
// known claim has lapsed, was released or has ended (design 7.2, step 5: never
// "the highest token wins"). When a claim lapses is decided by package clock,
// the only place with lease arithmetic.
//
// Ready tasks are ordered by priority (high first), then admission, then ID
// (design 8). The order of record is an index in the store; a [Head] is a
// bounded window on its beginning that never looks at what was deleted below
// it, and [Merge] keeps the best head of many partitions at hand.
//
// The package is pure: time comes in as a value, nothing here blocks.
package claim
