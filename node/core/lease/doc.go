// Package lease brings grants, renewals and releases of claims to a majority of the cohort of
// their partition before anybody hears of them, and holds what other leaders grant (design 6,
// 7.3; Gray and Cheriton 1989).
//
// Guarantees:
//
//  1. A [Proposal] is committed only when a majority of the cohort of the epoch in which this
//     node leads has it on disk; each of them has promised nobody else anything, and holds no
//     other claim of the task. This node's own copy counts because no answer leaves before the
//     sync of its round.
//  2. A proposal that fails may be held by some members all the same: it is told as not done
//     or unknown, never as done, and what was granted is taken back ([Machine.TakeBack]) where
//     that is heard of, again and again.
//  3. This member takes a claim only in an epoch that its promise allows, and while it may
//     ([standing.Accept]). It drops a claim only because of the leader of such an epoch.
//  4. That a claim has lapsed is written only after a majority has said since that nobody else
//     leads ([Machine.ConfirmedSince]).
//  5. What of a partition whose proposals reach no majority is handed out waits
//     ([Machine.Hides]), and a release that is sent again finds out when that is over.
//
// In: proposals of this node ([Machine.Propose]), messages of members ([Machine.Asked],
// [Machine.Taken] and the others named after messages), changes of who leads
// ([Machine.Stop], [Machine.Met]), time ([Machine.Send], [Machine.Ask], [Machine.Expire],
// [Machine.Due]). Out: messages in [round.Writer], ends of proposals to who awaits them
// ([Machine.Await]), and what [Others] hear.
//
// It knows neither requests nor clients: who asks for a grant waits in dispatch.
//
// How a claim goes. What dispatch grants in a round is proposed here; at the end of the round
// all proposals of a partition go to its cohort in one message, and a majority of answers
// decides each one by itself. A member answers after its own sync, and refuses a claim if its
// promise is higher, if another claim of the task is alive on its clock, or if the task is
// finished. That is a lease (Gray and Cheriton 1989) held by a quorum: two leases of a task
// that overlap would need a member that has granted both.
//
// Invariant: of the claims of one task that a majority has accepted at most one is alive by any
// clock that is within eta of the true time (the checker's "overlap", the witness's
// "majority").
//
// Invariant: nothing of a partition is proposed in an epoch in which this node does not lead. A
// proposal of an epoch that has ended fails, even if its majority arrives later: its leader
// could not know what the next one has granted (mutant StaleLeader).
//
// A claim that could not be taken back is remembered in [reclaims] until a majority or its
// leader has it released: otherwise its task would wait for lease and buffer with nobody at
// work. The memory is bounded, and a restart forgets it; then the lease ends the matter.
package lease
