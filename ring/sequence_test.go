package ring

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// history is a cluster that changes, with the plan that follows it.
type history struct {
	t          *rapid.T
	nodes      []Node
	named      int
	plan       Plan
	partitions int
	replicas   int
	zones      int
	weights    *rapid.Generator[uint32]
}

// begin draws a cluster and places it from scratch.
func begin(t *rapid.T, mostNodes, mostPartitions int) *history {
	h := &history{
		t: t, partitions: rapid.IntRange(1, mostPartitions).Draw(t, "partitions"), replicas: rapid.IntRange(1, 7).Draw(t, "replicas"),
		zones: rapid.SampledFrom([]int{1, 1, 2, 3, 4, 7, 20}).Draw(t, "zones"),
		weights: rapid.SampledFrom([]*rapid.Generator[uint32]{
			rapid.Just[uint32](100), rapid.Uint32Range(50, 150), rapid.Uint32Range(1, 10),
			rapid.Uint32Range(1, MaxWeight), rapid.SampledFrom([]uint32{1, MaxWeight}), rapid.SampledFrom([]uint32{0, 1, 2}),
		}).Draw(t, "weights"),
	}
	h.join(100)
	for range rapid.IntRange(0, mostNodes-1).Draw(t, "nodes") {
		h.join(h.weights.Draw(t, "weight"))
	}
	h.plan = place(t, Plan{}, h.nodes, h.partitions, h.replicas)
	return h
}

func (h *history) join(weight uint32) {
	h.named++
	zone := fmt.Sprint("z", rapid.IntRange(1, h.zones).Draw(h.t, "zone"))
	h.nodes = append(h.nodes, node(fmt.Sprintf("n%03d", h.named), zone, weight))
}

// taking counts the nodes that take something.
func (h *history) taking() (n int) {
	for _, node := range h.nodes {
		n += min(1, int(node.Weight))
	}
	return n
}

// change draws one change of the nodes.
func (h *history) change() string {
	i := rapid.IntRange(0, len(h.nodes)-1).Draw(h.t, "which")
	n := &h.nodes[i]
	last := n.Weight > 0 && h.taking() == 1
	switch what := rapid.SampledFrom([]string{"join", "join many", "remove", "leave", "weight", "bit", "zone", "replicas", "replace"}).Draw(h.t, "what"); {
	case what == "remove" && !last:
		h.nodes = slices.Delete(h.nodes, i, i+1)
		return what
	case what == "leave" && !last:
		n.Weight = 0
		return what
	case what == "weight" && !last:
		n.Weight = h.weights.Draw(h.t, "weight")
		return what
	case what == "bit":
		n.Weight = min(n.Weight/10*11+1, MaxWeight)
		return what
	case what == "zone":
		n.Zone = fmt.Sprint("z", rapid.IntRange(1, h.zones).Draw(h.t, "zone"))
		return what
	case what == "replicas":
		h.replicas = rapid.IntRange(1, 7).Draw(h.t, "replicas")
		return what
	case what == "replace":
		n.Key[0]++
		return what
	case what == "join many":
		for range rapid.IntRange(2, 5).Draw(h.t, "joiners") {
			h.join(h.weights.Draw(h.t, "weight"))
		}
		return what
	}
	h.join(h.weights.Draw(h.t, "weight"))
	return "join"
}

// step makes one change and places again, and checks all that is promised.
func (h *history) step() (what string, old Plan) {
	old, what = h.plan, h.change()
	h.plan = place(h.t, old, h.nodes, h.partitions, h.replicas)
	judge(h.t, h.plan, h.nodes, h.partitions, h.replicas)
	mixed := rapid.Permutation(h.nodes).Draw(h.t, "order")
	if same := place(h.t, old, mixed, h.partitions, h.replicas); !same.Equal(h.plan) {
		h.t.Fatalf("%s: the order of nodes makes a difference: %d moves", what, len(Moves(same, h.plan)))
	}
	if again := place(h.t, h.plan, h.nodes, h.partitions, h.replicas); !again.Equal(h.plan) {
		h.t.Fatalf("%s: placing again makes %d moves", what, len(Moves(h.plan, again)))
	}
	return what, old
}

// Whatever happens to a cluster, its plan is right, a function of its input,
// and a fixed point.
func TestPlaceAfterAnyChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := begin(t, 40, 200)
		judge(t, h.plan, h.nodes, h.partitions, h.replicas)
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			h.step()
		}
	})
}

// Clusters up to the largest, as many as the time allows.
func TestPlaceLargeClusters(t *testing.T) {
	const work = 20_000 // nodes x partitions
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 200).Draw(t, "most nodes")
		h := begin(t, nodes, min(MaxPartitions, work/nodes))
		judge(t, h.plan, h.nodes, h.partitions, h.replicas)
		h.step()
	})
}

// The largest clusters there are: 200 nodes, and as many partitions as there can
// be, with weights and zones of all kinds.
func TestPlaceLargest(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	rapid.Check(t, func(t *rapid.T) {
		if rapid.IntRange(0, 9).Draw(t, "one in ten") > 0 {
			return
		}
		h := begin(t, 1, 1)
		for len(h.nodes) < 200 {
			h.join(h.weights.Draw(t, "weight"))
		}
		h.partitions = MaxPartitions
		h.plan = place(t, Plan{}, h.nodes, h.partitions, h.replicas)
		judge(t, h.plan, h.nodes, h.partitions, h.replicas)
		h.step()
	})
}

// What is copied is near the least that any plan with the same number of
// replicas per node copies; an exact solver tells.
func TestPlaceCopiesLittle(t *testing.T) {
	plans, copies, least := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := begin(t, 12, 30)
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			what, old := h.step()
			w := newWorld(h.nodes, h.partitions, h.replicas)
			count, index := make([]int, len(w.nodes)), w.index()
			for p := range h.partitions {
				for _, m := range h.plan.Cohort(Partition(p)) {
					count[index[m]]++
				}
			}
			want := w.fewest(old, func(i int) (int, int) { return count[i], count[i] })
			got := added(old, h.plan)
			if got < want || got > want+slack(want) {
				t.Fatalf("%s: %d replicas copied, %d would do", what, got, want)
			}
			plans, copies, least = plans+1, copies+got, least+want
		}
	})
	t.Logf("%d plans copy %d replicas, %d would do", plans, copies, least)
}

// slack is how much more than the least is let pass.
func slack(least int) int { return 3 + least/10 }
