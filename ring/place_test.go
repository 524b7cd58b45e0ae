package ring

import (
	"fmt"
	"slices"
	"testing"
)

// node makes a node in its first incarnation.
func node(name string, zone string, weight uint32) Node {
	return Node{Member: Member{Name: name, Key: [16]byte{1}}, Zone: zone, Weight: weight}
}

// some makes n equal nodes, spread over so many zones.
func some(n, zones int) []Node {
	out := make([]Node, n)
	for i := range out {
		out[i] = node(fmt.Sprintf("node-%03d", i), fmt.Sprintf("zone-%d", i%zones), 100)
	}
	return out
}

func place(t failer, old Plan, nodes []Node, partitions, replicas int) Plan {
	t.Helper()
	p, err := Place(old, nodes, partitions, replicas)
	if err != nil {
		t.Fatalf("%d nodes, %d partitions, %d replicas: %v", len(nodes), partitions, replicas, err)
	}
	return p
}

// held counts the replicas of a member.
func held(p Plan, m Member) (n int) {
	at, found := slices.BinarySearchFunc(p.members, m, Member.Compare)
	for _, i := range p.cohorts {
		if found && int(i) == at {
			n++
		}
	}
	return n
}

// even fails when two nodes differ by more than one in what they hold or lead.
func even(t *testing.T, p Plan) {
	t.Helper()
	held, led := make([]int, len(p.members)), make([]int, len(p.members))
	for i, m := range p.cohorts {
		held[m]++
		if i%p.replicas == 0 {
			led[m]++
		}
	}
	if slices.Max(held) > slices.Min(held)+1 || slices.Max(led) > slices.Min(led)+1 {
		t.Errorf("nodes hold %d, and lead %d", held, led)
	}
}

// Equal nodes: what a newcomer gets is all that moves, and when it leaves again
// what it had is all that moves.
func TestPlaceJoinAndLeave(t *testing.T) {
	for _, c := range []struct{ nodes, zones, partitions, replicas, share int }{
		{1, 1, 1, 1, 0}, {1, 1, 64, 3, 64}, {2, 1, 64, 3, 64}, {3, 1, 64, 3, 48}, {5, 1, 64, 3, 32}, {5, 5, 64, 5, 32}, {5, 6, 64, 5, 53},
		{10, 3, 256, 3, 64}, {50, 1, 1024, 3, 60}, {50, 7, 1024, 5, 100},
		{200, 1, 1024, 3, 15}, {200, 3, 4096, 3, 61}, {200, 201, 1024, 7, 35}, {200, 2, 1024, 7, 35},
		{3, 1, 4096, 3, 3072},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			all := some(c.nodes+1, c.zones)
			nodes, newcomer := all[:c.nodes], all[c.nodes]
			before := place(t, Plan{}, nodes, c.partitions, c.replicas)
			judge(t, before, nodes, c.partitions, c.replicas)
			if c.nodes%c.zones == 0 || c.nodes < c.zones {
				even(t, before)
			}
			with := place(t, before, all, c.partitions, c.replicas)
			judge(t, with, all, c.partitions, c.replicas)
			got := held(with, newcomer.Member)
			if moved := added(before, with); moved != got {
				t.Errorf("join: %d replicas copied, the newcomer has %d", moved, got)
			}
			t.Logf("a newcomer has %d of %d", got, c.partitions*with.Replicas())
			if got < c.share || got > c.share+1 {
				t.Errorf("a newcomer has %d, want %d", got, c.share)
			}
			after := place(t, with, nodes, c.partitions, c.replicas)
			judge(t, after, nodes, c.partitions, c.replicas)
			if moved, gone := added(with, after), max(0, got-c.partitions*(with.Replicas()-after.Replicas())); moved != gone {
				t.Errorf("leave: %d replicas copied, the leaver had %d", moved, gone)
			}
		})
	}
}
