package raftnode_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/raftnode"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

// TestADiskThatForgotStopsTheNode: it is put back to an older copy, says so
// and answers nothing any more.
func TestADiskThatForgotStopsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeveral(t)
		s.grow(3)
		n := s.nodes[2]
		if err := n.running.Close(); err != nil {
			t.Fatal(err)
		}
		old := memstore.New()
		var b store.Batch
		for k, v := range n.store.Scan(nil, nil) {
			b.Set(k, v)
		}
		old.Commit(&b)()
		s.start(n)
		for range 10 {
			s.do(0, register.Request{Queues: []register.QueueChange{{Name: "q"}}})
		}
		s.do(2, register.Request{Values: []register.ValueChange{{Name: "v"}}})
		time.Sleep(time.Second)
		if err := n.running.Close(); err != nil {
			t.Fatal(err)
		}
		n.store = old
		s.start(n)
		time.Sleep(5 * time.Second)
		if !errors.Is(n.failed, group.ErrForgot) && !errors.Is(n.failed, group.ErrTwin) {
			t.Fatalf("the node goes on: %v", n.failed)
		}
		answer := make(chan register.Result, 1)
		n.running.Do(register.Request{Tag: 7}, func(r register.Result) { answer <- r })
		if r := <-answer; !errors.Is(r.Err, n.failed) || r.Tag != 7 {
			t.Fatalf("it answers %v", r.Err)
		}
		s.do(0, register.Request{}) // the others go on
		n.failed = nil              // as expected
		s.Close()
	})
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	s := newSeveral(t)
	st := memstore.New()
	self := register.Member{Node: "a", Incarnation: register.Incarnation{1}}
	cfg := raftnode.Config{Group: group.Config{Self: self}, Store: st, Network: s.net.Port("a")}
	if _, err := raftnode.Open(cfg); !errors.Is(err, register.ErrNotFormatted) {
		t.Errorf("an empty store: %v", err)
	}
	if err := raftnode.Format(st, s.id, register.Node{Member: self}); err != nil {
		t.Fatal(err)
	}
	if err := raftnode.Join(st, s.id.ID, self); !errors.Is(err, group.ErrFormatted) {
		t.Errorf("a store that has a register joins: %v", err)
	}
	cfg.Group.Self.Incarnation[5] = 9
	if _, err := raftnode.Open(cfg); !errors.Is(err, group.ErrOtherOwner) {
		t.Errorf("another incarnation's store: %v", err)
	}
}
