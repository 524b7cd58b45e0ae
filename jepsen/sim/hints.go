package sim

import (
	"slices"
	"strings"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

// gossip has every node look who is there, now and then: what it sees is a
// little old, and at times not so.
func (f *fleet) gossip() {
	for _, n := range f.nodes {
		f.watch(n)
	}
}

func (f *fleet) watch(n *node) {
	// Gossip looks all the time: a node that is told nothing for long would be another fault.
	often := f.s.plan.Cluster.Hints
	f.s.After(min(f.s.About(often), 3*often), func() {
		if n.up && n.Clock.Awake(n.s.Now) {
			f.sense(n)
		}
		f.watch(n)
	})
}

// sense tells a node which others it can hold a connection with.
func (f *fleet) sense(n *node) {
	s := f.s
	var up []register.Member
	for _, o := range f.nodes {
		is := o != n && o.up && o.Clock.Awake(f.s.Now) && !f.apart(n, o)
		if s.Chance(s.plan.Cluster.Mistakes) {
			is = !is
		}
		if is && o != n {
			up = append(up, o.self)
		}
	}
	slices.SortFunc(up, func(a, b register.Member) int { return strings.Compare(a.Node, b.Node) })
	if n.peers.sensed && slices.Equal(up, n.peers.up) {
		return
	}
	for _, m := range n.peers.up {
		if !slices.Contains(up, m) {
			n.peers.put(group.Unreachable{Peer: m})
			n.peers.put(group.Lost{Peer: m})
		}
	}
	for _, m := range up {
		if !slices.Contains(n.peers.up, m) {
			n.peers.put(group.Found{Peer: m})
		}
	}
	n.peers.up, n.peers.sensed = up, true
	n.put(message.Alive{Members: slices.Clone(up)}, true)
}
