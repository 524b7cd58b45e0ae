package capacity

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func usual(tasks float64) Demand {
	return Demand{TasksPerDay: tasks, Payload: 1000, Retention: 24 * time.Hour, GCGrace: 168 * time.Hour, Replicas: 3, Batch: 1, Peak: 3, Cores: 8, Busy: 0.5}
}

// TestFromAMillionToATrillion: each has an answer, and the small ones are three nodes.
func TestFromAMillionToATrillion(t *testing.T) {
	for _, c := range []struct {
		tasks           float64
		clusters, nodes int
	}{{1e6, 1, 3}, {1e7, 1, 3}, {1e8, 1, 3}, {1e9, 1, 5}, {1e10, 1, 42}} {
		p, err := Measured.Reckon(usual(c.tasks))
		if err != nil || p.Clusters != c.clusters || p.Nodes != c.nodes {
			t.Errorf("%g tasks a day: %+v, %v, want %d nodes", c.tasks, p, err, c.nodes)
		}
	}
	d := usual(1e12)
	d.Batch = 100
	p, err := Measured.Reckon(d)
	if err != nil || p.Clusters < 2 || p.Nodes > maxNodes || p.Busy > 0.5 {
		t.Errorf("10^12 tasks a day in batches: %+v, %v", p, err)
	}
	t.Logf("10^12: %+v", p)
}

// TestMoreTasksNeedNoLess of anything.
func TestMoreTasksNeedNoLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := usual(rapid.Float64Range(1, 1e12).Draw(t, "tasks"))
		few.Cores = rapid.Float64Range(1, 64).Draw(t, "cores")
		more := few
		more.TasksPerDay *= rapid.Float64Range(1, 100).Draw(t, "times")
		a, err := Measured.Reckon(few)
		b, other := Measured.Reckon(more)
		if err != nil || other != nil {
			t.Fatal(err, other)
		}
		total := func(p Plan) float64 { return float64(p.Clusters*p.Nodes) * p.Disk }
		if b.Clusters < a.Clusters || total(b) < total(a)*(1-1e-9) || a.Busy > few.Busy+1e-9 || b.Busy > few.Busy+1e-9 || a.Nodes < 3 {
			t.Fatalf("%+v, and for more %+v", a, b)
		}
	})
}

// TestNonsenseIsRefused instead of reckoned with.
func TestNonsenseIsRefused(t *testing.T) {
	for i, change := range []func(*Demand){
		func(d *Demand) { d.TasksPerDay = 0 }, func(d *Demand) { d.Replicas = 0 }, func(d *Demand) { d.Peak = 0.5 }, func(d *Demand) { d.Cores = 0 },
		func(d *Demand) { d.Busy = 2 }, func(d *Demand) { d.Payload = -1 }, func(d *Demand) { d.Cores, d.TasksPerDay = 0.02, 1e12 },
	} {
		d := usual(1e6)
		change(&d)
		if _, err := Measured.Reckon(d); !errors.Is(err, ErrDemand) {
			t.Errorf("demand %d: %v", i, err)
		}
	}
}

// TestPartitionsOfOthersCostMemory: each node knows who keeps them, which was not reckoned with.
func TestPartitionsOfOthersCostMemory(t *testing.T) {
	p, err := Measured.Reckon(usual(1e10))
	if err != nil {
		t.Fatal(err)
	}
	ours := float64(3*p.Partitions) / float64(p.Nodes)
	less := Measured
	less.MemoryOther = 0
	without, err := less.Reckon(usual(1e10))
	if got, want := p.Memory-without.Memory, Measured.MemoryOther*(float64(p.Partitions)-ours); err != nil || want <= 0 || got < want-1e-9 || got > want+1e-9 {
		t.Errorf("%v MiB for what others keep, want %v (%v)", got, want, err)
	}
}
