package view

import (
	"testing"

	"github.com/norn-dev/norn/register"
)

// TestCellsAreTaken: those of a state as they are, without a copy, unless one of them is older
// than what is known, and what is changed here changes nobody else's.
func TestCellsAreTaken(t *testing.T) {
	self := register.Member{Node: "a"}
	v := New(self, 3)
	at := func(epochs ...uint64) []register.Cell {
		cells := make([]register.Cell, len(epochs))
		for p := range cells {
			cells[p] = register.Cell{Epoch: epochs[p], Cohort: []register.Member{self}}
		}
		return cells
	}
	first := at(1, 1, 1)
	if before := v.Take(first); before[0].Epoch != 0 || &v.Cells[0] != &first[0] {
		t.Errorf("from epoch %d; taken as they are: %v", before[0].Epoch, &v.Cells[0] == &first[0])
	}
	v.Set(1, register.Cell{Epoch: 5, Cohort: []register.Member{{Node: "b"}}})
	if first[1].Epoch != 1 || v.Cells[1].Epoch != 5 || !v.Left(1, &first[1]) || v.Left(0, &first[0]) {
		t.Errorf("theirs %v, ours %v", first, v.Cells)
	}
	older := at(2, 4, 1)
	if before := v.Take(older); v.Cells[0].Epoch != 2 || v.Cells[1].Epoch != 5 || before[0].Epoch != 1 || older[1].Epoch != 4 {
		t.Errorf("%v after %v", v.Cells, older)
	}
	v.Set(2, register.Cell{Epoch: 9})
	if older[2].Epoch != 1 || v.Cells[2].Epoch != 9 {
		t.Errorf("%v after %v", v.Cells, older)
	}
}
