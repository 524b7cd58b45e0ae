package nodes

import (
	"slices"
	"strings"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

// Gossip has every node look who is there, now and then: what it sees is a
// little old, and at times not so.
func (f *Fleet) Gossip() {
	for _, n := range f.Nodes {
		f.Watch(n)
	}
}

// Watch has a node look who is there from now on.
func (f *Fleet) Watch(n *Node) {
	// Gossip looks all the time: a node that is told nothing for long would be another fault.
	often := f.S.Plan.Cluster.Hints
	f.S.After(min(f.S.About(often), 3*often), func() {
		if n.Up && n.Clock.Awake(n.S.Now) {
			f.sense(n)
		}
		f.Watch(n)
	})
}

// sense tells a node which others it can hold a connection with.
func (f *Fleet) sense(n *Node) {
	s := f.S
	var up []register.Member
	for _, o := range f.Nodes {
		is := o != n && o.Up && o.Clock.Awake(f.S.Now) && !f.apart(n, o)
		if s.Chance(s.Plan.Cluster.Mistakes) {
			is = !is
		}
		if is && o != n {
			up = append(up, o.Self)
		}
	}
	slices.SortFunc(up, func(a, b register.Member) int { return strings.Compare(a.Node, b.Node) })
	if n.Peers.sensed && slices.Equal(up, n.Peers.Up) {
		return
	}
	for _, m := range n.Peers.Up {
		if !slices.Contains(up, m) {
			n.Peers.Put(group.Unreachable{Peer: m})
			n.Peers.Put(group.Lost{Peer: m})
		}
	}
	for _, m := range up {
		if !slices.Contains(n.Peers.Up, m) {
			n.Peers.Put(group.Found{Peer: m})
		}
	}
	n.Peers.Up, n.Peers.sensed = up, true
	n.Put(message.Alive{Members: slices.Clone(up)}, true)
}
