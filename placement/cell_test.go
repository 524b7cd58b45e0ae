package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// member is a node whose incarnation is its name.
func member(name string) register.Member {
	m := register.Member{Node: name}
	copy(m.Incarnation[:], name)
	return m
}

// members are one for each letter.
func members(names string) []register.Member {
	var out []register.Member
	for _, n := range names {
		out = append(out, member(string(n)))
	}
	return out
}

func names(ms []register.Member) string {
	var b strings.Builder
	for _, m := range ms {
		b.WriteString(m.Node)
	}
	return b.String()
}

// world is what is known of members, by letter; all others are active and
// alive.
type world struct{ dead, removed, leaving, lost string }

func (w world) standing(m register.Member) Standing {
	s := Standing{Status: register.Active, Alive: !strings.Contains(w.dead+w.removed+w.lost, m.Node)}
	switch {
	case strings.Contains(w.removed+w.lost, m.Node):
		s.Status, s.Lost = register.Removed, strings.Contains(w.lost, m.Node)
	case strings.Contains(w.leaving, m.Node):
		s.Status = register.Leaving
	}
	return s
}

func TestAdmit(t *testing.T) {
	for _, c := range []struct {
		name, cohort, leader, planned, newcomer string
		world
		want, wantLeader string // empty: refused
	}{
		{name: "one more", cohort: "a", leader: "a", planned: "abc", newcomer: "b", want: "ab", wantLeader: "a"},
		{name: "to full size", cohort: "ab", leader: "a", planned: "abc", newcomer: "c", want: "abc", wantLeader: "a"},
		{name: "in the place of one", cohort: "abc", leader: "b", planned: "bcd", newcomer: "d", want: "bcd", wantLeader: "b"},
		{name: "the leader last", cohort: "abc", leader: "a", planned: "cde", newcomer: "d", want: "acd", wantLeader: "a"},
		{name: "the leader at last", cohort: "acd", leader: "a", planned: "ecd", newcomer: "e", want: "cde", wantLeader: "e"},
		{name: "the preferred one dead", cohort: "abc", leader: "a", planned: "bcd", newcomer: "d", world: world{dead: "b"}, want: "bcd", wantLeader: "c"},
		{name: "gone before dead", cohort: "abc", leader: "c", planned: "cde", newcomer: "d", world: world{dead: "a", removed: "b"}, want: "acd", wantLeader: "c"},
		{name: "dead before leaving", cohort: "abc", leader: "c", planned: "cde", newcomer: "d", world: world{dead: "b", leaving: "a"}, want: "acd", wantLeader: "c"},
		{name: "leaving before others", cohort: "abc", leader: "c", planned: "cde", newcomer: "d", world: world{leaving: "b"}, want: "acd", wantLeader: "c"},
		{name: "a removed leader", cohort: "abc", leader: "a", planned: "bcd", newcomer: "d", world: world{removed: "a"}, want: "bcd", wantLeader: "b"},
		{name: "a removed leader stays in", cohort: "ab", leader: "a", planned: "bcd", newcomer: "c", world: world{removed: "a"}, want: "abc", wantLeader: "b"},
		{name: "one replica", cohort: "a", leader: "a", planned: "b", newcomer: "b", want: "ab", wantLeader: "a"},
		{name: "two replicas", cohort: "ab", leader: "a", planned: "bc", newcomer: "c", want: "bc", wantLeader: "b"},
		{name: "nobody to drop", cohort: "abc", leader: "a", planned: "abcd", newcomer: "d", want: "abcd", wantLeader: "a"},
		{name: "no leader yet", cohort: "a", planned: "ab", newcomer: "b", want: "ab", wantLeader: "a"},
		{name: "too few left", cohort: "abc", leader: "a", planned: "cde", newcomer: "d", world: world{removed: "ab"}},
		{name: "given up", cohort: "abc", leader: "a", planned: "cde", newcomer: "d", world: world{lost: "ab"}, want: "bcd", wantLeader: "c"},
		{name: "the one that stays is planned, and gone", cohort: "abc", leader: "a", planned: "bcd", newcomer: "d", world: world{removed: "b"}, want: "abcd", wantLeader: "a"},
		{name: "not planned", cohort: "abc", leader: "a", planned: "abd", newcomer: "e"},
		{name: "in already", cohort: "abc", leader: "a", planned: "abc", newcomer: "c"},
		{name: "leaving itself", cohort: "abc", leader: "a", planned: "abd", newcomer: "d", world: world{leaving: "d"}},
		{name: "no cohort", planned: "abc", newcomer: "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cell := register.Cell{Epoch: 7, Nonce: 1, Cohort: members(c.cohort)}
			if c.leader != "" {
				cell.Leader = member(c.leader)
			}
			next, ok := Admit(&cell, members(c.planned), member(c.newcomer), c.standing, 99)
			if ok != (c.want != "") || names(next.Cohort) != c.want || next.Leader.Node != c.wantLeader {
				t.Fatalf("got %s led by %q (%v), want %s led by %q", names(next.Cohort), next.Leader.Node, ok, c.want, c.wantLeader)
			}
			if ok && (next.Epoch != 8 || next.Nonce != 99) {
				t.Errorf("epoch %d, nonce %d", next.Epoch, next.Nonce)
			}
			if names(cell.Cohort) != c.cohort {
				t.Errorf("the old cohort became %s", names(cell.Cohort))
			}
		})
	}
}

func TestEnoughMeetsEveryMajority(t *testing.T) {
	for n := 1; n <= 9; n++ {
		if e, majority := Enough(n), n/2+1; e+majority != n+1 {
			t.Errorf("%d of %d and a majority of %d", e, n, majority)
		}
	}
}

func TestLeading(t *testing.T) {
	cell := register.Cell{Cohort: members("bc")}
	for leader, want := range map[string]string{"": "b", "c": "c", "x": "b"} {
		cell.Leader = register.Member{}
		if leader != "" {
			cell.Leader = member(leader)
		}
		if got, ok := Leading(&cell); !ok || got.Node != want {
			t.Errorf("named %q: got %q (%v)", leader, got.Node, ok)
		}
	}
	if _, ok := Leading(&register.Cell{Leader: member("a")}); ok {
		t.Error("somebody leads nobody")
	}
}

func TestEnqueueable(t *testing.T) {
	cells := []register.Cell{
		{Cohort: members("abc"), Leader: member("a")}, // 0: all there
		{Cohort: members("abx"), Leader: member("a")}, // 1: two of three
		{Cohort: members("axy"), Leader: member("a")}, // 2: one of three
		{Cohort: members("abx"), Leader: member("x")}, // 3: leader dead
		{}, // 4: no cohort
		{Cohort: members("ax"), Leader: member("a")},   // 5: one of two
		{Cohort: members("a")},                         // 6: the first leads
		{Cohort: members("abxy"), Leader: member("b")}, // 7: two of four
	}
	got := slices.Collect(Enqueueable(cells, members("abc")).All())
	if want := []ring.Partition{0, 1, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if Enqueueable(nil, nil).Len() != 0 {
		t.Error("no cells take tasks")
	}
}

func TestZombie(t *testing.T) {
	cell := register.Cell{Cohort: members("abc")}
	for name, want := range map[string]bool{"a": false, "d": false, "e": true} {
		if got := Zombie(&cell, members("bcd"), member(name)); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if Zombie(&register.Cell{}, nil, member("a")) {
		t.Error("a cell without a cohort has nobody to hand over to")
	}
}
