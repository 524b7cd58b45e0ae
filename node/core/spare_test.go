package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// TestWhoIsSparedByWhatOthersSay: each cohort and the voters have a majority of those who say
// that they have lost nothing, by the newest register that one of them knows.
func TestWhoIsSparedByWhatOthersSay(t *testing.T) {
	of := func(ids ...byte) (all []register.Member) {
		for _, i := range ids {
			all = append(all, register.Member{Node: string('a' + rune(i)), Incarnation: register.Incarnation{i}})
		}
		return all
	}
	sound := func(revision uint64, needs ...[]register.Member) message.MayRetire {
		return message.MayRetire{Sound: true, Revision: revision, Needs: needs}
	}
	for name, c := range map[string]struct {
		said map[byte]message.MayRetire
		want bool
	}{
		"nobody":                     {nil, false},
		"one of three":               {map[byte]message.MayRetire{2: sound(5, of(1, 2, 3))}, false},
		"one says that it has lost":  {map[byte]message.MayRetire{2: sound(5, of(1, 2, 3)), 3: {Revision: 9}}, false},
		"both":                       {map[byte]message.MayRetire{2: sound(5, of(1, 2, 3)), 3: sound(5, of(1, 2, 3))}, true},
		"of two":                     {map[byte]message.MayRetire{2: sound(5, of(1, 2))}, false},
		"another cohort lacks one":   {map[byte]message.MayRetire{2: sound(5, of(1, 2, 3), of(1, 3, 4)), 3: sound(5, of(1, 2, 3))}, false},
		"an older register is other": {map[byte]message.MayRetire{2: sound(5, of(1, 3, 4)), 3: sound(6, of(1, 2, 3)), 4: sound(6, of(1, 2, 3))}, true},
		"one knows a newer register": {map[byte]message.MayRetire{2: sound(1 << 60), 3: sound(6, of(1, 3, 4))}, false},
		"one of many does":           {map[byte]message.MayRetire{2: sound(1 << 60), 3: sound(6, of(1, 3, 9)), 4: sound(6, of(1, 3, 9)), 5: sound(6)}, false},
		"a newer register is other":  {map[byte]message.MayRetire{2: sound(7, of(1, 3, 4)), 3: sound(6, of(1, 2, 3))}, false},
		"nothing needs it":           {map[byte]message.MayRetire{2: sound(5, of(2, 3))}, true},
	} {
		said := make(map[register.Member]message.MayRetire)
		for who, s := range c.said {
			said[of(who)[0]] = s
		}
		if got := standing.MayEnd(of(1)[0], said, 1); got != c.want {
			t.Errorf("%s: spared: %t", name, got)
		}
		if len(said) < 2 && standing.MayEnd(of(1)[0], said, 2) {
			t.Errorf("%s: spared by one alone", name)
		}
	}
}

// TestWhatANodeSaysOfAnother: a node testifies to whom it shares no unproven cohort with, while
// it has lost nothing itself, and names each cohort and the voters once.
func TestWhatANodeSaysOfAnother(t *testing.T) {
	r := newCohorts(t, 5, 0, func(p int) []int { return [][]int{{0, 1, 2}, {0, 3, 4}}[p%2] })
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	c, who := r.peers[0].core, r.peers[1].self
	if (*standing.Attestation)(nil).For(who).Sound {
		t.Error("nobody says that a node has lost nothing")
	}
	w := Attest(c, nil)
	if s := w.For(who); !s.Sound || len(s.Needs) == 0 || len(s.Needs) > 2 || Attest(c, w) != nil {
		t.Fatalf("it says %+v; and is another one when nothing has changed: %t", s, Attest(c, w) != nil)
	}
	delete(c.standing.Disk.ConfirmedBy, r.peers[2].self)
	c.standing.Disk.Peers.Look = true
	next := Attest(c, w)
	if next == nil || next.For(who).Sound || !next.For(r.peers[3].self).Sound || !w.For(who).Sound {
		t.Errorf("one of a cohort has not told what it knows: %+v", next)
	}
	r.check(c.Step(r.now, message.Forgot{Why: "told so"}))
	if last := Attest(c, next); last == nil || last.For(r.peers[3].self).Sound {
		t.Errorf("it has forgotten something: %+v", last)
	}
}

// TestWhoIsToldThatItHasForgotten, by the register's group or a refusal: it leads and votes no
// more at once, stays while that is not known to be enough without it, and goes with the
// others intact. It waits for a while, because those that were set back with it may not know
// yet.
func TestWhoIsToldThatItHasForgotten(t *testing.T) {
	r := newTrio(t)
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	p, q := r.peers[0], r.peers[1]
	r.check(p.core.Step(r.now, message.Forgot{Why: "told so"}))
	if m := p.core.standing.Disk; m.Trusts(ring.Partition(1)) || m.MayRetire() || Forgotten(p.core) == nil {
		t.Errorf("told so: votes %t, spared %t, says %v", m.Trusts(1), m.MayRetire(), Forgotten(p.core))
	}
	r.check(q.core.Step(r.now, message.Forgot{Why: "told so, too"}))
	r.live(10*time.Second, 100*time.Millisecond, nothing)
	r.stays("two at once", 0, 1)

	r = newTrio(t)
	r.live(3*time.Second, 250*time.Millisecond, nothing)
	r.check(r.peers[0].core.Step(r.now, message.Forgot{Why: "told so"}))
	r.live(10*time.Second, 100*time.Millisecond, nothing)
	if r.peers[0].forgot == nil || r.peers[1].forgot != nil {
		t.Errorf("one alone: %v, %v", r.peers[0].forgot, r.peers[1].forgot)
	}
}
