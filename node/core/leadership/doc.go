// Package leadership is who leads which partition, as far as it is this node's to say: it
// votes, stands, wins, hands over and steps down.
//
// Guarantees:
//
//  1. What this node has promised is on disk before anything leaves that depends on it
//     ([Acceptors]), and a record of it that cannot be read stops the start: damaged is not
//     absent.
//  2. This node leads a partition in an epoch only once the register shows the cell in which
//     it was elected, and no more when it has promised a later epoch or lacked a majority of
//     the cohort for two seconds.
//  3. Whoever comes to lead has the claims that a majority of the cohort knew when it
//     promised, and where the cohort is another one than before, a majority of the new one
//     has them and all facts first.
//
// What others do when it leads or does so no more is told to [Others] at once.
//
// In: changes of cells and of who is up ([Machine.Changed], [Machine.Look]), messages
// ([Voter.Ballots], [Voter.Votes], [Voter.Pushes], [Voter.Stand]), ends of comparisons
// ([Machine.Compared]), wishes of placement ([Machine.Want]), time ([Machine.Work],
// [Machine.Next]). Out: messages in [round.Writer], changes of cells to [Register],
// [Others.Won] and [Others.Lost].
//
// How an election goes (design 7.2; the single-decree Paxos of Lamport 1998 for each epoch,
// with the cell of the register as its decision). A candidate asks without promises first
// (pre-vote; Ongaro 2014, 9.6), then for promises of the old cohort, whose votes bring what
// each member knows of claims. It pushes the union to the new cohort, has its facts compared
// where the cohort changes, and swaps the cell in the register. Only the swap makes it leader.
// Package election has these phases as a pure machine; here is who stands, when, and what is
// done with the result.
//
// Invariant: the promise of a partition never goes down, not even when its partition is deleted
// here, and it is on disk before the vote that it was made for leaves (the simulator's witness:
// "promise"; mutant PromiseInMemory).
//
// Invariant: a vote that is granted carries all claims that this member holds at that moment,
// and none is accepted in a lower epoch after it (the witness: "vote"; mutant UnpromisedVotes).
package leadership
