// Package ground is what all machines of a node have in common ([Ground]): who the node is, how far
// clocks may differ, its view of the cluster, the writer of the round, its partitions, what
// tenants use, the requests that wait, and its one source of randomness.
//
// Guarantees:
//
//  1. A node has one, and each of its machines has that one (its Env embeds it): nothing in it
//     is copied.
//  2. It is complete before the first event: Partitions come last, when the store was read.
//
// It has no behaviour, and knows no machine.
package ground
