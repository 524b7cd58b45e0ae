// Package group is one member of the Raft group behind the register: a pure
// machine around go.etcd.io/raft, its log in a store, and the rules by which
// members become voters.
//
// The loop of whoever runs a [Machine]:
//
//  1. [Machine.Step] with the time and an event: a message, a request, a tick.
//     [Machine.Wake] says when the next tick is wanted.
//  2. While [Machine.HasReady]: take [Machine.Ready]. Commit its Persist. If
//     Sync is set, wait until that is durable. Only then send Messages and hand
//     out Results and Changes: a vote or an acknowledgement that leaves before
//     it is on disk can be forgotten after it was counted. Then
//     [Machine.Advance] with the time: what the disk took is no silence of
//     others. No Step comes between Ready and Advance.
//  3. An error of Ready or Step ends the member: it has lost what it had
//     acknowledged, or read what nobody wrote. It neither votes nor answers
//     after that; damaged is not absent.
//
// What a caller may rely on:
//
//   - A request is decided at most once, however often it travels: each carries
//     the session of its proposer and a number, and the replicas remember what
//     came of it. A request whose outcome is not known when its time is up gets
//     [ErrUnknown]: read again. An outcome that is known is never reported so.
//   - A read sees everything that was decided before it was asked: the leader
//     asks a majority whether it still leads (ReadIndex), and a member that does
//     not lead asks the leader.
//   - Time-outs of elections are drawn from the seed of the configuration; raft's
//     own, which are drawn from the system, are never used. The same events at
//     the same times give the same bytes. After terms without a leader that
//     lasted they grow, up to eight times (type timers).
//   - A member formatted with [Join] does nothing until a leader finds it. Only
//     [Format] makes a group, once; nothing is ever made because nobody answered.
//   - The leader adds whoever is in the register as a learner, makes it a member
//     when it has caught up, and lets at most five of the members vote
//     ([Voters]), by joint changes, one at a time.
//   - Every message carries the cluster, the generation, both incarnations and
//     the number of the sender's start. What does not fit is answered with a
//     [Refusal] and does nothing; of two copies of one directory at most one
//     goes on ([ErrTwin]).
package group
