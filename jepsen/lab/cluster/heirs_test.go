package cluster

import (
	"slices"
	"testing"
)

// TestClientsTurnToHeirs: who talks to a node that was replaced, by one that was
// replaced in turn, talks to the last of them from then on, and to the others as
// before. Clients of a node that was replaced talked to nobody for the rest of a run
// before, so that too little happened.
func TestClientsTurnToHeirs(t *testing.T) {
	l := &Lab{}
	n := make([]*Process, 6)
	for i := range n {
		n[i] = &Process{N: i}
	}
	l.Heirs = map[*Process]*Process{}
	if now := l.HeirsOf(n[:3]); now != nil {
		t.Errorf("nobody was replaced, but %v", now)
	}
	l.Heirs[n[1]], l.Heirs[n[3]] = n[3], n[5]
	old := slices.Clone(n[:3])
	if now := l.HeirsOf(old); !slices.Equal(now, []*Process{n[0], n[5], n[2]}) || !slices.Equal(old, n[:3]) {
		t.Errorf("after two replacements: %v", now)
	}
	if now := l.HeirsOf([]*Process{n[1]}); !slices.Equal(now, []*Process{n[5]}) {
		t.Errorf("one client: %v", now)
	}
}
