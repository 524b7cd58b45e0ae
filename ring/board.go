package ring

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	fresh = iota // a replica placed in this run: to move it on costs nothing
	kept         // a replica of the old plan: to move it copies data
)

// none stands for no node in a slot.
const none = -1

// board is a placement while it is worked out. Nodes and zones are indices.
// The replicas of partition p are in slots p·width to (p+1)·width-1, in no
// particular order and with gaps; width is the larger of the old and the new
// number of replicas.
type board struct {
	nodes      []Node
	seed       []uint64 // by node: a hash of the member, to break ties
	partitions int
	replicas   int
	width      int

	zoneOf []int
	zones  [][]int32 // by zone: its nodes
	least  []int     // by zone: bounds on replicas of one partition
	most   []int

	ideal []ratio // by node
	count []int   // by node: replicas
	next  []int64 // by node: how full one more makes it, in parts of its ideal

	holder []int32      // by slot: node or none
	was    []int32      // by slot: node in the old plan or none
	within []int32      // by slot: its index in on
	on     [2][][]int32 // fresh or kept, by node: slots
	inZone []uint8      // by partition and zone: replicas
	held   []int        // by partition: replicas

	dropped bool // drop had to choose
}

func newBoard(old Plan, nodes []Node, partitions, replicas int) *board {
	n := len(nodes)
	b := &board{
		nodes: nodes, seed: make([]uint64, n), partitions: partitions, replicas: replicas,
		width: max(replicas, old.replicas), count: make([]int, n), next: make([]int64, n),
		on: [2][][]int32{make([][]int32, n), make([][]int32, n)}, held: make([]int, partitions),
	}
	b.divide()
	for i, node := range nodes {
		b.seed[i] = xxhash.Sum64(append(node.Key[:], node.Name...))
		b.measure(i)
	}
	slots := partitions * b.width
	b.holder, b.was, b.within = make([]int32, slots), make([]int32, slots), make([]int32, slots)
	b.inZone = make([]uint8, partitions*len(b.zones))
	index := make([]int32, len(old.members)) // of old members among the nodes
	for m, member := range old.members {
		i, found := slices.BinarySearchFunc(nodes, member, func(n Node, m Member) int { return n.Compare(m) })
		index[m] = none
		if found {
			index[m] = int32(i)
		}
	}
	for slot := range slots {
		b.holder[slot], b.was[slot] = none, none
		if p, r := slot/b.width, slot%b.width; r < old.replicas && old.replicas > 0 {
			if i := index[old.cohorts[p*old.replicas+r]]; i != none {
				b.was[slot] = i
				b.put(slot, int(i))
			}
		}
	}
	return b
}

// divide finds zones, their bounds, and the shares of all nodes.
func (b *board) divide() {
	var names []string
	for _, n := range b.nodes {
		names = append(names, n.Zone)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	b.zones, b.zoneOf = make([][]int32, len(names)), make([]int, len(b.nodes))
	weights, sizes := make([]int64, len(b.nodes)), make([]int, len(names))
	for i, n := range b.nodes {
		z, _ := slices.BinarySearch(names, n.Zone)
		b.zones[z], b.zoneOf[i], weights[i] = append(b.zones[z], int32(i)), z, int64(n.Weight)
		sizes[z]++
	}
	b.least, b.most = spread(sizes, b.replicas)
	b.ideal = shares(weights, b.zoneOf, b.least, b.most, b.partitions, b.replicas)
}

// measure brings next up to date.
func (b *board) measure(i int) {
	b.next[i] = (int64(b.count[i]+1) << 16) * b.ideal[i].den / b.ideal[i].num
}

func (b *board) holds(p, node int) bool {
	return slices.Contains(b.holder[p*b.width:(p+1)*b.width], int32(node))
}

// kind says whether a replica there is fresh or kept.
func (b *board) kind(p, node int) int {
	if slices.Contains(b.was[p*b.width:(p+1)*b.width], int32(node)) {
		return kept
	}
	return fresh
}

// put places a replica in an empty slot.
func (b *board) put(slot, node int) {
	p := slot / b.width
	list := &b.on[b.kind(p, node)][node]
	b.holder[slot], b.within[slot] = int32(node), int32(len(*list))
	*list = append(*list, int32(slot))
	b.inZone[p*len(b.zones)+b.zoneOf[node]]++
	b.held[p]++
	b.count[node]++
	b.measure(node)
}

// take empties a slot.
func (b *board) take(slot int) {
	p, node := slot/b.width, int(b.holder[slot])
	list := &b.on[b.kind(p, node)][node]
	last := (*list)[len(*list)-1]
	(*list)[b.within[slot]], b.within[last] = last, b.within[slot]
	*list = (*list)[:len(*list)-1]
	b.holder[slot] = none
	b.inZone[p*len(b.zones)+b.zoneOf[node]]--
	b.held[p]--
	b.count[node]--
	b.measure(node)
}

// missing is how many replicas of p the zones need, beyond those they have, to
// come up to their least.
func (b *board) missing(p int) int {
	sum := 0
	for z, least := range b.least {
		sum += max(0, least-int(b.inZone[p*len(b.zones)+z]))
	}
	return sum
}

// drop takes away what the old plan has and no plan may keep: first what is
// too much for its zone, then, as long as there are more replicas than asked
// for or so many that another zone can not get its least, what its zone can
// spare. The fullest node goes first.
func (b *board) drop() {
	for p := range b.partitions {
		in := b.inZone[p*len(b.zones) : (p+1)*len(b.zones)]
		for b.shed(p, func(z int) bool { return int(in[z]) > b.most[z] }) {
		}
		for b.held[p]+b.missing(p) > b.replicas && b.shed(p, func(z int) bool { return int(in[z]) > b.least[z] }) {
		}
	}
}

// shed takes the replica of p on the fullest node in the zones it may.
func (b *board) shed(p int, may func(zone int) bool) bool {
	fullest := none
	for slot := p * b.width; slot < (p+1)*b.width; slot++ {
		if i := b.holder[slot]; i != none && may(b.zoneOf[i]) && (fullest == none || b.next[i] > b.next[b.holder[fullest]]) {
			fullest = slot
		}
	}
	if fullest == none {
		return false
	}
	b.take(fullest)
	b.dropped = true
	return true
}

// fill puts a node into every slot that lacks one: the emptiest that the zones
// allow, and among equals one by hash, so that two partitions with one node in
// common rarely have a second, and what a dead node led and held falls to many.
func (b *board) fill() {
	for p := range b.partitions {
		for slot := p * b.width; b.held[p] < b.replicas; slot++ {
			if b.holder[slot] == none {
				b.put(slot, b.choose(p))
			}
		}
	}
}

func (b *board) choose(p int) int {
	in := b.inZone[p*len(b.zones) : (p+1)*len(b.zones)]
	needy := b.held[p]+b.missing(p) == b.replicas
	best, bestHash := none, uint64(0)
	for z, members := range b.zones {
		if int(in[z]) >= b.most[z] || needy && int(in[z]) >= b.least[z] {
			continue
		}
		for _, i := range members {
			if best != none && b.next[i] > b.next[best] || b.holds(p, int(i)) {
				continue
			}
			hash := mix(b.seed[i] + uint64(p))
			if best == none || b.next[i] < b.next[best] || hash > bestHash {
				best, bestHash = int(i), hash
			}
		}
	}
	return best
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
