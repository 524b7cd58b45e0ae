package raftnode_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/raftnode"
	"github.com/norn-dev/norn/register/registertest"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// onDisk is a group whose members have real stores.
type onDisk struct {
	tb     testing.TB
	net    *registertest.Network
	dirs   []string
	stores []store.Store
	nodes  []*raftnode.Node
}

func (d *onDisk) self(i int) register.Member {
	return register.Member{Node: fmt.Sprint("n", i), Incarnation: register.Incarnation{byte(i + 1)}}
}

func (d *onDisk) openStore(i int) store.Store {
	s, err := store.OpenPebble(store.PebbleOptions{Dir: d.dirs[i], MemTable: 2 << 20, Cache: 1 << 20})
	if err != nil {
		d.tb.Fatal(err)
	}
	return s
}

func (d *onDisk) start(i int) {
	n, err := raftnode.Open(raftnode.Config{
		Group: group.Config{Self: d.self(i), Heartbeat: 100 * time.Millisecond, Stable: 50 * time.Millisecond},
		Store: d.stores[i], Network: d.net.Port(d.self(i).Node),
	})
	if err != nil {
		d.tb.Fatal(err)
	}
	d.nodes[i] = n
}

func (d *onDisk) stop() {
	for i := range d.nodes {
		if err := d.nodes[i].Close(); err != nil {
			d.tb.Error(err)
		}
		if err := d.stores[i].Close(); err != nil {
			d.tb.Error(err)
		}
	}
}

func (d *onDisk) do(i int, r register.Request) register.Result {
	d.tb.Helper()
	for range 100 {
		answer := make(chan register.Result, 1)
		d.nodes[i].Do(r, func(res register.Result) { answer <- res })
		if res := <-answer; res.Err == nil {
			return res
		}
	}
	d.tb.Fatal("no answer")
	return register.Result{}
}

// newOnDisk makes a group of so many, of which all vote.
func newOnDisk(tb testing.TB, size, partitions int) *onDisk {
	d := &onDisk{tb: tb, net: registertest.NewNetwork()}
	c := register.Cluster{ID: register.UUID{7}, Partitions: partitions, Replicas: 3}
	grown := make(chan struct{})
	var once sync.Once
	for i := range size {
		d.dirs, d.nodes = append(d.dirs, tb.TempDir()), append(d.nodes, nil)
		d.stores = append(d.stores, d.openStore(i))
		var err error
		if i == 0 {
			err = raftnode.Format(d.stores[i], c, register.Node{Member: d.self(i)})
		} else {
			err = raftnode.Join(d.stores[i], c.ID, d.self(i))
		}
		if err != nil {
			tb.Fatal(err)
		}
		if d.start(i); i == 0 {
			d.nodes[0].Subscribe(func(s register.State) {
				if len(s.Members) == size {
					once.Do(func() { close(grown) })
				}
			})
			continue
		}
		d.do(0, register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: d.self(i), Status: register.Joining}}}})
	}
	if size == 1 {
		return d
	}
	<-grown
	for tick := time.Tick(10 * time.Millisecond); len(d.nodes[0].Status().Voters) != size; {
		<-tick
	}
	return d
}

func TestOnRealDisks(t *testing.T) {
	d := newOnDisk(t, 3, 64)
	for i := range 30 {
		c := register.Cell{Epoch: uint64(i), Nonce: uint64(i)}
		res := d.do(i%3, register.Request{Changes: []register.Change{{Partition: 5, Old: c, New: register.Cell{Epoch: c.Epoch + 1, Nonce: c.Nonce + 1, Cohort: []register.Member{d.self(0), d.self(1)}, Leader: d.self(1)}}}})
		if !res.Won[0] && res.State.Cells[5].Epoch < uint64(i+1) {
			t.Fatalf("change %d: %+v", i, res.State.Cells[5])
		}
	}
	d.stop()
	for i := range d.nodes {
		d.stores[i] = d.openStore(i)
		d.start(i)
	}
	for i := range d.nodes {
		if c := d.do(i, register.Request{}).State.Cells[5]; c.Epoch != 30 || len(c.Cohort) != 2 || c.Leader != d.self(1) {
			t.Errorf("after a restart node %d reads %+v", i, c)
		}
	}
	d.stop()
}

// BenchmarkChange is one compare-and-set at a time, and from 64 at a time, on
// real disks.
func BenchmarkChange(b *testing.B) {
	for _, size := range []int{1, 3} {
		for _, at := range []int{1, 64} {
			b.Run(fmt.Sprintf("nodes=%d/at=%d", size, at), func(b *testing.B) {
				d := newOnDisk(b, size, 64)
				defer d.stop()
				var next atomic.Int64
				b.ResetTimer()
				var all sync.WaitGroup
				for w := range at {
					all.Go(func() {
						for k := uint64(0); next.Add(1) <= int64(b.N); k++ {
							c := register.Cell{Epoch: k, Nonce: k}
							d.do(w%size, register.Request{Changes: []register.Change{{Partition: ring.Partition(w), Old: c, New: register.Cell{Epoch: k + 1, Nonce: k + 1}}}})
						}
					})
				}
				all.Wait()
				b.StopTimer()
			})
		}
	}
}

// BenchmarkElectionBatch changes all 4,096 cells in one request, on three nodes
// with real disks.
func BenchmarkElectionBatch(b *testing.B) {
	const partitions = 4096
	d := newOnDisk(b, 3, partitions)
	defer d.stop()
	cohort := []register.Member{d.self(0), d.self(1), d.self(2)}
	k := uint64(0)
	for b.Loop() {
		var r register.Request
		for p := range partitions {
			c := register.Cell{Epoch: k, Nonce: k}
			r.Changes = append(r.Changes, register.Change{Partition: ring.Partition(p), Old: c, New: register.Cell{Epoch: k + 1, Nonce: k + 1, Cohort: cohort, Leader: cohort[0]}})
		}
		k++
		d.do(1, r)
	}
}

// BenchmarkRead is a linearizable read at a member that may not lead.
func BenchmarkRead(b *testing.B) {
	d := newOnDisk(b, 3, 4096)
	defer d.stop()
	for b.Loop() {
		d.do(1, register.Request{})
	}
}
