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
// over zones, the present voters before others. How many depends on how many
// members there are, not on how many happen to be up: a voter that is dead
// loses its place only to a member that is ready, and one that leaves or was
// removed keeps it while a member is there to take it that is not ready yet. ok
// is false when the change must wait, because those who would vote then are not
// healthy by a majority, or when there would be none. A change that is made anyway
// relies on nobody who is silent while another one is ready: one death more, and
// there would be no majority.
//
// The rule is a fixed point: asked again after the change it says the same.
func Voters(peers []Peer, limit int) (ids []uint64, ok bool) {
	ids, ok = choose(peers, limit, func(Peer) bool { return false })
	if slices.ContainsFunc(peers, func(p Peer) bool { return p.Voter != slices.Contains(ids, p.ID) }) {
		return choose(peers, limit, func(p Peer) bool { return !p.Alive })
	}
	return ids, ok
}

// choose takes the dead last, and who is not to be relied on before them.
func choose(peers []Peer, limit int, avoid func(Peer) bool) (ids []uint64, ok bool) {
	var able, parting []Peer
	members := 0
	for _, p := range peers {
		switch {
		case p.Status == register.Active:
			members++
			if p.Voter || p.Ready {
				able = append(able, p)
			}
		case p.Voter:
			parting = append(parting, p)
		}
	}
	n := odd(min(limit, members))
	n = odd(min(n, len(able)+len(parting)))
	if n < 1 || len(able) == 0 {
		return nil, false
	}
	zones, healthy := map[string]int{}, 0
	for len(ids) < n {
		from := &able
		if len(able) == 0 {
			from = &parting
		}
		best := slices.MinFunc(*from, func(a, b Peer) int {
			return cmp.Or(
				later(a.Dead, b.Dead),
				later(avoid(a), avoid(b)),
				cmp.Compare(zones[a.Zone], zones[b.Zone]),
				later(b.Voter, a.Voter),
				later(b.Leads, a.Leads),
				cmp.Compare(a.ID, b.ID),
			)
		})
		*from = slices.DeleteFunc(*from, func(p Peer) bool { return p.ID == best.ID })
		zones[best.Zone]++
		if best.Alive {
			healthy++
		}
		ids = append(ids, best.ID)
	}
	slices.Sort(ids)
	return ids, healthy >= quorum.Majority(n)
}

// odd is the next odd number from n down: an even number of voters survives no
// more deaths than that.
func odd(n int) int {
	if n%2 == 0 {
		return n - 1
	}
	return n
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
