package plan

import (
	"time"

	"github.com/norn-dev/norn/jepsen/sim/world"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// clusterPlan is what a seed of a cluster draws beside the rest.
type clusterPlan struct {
	Nodes, Zones int
	Made         bool // with so many nodes, and takes no tasks before they are there

	Heartbeat time.Duration // of the register's group
	Stable    time.Duration // a newcomer keeps up for so long before it votes
	Dead      time.Duration // silence after which others take over
	Repair    time.Duration // in which replicas compare a partition once

	Loss, Again float64 // of messages between nodes that get lost, that come twice
	Disorder    bool    // they overtake each other
	Hints       time.Duration
	Mistakes    float64 // of hints that are wrong

	One, All float64 // shares of writes and reads at these levels

	Wipe    time.Duration // mean time between disks that are lost; 0: never
	Restore time.Duration // between disks that are set back to an older state
	Flip    time.Duration // between bits that turn over on a disk
	Members time.Duration // between nodes that come and go
	Resize  time.Duration // between changes of the number of replicas
	First   int           // replicas that the cluster is made with

	Split time.Duration // mean time between partitions; 0: never
	Slow  time.Duration // mean time between slow links
	Apart time.Duration // mean time until a partition or slow link heals
}

// Replicas are the numbers of replicas that there may be. What is lost with a disk has
// to be on a majority of others: with two replicas, or one, it may be on none.
func (c *clusterPlan) Replicas() (least, most int) {
	if c.Wipe+c.Restore+c.Flip > 0 {
		return 3, 5
	}
	return 1, 5
}

// Lossy tells whether disks get lost.
func (c *clusterPlan) Lossy() bool { return c.Wipe+c.Restore+c.Flip+c.Members > 0 }

// Patience is how much longer an answer may take where other nodes are asked.
func (c *clusterPlan) Patience() time.Duration {
	if c.Nodes == 0 {
		return 0
	}
	return 20 * time.Second
}

// DrawCluster makes the plan of a seed of a cluster.
func DrawCluster(w *world.World) Plan {
	p := Draw(w)
	p.Partitions = world.Pick(w, []int{4, 8, 16})
	p.Tasks, p.Producers, p.Workers, p.Readers, p.Admins = 300+w.Rnd.IntN(300), 2, 2+w.Rnd.IntN(3), 4, 1
	p.Hands = 2 + p.Tasks%3 // of two that share a name one works
	if p.Tasks%7 == 1 {     // of seven that differ in nothing else: no session is lost, which would excuse much
		p.Hands = 0
	}
	p.Work.Think = world.Pick(w, []time.Duration{60 * time.Millisecond, 150 * time.Millisecond})
	p.Work.Settings = p.Tasks%4 == 1 // of four that differ in nothing else one works
	p.Lease = world.Pick(w, []time.Duration{2 * time.Second, 5 * time.Second})
	p.Storm = w.Between(40*time.Second, 80*time.Second)
	p.MaxClaims, p.MaxWaiters = 10_000, 1000
	// What is forgotten: tombstones stay. Each collection is a round of each node for
	// each partition: five in a second were more than half of all rounds.
	if p.Collect > 0 {
		p.Collect = max(p.Collect, time.Second)
	}
	p.What, p.Grace = nornv1.Retention_RETENTION_DELETE, 24*time.Hour
	if p.Collect > 0 && p.Tasks%3 == 0 { // of three that differ in nothing else
		p.What = nornv1.Retention_RETENTION_ARCHIVE
	}
	// Somebody keeps the clocks: in the ten minutes of a run none gets so far from
	// another one that its node has to give up what it leads.
	kept := int64(p.Eta) / 8 * 1_000_000 / 2 / int64(10*time.Minute)
	p.Clock = clockPlan{Drift: min(p.Clock.Drift, kept)}
	if w.Chance(0.3) {
		p.Clock.Set = 10 * time.Second
	}
	if p.Tasks%5 == 2 { // of five that differ in nothing else one has such machines: no draw, seeds stay what they were
		p.Clock.Nap = 12 * time.Second
	}
	// Some claims have to run out in every run.
	p.Work.Lazy, p.Work.Dies = max(p.Work.Lazy, 0.1), max(p.Work.Dies, 0.02)
	p.Disk.Full = 0
	p.Net.Delay = world.Pick(w, []time.Duration{200 * time.Microsecond, 2 * time.Millisecond, 10 * time.Millisecond})
	p.Disk.Sync = world.Pick(w, []time.Duration{200 * time.Microsecond, 5 * time.Millisecond, 30 * time.Millisecond})
	p.Disk.Read = min(p.Disk.Read, time.Millisecond)
	p.Disk.Loop = min(p.Disk.Loop, time.Millisecond)
	p.Crash = crashPlan{
		Every: world.Pick(w, []time.Duration{5 * time.Second, 15 * time.Second}), Down: world.Pick(w, []time.Duration{500 * time.Millisecond, 5 * time.Second, 15 * time.Second}),
		Steps: w.Chance(0.5), Drained: world.Pick(w, []float64{0, 0.3}),
	}
	c := &p.Cluster
	*c = clusterPlan{
		Nodes: world.Pick(w, []int{3, 3, 4, 5, 5, 7}), Zones: world.Pick(w, []int{1, 3}),
		Heartbeat: 100 * time.Millisecond, Stable: time.Second,
		Dead:   world.Pick(w, []time.Duration{3 * time.Second, 10 * time.Second}),
		Repair: world.Pick(w, []time.Duration{2 * time.Second, 10 * time.Second}),
		Loss:   world.Pick(w, []float64{0, 0.01, 0.1}), Again: world.Pick(w, []float64{0, 0.02}), Disorder: w.Chance(0.5),
		Hints: world.Pick(w, []time.Duration{200 * time.Millisecond, time.Second}), Mistakes: world.Pick(w, []float64{0, 0.02}),
		One: world.Pick(w, []float64{0, 0.2, 0.5}), All: world.Pick(w, []float64{0, 0.05}),
	}
	sometimes := func(of ...time.Duration) time.Duration {
		if w.Chance(0.6) {
			return 0
		}
		return world.Pick(w, of)
	}
	c.Split, c.Slow, c.Apart = sometimes(8*time.Second, 20*time.Second), sometimes(20*time.Second), world.Pick(w, []time.Duration{2 * time.Second, 10 * time.Second})
	c.Wipe, c.Restore, c.Flip = sometimes(15*time.Second, 30*time.Second), sometimes(8*time.Second, 30*time.Second), sometimes(30*time.Second)
	c.Members = sometimes(10*time.Second, 25*time.Second)
	c.resizes(p.Tasks)
	c.Made = p.Tasks%5 == 4 // one of five that differ in nothing else
	return p
}

// resizes has the number of replicas change in one seed of three, from another one than
// three on: by a number that was drawn for something else, so that the other seeds stay
// what they were.
func (c *clusterPlan) resizes(drawn int) {
	c.First = 3
	if drawn%3 != 2 {
		return
	}
	least, most := c.Replicas()
	c.First = least + drawn/3%(most-least+1)
	c.Resize = []time.Duration{5 * time.Second, 12 * time.Second}[drawn/16%2]
}

// Forgetful makes the plan one in which little is remembered for long: but for
// longer than a partition may be without a leader, for else a task that waits may
// never hear of what it depends on. So networks are whole again soon, and no disk is set
// back: a node that cannot be spared leads nothing until others can go on without it.
func (p *Plan) Forgetful() {
	p.Cluster.Restore, p.Cluster.Apart, p.Cluster.Dead = 0, 2*time.Second, 3*time.Second
	p.Collect, p.Retention = 200*time.Millisecond, 20*time.Second
	p.Grace, p.Clock.Set, p.Storm, p.Cluster.Members = 20*time.Second, 0, 120*time.Second, 10*time.Second
	p.Work.Keyed = 0 // a key that is free again names a new task, and answers about the old one are late
}

// Fierce makes the plan one in which leaders and cohorts change all the time, and
// no disk gets lost. Unique keys stay away: answers about a key are late where its task
// is another one by then. So many hints are wrong that no cohort would ever be quiet for
// long enough to lose a member that nobody replaces: three replicas, as they are.
func (p *Plan) Fierce(w *world.World) {
	p.Partitions, p.Lease, p.Storm = world.Pick(w, []int{2, 4}), 2*time.Second, 40*time.Second
	p.Tasks, p.Workers, p.Readers, p.Hands = 300, 5, 1, 0
	p.Net.Delay = world.Pick(w, []time.Duration{time.Millisecond, 10 * time.Millisecond})
	p.Crash = crashPlan{Every: 4 * time.Second, Down: world.Pick(w, []time.Duration{500 * time.Millisecond, 4 * time.Second}), Steps: w.Chance(0.5), Drained: 0.1}
	p.Work.Keyed, p.Work.Dies, p.Work.Fails, p.Clock.Set, p.What = 0, 0.05, 0.1, 0, nornv1.Retention_RETENTION_DELETE
	if p.Collect = 0; w.Chance(0.5) {
		p.Collect, p.Retention, p.DeadRetention = 200*time.Millisecond, 3*time.Second, 3*time.Second
	}
	c := &p.Cluster
	c.Nodes, c.Zones = world.Pick(w, []int{4, 5}), 1
	c.Dead, c.Repair, c.One = 3*time.Second, world.Pick(w, []time.Duration{2 * time.Second, 10 * time.Second}), world.Pick(w, []float64{0, 0.2})
	c.Loss, c.Disorder, c.Mistakes, c.Hints = world.Pick(w, []float64{0.02, 0.1}), true, 0.05, 200*time.Millisecond
	c.Wipe, c.Restore, c.Flip, c.First, c.Resize = 0, 0, 0, 3, 0
	c.Split, c.Slow, c.Apart, c.Members = 6*time.Second, 15*time.Second, 3*time.Second, 5*time.Second
}

// Calm takes all trouble away.
func (c *clusterPlan) Calm() {
	c.Loss, c.Again, c.Disorder, c.Mistakes = 0, 0, false, 0
	c.Split, c.Slow, c.Wipe, c.Restore, c.Flip, c.Members, c.Resize = 0, 0, 0, 0, 0, 0, 0
}
