package ring

import "math"

// flow is a network whose cheapest full flow is the placement that copies
// least: the exact answer, too slow for the real thing.
type flow struct {
	to, next   []int
	room, cost []int
	first      []int
}

func (f *flow) edge(from, to, room, cost int) {
	for _, e := range [2][4]int{{from, to, room, cost}, {to, from, 0, -cost}} {
		f.to, f.room, f.cost = append(f.to, e[1]), append(f.room, e[2]), append(f.cost, e[3])
		f.next = append(f.next, f.first[e[0]])
		f.first[e[0]] = len(f.to) - 1
	}
}

// bounded adds an edge that takes from least to most: what is under least
// pays more than everything else together costs.
func (f *flow) bounded(from, to, least, most int) {
	const prize = -1 << 20
	f.edge(from, to, least, prize)
	f.edge(from, to, most-least, 0)
}

// cheapest sends units one after the other along shortest paths.
func (f *flow) cheapest(source, sink int) (cost int) {
	n := len(f.first)
	for {
		distance, via, queued := make([]int, n), make([]int, n), make([]bool, n)
		for i := range distance {
			distance[i] = math.MaxInt
		}
		distance[source] = 0
		for queue := []int{source}; len(queue) > 0; {
			at := queue[0]
			queue, queued[at] = queue[1:], false
			for e := f.first[at]; e >= 0; e = f.next[e] {
				if d := distance[at] + f.cost[e]; f.room[e] > 0 && d < distance[f.to[e]] {
					distance[f.to[e]], via[f.to[e]] = d, e
					if !queued[f.to[e]] {
						queue, queued[f.to[e]] = append(queue, f.to[e]), true
					}
				}
			}
		}
		if distance[sink] == math.MaxInt {
			return cost
		}
		for at := sink; at != source; at = f.to[via[at]^1] {
			f.room[via[at]]--
			f.room[via[at]^1]++
			cost += f.cost[via[at]]
		}
	}
}

// fewest is how many replicas the best of all plans copies that keep to the
// bounds of zones, and to the given bounds of nodes.
func (w *world) fewest(old Plan, bounds func(i int) (least, most int)) int {
	zoneOf, zones := w.zoneIndex()
	stride := 1 + len(zones)
	node := func(i int) int { return 2 + w.partitions*stride + i }
	f := &flow{first: make([]int, node(len(w.nodes)))}
	for i := range f.first {
		f.first[i] = -1
	}
	index, copies := w.index(), len(f.to)
	for p := range w.partitions {
		at := 2 + p*stride
		f.edge(0, at, w.replicas, 0)
		for z, name := range zones {
			f.bounded(at, at+1+z, w.least[name], w.most[name])
		}
		was := map[int]bool{}
		for _, m := range old.Cohort(Partition(p)) {
			if i, ok := index[m]; ok {
				was[i] = true
			}
		}
		for i := range w.nodes {
			cost := 1
			if was[i] {
				cost = 0
			}
			f.edge(at+1+zoneOf[i], node(i), 1, cost)
		}
	}
	for i := range w.nodes {
		least, most := bounds(i)
		f.bounded(node(i), 1, least, most)
	}
	f.cheapest(0, 1)
	for e := 0; e < len(f.to); e += 2 {
		if f.cost[e] == 1 && f.room[e] == 0 {
			copies++
		}
	}
	return copies
}
