package ring

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A member in another incarnation gets exactly what the old one had, leadership
// too, and placing again agrees.
func TestReplace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := begin(t, 12, 64)
		members := h.plan.Members()
		old := rapid.SampledFrom(members).Draw(t, "old")
		new := Member{Name: rapid.SampledFrom([]string{old.Name, "a", "zz"}).Draw(t, "name"), Key: [16]byte{9}}
		p, err := h.plan.Replace(old, new)
		if err != nil {
			t.Fatal(err)
		}
		had := held(h.plan, old)
		moves := Moves(h.plan, p)
		for _, m := range moves {
			if !slices.Equal(m.Added, []Member{new}) || !slices.Equal(m.Removed, []Member{old}) {
				t.Fatalf("%+v", m)
			}
		}
		if len(moves) != had || held(p, new) != had || held(p, old) != 0 || len(p.Members()) != len(members) {
			t.Fatalf("%d moves, %d had", len(moves), had)
		}
		for q := range p.Partitions() {
			a, b := h.plan.Cohort(Partition(q))[0], p.Cohort(Partition(q))[0]
			if a != b && (a != old || b != new) {
				t.Fatalf("partition %d: %v led, %v leads", q, a, b)
			}
		}
		for i := range h.nodes {
			if h.nodes[i].Member == old {
				h.nodes[i].Member = new
			}
		}
		if again := place(t, p, h.nodes, h.partitions, h.replicas); !again.Equal(p) {
			t.Fatalf("placing again makes %d moves", len(Moves(p, again)))
		}
		if back, err := p.Replace(new, old); err != nil || !back.Equal(h.plan) {
			t.Fatalf("and back: %v", err)
		}
		if q, err := DecodePlan(p.AppendTo(nil)); err != nil || !q.Equal(p) {
			t.Fatalf("encoding: %v", err)
		}
	})
}

func TestReplaceRefuses(t *testing.T) {
	nodes := some(3, 1)
	p := place(t, Plan{}, nodes, 16, 2)
	for name, c := range map[string][2]Member{
		"a stranger":        {{Name: "x"}, {Name: "y"}},
		"another key":       {{Name: nodes[0].Name}, {Name: "y"}},
		"one that is there": {nodes[0].Member, nodes[1].Member},
		"itself":            {nodes[0].Member, nodes[0].Member},
		"no name":           {nodes[0].Member, {}},
		"a long name":       {nodes[0].Member, {Name: strings.Repeat("x", MaxName+1)}},
	} {
		if q, err := p.Replace(c[0], c[1]); !errors.Is(err, ErrMember) || q.Partitions() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (Plan{}).Replace(nodes[0].Member, nodes[1].Member); !errors.Is(err, ErrMember) {
		t.Errorf("the empty plan: %v", err)
	}
}

// Whoever carries out the moves has the new cohorts.
func TestMovesLeadToThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := begin(t, 12, 64)
		_, old := h.step()
		cohorts := map[Partition][]Member{}
		for p := range Partition(h.partitions) {
			cohorts[p] = old.Cohort(p)
		}
		last := -1
		for _, m := range Moves(old, h.plan) {
			if int(m.Partition) <= last || len(m.Added)+len(m.Removed) == 0 || !slices.IsSortedFunc(m.Added, Member.Compare) || !slices.IsSortedFunc(m.Removed, Member.Compare) {
				t.Fatalf("%+v after partition %d", m, last)
			}
			last = int(m.Partition)
			cohorts[m.Partition] = append(slices.DeleteFunc(cohorts[m.Partition], func(n Member) bool { return slices.Contains(m.Removed, n) }), m.Added...)
		}
		for p := range Partition(h.partitions) {
			want := h.plan.Cohort(p)
			slices.SortFunc(want, Member.Compare)
			slices.SortFunc(cohorts[p], Member.Compare)
			if !slices.Equal(cohorts[p], want) {
				t.Fatalf("partition %d: %v, want %v", p, cohorts[p], want)
			}
		}
	})
}

func TestMovesFromNothing(t *testing.T) {
	p := place(t, Plan{}, some(3, 1), 4, 2)
	if moves := Moves(Plan{}, p); len(moves) != 4 || len(moves[3].Added) != 2 || len(moves[3].Removed) != 0 {
		t.Errorf("%+v", moves)
	}
	if moves := Moves(p, p); moves != nil {
		t.Errorf("%+v", moves)
	}
	if len(p.Cohort(4)) != 0 || len((Plan{}).Cohort(0)) != 0 {
		t.Error("there is a cohort past the last partition")
	}
}
