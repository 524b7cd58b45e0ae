// Package register is the linearizable cell store of the cluster: for each
// partition the cell (epoch, cohort, leader, nonce), and beside the cells the
// cluster's identity, its members and what must be equal on all nodes.
//
// The interface is narrow on purpose (design 7.1): a linearizable read, a
// batched compare-and-set with success per cell, a subscription, the members.
// It is asynchronous, because its callers are machines that may not wait: a
// request goes in, its result comes back as an event.
//
// [Local] is the register of a cluster of one: a compare-and-set on the node's
// own disk, fsynced before it answers. The Raft group that several nodes need
// stands behind the same interface.
package register
