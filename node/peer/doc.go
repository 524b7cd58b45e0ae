// Package peer is the connections between nodes: over the peer port they carry
// the messages of the core and of the register's group, and let a new node ask
// to be let in.
//
// Contract:
//
//   - Messages are one-way and may get lost, never changed; on one connection
//     they stay in order. A node dials everyone it sends to, with a connection
//     for small messages, and one for large ones while there are some (design 11); what others send
//     comes in over connections that they have dialled.
//   - [Network.Send] never blocks. What does not fit the bounded queue of a peer,
//     or has nobody to go to, is dropped and counted: senders send again. A slow
//     or dead peer holds up nobody else.
//   - A connection is open when both sides know whom they talk to: version,
//     secret, cluster, name and incarnation at both ends. Otherwise it is refused
//     with an error that both sides log once, and tried again.
//   - [Handler] hears of what a peer sends on one lane one burst at a time, in
//     order, also over connections that follow each other; and of peers that come
//     and go.
//   - Whatever a peer says is a sign of life. When nothing of it comes for Timing.Idle,
//     on whichever connection, all connections with it end (ADR 12).
//   - Nothing a peer sends makes a node allocate more than a few times the bytes
//     that came, and those are bounded by [Limits].
//
// Without TLS and a secret the port is open to whoever reaches it. The secret is
// sent as it is: who listens to the wire learns it, unless there is TLS.
// Gossip streams are handed on before TLS; they have a key of their own.
//
// How a connection comes about. The dialler says a hello with the versions it speaks, the
// cluster, who it is and whom it means; the other side judges that in a fixed order (version,
// secret, certificate, identity, place) and says no more than the next step needs to whoever
// has not passed the one before. Whoever says that it is a member is asked back at the address
// that the register has for it: a copy of a data directory, or a liar, does not answer there
// ([Network] and the functions of askback.go). Each start of a directory has a number, so of
// two processes on copies of one directory one is refused.
//
// How a message goes. It is encoded when its connection takes it, without an object per field
// ([Decode] and the coder, in the wire format of proto/norn/v1/peer.proto). Small ones and
// large ones have connections of their own: a lease must not wait behind a snapshot.
//
// Invariant: of one incarnation at most one process is connected at a time on each lane, and
// starts of a directory are taken in rising order (the function alive; TestOnlyTheLatestStartIsLetIn,
// TestACopyDoesNotTakeThePlaceOfALivingNode).
//
// Invariant: nothing that comes in makes the node allocate more than a few times its bytes:
// counts are checked against the bytes that are left before anything is made for them
// (decodeList, unmarshal; FuzzDecode).
package peer
