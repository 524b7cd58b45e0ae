package group

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"
)

// turnover changes the members of a group in a storm, one at a time and only
// when a majority would survive it: nodes are added, wiped, and told to leave.
type turnover struct {
	h                     *history
	young                 byte
	added, wiped, removed int
	going                 *simNode // leaving or being wiped
}

// healthy: everybody who votes is up, knows nearly all, and knows the
// configuration. Until a majority does, it is not safe: the nodes that have not
// heard yet that a change is over still need the voters from before it.
func (s *sim) healthy() bool {
	l := s.leader()
	if l == nil || len(l.machine.Status().Outgoing) > 0 {
		return false
	}
	for _, v := range l.machine.Status().Voters {
		n := s.find(v)
		if n == nil || n.machine == nil || n.busy || n.machine.disk.last()+5 < l.machine.disk.last() {
			return false
		}
		if st := n.machine.Status(); len(st.Outgoing) > 0 || !slices.Equal(st.Voters, l.machine.Status().Voters) {
			return false
		}
	}
	return true
}

func (s *sim) find(m register.Member) *simNode {
	for _, n := range s.nodes {
		if n.self == m {
			return n
		}
	}
	return nil
}

// drop takes a node out of the simulation for good.
func (s *sim) drop(n *simNode) {
	n.crash()
	n.boot++ // nothing of it is due any more, nor does it start again
	n.err = register.ErrClosed
	for i := range s.nodes {
		if s.nodes[i] == n {
			s.nodes = append(s.nodes[:i:i], s.nodes[i+1:]...)
			return
		}
	}
}

func (o *turnover) next() {
	s := o.h.s
	if o.h.stop && o.going == nil {
		return // what was begun is finished
	}
	s.after(int64(time.Second)+s.rand.Int64N(int64(time.Second)), o.next)
	l := s.leader()
	if l == nil {
		return
	}
	state := l.machine.State()
	if o.going != nil {
		o.finish(l, state)
		return
	}
	if !s.healthy() {
		return
	}
	members := len(state.Members)
	switch pick := s.rand.IntN(5); {
	case pick < 2 && members < 6 || members <= 3 && pick != 2:
		o.young++
		n := s.add(register.Member{Node: "y" + string(rune('a'+o.young)), Incarnation: register.Incarnation{100 + o.young}}).join()
		o.invite(l, n.self)
		o.added++
		o.going = n
	case pick == 2 && len(l.machine.Status().Voters) >= 3: // wiped: the same name comes as another
		old := s.nodes[s.rand.IntN(len(s.nodes))]
		s.logf("%s is wiped", old.self.Node)
		s.drop(old)
		o.young++
		m := old.self
		m.Incarnation[2] = o.young
		n := s.add(m)
		n.store = memstore.New()
		n.join()
		if l != old {
			o.invite(l, n.self)
		}
		o.wiped++
		o.going = n
	case members > 3:
		n := s.nodes[s.rand.IntN(len(s.nodes))]
		if r, ok := state.Find(n.self); ok && r.Status == register.Active {
			s.logf("%s leaves", n.self.Node)
			o.status(l, r, register.Leaving)
			o.going = n
		}
	}
}

// finish does the next step for the one that is on its way.
func (o *turnover) finish(l *simNode, state register.State) {
	r, ok := state.Find(o.going.self)
	switch {
	case !ok:
		o.invite(l, o.going.self)
	case r.Status == register.Active:
		o.going = nil
	case r.Status == register.Leaving:
		for _, v := range l.machine.Status().Voters {
			if v == r.Member {
				return // it still votes
			}
		}
		o.status(l, r, register.Removed)
	case r.Status == register.Removed:
		o.h.s.logf("%s is gone", r.Node)
		o.h.s.drop(o.going)
		o.going = nil
		o.removed++
	}
}

func (o *turnover) invite(by *simNode, m register.Member) {
	by.ask(register.Request{Nodes: []register.NodeChange{{New: register.Node{Member: m, Status: register.Joining}}}}, func(register.Result) {})
}

func (o *turnover) status(by *simNode, n register.Node, status register.NodeStatus) {
	old := n.Version
	n.Status = status
	by.ask(register.Request{Nodes: []register.NodeChange{{Old: old, New: n}}}, func(register.Result) {})
}

// TestLinearizableWhileMembersChange is the storm with a turnover of members
// on top.
func TestLinearizableWhileMembersChange(t *testing.T) {
	var added, wiped, removed, won, conf int
	seeds := *seedsFlag
	for seed := range uint64(seeds) {
		s := newSim(t, 1000+*fromFlag+seed)
		s.cfg.Entries, s.cfg.Keep, s.cfg.Stable = 20, 5, 200*time.Millisecond
		s.grow(3)
		h := &history{s: s}
		o := &turnover{h: h}
		for i := range 5 {
			h.client(i)
		}
		h.storm()
		o.next()
		s.run(90*time.Second, nil)
		h.stop = true
		s.heal()
		s.must(60*time.Second, "healed", func() bool {
			l := s.leader()
			if l == nil || !s.healthy() || o.going != nil {
				return false
			}
			for _, n := range s.nodes {
				if n.err != nil {
					s.fatalf("seed %d: %s is broken: %v", seed, n.self.Node, n.err)
				}
				if _, known := l.machine.rep.state.Find(n.self); known && (n.machine == nil || n.machine.applied != l.machine.applied || len(n.asked) > 0) {
					return false
				}
			}
			return true
		})
		for p, cell := range s.do(s.leader(), register.Request{}).State.Cells {
			h.note(9, h.time(), cellOp{partition: p}, cellSeen{cell: id(&cell)})
		}
		h.prune()
		if res := porcupine.CheckOperationsTimeout(cells, h.ops, 20*time.Second); res != porcupine.Ok {
			s.fatalf("seed %d: %d operations are not linearizable: %v", seed, len(h.ops), res)
		}
		added, wiped, removed, won = added+o.added, wiped+o.wiped, removed+o.removed, won+h.won
		conf += int(s.counts.elections)
	}
	t.Logf("%d added, %d wiped, %d removed, %d won, %d elections", added, wiped, removed, won, conf)
	if added < seeds || wiped < seeds || removed == 0 || won < 20*seeds {
		t.Error("too little happened")
	}
}
