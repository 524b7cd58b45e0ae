package sim

import (
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"
)

// Times of the simulated cluster that do not depend on the seed.
const (
	diskReserve = 1 << 20
	maxBackoff  = 4 * time.Second
	leastPause  = int64(390 * time.Millisecond) // after a failure: the first one less its jitter, and what clocks drift
	leastLease  = int64(900 * time.Millisecond) // that workers ask for, less that
	watchFor    = 3 * time.Second               // in which a new leader collects nothing that others may need: no run has a minute for that
	heldFor     = 3 * watchFor                  // for as long something stays that others have needed
)

var (
	cluster = register.UUID{'s', 'i', 'm'}
	self    = register.Member{Node: "n1", Incarnation: register.Incarnation{1}}
)

// config is what a core is made with. This is the only place that makes one.
func (n *node) config() core.Config {
	s := n.s
	c := core.Config{
		Self: n.self, Address: n.self.Node, Zone: "z1",
		Cluster: register.Cluster{ID: cluster, Partitions: s.plan.partitions, Replicas: 1},
		Eta:     s.plan.eta, Buffer: s.plan.eta, Slack: vnode.SlackOf(s.plan.eta), GCGrace: s.plan.grace, Lease: s.plan.lease,
		Retry:    crdt.Retry{MaxAttempts: s.plan.work.attempts, Initial: 500 * time.Millisecond, Max: maxBackoff, Multiplier: 2000, Jitter: 200},
		HeadSize: s.plan.headSize, MaxPayload: 1 << 16, MaxWaiters: s.plan.maxWaiters, MaxQueues: 100, MaxClaims: s.plan.maxClaims,
		DiskReserve:     diskReserve,
		Retention:       retention.Rule{What: s.plan.what, After: s.plan.retention, Dead: s.plan.deadRetention},
		Archive:         true,
		CollectInterval: s.plan.collect,
		Tree:            s.plan.tasks%2 == 1, // the audit compares it with the facts
		Rand:            rand.New(rand.NewPCG(s.rnd.Uint64(), s.rnd.Uint64())),
	}
	if s.fleet != nil {
		c.Cluster, c.Zone, c.Tree = s.plan.cluster.fixed(&s.plan), s.fleet.zone(n), false
		c.Sessions = sessionTimes()
		c.Repair, c.DeadAfter = s.plan.cluster.repair, s.plan.cluster.dead
		c.WatchFor = watchFor
		c.Scrub = 3 * s.plan.cluster.repair // it finds nothing but mistakes: once a second it took a tenth of the run
	}
	if s.mutant.Config != nil {
		s.mutant.Config(&c)
	}
	return c
}
