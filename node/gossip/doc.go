// Package gossip finds the addresses of other nodes and hints at who is alive,
// by hashicorp/memberlist.
//
// Contract.
//
//   - What it says is a hint (protocol X5): a node that is listed may be out of
//     reach, one that is not listed may be well. Nothing may be decided by it;
//     who owns what is in the register.
//   - It needs two ways to a peer, both on the peer port. Packets go over UDP, by
//     a socket of its own. Streams are TCP: outgoing ones are dialled, incoming
//     ones are handed in ([Gossip.Ingest]) by whoever accepts on that port,
//     since it has other connections too. A stream of gossip begins with
//     [StreamByte]; nothing else on that port may.
//   - Clusters do not mix: every packet and stream begins with the cluster's
//     UUID, which the encryption vouches for. Without keys all is in plain: that
//     keeps out mistakes, but not people who know the UUID or listen.
//   - A node is another member in every incarnation, so that a wiped one is not
//     taken for what it was. The same incarnation returns under the same name,
//     at another address too, once it is known to be dead.
//   - Whoever can be reached at a seed address is asked again and again, with
//     growing pauses, while no living member is known there: that is what heals
//     a network that was cut for longer than gossip remembers the dead.
//   - Input is bounded before memberlist sees it: length of a packet, bytes of a
//     stream, streams at a time, members. Messages whose form it would panic
//     over are refused.
//   - [Gossip.Close] ends all goroutines but one: a probe that memberlist has
//     under way (its probeNode) ends by itself, within [Awareness] probe
//     intervals; it touches nothing but its own memory then.
package gossip
