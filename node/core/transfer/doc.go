// Package transfer brings partitions here that this node is to keep, and takes away those that
// it is not to keep any longer (design 4 and 6, K8).
//
// Guarantees:
//
//  1. A node is asked to be admitted to a cohort only once it has compared the partition with as
//     many members as the plan wants, and no tombstone may have gone since.
//  2. A partition is deleted here only once a majority of its cohort has all of it, was asked
//     after that whether it has voted for another cohort, and has said no; and no candidate
//     counts on what is here ([Elections.MayForget]).
//  3. Facts that nobody can place any more are kept apart on this disk ([Quarantine]), never
//     dropped: before their partition goes a majority of the cohort keeps them.
//  4. A node that was removed believes a cell once two members, or the only other one, say it
//     ([FormerMember]).
//  5. Copies under way, pages, bytes a second and facts kept apart are bounded.
//
// In: the register and who is alive ([Machine.Learn]), facts of partitions that others keep
// ([Machine.Found], [Machine.Hinted]), ends of comparisons ([Machine.Compared]), answers
// ([Machine.Answered], [Quarantine.Answered]), messages ([Quarantine.Told],
// [FormerMember.Take]), time ([Machine.Work], [Quarantine.Work], [FormerMember.Work],
// [Machine.Due]). Out: facts and messages in [round.Writer], and what [Elections], [Repairs] and
// [Node] hear.
//
// How a partition comes here: compare with members of its cohort until nothing differs (package
// antientropy), ask the register for admission, be elected into the cohort by its leader. How
// it goes: compare with the cohort until a majority has all of it, ask that majority whether it
// has voted for another cohort, then delete in steps. Both ways the copy exists twice for a
// while, and never zero times.
//
// Invariant: a partition is either on its way here or on its way out, not both; a comparison
// counts for one of them (Audit).
//
// Invariant: the facts of a partition that is being deleted are read by nobody. The blank vnode
// in its place knows nothing, and [Machine.Refuses] keeps every write away from it.
package transfer
