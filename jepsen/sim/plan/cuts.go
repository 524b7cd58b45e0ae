package plan

import (
	"time"

	"github.com/norn-dev/norn/jepsen/sim/world"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// CutFor is how long a node is cut off from the others, and cutEvery about how often
	// one is.
	CutFor, CutEvery = 6 * time.Second, 12 * time.Second

	CrowdHands = 9 // workers with a session in a crowd
	// CrowdLease is what the claims of a crowd last.
	CrowdLease = 30 * time.Second
)

// Cuts makes the plan one in which nothing goes wrong but that one node after the other is
// cut off from the others, and not from its clients: with more workers than there is work,
// so that a task that waits waits for a reason.
func (p *Plan) Cuts() {
	p.Partitions, p.Queues, p.HeadSize, p.Eta = 16, []string{"a"}, 64, 500*time.Millisecond
	p.Lease, p.Storm, p.Collect, p.What = 30*time.Second, 5*CutEvery, 0, nornv1.Retention_RETENTION_UNSPECIFIED
	p.Tasks, p.Producers, p.Workers, p.Readers, p.Admins, p.Hands = 1800, 6, 24, 0, 0, 0
	p.Work = workPlan{Think: 20 * time.Millisecond, Attempts: p.Work.Attempts, Quick: true}
	p.Net = NetPlan{Delay: 200 * time.Microsecond}
	p.Disk = DiskPlan{Sync: time.Millisecond, Loop: 50 * time.Microsecond, Read: 50 * time.Microsecond, Depth: 2, Answer: time.Millisecond}
	p.Crash, p.Clock = crashPlan{}, clockPlan{}
	c := &p.Cluster
	c.Nodes, c.Zones, c.Dead, c.Repair, c.One, c.All = 3, 1, 10*time.Second, 10*time.Second, 0, 0
	c.Hints = 200 * time.Millisecond
	c.Calm()
}

// Lies makes the plan one in which no disk loses anything, so that whoever ends as if it had
// was talked into it, and nobody comes or goes.
func (p *Plan) Lies() {
	c := &p.Cluster
	c.Wipe, c.Restore, c.Flip, c.Members, c.Resize, c.First = 0, 0, 0, 0, 0, 3
	c.Nodes, c.One, c.Mistakes = max(c.Nodes, 4), 0, 0 // without the liar, and one that stands aside, three are left
	p.Clock.Set, p.Clock.Nap = 0, 0
	p.Storm = 60 * time.Second
	p.Crash.Every = 15 * time.Second
}

// Crowded makes the plan one in which nothing goes wrong by itself.
func (p *Plan) Crowded(w *world.World) {
	p.Partitions, p.Queues, p.Eta, p.Lease = 2, []string{"idle"}, 500*time.Millisecond, CrowdLease
	p.HeadSize = world.Pick(w, []int{3, 64})
	p.Tasks, p.Producers, p.Workers, p.Readers, p.Admins, p.Hands = 1000, 0, 0, 0, 0, CrowdHands
	p.Work = workPlan{Think: 50 * time.Millisecond, Attempts: 3, Quick: true}
	p.Net = NetPlan{Delay: world.Pick(w, []time.Duration{200 * time.Microsecond, 5 * time.Millisecond})}
	p.Disk = DiskPlan{Sync: time.Millisecond, Loop: 50 * time.Microsecond, Read: 50 * time.Microsecond, Depth: 2, Answer: time.Millisecond}
	p.Crash, p.Clock = crashPlan{Down: time.Second}, clockPlan{Drift: min(p.Clock.Drift, 50)}
	p.Collect, p.Retention, p.DeadRetention, p.Grace = time.Second, 6*time.Second, 6*time.Second, 60*time.Second
	p.What = world.Pick(w, []nornv1.Retention{nornv1.Retention_RETENTION_DELETE, nornv1.Retention_RETENTION_ARCHIVE})
	c := &p.Cluster
	c.Nodes, c.Zones, c.First, c.Dead, c.Repair, c.One, c.All = 4, 1, 3, 3*time.Second, 2*time.Second, 0, 0
	if w.Chance(0.5) { // all keep everything: nobody looks again and again at what waits for others' tasks
		c.Nodes = 3
	}
	c.Hints = 200 * time.Millisecond
	c.Calm()
}
