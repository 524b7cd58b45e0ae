package ring

import "slices"

// ratio is a number of partitions, exact, so that every node computes the same
// whatever its processor does with floating point. The denominator is positive.
type ratio struct{ num, den int64 }

func (r ratio) floor() int { return int(r.num / r.den) }

func (r ratio) ceil() int { return int((r.num + r.den - 1) / r.den) }

// least and most are the bounds of balance: within one of the ideal, or within
// 5 % of it, whichever is wider.
func (r ratio) least() int {
	return max(0, min(r.ceil()-1, int((19*r.num+20*r.den-1)/(20*r.den))))
}

func (r ratio) most() int { return max(r.floor()+1, int(21*r.num/(20*r.den))) }

// compare is for ratios whose numerators and denominators multiply within 63
// bits: water levels, not shares.
func (r ratio) compare(o ratio) int {
	switch a, b := r.num*o.den, o.num*r.den; {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// basin is a zone while shares are worked out: a vessel that holds min(P, λ·w)
// of each of its nodes at water level λ, but no less and no more than its
// bounds.
type basin struct {
	weights []int64 // descending
	least   int64   // replicas of all partitions that the zone must hold
	most    int64   // and may hold
	low     ratio   // level below which it holds least
	high    ratio   // level above which it holds most
}

// level gives the λ at which nodes with these weights, in descending order,
// hold total together, each min(partitions, λ·w).
func level(weights []int64, total, partitions int64) ratio {
	rest := int64(0)
	for _, w := range weights {
		rest += w
	}
	for _, w := range weights {
		if total*w <= partitions*rest {
			break
		}
		total, rest = total-partitions, rest-w // this one is full
	}
	return ratio{total, max(rest, 1)}
}

// holds is what the zone holds at a level, times the level's denominator.
func (b *basin) holds(l ratio, partitions int64) int64 {
	switch {
	case l.compare(b.low) <= 0:
		return b.least * l.den
	case l.compare(b.high) >= 0:
		return b.most * l.den
	}
	sum := int64(0)
	for _, w := range b.weights {
		sum += min(partitions*l.den, l.num*w)
	}
	return sum
}

// waterLevel is the λ at which all zones hold total together.
func waterLevel(zones []basin, total, partitions int64) ratio {
	var steps []ratio // where the sum, as a function of λ, has its bends
	for i := range zones {
		z := &zones[i]
		z.low, z.high = level(z.weights, z.least, partitions), level(z.weights, z.most, partitions)
		steps = append(steps, z.low, z.high)
		for _, w := range z.weights {
			steps = append(steps, ratio{partitions, w})
		}
	}
	slices.SortFunc(steps, ratio.compare)
	// The first bend at which there is enough; before it the sum is a line.
	at, _ := slices.BinarySearchFunc(steps, total, func(l ratio, total int64) int {
		sum := int64(0)
		for i := range zones {
			sum += zones[i].holds(l, partitions)
		}
		if sum < total*l.den {
			return -1
		}
		return 1
	})
	bend := steps[min(at, len(steps)-1)]
	rest := int64(0)
	for _, z := range zones {
		switch {
		case bend.compare(z.low) <= 0:
			total -= z.least
		case bend.compare(z.high) > 0:
			total -= z.most
		default:
			for _, w := range z.weights {
				if partitions*bend.den < bend.num*w {
					total -= partitions
				} else {
					rest += w
				}
			}
		}
	}
	if rest == 0 {
		return bend // every zone is at a bound
	}
	return ratio{total, rest}
}

// spread gives how many replicas of one partition each zone must and may hold
// so that they are in as many zones as possible and as evenly as possible
// there: with at least as many zones as replicas 0 or 1, otherwise c-1 or c
// for one c, or all nodes of a zone that has fewer. The sizes of the zones add
// up to at least the number of replicas.
func spread(sizes []int, replicas int) (least, most []int) {
	c, sum := 0, 0
	for sum < replicas {
		c, sum = c+1, 0
		for _, n := range sizes {
			sum += min(c, n)
		}
	}
	least, most = make([]int, len(sizes)), make([]int, len(sizes))
	for z, n := range sizes {
		least[z], most[z] = min(c-1, n), min(c, n)
	}
	return least, most
}

// shares gives the ideal number of replicas of every node: proportional to its
// weight as far as one node can hold a partition once only and the zones are
// bound to what spread says. Where a bound binds, the others share the rest by
// weight.
func shares(weights []int64, zoneOf []int, least, most []int, partitions, replicas int) []ratio {
	zones, p := make([]basin, len(least)), int64(partitions)
	for i, w := range weights {
		zones[zoneOf[i]].weights = append(zones[zoneOf[i]].weights, w)
	}
	for z := range zones {
		zones[z].least, zones[z].most = p*int64(least[z]), p*int64(most[z])
		slices.SortFunc(zones[z].weights, func(a, b int64) int { return int(b - a) })
	}
	common := waterLevel(zones, p*int64(replicas), p)
	levels := make([]ratio, len(zones))
	for z := range zones {
		levels[z] = common
		if common.compare(zones[z].low) < 0 {
			levels[z] = zones[z].low
		} else if common.compare(zones[z].high) > 0 {
			levels[z] = zones[z].high
		}
	}
	out := make([]ratio, len(weights))
	for i, w := range weights {
		l := levels[zoneOf[i]]
		out[i] = ratio{l.num * w, l.den}
		if out[i].num >= p*l.den {
			out[i] = ratio{p, 1}
		}
	}
	return out
}
