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
package dependency
