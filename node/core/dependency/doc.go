// Package dependency holds tasks back until what they depend on is done (design 8).
//
// Guarantees:
//
//  1. A task with dependencies becomes ready only when the leader of its partition knows that
//     each is completed, or has failed where the task is to run all the same.
//  2. A completion is final, whoever says it. A failure counts only when the leader of the
//     dependency has said so since the task came, and a majority that it leads and what it
//     knows ([Unconfirmed]): a retry that was acknowledged cancels nothing.
//  3. Every replica has the edges of the tasks that it keeps, on its disk. A new leader looks
//     through all that waits ([Machine.Began]); a crash leaves nothing untold
//     ([Machine.Recover]).
//  4. A finished task stays while an unfinished one depends on it ([Machine.Needed]), also one
//     that other nodes keep ([References]), as long as they say so in time.
//  5. A task that waits for what nobody can enqueue any more, and nobody knows, is cancelled
//     once all who would know have said so several times ([Forgotten]).
//  6. What is told and asked in one step is bounded ([MaxTold], [MaxWatched]).
//
// In: tasks that are linked ([Machine.Link]) or finished ([Machine.Finished]), partitions that
// this node comes to lead ([Machine.Began]), questions and answers of other nodes
// ([Watches.Watched], [Watches.Heard]), time ([Machine.Work], [Watches.Work],
// [Forgotten.Work], [Machine.Due]). Out: facts and messages in [round.Writer], and what
// [Others] hear.
//
// How it works. A task with dependencies is written as waiting, with an edge per dependency on
// the disk of each replica of both (where one node keeps both), and a note of what holds it
// back. When a task ends, its leader's replicas announce it on disk, tell dependents in steps,
// and then drop the announcement; a crash in between repeats the telling, which is idempotent.
// Across nodes the leader of the waiting task asks ([Watches]) and the other side answers at
// once or when there is something to say: messages may be lost, so all that waits is looked
// through again, [watchStep] a second.
//
// Why a failure needs more than a completion. Facts form a semilattice in which a completion is
// final, while a failure can be taken back by a retry. A leader that acts on a failure it has
// heard of could cancel a task although the retry was acknowledged before that task came
// (mutants HastyFailure, LateOutcome).
//
// Invariant: a task that waits has at least one note of what holds it back on the disk of each
// replica, and the last note goes in the batch in which the task becomes ready or is cancelled.
package dependency
