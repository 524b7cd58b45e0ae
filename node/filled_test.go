package node

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/access"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestAllDisksAreReplacedByReadiness: one node after the other comes back with an empty disk,
// the next one as soon as the one before is ready, while tasks come in: nothing that was
// acknowledged is lost. A node that was ready as soon as it took requests had no copies yet.
func TestAllDisksAreReplacedByReadiness(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	var acked atomic.Int64
	load, end := context.WithCancel(t.Context())
	var nodes sync.Mutex // guards who is asked
	ask := r.nodes[0]
	var loading sync.WaitGroup
	loading.Go(func() {
		for tick := time.Tick(10 * time.Millisecond); load.Err() == nil; <-tick { // no faster: it would take the processors
			nodes.Lock()
			n := ask
			nodes.Unlock()
			a := n.Call(load, access.Self(), nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}, {Queue: "q"}, {Queue: "q"}}})
			reply, ok := a.Message.(*nornv1.EnqueueReply)
			for i := 0; ok && i < len(reply.Results); i++ {
				if reply.Results[i].Error == nil {
					acked.Add(1)
				}
			}
		}
	})
	defer loading.Wait()
	defer end()
	for _, i := range []int{2, 1, 0} {
		from := acked.Load()
		eventually(t, "tasks come in", func() bool { return acked.Load() > from+60 })
		nodes.Lock()
		ask = r.nodes[(i+1)%3]
		nodes.Unlock()
		r.end(i)
		if err := os.RemoveAll(r.configs[i].Data); err != nil {
			t.Fatal(err)
		}
		r.configs[i].Join = nil
		for j, o := range r.configs {
			if j != i {
				r.configs[i].Join = append(r.configs[i].Join, o.PeerListen)
			}
		}
		r.begin(i)
		if n := r.nodes[(i+1)%3]; Spare(n) {
			eventually(t, "the others are needed", func() bool { return !Spare(n) })
		}
		eventually(t, "it is ready", func() bool {
			enqueue, claim := r.nodes[i].Ready()
			return enqueue && claim && Filled(r.nodes[i])
		})
	}
	end()
	loading.Wait()
	want := uint64(acked.Load())
	eventually(t, "all that was acknowledged is there", func() bool { return countOf(t, r.nodes[0], "q").Total >= want })
	for _, n := range r.nodes {
		full(t, n, 3)
	}
}

// TestReadinessIsNotTakenBack: a node that has had its copies goes on being ready when others
// die or leave; and one that is alone needs nobody.
func TestReadinessIsNotTakenBack(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	for _, n := range r.nodes {
		eventually(t, n.self.Node+" has its copies", func() bool { return Filled(n) && Spare(n) })
	}
	r.end(2)
	for _, n := range r.nodes[:2] {
		eventually(t, n.self.Node+" goes on", func() bool { enqueue, claim := n.Ready(); return enqueue && claim && !Spare(n) })
		if !Filled(n) {
			t.Errorf("%s is not ready because another one is away", n.self.Node)
		}
		for _, s := range r.status(n).Nodes {
			if needed := s.NeededBy > 0 && s.NeededByRegister; needed != (s.Name != "n3") {
				t.Errorf("by %s %s can be spared: %v", n.self.Node, s.Name, s)
			}
		}
	}
}
