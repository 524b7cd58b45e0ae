package register

import (
	"testing"

	"github.com/norn-dev/norn/ring"
)

// TestVoid: a cohort may keep a removed member, and not get one.
func TestVoid(t *testing.T) {
	there, was, gone, leaves := numbered(1), numbered(2), numbered(3), numbered(4)
	s := First(Cluster{ID: UUID{1}, Partitions: 2, Replicas: 3}, Node{Member: there})
	s.Nodes = append(s.Nodes, Node{Member: was, Version: 3, Status: Removed}, Node{Member: gone, Version: 3, Status: Removed}, Node{Member: leaves, Version: 3, Status: Active})
	s.Cells[1] = Cell{Epoch: 4, Cohort: []Member{there, was}}
	leaving := func(m Member) bool { return m == leaves }
	for name, c := range map[string]struct {
		partition int
		cohort    []Member
		void      bool
	}{
		"keeps a removed one":     {1, []Member{there, was}, false},
		"drops a removed one":     {1, []Member{there}, false},
		"another's removed one":   {0, []Member{there, was}, true},
		"a removed one":           {1, []Member{there, gone}, true},
		"one that is on its way":  {1, []Member{there, was, leaves}, true},
		"no such partition":       {7, []Member{gone}, false},
		"one that is not known":   {1, []Member{there, numbered(9)}, false},
		"a removed one by itself": {0, []Member{gone}, true},
	} {
		t.Run(name, func(t *testing.T) {
			old := Cell{}
			if c.partition < len(s.Cells) {
				old = s.Cells[c.partition]
			}
			other := Change{Partition: 1, Old: s.Cells[1], New: Cell{Epoch: 9, Cohort: []Member{there}}}
			r := Request{Changes: []Change{{Partition: ring.Partition(c.partition), Old: old, New: Cell{Epoch: 8, Cohort: c.cohort}}, other}}
			if got := s.Void(&r, leaving); got != c.void {
				t.Fatalf("void: %v", got)
			}
			next, res, _ := s.Apply(&r)
			if want := !c.void && c.partition < 2; res.Won[0] != want {
				t.Errorf("won: %v", res.Won[0])
			}
			if res.Won[1] == (c.partition == 1 && !c.void) {
				t.Errorf("another change in the same request: %v", res.Won[1])
			}
			if c.void && c.partition == 0 && !next.Cells[c.partition].Same(&s.Cells[c.partition]) {
				t.Errorf("it was written all the same: %+v", next.Cells[c.partition])
			}
		})
	}
}
