// Package registercall has the requests of one node to the register that are not answered yet,
// and asks again once the register has failed.
//
// What it guarantees:
//
//  1. Each request is answered to who asked at most once.
//  2. A state older than what this node was shown when it asked is reported to
//     [standing.Rollback]: the register has gone back.
//  3. After a failure the register is read: what came of a change is unknown, not nothing.
//
// Events in: [Machine.Ask], [Machine.Send], [Machine.Consult] and [Machine.Commit] of the
// machines of the node, [Machine.Answered] with what the register says. Events out: the requests
// of a round, and replies to clients.
//
// Invariant: no more than one answer is taken for a tag.
package registercall
