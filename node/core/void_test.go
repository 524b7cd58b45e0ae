package core

import (
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
)

// walked is a store that counts the walks over it.
type walked struct {
	store.Reader
	walks int
}

func (w *walked) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	w.walks++
	return w.Reader.Scan(lower, upper)
}

// TestEmptyPartitionsAreNotLookedThroughAgain: a node of many keeps a few partitions. A
// change of the register has it look whether something lies in the others once, and again
// where something was done since.
func TestEmptyPartitionsAreNotLookedThroughAgain(t *testing.T) {
	r := newCluster(t, 6, 0)
	p := r.peers[5] // keeps partition 3 and no other
	disk := &walked{Reader: p.store}
	cfg := p.core.cfg
	cfg.Rand = rand.New(rand.NewPCG(1, 2))
	var err error
	p.core, err = Open(cfg, disk, r.now)
	r.check(err)
	change := func() (walks int) {
		disk.walks = 0
		r.register.Do(register.Request{}, func(res register.Result) {
			r.check(p.core.Step(r.now, message.Changed{State: res.State, Majority: true}))
		})
		return disk.walks
	}
	change()
	r.turn(5)
	if n := change(); n > 0 {
		t.Errorf("%d walks over partitions that are known to be empty", n)
	}
	// What comes in all the same is found.
	task := r.in(0)
	fact := crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 3, Initial: time.Second, Max: time.Minute, Multiplier: 2000}}.Fact(task)
	p.core.arrivals.Keep(r.now, r.peers[0].self, &message.PartFacts{Partition: 0, Facts: []crdt.Fact{fact}}, false)
	if change(); p.core.transfer.Outgoing[0] == nil || len(p.core.transfer.Outgoing) != 1 {
		t.Errorf("%v is to be handed over, not partition 0 alone", p.core.transfer.Outgoing)
	}
	if p.core.vnodes.Empty(0, p.core.round.Tx) {
		t.Error("partition 0 counts as empty")
	}
}
