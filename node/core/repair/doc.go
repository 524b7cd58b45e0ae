// Package repair has the replicas of a partition become the same, and the trees by which they
// are compared stay true (design 6; Merkle 1987, DeCandia et al. 2007, 4.7).
//
// Guarantees:
//
//  1. What two members of a cohort do not share is found within an interval by the sums of
//     their partitions ([roots.Machine]), and a comparison fact by fact brings it to both.
//  2. A comparison that somebody asks for ([Machine.Hasten], [Machine.Demand]) does not wait
//     for its turn. How each has ended [Others] hear, once.
//  3. At most [MaxRounds] comparisons in turn are under way with nodes in reach, and
//     [MaxVain] with others: who does not answer keeps nobody from the others. Facts travel
//     at a rate that leaves the rest of the node its network and its disk.
//  4. A message that says that this node has something leaves after the sync of its round.
//  5. A tree that does not say what the facts say is put right by the scrubber, without a
//     stop of anything else.
//
// In: changes of the view ([Machine.Changed], [Machine.Returned], [Machine.Forget]), messages
// of peers ([Machine.Step]), time ([Machine.Work], [Machine.Tend], [Machine.Due]), and copies
// that a move or an election asks for ([Machine.Copy]). Out: messages in [round.Writer], facts
// of peers ([Others.Keep]), ends of comparisons ([Others.Compared]).
//
// How a comparison goes (package antientropy does it; here is when, with whom and how many).
// One of two members sends the root hash of its Merkle tree; the other answers with the
// children that differ; they descend to leaves and exchange the facts. The work is proportional
// to the difference and not to what is stored. Both trees are kept up to date with each fact
// that is written, so a partition that has not changed costs one hash.
//
// Why three queues. Comparisons in turn keep replicas equal in the long run and must not be
// felt. Those that somebody waits for (an operator, a new cohort) go before them. Copies of
// whole partitions have a rate and a page size of their own, since a cluster that grows moves
// everything it has.
package repair
