// Package core is one whole node as a pure machine: coordinator, routing of
// requests to partitions, waiting claims and log readers, leadership.
//
// The contract of the loop around it, in order:
//
//  1. Step every event that has come in. Step returns an error only when the
//     node must stop (a damaged record, lost leadership of the disk). After any step
//     [Core.Due] gives the answers that may leave before the round is cut.
//  2. Take Ready. Send Ready.Early: it asks others to write, and they may do so
//     while this node does.
//  3. Apply Ready.Persist to the store: it is visible from then on.
//  4. Start the register requests of Ready.Register; step their results.
//  5. Sync the store. Only after that, and only if it succeeded, answers and
//     messages may leave. One that says it waits for an earlier round
//     ([message.Reply.After]) may leave as soon as that one is synced.
//  6. Run Ready.Reads on a snapshot taken right after 3; their replies may
//     leave. Reads that wait are stepped as [message.ReadDone].
//  7. Start Ready.Commit, send Ready.Send and Ready.Replies. What other nodes say is stepped as
//     [message.FromPeer]. A reply that surely never reached its client is stepped as
//     [message.Undelivered] when it carried grants.
//  8. Read Ready.Archives on a snapshot taken right after 3, write them elsewhere,
//     and step what became of each as [message.Archived].
//  9. Step a [message.Tick] no later than Ready.WakeWall and Ready.WakeMono.
//
// Steps 1 to 3 of the next round may run while step 5 waits for the disk: that
// is how batches form by themselves. Rounds are synced in their order, so an
// answer that depends on a record of an earlier round cannot overtake that
// round's sync (design 5, last rule).
//
// Time comes in with every call, randomness as a seeded source, and maps are
// walked in sorted order wherever the order can be seen: the same events give
// the same outputs, which is what the simulator lives on.
package core
