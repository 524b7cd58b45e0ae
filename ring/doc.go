// Package ring says which partition an ID belongs to, and plans which nodes
// hold which partition.
//
// Contract of partitions: the partition of an ID is a function of its bytes
// and of the number of partitions, which is fixed when a cluster is made; it
// never changes, whatever happens to nodes and cohorts.
//
// # Placement
//
// [Place] turns the old plan and the nodes with their zones and weights into
// the next plan. It is a function of its arguments alone, in whole numbers, so
// that it gives the same on every machine. What it heeds, in this order:
//
//  1. Every partition has as many replicas as asked for, all on different
//     nodes; on all nodes if there are fewer. Nodes of weight 0 hold nothing.
//  2. Zones. With at least as many zones as replicas, no two replicas of a
//     partition are in one zone. With fewer, every zone has a replica of every
//     partition, and they are as even as the sizes of zones allow: five
//     replicas in three zones are always 2 + 2 + 1. So the loss of one zone
//     costs as few replicas of anything as possible.
//  3. Balance by weight. The ideal of a node is proportional to its weight as
//     far as 1 and 2 allow: no node can hold more than every partition once, a
//     small zone that must hold a replica of everything has more than its
//     share, a large one that may not hold two has less, and where such a bound
//     binds the others share the rest by weight. Every node has its ideal,
//     give or take one replica or 5 %, whichever is more.
//  4. Movement. Replicas stay where they are as far as 1 to 3 allow.
//  5. Leadership: the first of every cohort is spread by weight over all nodes,
//     within one partition or 5 %, as far as the cohorts allow; leaders stay
//     where they can.
//
// 1, 2 and 3 are guaranteed for all input: they are bounds of a flow from
// partitions over zones to nodes, in which the ideal is a solution in
// fractions, so there is one in whole numbers, and augmenting paths find it
// from any start. A plan that satisfies 1, 2, 3 and 5 is left as it is: placing
// again changes nothing.
//
// 4 is a heuristic over cheapest paths.
package ring
