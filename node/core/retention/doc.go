// Package retention archives and deletes finished tasks whose time is over, and lets their
// tombstones go (design 6, K8; Demers et al. 1987, death certificates).
//
// Guarantees:
//
//  1. A task is collected only by the leader of its partition, once its [Rule] says so and all
//     members of the cohort have been compared with since ([Tombstones.ComparedSince]): nobody
//     knows anything else of it then. What unfinished tasks depend on stays ([References]).
//  2. A retry that another node may not have heard of when it collects is refused
//     ([Machine.Buried]): what is acknowledged no tombstone takes back.
//  3. A task that is to be archived goes only when the archive that has it is on its disk. An
//     archive that fails is tried again, and holds up nothing else.
//  4. A tombstone goes once gc-grace is over and every member of the cohort is known to have
//     it ([Tombstones.ProvenUpTo]), by the monotonic clock of this node alone. Who misses that
//     brings it back by repair, and it goes once more.
//  5. A clock that has just jumped collects nothing in that step. A step is bounded: clients
//     come first.
//
// In: ends of comparisons ([Tombstones.Ended], [Tombstones.Same], [Tombstones.Completed]),
// what a leader has let go ([Tombstones.Take]), ends of archives ([Machine.ArchiveDone]), changes of
// the view ([Tombstones.Follow], [Tombstones.Forget]), time ([Machine.Work], [Machine.Due]).
// Out: messages, archives and tombstones in [round.Writer]; keys that move on (Env.PassKey).
// Others ask it whether facts are older than what is remembered ([Tombstones.BelowHorizon]).
//
// The problem. Members exchange facts in any order, so a deletion has to be a fact itself: a
// tombstone. If it goes too early, a replica that missed it brings the task back; if it never
// goes, the store grows without end (death certificates of Demers et al. 1987). Two things have
// to be known before it goes: that no client can enqueue the task's ID any more (gc-grace and
// clock bounds), and that every member has the tombstone. The second is proven by comparisons:
// one that began after the tombstone had come here and ended without a difference.
//
// Invariant: a task is collected only if nobody can know more of it than this leader does, and
// a tombstone goes only if every member of the cohort has it (the checker's "collected";
// mutants PurgeByTime, MarkOfBefore, SkippedAgreed).
package retention
