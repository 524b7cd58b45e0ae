package node

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

// ofMembers is the membership of a node that knows so many others, and does not run.
func ofMembers(t *testing.T, others int, join ...string) (m *membership, all []register.Member) {
	at, err := listenPeers(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = at.close() })
	self := register.Member{Node: "n0", Incarnation: register.Incarnation{1}}
	n := &Node{cfg: &config.Config{PeerTimeout: time.Second, Join: join, PeerAdvertise: "n0:1"}, ports: at, self: self, cluster: register.Cluster{ID: register.UUID{7}}}
	m = &membership{n: n, nodes: map[register.Member]register.Node{self: {Member: self}}, told: map[register.Member]spell{}, seeds: map[string]peer.Identity{}}
	for i := range others {
		who := register.Member{Node: string(rune('a' + i)), Incarnation: register.Incarnation{2, byte(i)}}
		all = append(all, who)
		m.nodes[who] = register.Node{Member: who}
	}
	return m, all
}

// TestOneSaysThatAnotherProcessIsThisNode: that ends the process when two say so for a while,
// or the only other one; not for one of several, however long, and not for one who said so long ago.
func TestOneSaysThatAnotherProcessIsThisNode(t *testing.T) {
	for others, enough := range map[int]int{1: 1, 2: 2, 4: 2} {
		for liars := 1; liars <= enough; liars++ {
			m, all := ofMembers(t, others)
			now, ended := time.Now(), false
			if others > 1 {
				doubled(m, all[others-1], now.Add(-time.Hour))
				doubled(m, all[others-1], now.Add(-time.Hour+20*time.Second))
			}
			for range 30 {
				now = now.Add(2 * time.Second)
				for _, who := range all[:liars] {
					ended = doubled(m, who, now) || ended
				}
			}
			if ended != (liars == enough) {
				t.Errorf("%d of %d others say so: it ends %t", liars, others, ended)
			}
		}
	}
}

// TestOneSaysThatTheClusterIsAnotherOne: that this node was removed counts by the word of one
// member only where that is all that the node was told to join; and that its cluster has begun
// anew without it, where more of those at the addresses to join say so than say otherwise.
func TestOneSaysThatTheClusterIsAnotherOne(t *testing.T) {
	for _, c := range []struct {
		name             string
		join             []string
		seeds            map[string]int // which of the others is there
		anew             []int
		removed, rebuilt bool
	}{
		{name: "nowhere to join"},
		{"it is the one to join", []string{"a:1"}, map[string]int{"a:1": 0}, []int{0}, true, true},
		{"it is one to join", []string{"a:1", "b:1"}, map[string]int{"a:1": 0, "b:1": 1}, []int{0}, false, false},
		{"the other one is away", []string{"a:1", "b:1"}, map[string]int{"a:1": 0}, nil, false, false},
		{"it is one of three to join", []string{"a:1", "b:1", "c:1"}, map[string]int{"a:1": 0, "b:1": 1, "c:1": 2}, []int{0, 1}, false, true},
		{"at two addresses", []string{"a:1", "a:2", "b:1"}, map[string]int{"a:1": 0, "a:2": 0, "b:1": 1}, []int{0}, false, false},
	} {
		m, all := ofMembers(t, 3, append(c.join, "n0:1")...)
		for addr, i := range c.seeds {
			who := peer.Identity{Member: all[i], Cluster: m.n.cluster.ID, Generation: 4}
			for _, j := range c.anew {
				if i == j {
					who.Generation, who.Rebuilt = 9, 9
				}
			}
			m.seeds[addr] = who
		}
		if got := m.outside(&group.Status{Refused: group.RemovedNode, RefusedBy: all[0]}); got != c.removed {
			t.Errorf("%s: it takes itself for removed: %t", c.name, got)
		}
		if got := rebuilt(m, 4); got != c.rebuilt {
			t.Errorf("%s: it takes the cluster for another one: %t", c.name, got)
		}
		if !m.outside(&group.Status{Removed: true}) {
			t.Errorf("%s: enough say so", c.name)
		}
	}
}
