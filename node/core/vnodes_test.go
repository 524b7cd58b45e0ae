package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/vnode"
)

// TestNothingIsDoneBehindTheCore: a vnode that something was done with and that nobody was
// asked for is found.
func TestNothingIsDoneBehindTheCore(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))
	r.turn()
	if err := r.core.Audit(); err != nil {
		t.Fatal(err)
	}
	p := r.core.vnode(task[0]).Partition
	r.turn()
	behind := r.core.vnodes.See(p)
	if _, err := behind.Grant(r.core.round.Tx, "q", vnode.Ask{Worker: "w", Request: 1, Lease: time.Minute}, r.now); err != nil {
		t.Fatal(err)
	}
	if r.core.Audit() == nil {
		t.Error("a grant behind the core's back was not noticed")
	}
	if r.core.vnodes.Use(p); r.core.Audit() != nil {
		t.Errorf("it was asked for: %v", r.core.Audit())
	}
}

// TestATurnLooksAtNoPartitionThatNothingHappensTo: what is published after each turn of the loop,
// and what is done each time that facts are kept aside, does not follow the partitions.
func TestATurnLooksAtNoPartitionThatNothingHappensTo(t *testing.T) {
	const partitions, turns = 512, 100
	l := newLarge(t, 3, partitions)
	l.settle()
	c := l.cores[0]
	before := c.vnodes.Asked
	for range turns {
		l.step(0, message.Tick{})
		if _, err := c.Ready(l.now); err != nil {
			t.Fatal(err)
		}
		c.Stats()
		if !c.transfer.Quarantine.Room(1) {
			t.Fatal("there is no room")
		}
	}
	if n := c.vnodes.Asked - before; n > turns {
		t.Errorf("%d looks at vnodes in %d turns in which nothing happens", n, turns)
	}
}
