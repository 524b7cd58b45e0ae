package sim

import (
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/jepsen/hunt/policies"
	"github.com/norn-dev/norn/jepsen/sim/plan"
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
		Policy: policies.Chosen(),
		Self:   n.self, Address: n.self.Node, Zone: "z1",
		Cluster: register.Cluster{ID: cluster, Partitions: s.plan.Partitions, Replicas: 1},
		Eta:     s.plan.Eta, Buffer: s.plan.Eta, Slack: vnode.SlackOf(s.plan.Eta), GCGrace: s.plan.Grace, Lease: s.plan.Lease,
		Retry:    crdt.Retry{MaxAttempts: s.plan.Work.Attempts, Initial: 500 * time.Millisecond, Max: maxBackoff, Multiplier: 2000, Jitter: 200},
		HeadSize: s.plan.HeadSize, MaxPayload: 1 << 16, MaxWaiters: s.plan.MaxWaiters, MaxQueues: 100, MaxClaims: s.plan.MaxClaims,
		DiskReserve:     diskReserve,
		Retention:       retention.Rule{What: s.plan.What, After: s.plan.Retention, Dead: s.plan.DeadRetention},
		Archive:         true,
		CollectInterval: s.plan.Collect,
		Tree:            s.plan.Tasks%2 == 1, // the audit compares it with the facts
		Rand:            rand.New(rand.NewPCG(s.Rnd.Uint64(), s.Rnd.Uint64())),
	}
	if s.fleet != nil {
		c.Cluster, c.Zone, c.Tree = fixed(&s.plan), s.fleet.zone(n), false
		c.Sessions = sessionTimes()
		c.Repair, c.DeadAfter = s.plan.Cluster.Repair, s.plan.Cluster.Dead
		c.WatchFor = watchFor
		c.Scrub = 3 * s.plan.Cluster.Repair // it finds nothing but mistakes: once a second it took a tenth of the run
	}
	if s.mutant.Config != nil {
		s.mutant.Config(&c)
	}
	return c
}

// fixed is what is fixed when the cluster is made.
func fixed(p *plan.Plan) register.Cluster {
	return register.Cluster{ID: cluster, Partitions: p.Partitions, Replicas: p.Cluster.First}
}
