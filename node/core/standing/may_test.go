package standing

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
)

func member(name string) register.Member {
	return register.Member{Node: name, Incarnation: register.Incarnation{name[0]}}
}

// trusted is a member of a cohort of three whose disk another one goes by.
func trusted(t *testing.T) *Machine {
	t.Helper()
	self, other, third := member("a"), member("b"), member("c")
	v := view.New(self, 1)
	v.Cells[0] = register.Cell{Epoch: 2, Cohort: []register.Member{self, other, third}}
	v.Look()
	v.Current, v.Joined = true, true
	disk := memstore.New()
	env := Env{Ground: &ground.Ground{Self: self, Eta: 10 * time.Second, View: v, Round: round.New(disk)}, Boot: rand.Uint64()}
	m, err := New(env, make([]uint64, 1), disk, clock.Time{})
	if err != nil {
		t.Fatal(err)
	}
	m.Disk.Heard(other, 0)
	return m
}

// TestDuties is the table of the package comment, a case per cell: which duty is left where
// one thing is missing.
func TestDuties(t *testing.T) {
	duties := []Duty{Vote, Accept, Lead, Renew, Count}
	for _, c := range []struct {
		name string
		lack func(*Machine)
		want [5]bool // in the order of duties
	}{
		{"nothing is missing", func(*Machine) {}, [5]bool{true, true, true, true, true}},
		{"it is no member", func(m *Machine) { m.env.View.Dismissed = true }, [5]bool{false, false, false, true, true}},
		{"the partition is being deleted", func(m *Machine) { m.env.View.Dropping[0] = true }, [5]bool{true, false, false, true, false}},
		{"its clock is off", func(m *Machine) { m.Clocks.Bad[0] = true }, [5]bool{false, false, false, true, true}},
		{"its clock is in doubt", func(m *Machine) { m.Clocks.Doubt[0] = true }, [5]bool{true, true, true, false, true}},
		{"the register has not answered", func(m *Machine) { m.env.View.Current = false }, [5]bool{false, false, false, true, true}},
		{"too few have told", func(m *Machine) { clear(m.Disk.ConfirmedBy); m.Disk.Changed() }, [5]bool{false, false, false, true, false}},
		{"its disk has lost something", func(m *Machine) { m.Disk.Found("a test says so", false) }, [5]bool{false, false, false, true, false}},
	} {
		m := trusted(t)
		c.lack(m)
		for i, d := range duties {
			if got := m.May(0, d); got != c.want[i] {
				t.Errorf("%s: duty %d: %t, want %t", c.name, d, got, c.want[i])
			}
		}
	}
}

// TestWhatIsLostIsSaid: others hear once, and in order, that a partition is to be led no more.
func TestWhatIsLostIsSaid(t *testing.T) {
	m := trusted(t)
	m.Drain()
	m.Disk.Found("a test says so", false)
	events := m.Drain()
	if len(events) != 1 || events[0] != (Event{Lost, 0}) {
		t.Errorf("it says %v, not that partition 0 is lost", events)
	}
	if again := m.Drain(); len(again) != 0 {
		t.Errorf("it says %v twice", again)
	}
}
