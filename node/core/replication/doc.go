// Package replication brings facts to the members of their cohorts, and reads from them (design 5).
//
// Guarantees:
//
//  1. An answer that says how many copies there are leaves only when so many are on disk: of a
//     majority of the cohort, and of each other cohort that one of its members has voted for or
//     knows of ([Writes]; [call.Quorum] counts them). What did not get there in time is unknown,
//     item by item, never failed.
//  2. This node's own copy counts from the sync of its round on, and only if it is of the cohort
//     and has forgotten nothing. Else it is a hint: durable, and no copy.
//  3. What was here before and is asked for again is sent again, so that no answer leaves without
//     copies; once a round, and [MaxResent] bytes at most.
//  4. A read of several replicas sees what any of those that have answered knows, and what was
//     acknowledged is known to one of them ([Reads]). Who lacks something is sent it.
//  5. Nobody is told that there is no such task before a majority has said so
//     ([Reads.ReadBeforeDecide]).
//  6. The facts of another coordinator are acknowledged only where their copies count ([Acks]):
//     the answer waits for that, and for the disk.
//  7. What only a leader may decide is acknowledged only if a majority has said, since it was
//     asked, that this node still leads ([Confirmations]; ReadIndex of Ongaro 2014, 6.4).
//  8. Open writes, reads, answers and confirmations are bounded, and by connection.
//
// In: facts that are written here ([Writes.Stored]), requests ([Writes.AwaitCopies], [Reads.Get]),
// messages ([Writes.Taken], [Reads.Asked], [Reads.Fetched], [Acks.Add]), changes of cells
// ([Writes.Changed]), time ([Writes.Work], [Reads.Work], [Acks.Work], [Machine.Due]). Out: messages
// and answers in [round.Writer], and what [Node] is to merge or to handle.
//
// Invariant: the bytes of all open writes are those of their facts, none of which is in two of them.
//
// How a write goes. All facts that one round stores form one write with a number: one message
// per member, one sync here, one answer per member for all requests of the round (group commit;
// Gray and Reuter 1993). A request waits for its own partitions alone. An answer names the
// write and nothing else, so whatever changes whom a write is meant for gives it a new number
// ([Writes.Taken] and its fences): an answer to the old one does not count for the new.
//
// How a read goes. A read of R members waits for R answers, merges what they say here, and
// reads here: the union of facts is what R of them know, as facts only grow (package crdt).
// Read repair then sends each of them what it lacks (DeCandia et al. 2007, Dynamo).
//
// Invariant: no answer says more copies than there are members of one cohort with the facts on
// disk; the simulator's checker calls the opposite "lost" once such a write is gone (mutants
// EarlyAck, LostRound).
package replication
