// Package operator does what operators ask of the cluster: who leaves, joins, is removed or takes
// another one's place, how many replicas there are, repair at once, backup and restore, and its end.
//
// Guarantees:
//
//  1. The register decides who is a member: each change is worked out from a state that was read
//     for it, and written if nobody was faster; else it is worked out anew, [MaxDecides] times.
//  2. Nothing that was acknowledged is given up unless an operator says so by name of what is lost
//     ([nornv1.AcceptLoss]), or by force; the answer names the partitions.
//  3. A dry run changes nothing and says what would be done.
//  4. A page of a backup has all that a majority of the newest known cohort has acknowledged.
//  5. What is restored is acknowledged as any write: by copies on disk.
//  6. Replicas that do not hold the same are told side by side ([Machine.Verify]), and none of
//     them is changed for that.
//
// In: requests of operators ([Machine.Handle], [Machine.BackupFrom], [Machine.Page],
// [Machine.Restore], [Machine.Verify]), answers of the register. Out: answers and reads in [round.Writer], changes
// that [Node] asks the register for.
//
// It keeps nothing between two requests.
//
// How a change goes. [Machine.Handle] reads the register (linearizably), works out a decision
// from that state alone, and writes it with the versions that it was worked out from (compare
// and swap). If somebody was faster nothing was written, and it is worked out anew. A decision
// is a value: a dry run is the same one, not sent.
//
// Invariant: a decision is made from one state of the register and written against the versions
// of that state; what has changed since makes it void (optimistic concurrency control; Kung and
// Robinson 1981).
package operator
