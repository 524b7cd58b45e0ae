package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/sysclock"
	"github.com/norn-dev/norn/store"
)

// What waits for the disk, each at most once at a time.
const (
	factsWrite = iota // the loop: a batch that is to be visible
	factsSync
	registerWrite // and its sync
	waits
)

var waitNames = [waits]string{"a write of the facts", "a sync of the facts", "a write of the register"}

// diskWatch knows for how long the disk has kept this node waiting. A leader whose
// disk stands still grants nothing and hears nothing, because its loop waits too;
// but its connections live, so that nobody takes its place. After a limit it
// takes itself out of the way.
type diskWatch struct {
	clock *sysclock.Clock
	since [waits]atomic.Int64 // mono ns + 1; 0: nothing is under way
	is    atomic.Bool
	slow  func(what int) // tests hold a write up here; nil: nothing
}

// wait runs something that waits for the disk.
func (s *diskWatch) wait(what int, fn func()) {
	s.since[what].Store(s.clock.Mono() + 1)
	if s.slow != nil {
		s.slow(what)
	}
	fn()
	s.since[what].Store(0)
}

// longest is what has been under way for longest, and for how long.
func (s *diskWatch) longest() (what int, d time.Duration) {
	now := s.clock.Mono() + 1
	for i := range s.since {
		if at := s.since[i].Load(); at != 0 && time.Duration(now-at) > d {
			what, d = i, time.Duration(now-at)
		}
	}
	return what, d
}

// timedStore notes how long the writes of a store take.
type timedStore struct {
	store.Store
	stall *diskWatch
}

// Commit gives a wait that is noted.
func (t timedStore) Commit(b *store.Batch) func() {
	var durable func()
	t.stall.wait(registerWrite, func() { durable = t.Store.Commit(b) })
	return func() { t.stall.wait(registerWrite, durable) }
}

// Apply is noted.
func (t timedStore) Apply(b *store.Batch) {
	t.stall.wait(registerWrite, func() { t.Store.Apply(b) })
}

// watch takes the node out of the way while its disk stands still: it leads
// nothing, and lets go of the connections to other nodes, which elect at once
// then. Nothing is lost by that: what is not on disk is not acknowledged anyway.
func (s *diskWatch) watch(ctx context.Context, n *Node) {
	limit := n.cfg.DiskStall
	if limit <= 0 {
		return
	}
	tick := time.NewTicker(max(limit/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		what, took := s.longest()
		is := took >= limit
		if is == s.is.Load() {
			continue
		}
		s.is.Store(is)
		if is {
			n.metrics.Stalls.Inc()
			n.log.Warn("disk.stalled", "waiting_for", waitNames[what], "since", took, "limit", limit,
				"meaning", "the disk does not answer: this node leads nothing, and no other one waits for it, until it does")
		} else {
			n.log.Warn("disk.answers", "meaning", "the disk answers again")
		}
		n.inbox.Post(message.DiskStalled{Is: is})
		n.members.network.Hush(is)
	}
}
