package node

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
)

// making is everything that counts of three nodes, a, b and c, that are started with
// bootstrap-expect 3 and the names of all: which directories there are, who runs, and what
// those that may make a cluster have heard. A partition, a node that comes late and one that is
// slow are answers that do not come: each may be missing for ever, and be as old as it likes.
type making struct {
	dir  [3]uint8      // 0: empty; else the cluster whose directory it is
	runs [3]bool       // a directory outlives its node
	life [3]uint8      // the incarnation of who is empty
	got  [3]modelRound // by the one who asked
	was  [3]modelRound // the round before, when that was good
	sent [3]uint8      // it was let into this cluster, and has not written its directory yet

	made uint8
	ever [3]uint8 // by cluster: whom it has let in, a bit each
	full [3]bool  // by cluster: all three had it, so that it may have taken tasks
	has  [3]bool  // the directory has copies of them
	lost uint8    // disks
}

// modelRound are the answers of one round by who gave them: 0 none, 1 of a member, 2 and more of one that is in no
// cluster, by its incarnation.
type modelRound [3]uint8

const (
	modelNodes  = 3
	modelLosses = 5 // disks that are lost
	modelMade   = 2 // clusters; the second one is judged
)

// rule is by what a node decides: maker tells who may make a cluster at all.
type rule struct {
	makers []int
	// good tells whether one round, and the two of them, are enough for a node.
	good  func(self int, heard []heardFrom) error
	twice bool
}

// most tells whether most of the members of a cluster have its directory, and run or could.
func (m *making) most(k uint8, running bool) bool {
	ever, now := 0, 0
	for i := range modelNodes {
		if m.ever[k]>>i&1 == 1 {
			ever++
			if m.dir[i] == k && (m.runs[i] || !running) {
				now++
			}
		}
	}
	return 2*now > ever
}

// modelMember is a node in one of its incarnations.
func modelMember(node int, life uint8) register.Member {
	return register.Member{Node: string(rune('a' + node)), Incarnation: register.Incarnation{life}}
}

// heard are the answers of a round as the node itself would have them.
func (r modelRound) heard(self int) (all []heardFrom) {
	for j := range modelNodes {
		if j == self {
			continue
		}
		h := heardFrom{addr: string(rune('a' + j)), silent: r[j] == 0}
		h.who = peer.Identity{Member: modelMember(j, r[j]), Expect: modelNodes, Among: []byte("abc")}
		if r[j] == 1 {
			h.who.Cluster[0] = 1
		}
		all = append(all, h)
	}
	return all
}

// next gives all states that may follow, and what has gone wrong on the way to one.
func (m making) next(by *rule, give func(n making, what, wrong string)) {
	for i := range modelNodes {
		if !m.runs[i] {
			n := m
			n.runs[i] = true
			give(n, fmt.Sprintf("%c starts", 'a'+i), "")
			continue
		}
		n := m // it ends, and may have lost its disk when it comes back
		n.runs[i], n.got[i], n.was[i], n.sent[i] = false, modelRound{}, modelRound{}, 0
		give(n, fmt.Sprintf("%c ends", 'a'+i), "")
		if m.lost < modelLosses {
			n.dir[i], n.has[i] = 0, false
			n.life[i]++
			n.lost++
			give(n, fmt.Sprintf("%c loses its disk", 'a'+i), "")
		}
		switch k := m.dir[i]; {
		case k == 0:
			m.empty(i, by, give)
		case m.full[k] && m.most(k, true) && !m.has[i]:
			n := m
			n.has[i] = true
			give(n, fmt.Sprintf("%c copies", 'a'+i), "")
		}
	}
}

// empty is what a node without a directory does: it is let in, hears an answer, or makes a
// cluster.
func (m making) empty(i int, by *rule, give func(n making, what, wrong string)) {
	if k := m.sent[i]; k != 0 { // the answer is lost, or has come: it writes its directory
		n := m
		n.sent[i] = 0
		give(n, fmt.Sprintf("%c does not hear that it may enter %d", 'a'+i, k), "")
		n.dir[i], n.got[i], n.was[i] = k, modelRound{}, modelRound{}
		if n.dir == [3]uint8{k, k, k} && !n.full[k] {
			n.full[k], n.has = true, [3]bool{true, true, true}
		}
		give(n, fmt.Sprintf("%c enters %d", 'a'+i, k), "")
		return
	}
	for j := range modelNodes {
		if k := m.dir[j]; j != i && m.runs[j] && k != 0 && m.most(k, true) {
			n := m
			n.sent[i] = k
			n.ever[k] |= 1 << i
			give(n, fmt.Sprintf("%c lets %c into %d", 'a'+j, 'a'+i, k), "")
		}
	}
	for _, maker := range by.makers {
		if maker == i {
			m.decide(i, by, give)
		}
	}
}

