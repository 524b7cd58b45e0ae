// Package metrics is what /metrics shows of a node's loop: the counters of its core, copied
// after each round and read from the copy, and what is logged when one of them moves (facts
// that clash, votes that cannot be read, facts in quarantine, a clock that is off), seldom.
//
// Invariant: the loop of the node never waits for who reads: it stores a pointer to a copy of
// its counters after each round, and /metrics reads through the pointer.
package metrics
