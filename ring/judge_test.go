package ring

import (
	"fmt"
	"math"
	"slices"
)

// failer is a test of either kind.
type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// world is what a plan is judged against, worked out in another way than the
// code does: zones by dealing out, shares in floating point by bisection.
type world struct {
	nodes       []Node // that take something
	zones       map[string][]int
	least, most map[string]int // replicas of one partition
	ideal       []float64      // replicas
	lead        []float64      // leaderships
	partitions  int
	replicas    int
}

func newWorld(nodes []Node, partitions, replicas int) world {
	w := world{zones: map[string][]int{}, least: map[string]int{}, most: map[string]int{}, partitions: partitions}
	weights := 0.0
	for _, n := range nodes {
		if n.Weight > 0 {
			w.zones[n.Zone] = append(w.zones[n.Zone], len(w.nodes))
			w.nodes = append(w.nodes, n)
			weights += float64(n.Weight)
		}
	}
	w.replicas = min(replicas, len(w.nodes))
	w.deal()
	w.share()
	for _, n := range w.nodes {
		w.lead = append(w.lead, float64(partitions)*float64(n.Weight)/weights)
	}
	return w
}

// deal deals the replicas of one partition out to the zones, one to each in
// every round. Before the last round zones have their least; those that the
// last round may reach can have one more.
func (w *world) deal() {
	for left := w.replicas; left > 0; {
		room := 0
		for z, in := range w.zones {
			w.least[z] = w.most[z]
			if w.most[z] < len(in) {
				w.most[z]++
				room++
			}
		}
		left -= room
		if left == 0 {
			w.least = w.most
		}
	}
}

// share finds the ideals.
func (w *world) share() {
	p := float64(w.partitions)
	holds := func(z string, l float64) (sum float64) {
		for _, i := range w.zones[z] {
			sum += min(p, l*float64(w.nodes[i].Weight))
		}
		return sum
	}
	bounded := func(z string, l float64) float64 {
		return min(max(holds(z, l), p*float64(w.least[z])), p*float64(w.most[z]))
	}
	common := bisect(p+1, func(l float64) bool {
		sum := 0.0
		for z := range w.zones {
			sum += bounded(z, l)
		}
		return sum >= p*float64(w.replicas)
	})
	levels := map[string]float64{}
	for z := range w.zones {
		share := bounded(z, common)
		levels[z] = bisect(p+1, func(l float64) bool { return holds(z, l) >= share*(1-1e-12) })
	}
	for _, n := range w.nodes {
		w.ideal = append(w.ideal, min(p, levels[n.Zone]*float64(n.Weight)))
	}
}

// bisect finds the least number up to high that is enough.
func bisect(high float64, enough func(float64) bool) float64 {
	low := 0.0
	for range 200 {
		if m := (low + high) / 2; enough(m) {
			high = m
		} else {
			low = m
		}
	}
	return high
}

// amiss says whether a count is farther from an ideal than is allowed: one, or
// 5 %.
func amiss(count int, ideal float64) bool {
	return math.Abs(float64(count)-ideal) > max(1, ideal/20)+1e-6
}

// judge checks everything that is promised of a plan by itself.
func judge(t failer, p Plan, nodes []Node, partitions, replicas int) {
	t.Helper()
	w := newWorld(nodes, partitions, replicas)
	if p.Partitions() != partitions || p.Replicas() != w.replicas {
		t.Fatalf("%d partitions x %d, want %d x %d", p.Partitions(), p.Replicas(), partitions, w.replicas)
	}
	index := w.index()
	zoneOf, zoneNames := w.zoneIndex()
	count, led := make([]int, len(w.nodes)), make([]int, len(w.nodes))
	zones, seen := make([]int, len(zoneNames)), make([]int, len(w.nodes))
	for q := range partitions {
		clear(zones)
		for r, m := range p.Cohort(Partition(q)) {
			i, ok := index[m]
			if !ok || seen[i] == q+1 {
				t.Fatalf("partition %d: %v in %v", q, m, p.Cohort(Partition(q)))
			}
			seen[i] = q + 1
			zones[zoneOf[i]]++
			count[i]++
			if r == 0 {
				led[i]++
			}
		}
		used := 0
		for z, name := range zoneNames {
			if used += min(1, zones[z]); zones[z] < w.least[name] || zones[z] > w.most[name] {
				t.Fatalf("partition %d: %d in zone %s, want %d to %d", q, zones[z], name, w.least[name], w.most[name])
			}
		}
		if used != min(w.replicas, len(zones)) {
			t.Fatalf("partition %d: %d replicas in %d zones, of %d", q, w.replicas, used, len(zones))
		}
	}
	for i, n := range w.nodes {
		what := fmt.Sprintf("%s of weight %d in zone %s", n.Name, n.Weight, n.Zone)
		if amiss(count[i], w.ideal[i]) {
			t.Fatalf("%s has %d replicas, ideal %.3f", what, count[i], w.ideal[i])
		}
		if amiss(led[i], w.lead[i]) {
			t.Fatalf("%s, with %d replicas, leads %d, ideal %.3f", what, count[i], led[i], w.lead[i])
		}
	}
}

// zoneIndex numbers the zones.
func (w *world) zoneIndex() (zoneOf []int, names []string) {
	for _, n := range w.nodes {
		z := slices.Index(names, n.Zone)
		if z < 0 {
			z, names = len(names), append(names, n.Zone)
		}
		zoneOf = append(zoneOf, z)
	}
	return zoneOf, names
}

func (w *world) index() map[Member]int {
	index := map[Member]int{}
	for i, n := range w.nodes {
		index[n.Member] = i
	}
	return index
}

// added counts the replicas that a change copies.
func added(old, new Plan) (n int) {
	for _, m := range Moves(old, new) {
		n += len(m.Added)
	}
	return n
}
