// Package sim runs whole node cores in one goroutine, with virtual clocks,
// disks and networks, from one seed: the same seed and build give the same
// history, event by event.
//
// A run is a storm and a calm. In the storm clients enqueue, claim, complete,
// cancel and read, while the network delays, cuts and repeats, the disk is
// slow or nearly full, clocks drift and step, and the node is killed at any
// point between two steps of its contract (package node/core). Which faults
// there are, and how many, is drawn per seed. Then everything heals: what can be
// finished must be finished soon, and read back.
//
// What clients see goes into a history (package jepsen/history), which package
// jepsen/check holds to the promises. Beside that the simulator looks into the
// node, as no client can: indexes and counters must follow from the facts, no
// request may wait while there is work for it, and each is answered once.
//
// [Mutants] are nodes that are wrong on purpose: each must be found out. A
// checker that never failed proves nothing.
//
// It has one node now. What several need is here: nodes have numbers of their
// own only in their disk, clock and connections, and the register answers late.
package sim
