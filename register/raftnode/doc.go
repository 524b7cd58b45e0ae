// Package raftnode runs one member of the register's group: a goroutine around
// the machine of package group, a store and a network.
//
// A node that makes a cluster calls [Format] once, one that joins one calls
// [Join], and both then [Open] at each start. A joining node's record is written
// into the register, as joining, through any member that lets it in; the leader
// does the rest. It leaves by its record too: leaving, and removed when what it
// had is elsewhere.
//
// Contract:
//
//   - [Node] is a register.Register. Callbacks of Do and Subscribe run on its
//     goroutine: they must not block and must not call Close. They may call Do.
//   - Subscribers hear every state that came to be here, in order; after the
//     leader has sent a snapshot, one state stands for many.
//   - What the group's contract wants on disk before it is said is committed
//     and awaited here, in one place.
//   - When the machine stops (a disk that forgot, damage), every request gets
//     its error, now and later, and Config.Failed hears of it once. The node
//     must end then: it may not vote.
//   - A store is formatted once, with [Format], [Join], [Adopt] or [Restore].
//     Opening one that belongs to another cluster or incarnation is refused.
package raftnode
