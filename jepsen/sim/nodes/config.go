package nodes

import (
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/jepsen/hunt/policies"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/session"
	"github.com/norn-dev/norn/vnode"
)

// DiskReserve is how much of a disk a node leaves free.
const DiskReserve = 1 << 20

var (
	// ClusterID is that of all clusters.
	ClusterID = register.UUID{'s', 'i', 'm'}
	self      = register.Member{Node: "n1", Incarnation: register.Incarnation{1}}
)

// config is what a core is made with. This is the only place that makes one.
func (n *Node) config() core.Config {
	s := n.S
	c := core.Config{
		Policy: policies.Chosen(),
		Self:   n.Self, Address: n.Self.Node, Zone: "z1",
		Cluster: register.Cluster{ID: ClusterID, Partitions: s.Plan.Partitions, Replicas: 1},
		Eta:     s.Plan.Eta, Buffer: s.Plan.Eta, Slack: vnode.SlackOf(s.Plan.Eta), GCGrace: s.Plan.Grace, Lease: s.Plan.Lease,
		Retry:    crdt.Retry{MaxAttempts: s.Plan.Work.Attempts, Initial: 500 * time.Millisecond, Max: run.MaxBackoff, Multiplier: 2000, Jitter: 200},
		HeadSize: s.Plan.HeadSize, MaxPayload: 1 << 16, MaxWaiters: s.Plan.MaxWaiters, MaxQueues: 100, MaxClaims: s.Plan.MaxClaims,
		DiskReserve:     DiskReserve,
		Retention:       retention.Rule{What: s.Plan.What, After: s.Plan.Retention, Dead: s.Plan.DeadRetention},
		Archive:         true,
		CollectInterval: s.Plan.Collect,
		Tree:            s.Plan.Tasks%2 == 1, // the audit compares it with the facts
		Rand:            rand.New(rand.NewPCG(s.Rnd.Uint64(), s.Rnd.Uint64())),
	}
	if s.Fleet != nil {
		c.Cluster, c.Zone, c.Tree = fixed(&s.Plan), s.Fleet.zone(n), false
		c.Sessions = SessionTimes()
		c.Repair, c.DeadAfter = s.Plan.Cluster.Repair, s.Plan.Cluster.Dead
		c.WatchFor = run.WatchFor
		c.Scrub = 3 * s.Plan.Cluster.Repair // it finds nothing but mistakes: once a second it took a tenth of the run
	}
	if s.Mutant.Config != nil {
		s.Mutant.Config(&c)
	}
	return c
}

// fixed is what is fixed when the cluster is made.
func fixed(p *plan.Plan) register.Cluster {
	return register.Cluster{ID: ClusterID, Partitions: p.Partitions, Replicas: p.Cluster.First}
}

// SessionTimes are those of the simulated nodes: short, so that workers are lost
// and names change hands within a run.
func SessionTimes() session.DispatcherConfig {
	return session.DispatcherConfig{
		Timeouts:    session.Timeouts{Period: time.Second, HeartbeatGap: 3 * time.Second, CheckGap: 12 * time.Second, LoseAfter: 5 * time.Second},
		CheckPeriod: 5 * time.Second, NameLease: 16 * time.Second,
	}
}
