// Package roots finds the partitions in which this node and another member of the cohort
// differ (design 6). In each interval every other node hears once of the partitions that have
// changed here since both agreed: the sums over their facts, those of all partitions that both
// keep in one message. Of two members one, by a hash of the partition, compares fact by fact
// what differs, and has the others compared again now and then: the other side may have lost
// something.
//
// Guarantees:
//
//  1. What changes at one of two members is compared with the other one within an interval.
//  2. What changes at neither is compared again within seven intervals.
//  3. A turn reads the roots of at most 512 partitions; an interval has as many messages as
//     there are other members, and one more for each 512 partitions.
//
// In: changes of the view, messages of peers. Out: messages, partitions that differ
// ([Machine.Next]), and what is proven by comparisons without a difference ([Proofs]).
package roots
