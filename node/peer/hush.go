package peer

import (
	"maps"
	"slices"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// Hush ends the connections to all other nodes and lets none come about, or lets
// them come about again: who cannot keep what it hears is better not heard of,
// because the others wait for whom they are connected to.
func (n *Network) Hush(on bool) {
	if n.hushed.Swap(on) == on {
		return
	}
	n.mu.Lock()
	sessions, peers := slices.Collect(maps.Values(n.sessions)), slices.Collect(maps.Values(n.peers))
	n.mu.Unlock()
	var links []*transport.Link
	for _, s := range sessions {
		links = append(links, s.link)
	}
	for _, p := range peers { // a lane locks before the network does, never after
		for _, l := range []*lane{p.control, p.bulk} {
			l.mu.Lock()
			if l.link != nil {
				links = append(links, l.link)
			}
			l.mu.Unlock()
			if !on {
				l.rouse()
			}
		}
	}
	if !on {
		return
	}
	for _, link := range links {
		link.Close(n.quiet())
	}
}

// quiet refuses a connection while this node is out of the way; nil: it is not.
func (n *Network) quiet() *Refusal {
	if !n.hushed.Load() {
		return nil
	}
	return refuse(nornv1.PeerRefusal_PEER_REFUSAL_BUSY, "the disk of node %q does not answer", n.cfg.Self.Node)
}