// decide hears one more answer, or goes on with a round that is good: to the second one, or to
// a cluster.
func (m making) decide(i int, by *rule, give func(n making, what, wrong string)) {
	for j := range modelNodes {
		if j == i || !m.runs[j] || m.got[i][j] != 0 {
			continue
		}
		n := m
		if n.got[i][j] = m.life[j] + 2; m.dir[j] != 0 {
			n.got[i][j] = 1
		}
		give(n, fmt.Sprintf("%c hears %c", 'a'+i, 'a'+j), "")
	}
	if m.got[i] != (modelRound{}) { // the round is over without the rest
		n := m
		n.got[i], n.was[i] = modelRound{}, modelRound{}
		give(n, fmt.Sprintf("%c asks anew", 'a'+i), "")
	}
	if m.made == modelMade || by.good(i, m.got[i].heard(i)) != nil {
		return
	}
	n := m
	if by.twice && m.was[i] != m.got[i] {
		n.was[i], n.got[i] = m.got[i], modelRound{}
		give(n, fmt.Sprintf("%c asks again", 'a'+i), "")
		return
	}
	n.made++
	n.dir[i], n.ever[n.made], n.got[i], n.was[i] = n.made, 1<<i, modelRound{}, modelRound{}
	give(n, fmt.Sprintf("%c makes %d", 'a'+i, n.made), m.wrong())
}

// wrong says why no cluster must be made now; empty: one may.
func (m *making) wrong() string {
	for j := range modelNodes {
		switch k := m.dir[j]; {
		case k == 0:
		case m.has[j]:
			return fmt.Sprintf("%c has copies of tasks of cluster %d", 'a'+j, k)
		case m.most(k, false):
			return fmt.Sprintf("%c is in cluster %d, which has its majority", 'a'+j, k)
		}
	}
	return ""
}

// explore looks at every state that can come, and tells how the first one comes that must not.
func explore(by *rule) (states int, wrong string) {
	type step struct {
		from making
		what string
	}
	first := making{}
	seen := map[making]step{first: {}}
	for todo := []making{first}; len(todo) > 0 && wrong == ""; {
		at := todo[0]
		todo = todo[1:]
		at.next(by, func(n making, what, why string) {
			if wrong != "" {
				return
			}
			if why != "" {
				for wrong = what + ": " + why; at != first; at = seen[at].from {
					wrong = seen[at].what + "\n" + wrong
				}
				return
			}
			if _, known := seen[n]; !known {
				seen[n] = step{at, what}
				todo = append(todo, n)
			}
		})
	}
	return len(seen), wrong
}

// oneRound is what the node itself goes by, for each of two rounds.
func oneRound(self int, heard []heardFrom) error {
	_, err := (&verdict{self: modelMember(self, 0), expect: modelNodes, among: []byte("abc")}).on(heard)
	return err
}

// TestTheRuleMakesOneCluster: whatever comes first, is late, is cut off or loses its disk, nobody
// makes a cluster beside one that lives, or beside the disk of one that has copies of tasks.
func TestTheRuleMakesOneCluster(t *testing.T) {
	for _, self := range []int{1, 2} { // whatever it hears
		for r := range 1 << 6 {
			if oneRound(self, modelRound{uint8(r & 3), uint8(r >> 2 & 3), uint8(r >> 4)}.heard(self)) == nil {
				t.Fatalf("%c makes a cluster", 'a'+self)
			}
		}
	}
	states, wrong := explore(&rule{makers: []int{0}, good: oneRound, twice: true})
	if wrong != "" {
		t.Error(wrong)
	}
	t.Logf("%d states", states)
}

// TestOtherRulesMakeTwoClusters: the model sees what is wrong with a majority, with all as makers,
// and with answers of one round.
func TestOtherRulesMakeTwoClusters(t *testing.T) {
	majority := func(self int, heard []heardFrom) error {
		v := verdict{self: modelMember(self, 0), expect: 1, among: []byte("abc")}
		var answered []heardFrom
		for _, h := range heard {
			if !h.silent {
				v.expect++
				answered = append(answered, h)
			}
		}
		for i := range answered {
			answered[i].who.Expect = v.expect
		}
		if 2*v.expect <= modelNodes {
			return errors.New("no majority has answered")
		}
		_, err := v.on(answered)
		return err
	}
	anybody := func(_ int, heard []heardFrom) error {
		for _, h := range heard {
			if h.silent || h.who.Cluster != (register.UUID{}) {
				return errors.New("not yet")
			}
		}
		return nil
	}
	for name, by := range map[string]*rule{
		"a majority": {makers: []int{0, 1, 2}, good: majority, twice: true},
		"anybody":    {makers: []int{0, 1, 2}, good: anybody, twice: true},
		"one round":  {makers: []int{0}, good: oneRound},
	} {
		if states, wrong := explore(by); wrong == "" {
			t.Errorf("%s makes one cluster, after %d states", name, states)
		} else {
			t.Logf("%s:\n%s", name, wrong)
		}
	}
}

// TestTheRuleAsksTwice: who answers as another incarnation has begun anew.
func TestTheRuleAsksTwice(t *testing.T) {
	v := verdict{self: modelMember(0, 0), expect: modelNodes, among: []byte("abc")}
	first, err := v.on(modelRound{0, 2, 2}.heard(0))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := v.on(modelRound{0, 3, 2}.heard(0)); err != nil || maps.Equal(first, again) {
		t.Errorf("%v is taken for %v, %v", again, first, err)
	}
}
