package peer

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/raftnode"
	"github.com/norn-dev/norn/register/registertest"
	"github.com/norn-dev/norn/store/memstore"
)

// voters is a register's group whose members talk over networks of this
// package..
type voters struct {
	t     *testing.T
	w     *world
	id    register.Cluster
	nodes []*voter
}

type voter struct {
	self    register.Member
	store   *memstore.Mem
	net     *testNode
	running *raftnode.Node
}

func (v *voters) start(n *voter) {
	n.net = v.w.add(n.self)
	running, err := raftnode.Open(raftnode.Config{
		Group: group.Config{Self: n.self, Cluster: v.id.ID, Stable: 300 * time.Millisecond, Dead: 3 * time.Second},
		Store: n.store, Network: n.net.Raft(), Failed: func(err error) { v.t.Errorf("%s failed: %v", n.self.Node, err) },
	})
	if err != nil {
		v.t.Fatal(err)
	}
	n.running = running
}

func (v *voters) do(i int, r register.Request) register.Result {
	v.t.Helper()
	for range 100 {
		answer := make(chan register.Result, 1)
		v.nodes[i].running.Do(r, func(res register.Result) { answer <- res })
		if res := <-answer; res.Err == nil {
			return res
		}
		time.Sleep(100 * time.Millisecond)
	}
	v.t.Fatalf("node %d does not answer", i)
	return register.Result{}
}

// newVoters makes a group of so many, all of which vote.
func newVoters(t *testing.T, size int) *voters {
	v := &voters{t: t, w: newWorld(t), id: register.Cluster{ID: testCluster, Partitions: registertest.Partitions, Replicas: 3}}
	for i := range size {
		n := &voter{self: who(i+1, 0), store: memstore.New()}
		var err error
		if i == 0 {
			err = raftnode.Format(n.store, v.id, register.Node{Member: n.self})
		} else {
			err = raftnode.Join(n.store, v.id.ID, n.self)
		}
		if err != nil {
			t.Fatal(err)
		}
		v.nodes = append(v.nodes, n)
		v.start(n)
		if i > 0 {
			v.do(0, register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: n.self, Status: register.Joining}}}})
		}
	}
	for range 300 {
		if st := v.nodes[0].running.Status(); len(st.Voters) == size && len(st.Outgoing) == 0 {
			return v
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("not grown: %+v", v.nodes[0].running.Status())
	return nil
}

func (v *voters) stop(n *voter) {
	if err := n.running.Close(); err != nil {
		v.t.Error(err)
	}
	n.net.stop()
}

// TestRaftRunsOverIt: three members elect, commit, survive the loss of one and
// take it back.
func TestRaftRunsOverIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVoters(t, 3)
		defer func() {
			for _, n := range v.nodes {
				v.stop(n)
			}
		}()
		write := func(i, k int) {
			t.Helper()
			res := v.do(i, register.Request{Values: []register.ValueChange{{Name: fmt.Sprint("v", k), Data: bytes.Repeat([]byte{byte(k)}, 60<<10)}}})
			if got, ok := res.State.Values[fmt.Sprint("v", k)]; !ok || len(got.Data) != 60<<10 {
				t.Fatalf("value %d: %d bytes, %v", k, len(got.Data), ok)
			}
		}
		for k := range 10 {
			write(k%3, k)
		}
		leader := 0
		for i, n := range v.nodes {
			if v.nodes[0].running.Status().Leader == n.self {
				leader = i
			}
		}
		lost := v.nodes[leader]
		v.stop(lost)
		began := time.Now()
		for k := 10; k < 60; k++ {
			write((leader+1+k%2)%3, k)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("without its leader the group took %v for 50 changes", took)
		}
		v.start(lost)
		state := v.do(leader, register.Request{}).State
		if len(state.Values) != 60 {
			t.Errorf("who came back reads %d values of 60", len(state.Values))
		}
	})
}

// TestReceiveKeepsItsContract: after Receive(nil) nothing is called, messages
// are the receiver's, large ones take the bulk connection.
func TestReceiveKeepsItsContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0)), w.add(who(2, 0))
		defer a.stop()
		defer b.stop()
		var mu sync.Mutex // guards kept
		var kept [][]byte
		b.Raft().Receive(func(data []byte) {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, data)
		})
		sizes := []int{0, 1, 100, smallMessage, smallMessage + 1, 1 << 20}
		for i, size := range sizes {
			a.Raft().Send(who(2, 0), bytes.Repeat([]byte{byte(i)}, size), i == 2)
		}
		settle(time.Second)
		b.Raft().Receive(nil)
		a.Raft().Send(who(2, 0), []byte("late"), false)
		settle(time.Second)
		seen := map[int]int{}
		for _, data := range kept {
			seen[len(data)]++
			for _, c := range data {
				if c != data[0] {
					t.Fatalf("a message of %d bytes was overwritten", len(data))
				}
			}
		}
		for _, size := range sizes {
			if seen[size] != 1 {
				t.Errorf("%d messages of %d bytes came", seen[size], size)
			}
		}
		if s := a.Status().Peers[0]; s.Control.Sent != 4 || s.Bulk.Sent != 3 || len(kept) != len(sizes) {
			t.Errorf("%d came; %+v", len(kept), s)
		}
	})
}
