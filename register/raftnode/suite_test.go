package raftnode_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/raftnode"
	"github.com/norn-dev/norn/register/registertest"
	"github.com/norn-dev/norn/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// several is a group in one process.
type several struct {
	t     testing.TB
	net   *registertest.Network
	mu    sync.Mutex // guards nodes
	nodes []*node
	id    register.Cluster
}

type node struct {
	self    register.Member
	store   *memstore.Mem
	running *raftnode.Node
	failed  error
	told    atomic.Pointer[group.Status] // by Seen, the last one
}

func newSeveral(t testing.TB) *several {
	return &several{
		t: t, net: registertest.NewNetwork(),
		id: register.Cluster{ID: register.UUID{7}, Partitions: registertest.Partitions, Replicas: 3},
	}
}

func (s *several) start(n *node) {
	running, err := raftnode.Open(raftnode.Config{
		Group: group.Config{Self: n.self, Cluster: s.id.ID, Stable: 300 * time.Millisecond, Dead: 3 * time.Second},
		Store: n.store, Network: s.net.Port(n.self.Node), Failed: func(err error) { n.failed = err },
		Seen: func(status group.Status) {
			n.told.Store(&status)
			s.durable(n, status)
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	n.running = running
}

// durable checks what a member has told the others of, right after it has: the term it votes in
// and its log survive a power failure at any time (what is decided later is synced as well, and
// hides that they were not).
func (s *several) durable(n *node, said group.Status) {
	m, err := group.Open(group.Config{Self: n.self, Cluster: s.id.ID, Seed: 1}, n.store.Synced(), clock.Time{})
	if err != nil {
		s.t.Errorf("%s after a power failure: %v", n.self.Node, err)
		return
	}
	if kept := m.Status(); kept.Term < said.Term || kept.Last < said.Last {
		s.t.Errorf("%s is in term %d with %d entries, and after a power failure in term %d with %d", n.self.Node, said.Term, said.Last, kept.Term, kept.Last)
	}
}

func (s *several) add() *node {
	i := len(s.nodes) + 1
	n := &node{self: register.Member{Node: fmt.Sprintf("n%d", i), Incarnation: register.Incarnation{byte(i)}}, store: memstore.New()}
	var err error
	if i == 1 {
		err = raftnode.Format(n.store, s.id, register.Node{Member: n.self, Weight: 1})
	} else {
		err = raftnode.Join(n.store, s.id.ID, n.self)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.nodes = append(s.nodes, n)
	s.start(n)
	return n
}

func (s *several) do(i int, r register.Request) register.Result {
	s.t.Helper()
	for range 50 {
		answer := make(chan register.Result, 1)
		s.nodes[i].running.Do(r, func(res register.Result) { answer <- res })
		res := <-answer
		if res.Err == nil {
			return res
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatalf("node %d does not answer", i)
	return register.Result{}
}

// grow makes a group of so many, of which all vote.
func (s *several) grow(size int) {
	s.t.Helper()
	s.add()
	for len(s.nodes) < size {
		n := s.add()
		s.do(0, register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: n.self, Status: register.Joining}}}})
	}
	for range 300 {
		if !slices.ContainsFunc(s.nodes, func(n *node) bool {
			st := n.running.Status()
			return len(st.Voters) != size || len(st.Outgoing) > 0 || len(n.running.Members()) != size
		}) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatalf("not grown: %+v", s.nodes[0].running.Status())
}

func (s *several) Size() int { return len(s.nodes) }

func (s *several) Register(i int) register.Register {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[i].running
}

func (s *several) Crash(i, keep int) {
	n := s.nodes[i]
	_ = n.running.Close()
	n.store = n.store.Crash(keep)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(n)
}

func (s *several) Cut(i int) { s.net.Cut(s.nodes[i].self.Node) }
func (s *several) Heal()     { s.net.Heal() }

func (s *several) Close() {
	for _, n := range s.nodes {
		if err := n.running.Close(); err != nil {
			s.t.Error(err)
		}
		if n.failed != nil {
			s.t.Errorf("%s failed: %v", n.self.Node, n.failed)
		}
	}
}

func TestGroupKeepsTheContract(t *testing.T) {
	for _, size := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			registertest.Run(t, func(t testing.TB) registertest.Cluster {
				s := newSeveral(t)
				s.grow(size)
				return s
			})
		})
	}
}

// TestAGroupOfOneKeepsWhatItDecided: also when all that was not synced is lost.
func TestAGroupOfOneKeepsWhatItDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeveral(t)
		s.grow(1)
		defer s.Close()
		self := s.nodes[0].self
		won := register.Cell{Epoch: 1, Cohort: []register.Member{self}, Leader: self, Nonce: 4}
		s.do(0, register.Request{Changes: []register.Change{{Partition: 1, New: won}}})
		s.Crash(0, 0)
		if got := s.do(0, register.Request{}).State; !got.Cells[1].Same(&won) || got.Cells[1].Leader != self || got.Cluster != s.id {
			t.Fatalf("the group reads %+v", got)
		}
	})
}

// TestTheEndOfAChangeOfVotersIsTold: the old voters leave the configuration one step after the
// new ones are in it, which changes nothing else that is told. Who had not heard of it took
// the register to need this node for good.
func TestTheEndOfAChangeOfVotersIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeveral(t)
		defer s.Close()
		s.grow(3)
		synctest.Wait()
		for _, n := range s.nodes {
			is, told := n.running.Status(), n.told.Load()
			if told == nil || !slices.Equal(told.Voters, is.Voters) || !slices.Equal(told.Outgoing, is.Outgoing) {
				t.Errorf("%s was told %+v, and it is %+v", n.self.Node, told, is)
			}
		}
	})
}
