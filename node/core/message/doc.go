// Package message has the words of a node: what comes into a core and what it wants
// done, and what cores say to each other. It has no behaviour; machines, the loop around
// a core, the codec of peers and the simulator all speak it.
//
//   - In: [Request] and [Cancel] of clients, [FromPeer] of nodes, [Registered] and
//     [Changed] of the register, [Alive], [DiskSpace], [Tick] and the like of the world.
//   - Out: [Ready] with what is to be persisted, sent, answered, read and asked of the
//     register, in the order that package core promises.
//   - Between nodes: whatever is a [PeerMessage]. A message may be lost, come twice or
//     late; what may not be repeated carries a number that its sender never uses again.
//
// A type whose number, epoch or token guards a transition says so at the field.
package message
