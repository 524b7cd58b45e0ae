// Package partitions has the vnodes of a node, one for each partition that it keeps or has
// something of. Those of other partitions are opened when something is done with them.
//
// Guarantees:
//
//  1. A round costs what was done in it: [Set.Due] gives the vnodes whose time has come,
//     [Set.Flush] looks at those that were used, and neither looks at the others. What a
//     round costs does not grow with the partitions of the cluster.
//  2. Who does something with a vnode takes it by [Set.Use], and keeps it no longer than
//     for the event or the round; who only reads takes it by [Set.See].
//
// Invariant: what the set knows of a vnode's next time and of its claims is what the vnode
// says, unless the vnode is marked as used since ([Set.Audit], in the simulator and the tests).
package partitions
