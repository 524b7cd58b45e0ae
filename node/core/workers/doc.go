// Package workers has the sessions of the workers that are with this node (design 11): it brings
// them tasks, has their claims renewed and ended, and holds their names.
//
// Guarantees:
//
//  1. A worker is told nothing that a power failure could undo: what is said to it leaves with
//     the answers of a round, after its sync.
//  2. Claims are granted, renewed and ended by requests as any client makes them ([Asks]): their
//     write levels, majorities and rights are those of everybody.
//  3. One holder has a name. The register orders the writes, and a lease of a name has lapsed
//     only once it surely has, wherever its holder's clock stands ([Names]).
//  4. A task that was granted and never left for its worker is given back ([Machine.Unsent]); one
//     that a worker does not know of, because the dispatcher before has died, is found by asking
//     its leaders ([Holdings]).
//  5. A worker hears at once that its claim was ended by others ([Holdings.Ended]).
//  6. Streams, requests and questions are bounded ([MaxStreamBytes], [MaxQuestions]), and go with
//     their connections ([Machine.Gone]).
//
// In: requests of workers and about them ([Machine.Request], [Machine.List], [Machine.Set],
// [Machine.Lines]), answers to what was asked ([Asks.Answered]), the register ([Names.Learn]),
// news of other nodes ([Holdings.Take]), claims that end ([Holdings.Ended]), time
// ([Machine.Work], [Machine.Late], [Machine.Due]). Out: answers and messages in [round.Writer],
// requests and changes of names by [Node].
//
// The layers. Package session has the protocol of workers as a pure machine
// ([session.Dispatcher]): associations, heartbeats, what is on its way, what is lost. This
// package is its other half: it makes requests of the cluster of what the machine wants, and
// brings the answers back ([Asks]); it has the way to each worker, with its bounds (Stream); it
// keeps names as leases in the register ([Names]; Gray and Cheriton 1989).
//
// Invariant: a worker is told of a task only by the association that asked for it, and a task
// that cannot be told is given back. Otherwise its claim would run out with nobody at work,
// once for each worker that reconnects.
package workers
