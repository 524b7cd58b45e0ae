package ring

import "slices"

// leads is who leads what, while it is worked out over a board whose cohorts
// stand.
type leads struct {
	*board
	share []ratio // by node: ideal number of partitions led
	led   []int   // by node
	first []int32 // by partition: its leader
	was   []int32 // by partition: its leader in the old plan, or none
	where []int32 // by partition: its index in by
	by    [2][][]int32
}

// newLeads keeps leaders that are still in their cohorts, and gives every
// other partition to the member that leads least.
func newLeads(b *board, old Plan) *leads {
	n := len(b.nodes)
	l := &leads{
		board: b, share: make([]ratio, n), led: make([]int, n),
		first: make([]int32, b.partitions), was: make([]int32, b.partitions), where: make([]int32, b.partitions),
		by: [2][][]int32{make([][]int32, n), make([][]int32, n)},
	}
	sum := int64(0)
	for _, node := range b.nodes {
		sum += int64(node.Weight)
	}
	for i, node := range b.nodes {
		l.share[i] = ratio{int64(b.partitions) * int64(node.Weight), sum}
	}
	for p := range b.partitions {
		l.first[p], l.was[p] = none, none
		if old.replicas > 0 {
			// newBoard has put the old cohort into the slots in its order.
			l.was[p] = b.was[p*b.width]
		}
		if l.was[p] != none && b.holds(p, int(l.was[p])) {
			l.lead(p, l.was[p])
		}
	}
	for p := range b.partitions {
		if l.first[p] == none {
			l.lead(p, l.idlest(p))
		}
	}
	return l
}

// idlest is the member of the cohort that would lead least, by weight.
func (l *leads) idlest(p int) int32 {
	best, bestLoad, bestHash := int32(none), int64(0), uint64(0)
	for _, i := range l.cohort(p) {
		load := (int64(l.led[i]+1) << 16) * l.share[i].den / l.share[i].num
		hash := mix(l.seed[i] ^ uint64(p))
		if best == none || load < bestLoad || load == bestLoad && hash > bestHash {
			best, bestLoad, bestHash = i, load, hash
		}
	}
	return best
}

// cohort gives the slots of p; some may be empty.
func (l *leads) cohort(p int) []int32 {
	out := make([]int32, 0, MaxReplicas)
	for _, i := range l.holder[p*l.width : (p+1)*l.width] {
		if i != none {
			out = append(out, i)
		}
	}
	return out
}

func (l *leads) kind(p int, node int32) int {
	if l.was[p] == node {
		return kept
	}
	return fresh
}

func (l *leads) lead(p int, node int32) {
	list := &l.by[l.kind(p, node)][node]
	l.first[p], l.where[p] = node, int32(len(*list))
	*list = append(*list, int32(p))
	l.led[node]++
}

func (l *leads) yield(p int) {
	node := l.first[p]
	list := &l.by[l.kind(p, node)][node]
	last := (*list)[len(*list)-1]
	(*list)[l.where[p]], l.where[last] = last, l.where[p]
	*list = (*list)[:len(*list)-1]
	l.first[p] = none
	l.led[node]--
}

// loads are the leaderships, to be balanced within the cohorts.
func (l *leads) loads() *loads {
	out := newLoads(l.board, l.share, l.led)
	out.expand, out.move = l.expand, func(p, to int32) {
		l.yield(int(p))
		l.lead(int(p), to)
	}
	return out
}

// balance spreads leadership, and says whether that came out within bounds.
func (l *leads) balance() bool {
	loads := l.loads()
	loads.balance(free)
	loads.balance(dear)
	return loads.balanced()
}

// expand finds who else can lead what a node leads.
func (l *leads) expand(s *search, node int32, kind int) {
	for _, p := range l.by[kind][node] {
		for _, i := range l.cohort(int(p)) {
			if s.found != none || s.left == 0 {
				return
			}
			if !s.reached(i) {
				s.mark(i, node, p)
			}
		}
	}
}

// plan gives the result.
func (l *leads) plan() Plan {
	members := make([]Member, len(l.nodes))
	for i, n := range l.nodes {
		members[i] = n.Member
	}
	cohorts := make([]uint16, 0, l.partitions*l.replicas)
	for p := range l.partitions {
		at := len(cohorts)
		for _, i := range l.cohort(p) {
			cohorts = append(cohorts, uint16(i))
		}
		first := slices.Index(cohorts[at:], uint16(l.first[p]))
		cohorts[at], cohorts[at+first] = cohorts[at+first], cohorts[at]
	}
	return newPlan(members, l.replicas, cohorts)
}
