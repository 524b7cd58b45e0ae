package node

import (
	"errors"
	"fmt"
	"testing"

	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
)

// making is everything that counts of three nodes, a, b and c, that are started with
// bootstrap-expect 3 and the names of all: which directories there are, who runs, and what
// each that is to make a cluster has heard in its present round. A partition, a node that comes
// late and one that is slow are answers that do not come: each may be missing for ever.
type making struct {
	dir  [3]uint8    // 0: empty; else the cluster whose directory it is
	runs [3]bool     // a directory outlives its node
	got  [3][3]uint8 // by the one who asked: 0 nothing, 1 "in none", 2 "in a cluster"
	sent [3]uint8    // it was let into this cluster, and has not written its directory yet

	made int8
	ever [3]uint8 // by cluster: whom it has let in, a bit each
	full [3]bool  // by cluster: all three had it, so that it may have taken tasks
	has  [3]bool  // the directory has copies of them
	lost uint8    // disks
}

const (
	modelNodes  = 3
	modelLosses = 3 // disks that are lost
	modelMade   = 2 // clusters; the second one is judged
)

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

// rule decides for a node on what it has heard.
type rule func(v *verdict) error

// heard is what node i knows, as the node itself would have it.
func (m *making) heard(i int) *verdict {
	member := func(n int) register.Member { return register.Member{Node: string(rune('a' + n))} }
	v := &verdict{self: member(i), expect: modelNodes, among: []byte("abc")}
	for j := range modelNodes {
		if j == i {
			continue
		}
		h := heardFrom{addr: string(rune('a' + j)), silent: m.got[i][j] == 0}
		h.who = peer.Identity{Member: member(j), Expect: modelNodes, Among: []byte("abc")}
		if m.got[i][j] == 2 {
			h.who.Cluster[0] = 1
		}
		v.heard = append(v.heard, h)
	}
	return v
}

// next gives all states that may follow, and what has gone wrong on the way to one.
func (m making) next(decide rule, give func(n making, what, wrong string)) {
	for i := range modelNodes {
		if !m.runs[i] {
			n := m
			n.runs[i] = true
			give(n, fmt.Sprintf("%c starts", 'a'+i), "")
			continue
		}
		n := m // it ends, and may have lost its disk when it comes back
		n.runs[i], n.got[i], n.sent[i] = false, [3]uint8{}, 0
		give(n, fmt.Sprintf("%c ends", 'a'+i), "")
		if m.lost < modelLosses {
			n.dir[i], n.has[i] = 0, false
			n.lost++
			give(n, fmt.Sprintf("%c loses its disk", 'a'+i), "")
		}
		switch k := m.dir[i]; {
		case k == 0:
			m.empty(i, decide, give)
		case m.full[k] && m.most(k, true):
			n := m
			n.has[i] = true
			give(n, fmt.Sprintf("%c copies", 'a'+i), "")
		}
	}
}

// empty is what a node without a directory does: it is let in, hears an answer, or makes a
// cluster.
func (m making) empty(i int, decide rule, give func(n making, what, wrong string)) {
	if k := m.sent[i]; k != 0 { // the answer is lost, or has come: it writes its directory
		n := m
		n.sent[i] = 0
		give(n, fmt.Sprintf("%c does not hear that it may enter %d", 'a'+i, k), "")
		n.dir[i], n.sent[i], n.got[i] = k, 0, [3]uint8{}
		all := true
		for j := range modelNodes {
			all = all && n.dir[j] == k
		}
		if all && !n.full[k] {
			n.full[k], n.has = true, [3]bool{true, true, true}
		}
		give(n, fmt.Sprintf("%c enters %d", 'a'+i, k), "")
		return
	}
	for j := range modelNodes {
		if j == i || !m.runs[j] {
			continue
		}
		n := m
		if k := m.dir[j]; k != 0 && m.most(k, true) {
			n.sent[i] = k
			n.ever[k] |= 1 << i
			give(n, fmt.Sprintf("%c lets %c into %d", 'a'+j, 'a'+i, k), "")
			n = m
		}
		if n.got[i][j] = 1; m.dir[j] != 0 {
			n.got[i][j] = 2
		}
		give(n, fmt.Sprintf("%c hears %c", 'a'+i, 'a'+j), "")
	}
	if m.made == modelMade || decide(m.heard(i)) != nil {
		return
	}
	n := m
	n.made++
	k := uint8(n.made)
	n.dir[i], n.ever[k], n.got[i] = k, 1<<i, [3]uint8{}
	give(n, fmt.Sprintf("%c makes %d", 'a'+i, k), m.wrong())
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
func explore(decide rule) (states int, wrong string) {
	type step struct {
		from making
		what string
	}
	first := making{}
	seen := map[making]step{first: {}}
	for todo := []making{first}; len(todo) > 0 && wrong == ""; {
		at := todo[0]
		todo = todo[1:]
		at.next(decide, func(n making, what, why string) {
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

// TestTheRuleMakesOneCluster: whatever comes first, is late, is cut off or loses its disk, nobody
// makes a cluster beside one that lives, or beside the disk of one that may have taken tasks.
func TestTheRuleMakesOneCluster(t *testing.T) {
	states, wrong := explore((*verdict).check)
	if wrong != "" {
		t.Error(wrong)
	}
	t.Logf("%d states", states)
}

// TestAMajorityMakesTwoClusters, and so does a rule that takes what does not answer for empty:
// the model sees it.
func TestAMajorityMakesTwoClusters(t *testing.T) {
	majority := func(v *verdict) error {
		answered := 1
		var heard []heardFrom
		for _, h := range v.heard {
			if !h.silent {
				answered++
				heard = append(heard, h)
			}
		}
		if 2*answered <= v.expect {
			return errors.New("no majority has answered")
		}
		return (&verdict{self: v.self, expect: answered, among: v.among, heard: sized(heard, answered)}).check()
	}
	if _, wrong := explore(majority); wrong == "" {
		t.Error("a majority is enough")
	} else {
		t.Log(wrong)
	}
	anybody := func(v *verdict) error {
		for _, h := range v.heard {
			if h.silent || h.who.Cluster != (register.UUID{}) {
				return errors.New("not yet")
			}
		}
		return nil
	}
	if _, wrong := explore(anybody); wrong == "" {
		t.Error("anybody may make it")
	} else {
		t.Log(wrong)
	}
}

// sized has answers name as many nodes as a rule counts with.
func sized(heard []heardFrom, expect int) []heardFrom {
	for i := range heard {
		heard[i].who.Expect = expect
	}
	return heard
}
