// Package register is the linearizable cell store of the cluster: for each
// partition the cell (epoch, cohort, leader, nonce), and beside the cells the
// cluster's identity, its members and what must be equal on all nodes.
//
// The interface is narrow on purpose (design 7.1): a linearizable read, a
// batched compare-and-set with success per cell, a subscription, the members.
// It is asynchronous, because its callers are machines that may not wait: a
// request goes in, its result comes back as an event.
//
// [State.Apply] decides requests, and every register decides by it: what a
// change needs, what follows what, what is bounded, is written once, there.
//
// [Local] is the register of a cluster of one: a compare-and-set on the node's
// own disk, fsynced before it answers. Package group is one member of the Raft
// group that several nodes need, as a pure machine; package raftnode runs it.
// Package registertest holds all of them to one contract.
package register
