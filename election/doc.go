// Package election makes one vnode the leader of a partition, for one epoch at a
// time, by a majority of the old and of the new cohort (Skuld README, "Electing
// a leader"; design 7.2, protocol (c)).
//
// It is two pure machines. [Acceptor] is what a member keeps of a partition for
// ever: its promise and the proposals that may still become the register's
// value. [Elections] runs the candidacies of one node, all partitions in one
// exchange per peer. Claims and facts are not known here: whoever runs the
// machines attaches the claims of a vote to it, joins those that count
// ([Elections.Vote] says which) and has the result pushed.
//
// Contract:
//
//  1. An [Acceptor] that has changed is on disk before anything leaves that
//     depends on it: a vote, an ack, a push, a change of the register.
//  2. The claims that travel with a granted vote are read after the promise.
//  3. Messages may get lost, come twice, late and out of order. What is about
//     another ballot than the one under way is of no effect.
//  4. A leader leads from [Ready.Won] on and not before, until its acceptor
//     promises more, the register shows another cell, or it resigns.
//
// Invariants (checked by package election/model on every state, and by the
// simulator): at most one leader per partition and epoch, epochs in the register
// strictly increase (K1); a leader's claim table holds every claim committed in
// an earlier epoch that has not ended (K2).
package election
