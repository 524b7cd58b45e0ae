package model

import "math/bits"

// Two symmetries make states equal: nodes that the cohorts do not tell apart
// may change places, and candidacies are numbered by epoch and candidate, not
// by the order in which they began. Both map every step of one state to a step
// of the other and every invariant to itself, so that to visit one state of
// each class is enough. [fingerprint] is equal for equal classes.

// perm is a renaming of nodes and what it does to masks of nodes.
type perm struct {
	to   [MaxNodes]uint8
	from [MaxNodes]uint8
	mask [16]uint8
}

// symmetries lists the renamings that map every cohort to itself.
func symmetries(c *Config) []perm {
	var out []perm
	var rest func(p perm, n int)
	rest = func(p perm, n int) {
		if n == MaxNodes {
			for m := range p.mask {
				for i, to := range p.to {
					p.mask[m] |= uint8(m) >> i & 1 << to
				}
			}
			for _, cohort := range c.Cohorts {
				if p.mask[cohort] != cohort {
					return
				}
			}
			out = append(out, p)
			return
		}
		for to := range uint8(MaxNodes) {
			taken := (int(to) < c.Nodes) != (n < c.Nodes)
			for i := range n {
				taken = taken || p.to[i] == to
			}
			if !taken {
				q := p
				q.to[n], q.from[to] = to, uint8(n)
				rest(q, n+1)
			}
		}
	}
	rest(perm{}, 0)
	return out
}

// fingerprint is the smallest hash of the state under all symmetries.
func fingerprint(s *state, perms []perm) uint64 {
	least := ^uint64(0)
	for i := range perms {
		least = min(least, hash(s, &perms[i]))
	}
	return max(least, 1) // 0 is an empty place of the visited set
}

func mix(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^v^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	return hi ^ lo ^ bits.RotateLeft64(h, 29)
}

// hash is the hash of s with its nodes renamed by p and its slots in order.
func hash(s *state, p *perm) uint64 {
	ord := order(s, p)
	h := uint64(0x243f6a8885a308d3)
	for i := range MaxNodes {
		v := &s.node[p.from[i]]
		h = mix(h, uint64(ord.table(uint32(v.k)))<<32|uint64(v.p)<<24|uint64(ord.set(s.named[p.from[i]]))<<16|
			uint64(ord.set(v.props))<<8|uint64(v.flags))
	}
	for i := range slots {
		k := ord.old[i]
		c := &s.slot[k]
		if c.phase == unused {
			h = mix(h, 0)
			continue
		}
		h = mix(h, uint64(p.to[c.who])|uint64(c.e)<<8|uint64(ord.new[c.old&3])<<16|uint64(c.target)<<24|
			uint64(c.phase)<<32|uint64(p.mask[c.votes])<<36|uint64(p.mask[c.fetched])<<40|
			uint64(p.mask[c.acks])<<44|uint64(c.facts>>4)<<48|uint64(p.mask[c.facts&15])<<52|uint64(c.dead)<<60)
		h = mix(h, uint64(ord.table(uint32(c.pushed)))<<32|uint64(ord.acks(s.renewed[k], p)))
		h = mix(h, uint64(ord.set8(s.released[k]))<<8|uint64(ord.set8(s.earlyRenewed[k])))
		if c.phase == voting {
			h = mix(h, uint64(ord.table(uint32(c.snap[p.from[0]])))<<32|uint64(ord.table(uint32(c.snap[p.from[1]]))))
			h = mix(h, uint64(ord.table(uint32(c.snap[p.from[2]])))<<32|uint64(ord.table(uint32(c.snap[p.from[3]]))))
		}
	}
	h = mix(h, uint64(ord.acks(s.granted, p))<<32|uint64(ord.set8(s.over))<<24|uint64(ord.set8(s.handed))<<16|
		uint64(ord.set8(s.earlyGranted))<<8|uint64(ord.new[s.cell&3]))
	return mix(h, uint64(s.flags))
}

// ordering is a renumbering of slots.
type ordering struct {
	old, new [slots]uint8
	same     bool
}

func order(s *state, p *perm) (o ordering) {
	var key [slots]uint16
	for k := range slots {
		o.old[k] = uint8(k)
		c := &s.slot[k]
		key[k] = uint16(c.e)<<8 | uint16(p.to[c.who&3])<<4 | uint16(c.target)
		if c.phase == unused {
			key[k] = ^uint16(0)
		}
	}
	o.same = true
	for i := 2; i < slots; i++ { // slot 0 stays
		for j := i; j > 1 && key[o.old[j]] < key[o.old[j-1]]; j-- {
			o.old[j], o.old[j-1] = o.old[j-1], o.old[j]
			o.same = false
		}
	}
	for i, k := range o.old {
		o.new[k] = uint8(i)
	}
	return o
}

// set renumbers a mask of slots.
func (o *ordering) set(m uint8) uint8 {
	if o.same || m == 0 {
		return m
	}
	out := uint8(0)
	for k := range slots {
		out |= m >> k & 1 << o.new[k]
	}
	return out
}

// set8 renumbers a mask of claims.
func (o *ordering) set8(m uint8) uint8 {
	if o.same || m == 0 {
		return m
	}
	return o.set(m&15) | o.set(m>>4)<<4
}

// table renumbers a table of claims.
func (o *ordering) table(t uint32) uint32 {
	if o.same || t == 0 {
		return t
	}
	out := uint32(0)
	for c := range claims {
		out |= t >> (4 * c) & 15 << (4 * (c/slots*slots + int(o.new[c%slots])))
	}
	return out
}

// acks renumbers acks of claims, nodes and all.
func (o *ordering) acks(a uint32, p *perm) uint32 {
	if a == 0 {
		return 0
	}
	out := uint32(0)
	for c := range claims {
		out |= uint32(p.mask[a>>(4*c)&15]) << (4 * c)
	}
	return o.table(out)
}
