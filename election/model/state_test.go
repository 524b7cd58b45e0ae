package model

import "testing"

func TestTables(t *testing.T) {
	var a table
	a = a.raise(2, 1<<1).raise(5, 2<<1|relea)
	if a.at(2) != 2 || a.at(5) != 5 || a.raise(2, 1) != a || a.at(0) != 0 {
		t.Errorf("records are %x", a)
	}
	if a.known() != 1<<8|1<<20 || a.open() != 1<<8 {
		t.Errorf("known %x, open %x", a.known(), a.open())
	}
	for mask := range 256 {
		want := table(0)
		for c := range claims {
			want |= table(mask>>c&1) << (4 * c)
		}
		if spread(uint8(mask)) != want {
			t.Fatalf("spread(%08b) = %x, want %x", mask, spread(uint8(mask)), want)
		}
	}
	s := state{}
	s.slot[1].e, s.slot[2].e = 2, 3
	r := rules{cfg: &change}
	b := table(0).with(2, 2<<1)
	if r.join(&s, a, b) != a.with(2, 2<<1) || r.join(&s, b, a) != r.join(&s, a, b) {
		t.Error("the later record does not win")
	}
	r.omit = HighestToken
	if got := r.join(&s, table(0).with(1, 2<<1), b); got != b {
		t.Errorf("by highest token: %x, want %x", got, b)
	}
}

// permuted is s with its nodes renamed and slots 1 and 2 exchanged.
func permuted(s *state, p *perm, exchange bool) state {
	t := *s
	for n := range MaxNodes {
		t.node[p.to[n]], t.named[p.to[n]] = s.node[n], s.named[n]
	}
	nodes := func(a uint32) (out uint32) {
		for c := range claims {
			out |= uint32(p.mask[a>>(4*c)&15]) << (4 * c)
		}
		return out
	}
	t.granted = nodes(s.granted)
	for k := range slots {
		c, d := &s.slot[k], &t.slot[k]
		if c.phase == unused {
			continue
		}
		d.who, d.votes, d.acks, d.fetched = p.to[c.who], p.mask[c.votes], p.mask[c.acks], p.mask[c.fetched]
		d.facts = c.facts&unionDone | p.mask[c.facts&15]
		for n := range MaxNodes {
			d.snap[p.to[n]] = c.snap[n]
		}
		t.renewed[k] = nodes(s.renewed[k])
	}
	if exchange {
		renumber(&t)
	}
	return t
}

// renumber exchanges slots 1 and 2, written down without the code under test.
func renumber(s *state) {
	at := func(k uint8) uint8 { return [slots]uint8{0, 2, 1, 3}[k] }
	set := func(m uint8) (out uint8) {
		for k := range uint8(slots) {
			out |= m >> k & 1 << at(k)
		}
		return out
	}
	tab := func(t uint32) (out uint32) {
		for c := range claims {
			out |= t >> (4 * c) & 15 << (4 * (c/slots*slots + int(at(uint8(c%slots)))))
		}
		return out
	}
	both := func(m uint8) uint8 { return set(m&15) | set(m>>4)<<4 }
	for n := range s.node {
		s.node[n].k, s.node[n].props, s.named[n] = table(tab(uint32(s.node[n].k))), set(s.node[n].props), set(s.named[n])
	}
	s.slot[1], s.slot[2] = s.slot[2], s.slot[1]
	s.renewed[1], s.renewed[2] = s.renewed[2], s.renewed[1]
	s.released[1], s.released[2] = s.released[2], s.released[1]
	s.earlyRenewed[1], s.earlyRenewed[2] = s.earlyRenewed[2], s.earlyRenewed[1]
	for k := range s.slot {
		c := &s.slot[k]
		c.old, c.pushed = at(c.old), table(tab(uint32(c.pushed)))
		for n := range c.snap {
			c.snap[n] = table(tab(uint32(c.snap[n])))
		}
		s.renewed[k], s.released[k], s.earlyRenewed[k] = tab(s.renewed[k]), both(s.released[k]), both(s.earlyRenewed[k])
	}
	s.granted, s.over, s.handed, s.earlyGranted = tab(s.granted), both(s.over), both(s.handed), both(s.earlyGranted)
	s.cell = at(s.cell)
}

// TestSymmetricStatesAreOne walks at random and compares each state with its
// renamed and renumbered copies, and with one that really differs.
func TestSymmetricStatesAreOne(t *testing.T) {
	c := change.over().releasing().retrying().completing().zombies().grants(2)
	perms := symmetries(&c)
	if len(perms) != 2 { // only nodes 1 and 2 are in both cohorts
		t.Fatalf("%d symmetries", len(perms))
	}
	if s := still; len(symmetries(&s)) != 6 {
		t.Fatalf("%d symmetries of three alike", len(symmetries(&s)))
	}
	w := walker{seed: 7}
	w.m = machine{rules: newRules(&c, 0), visit: w.visit}
	both := 0
	for i := range 300 {
		w.at = w.m.initial(i % 3)
		for range 40 {
			w.n = 0
			if w.m.expand(&w.at); w.n == 0 {
				break
			}
			w.at = w.pick
			exchange := w.at.slot[2].phase != unused
			want := fingerprint(&w.at, perms)
			for _, p := range perms {
				u := permuted(&w.at, &p, exchange)
				if got := fingerprint(&u, perms); got != want {
					t.Fatalf("a renamed state has another fingerprint:\n%+v\n%+v", w.at, u)
				}
			}
			if exchange {
				both++
			}
			u := w.at
			u.node[3].p++
			if fingerprint(&u, perms) == want {
				t.Fatal("another promise, and the same fingerprint")
			}
		}
	}
	if both == 0 {
		t.Error("no state had two candidacies")
	}
}
