package group

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
)

func drawPeers(t *rapid.T) []Peer {
	var out []Peer
	for i := range rapid.IntRange(0, 12).Draw(t, "peers") {
		p := Peer{
			ID: uint64(i + 1), Zone: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "zone"),
			Status: rapid.SampledFrom([]register.NodeStatus{register.Joining, register.Active, register.Active, register.Active, register.Leaving, register.Removed}).Draw(t, "status"),
			Voter:  rapid.Bool().Draw(t, "voter"), Alive: rapid.Bool().Draw(t, "alive"),
		}
		if p.Alive {
			p.Ready = rapid.Bool().Draw(t, "ready")
		} else {
			p.Dead = rapid.Bool().Draw(t, "dead")
		}
		out = append(out, p)
	}
	return out
}

// TestVoters holds the choice of voters to its laws.
func TestVoters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := drawPeers(t)
		ids, ok := Voters(peers, 5)
		able, parting, members := map[uint64]Peer{}, map[uint64]Peer{}, 0
		for _, p := range peers {
			if p.Status == register.Active {
				members++
			}
			if p.Status == register.Active && (p.Voter || p.Ready) {
				able[p.ID] = p
			} else if p.Status != register.Active && p.Voter {
				parting[p.ID] = p
			}
		}
		if len(able) == 0 {
			if ok || ids != nil {
				t.Fatalf("%v vote, and nobody can", ids)
			}
			return
		}
		if len(ids)%2 == 0 || len(ids) > 5 || len(ids) > members || len(ids) < min(5, members, len(able)+len(parting))-1 {
			t.Fatalf("%d voters of %d members, %d able, %d parting", len(ids), members, len(able), len(parting))
		}
		healthy, leave := 0, 0
		for _, id := range ids {
			_, can := able[id]
			_, parts := parting[id]
			if !can && !parts {
				t.Fatalf("%d votes and cannot", id)
			}
			if able[id].Alive || parting[id].Alive {
				healthy++
			}
			if parts {
				leave++
				continue
			}
			// A dead voter keeps its place only when nobody could take it.
			for _, other := range able {
				if able[id].Dead && !other.Dead && !slices.Contains(ids, other.ID) {
					t.Fatalf("%d is dead and votes, %d is not and does not", id, other.ID)
				}
			}
		}
		if leave == 0 {
			silent(t, peers, ids, able)
		}
		// Who leaves votes on only while nobody else can.
		if leave > 0 && len(ids)-leave < len(able) {
			t.Fatalf("%d vote on their way out, and %d of %d others do", leave, len(ids)-leave, len(able))
		}
		if ok != (healthy >= quorum.Majority(len(ids))) {
			t.Fatalf("ok is %v with %d of %d healthy", ok, healthy, len(ids))
		}
		if !ok {
			return
		}
		if leave == 0 {
			spread(t, ids, able)
		}
		// After the change the same is said.
		for i := range peers {
			peers[i].Voter = slices.Contains(ids, peers[i].ID)
		}
		if again, _ := Voters(peers, 5); !slices.Equal(again, ids) {
			t.Fatalf("%v, and after the change %v", ids, again)
		}
	})
}

// silent: a change does not keep one that is silent where another one is ready.
func silent(t *rapid.T, peers []Peer, ids []uint64, able map[uint64]Peer) {
	if !slices.ContainsFunc(peers, func(p Peer) bool { return p.Voter != slices.Contains(ids, p.ID) }) {
		return
	}
	for _, id := range ids {
		for _, other := range able {
			if !able[id].Alive && other.Alive && !slices.Contains(ids, other.ID) {
				t.Fatalf("a change to %v, with %d that is silent and without %d", ids, id, other.ID)
			}
		}
	}
}

// spread: no zone has two voters more than another one that still has somebody.
func spread(t *rapid.T, ids []uint64, able map[uint64]Peer) {
	used := map[string]int{}
	for _, id := range ids {
		used[able[id].Zone]++
	}
	for _, p := range able {
		for zone, n := range used {
			if p.Alive && !slices.Contains(ids, p.ID) && n > used[p.Zone]+1 {
				crowd := 0 // of zone, that are silent and so do not count
				for _, id := range ids {
					if able[id].Zone == zone && !able[id].Alive {
						crowd++
					}
				}
				if n-crowd > used[p.Zone]+1 {
					t.Fatalf("zone %q has %d voters, %q has %d and %d waits there", zone, n, p.Zone, used[p.Zone], p.ID)
				}
			}
		}
	}
}

func TestVotersMoveOnlyWhenTheyMust(t *testing.T) {
	peer := func(id uint64, zone string, voter bool) Peer {
		return Peer{ID: id, Zone: zone, Status: register.Active, Voter: voter, Alive: true, Ready: true}
	}
	five := []Peer{peer(1, "", true), peer(2, "", true), peer(3, "", true)}
	if ids, ok := Voters(append(five, peer(4, "", false)), 5); !ok || !slices.Equal(ids, []uint64{1, 2, 3}) {
		t.Errorf("a fourth node: %v %v", ids, ok)
	}
	if ids, ok := Voters([]Peer{peer(1, "a", true), peer(2, "a", true), peer(3, "a", true), peer(4, "b", false)}, 3); !ok || !slices.Contains(ids, 4) {
		t.Errorf("a second zone: %v %v", ids, ok)
	}
	dead := slices.Clone(five)
	dead[1].Alive, dead[1].Ready, dead[1].Dead = false, false, true
	if ids, ok := Voters(dead, 5); !ok || !slices.Equal(ids, []uint64{1, 2, 3}) {
		t.Errorf("a dead one without a substitute: %v %v", ids, ok)
	}
	if ids, ok := Voters(append(dead, peer(4, "", false)), 5); !ok || !slices.Equal(ids, []uint64{1, 3, 4}) {
		t.Errorf("a dead one with a substitute: %v %v", ids, ok)
	}
	// One of three was removed and the next member is not ready: three still vote.
	gone := append(slices.Clone(five), Peer{ID: 4, Status: register.Active})
	gone[2].Status = register.Removed
	if ids, ok := Voters(gone, 5); !ok || !slices.Equal(ids, []uint64{1, 2, 3}) {
		t.Errorf("a removed one without a substitute: %v %v", ids, ok)
	}
	if ids, ok := Voters(gone[:3], 5); !ok || !slices.Equal(ids, []uint64{1}) {
		t.Errorf("a removed one of three: %v %v", ids, ok)
	}
	// One of three leaves, another one is silent, and two are ready: both take their places.
	two := append(slices.Clone(five), peer(4, "", false), peer(5, "", false))
	two[0].Status, two[1].Alive, two[1].Ready = register.Leaving, false, false
	if ids, ok := Voters(two, 3); !ok || !slices.Equal(ids, []uint64{3, 4, 5}) {
		t.Errorf("one leaves and one is silent: %v %v", ids, ok)
	}
	// Two of three silent: whatever is wanted must wait.
	silent := slices.Clone(five)
	silent[0].Alive, silent[1].Alive = false, false
	if _, ok := Voters(silent, 5); ok {
		t.Error("a change without a healthy majority")
	}
}
