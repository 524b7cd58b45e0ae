package ring

import (
	"cmp"
	"slices"
)

// exchange changes cohorts where those that there are do not let leadership
// come within bounds: a member goes out of a partition that is led by a node
// with too much, and a node with too little comes in and leads it. That
// takes weights that differ greatly, and one or two copies each time.
func (l *leads) exchange() {
	for i, q := range l.share {
		for l.led[i] > q.most() && l.give([]int32{int32(i)}, l.ranked(func(to int) bool { return l.led[to] < l.share[to].ceil() })) {
		}
	}
	for i, q := range l.share {
		for l.led[i] < q.least() && l.give(l.ranked(func(from int) bool { return l.led[from] > l.share[from].floor() }), []int32{int32(i)}) {
		}
	}
}

// ranked gives the nodes that fit, those that are farthest from their ideal
// first.
func (l *leads) ranked(fit func(int) bool) []int32 {
	var out []int32
	for i := range l.led {
		if fit(i) {
			out = append(out, int32(i))
		}
	}
	distance := func(i int32) int64 {
		d := int64(l.led[i])*l.share[i].den - l.share[i].num
		return max(d, -d) // all shares have one denominator
	}
	slices.SortStableFunc(out, func(a, b int32) int { return cmp.Compare(distance(b), distance(a)) })
	return out
}

// give takes one leadership from some node to another.
func (l *leads) give(from, to []int32) bool {
	for _, receiver := range to {
		for _, donor := range from {
			if donor != receiver && l.hand(donor, receiver) {
				return true
			}
		}
	}
	return false
}

// hand has the receiver take over a partition that the donor leads, in the
// place of some member of it.
func (l *leads) hand(donor, receiver int32) bool {
	for kind := range l.by {
		for _, p := range l.by[kind][donor] {
			for slot := int(p) * l.width; slot < (int(p)+1)*l.width; slot++ {
				other := l.holder[slot]
				if other == none || !l.fits(slot, receiver) {
					continue
				}
				back, ok := l.back(other, receiver)
				if !ok {
					continue
				}
				if back != none {
					l.replace(back, other)
				}
				l.replace(slot, receiver)
				l.yield(int(p))
				l.lead(int(p), receiver)
				return true
			}
		}
	}
	return false
}

// back finds what the receiver gives the other member for its replica: nothing,
// where balance allows that, or one that it does not lead.
func (l *leads) back(other, receiver int32) (slot int, ok bool) {
	if l.count[other] > l.ideal[other].least() && l.count[receiver] < l.ideal[receiver].most() {
		return none, true
	}
	for kind := range l.on {
		for _, slot := range l.on[kind][receiver] {
			if l.first[int(slot)/l.width] != receiver && l.fits(int(slot), other) {
				return int(slot), true
			}
		}
	}
	return none, false
}

// fits says whether a replica may move to a node.
func (b *board) fits(slot int, to int32) bool {
	p, here, there := slot/b.width, b.zoneOf[b.holder[slot]], b.zoneOf[to]
	in := b.inZone[p*len(b.zones) : (p+1)*len(b.zones)]
	return !b.holds(p, int(to)) && (here == there || int(in[here]) > b.least[here] && int(in[there]) < b.most[there])
}

func (b *board) replace(slot int, to int32) {
	b.take(slot)
	b.put(slot, int(to))
}
