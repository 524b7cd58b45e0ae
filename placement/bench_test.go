package placement

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
)

// large is a settled cluster of 200 nodes in 5 zones, 4,096 partitions of 3.
func large(tb testing.TB) (*Driver, register.State, []register.Member) {
	s := register.State{Cluster: register.Cluster{Partitions: 4096, Replicas: 3}, Cells: make([]register.Cell, 4096), Revision: 1}
	var alive []register.Member
	for i := range 200 {
		m := member(fmt.Sprintf("node-%03d", i))
		alive = append(alive, m)
		s.Nodes = append(s.Nodes, register.Node{Member: m, Version: 1, Zone: fmt.Sprint(i % 5), Weight: 100, Status: register.Active})
	}
	s.Members = alive
	d := driver("node-000")
	for range 10 {
		d.Step(at(0), Input{State: s, Leads: true, Alive: alive})
		requests, _ := d.Ready(at(0))
		if len(requests) == 0 {
			return d, s, alive
		}
		s, _, _ = s.Apply(&requests[0])
	}
	tb.Fatal("it does not settle")
	return nil, s, nil
}

func BenchmarkNothingChanges(b *testing.B) {
	d, s, alive := large(b)
	b.ReportAllocs()
	for now := int64(0); b.Loop(); now += tick {
		t := at(time.Duration(now))
		d.Step(t, Input{State: s, Leads: true, Alive: alive})
		if r, _ := d.Ready(t); len(r) > 0 {
			b.Fatal("it asks for something")
		}
	}
}

// One cell has changed: a look at all of them.
func BenchmarkOneCellChanges(b *testing.B) {
	d, s, alive := large(b)
	b.ReportAllocs()
	for b.Loop() {
		c := s.Cells[7]
		c.Epoch++
		s, _, _ = s.Apply(&register.Request{Changes: []register.Change{{Partition: 7, Old: s.Cells[7], New: c}}})
		d.Step(at(0), Input{State: s, Leads: true, Alive: alive})
		if r, _ := d.Ready(at(0)); len(r) > 0 {
			b.Fatal("it asks for something")
		}
	}
}

// One node joins: a new plan.
func BenchmarkPlan(b *testing.B) {
	_, s, alive := large(b)
	n := register.Node{Member: member("other"), Zone: "1", Weight: 100, Status: register.Joining}
	s, _, _ = s.Apply(&register.Request{Nodes: []register.NodeChange{{New: n}}})
	n.Status = register.Active
	s, _, _ = s.Apply(&register.Request{Nodes: []register.NodeChange{{Old: 1, New: n}}})
	b.ReportAllocs()
	for b.Loop() {
		d := driver("node-000")
		d.Step(at(0), Input{State: s, Leads: true, Alive: alive})
		if r, _ := d.Ready(at(0)); len(r) != 1 || r[0].Plan == nil {
			b.Fatal("it makes no plan")
		}
	}
}

// What a newcomer asks at each new state.
func BenchmarkCopies(b *testing.B) {
	d, s, _ := large(b)
	for p := range s.Cells {
		s.Cells[p].Cohort = members("abc")
	}
	v := d.View()
	self := s.Nodes[3].Member
	b.ReportAllocs()
	for b.Loop() {
		if len(v.Copies(self)) == 0 {
			b.Fatal("nothing to copy")
		}
	}
}

func BenchmarkEnqueueable(b *testing.B) {
	d, _, _ := large(b)
	b.ReportAllocs()
	for b.Loop() {
		if d.View().Enqueueable().Len() != 4096 {
			b.Fatal("not all take tasks")
		}
	}
}

// A settled cluster costs a driver nothing but a comparison.
func TestNothingChangesCostsNothing(t *testing.T) {
	d, s, alive := large(t)
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		now += tick
		d.Step(at(time.Duration(now)), Input{State: s, Leads: true, Alive: alive})
		if r, _ := d.Ready(at(time.Duration(now))); len(r) > 0 {
			t.Fatal("it asks for something")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
