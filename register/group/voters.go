package group

import (
	"cmp"
	"slices"

	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
)

// Peer is what the leader knows of a node when it decides who votes.
type Peer struct {
	ID     uint64
	Zone   string
	Status register.NodeStatus
	// Voter: it votes now.
	Voter bool
	// Alive: it was heard of lately. Ready: it also holds the log and has for a
	// while. Dead: it was not heard of for so long that its vote is better given
	// to another.
	Alive, Ready, Dead bool
	// Leads: it is the leader.
	Leads bool
}

// Voters says who should vote: an odd number of members, at most limit, spread
// over zones, the present voters before others. A voter that is dead loses its
// place only to a member that is ready; one that leaves or was removed loses it
// anyway. ok is false when the change must wait, because those who would vote
// then are not healthy by a majority, or when there would be none.
//
// The rule is a fixed point: asked again after the change it says the same.
func Voters(peers []Peer, limit int) (ids []uint64, ok bool) {
	var able []Peer
	for _, p := range peers {
		if p.Status == register.Active && (p.Voter || p.Ready) {
			able = append(able, p)
		}
	}
	n := min(limit, len(able))
	if n%2 == 0 {
		n-- // an even number survives no more deaths than the odd one below
	}
	if n < 1 {
		return nil, false
	}
	zones, healthy := map[string]int{}, 0
	for range n {
		best := slices.MinFunc(able, func(a, b Peer) int {
			return cmp.Or(
				later(a.Dead, b.Dead),
				cmp.Compare(zones[a.Zone], zones[b.Zone]),
				later(b.Voter, a.Voter),
				later(b.Leads, a.Leads),
				cmp.Compare(a.ID, b.ID),
			)
		})
		able = slices.DeleteFunc(able, func(p Peer) bool { return p.ID == best.ID })
		zones[best.Zone]++
		if best.Alive {
			healthy++
		}
		ids = append(ids, best.ID)
	}
	slices.Sort(ids)
	return ids, healthy >= quorum.Majority(n)
}

// later orders false before true.
func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
