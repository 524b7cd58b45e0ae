package sim

import (
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// clusterPlan is what a seed of a cluster draws beside the rest.
type clusterPlan struct {
	nodes, zones int

	heartbeat time.Duration // of the register's group
	stable    time.Duration // a newcomer keeps up for so long before it votes
	dead      time.Duration // silence after which others take over
	repair    time.Duration // in which replicas compare a partition once

	loss, again float64 // of messages between nodes that get lost, that come twice
	disorder    bool    // they overtake each other
	hints       time.Duration
	mistakes    float64 // of hints that are wrong

	one, all float64 // shares of writes and reads at these levels

	wipe    time.Duration // mean time between disks that are lost; 0: never
	restore time.Duration // between disks that are set back to an older state
	flip    time.Duration // between bits that turn over on a disk
	members time.Duration // between nodes that come and go
	resize  time.Duration // between changes of the number of replicas
	first   int           // replicas that the cluster is made with

	split time.Duration // mean time between partitions; 0: never
	slow  time.Duration // mean time between slow links
	apart time.Duration // mean time until a partition or slow link heals
}

// fixed is what is fixed when the cluster is made.
func (c *clusterPlan) fixed(p *plan) register.Cluster {
	return register.Cluster{ID: cluster, Partitions: p.partitions, Replicas: c.first}
}

// replicas are the numbers of replicas that there may be. What is lost with a disk has
// to be on a majority of others: with two replicas, or one, it may be on none.
func (c *clusterPlan) replicas() (least, most int) {
	if c.wipe+c.restore+c.flip > 0 {
		return 3, 5
	}
	return 1, 5
}

// lossy tells whether disks get lost.
func (c *clusterPlan) lossy() bool { return c.wipe+c.restore+c.flip+c.members > 0 }

// patience is how much longer an answer may take where other nodes are asked.
func (c *clusterPlan) patience() time.Duration {
	if c.nodes == 0 {
		return 0
	}
	return 20 * time.Second
}

// drawCluster makes the plan of a seed of a cluster.
func (w *world) drawCluster() plan {
	p := w.draw()
	p.partitions = pick(w, []int{4, 8, 16})
	p.tasks, p.producers, p.workers, p.readers, p.admins = 300+w.rnd.IntN(300), 2, 2+w.rnd.IntN(3), 4, 1
	p.hands = 2 + p.tasks%3 // of two that share a name one works
	if p.tasks%7 == 1 {     // of seven that differ in nothing else: no session is lost, which would excuse much
		p.hands = 0
	}
	p.work.think = pick(w, []time.Duration{60 * time.Millisecond, 150 * time.Millisecond})
	p.work.settings = p.tasks%4 == 1 // of four that differ in nothing else one works
	p.lease = pick(w, []time.Duration{2 * time.Second, 5 * time.Second})
	p.storm = w.between(40*time.Second, 80*time.Second)
	p.maxClaims, p.maxWaiters = 10_000, 1000
	// What is forgotten: tombstones stay. Each collection is a round of each node for
	// each partition: five in a second were more than half of all rounds.
	if p.collect > 0 {
		p.collect = max(p.collect, time.Second)
	}
	p.what, p.grace = nornv1.Retention_RETENTION_DELETE, 24*time.Hour
	if p.collect > 0 && p.tasks%3 == 0 { // of three that differ in nothing else
		p.what = nornv1.Retention_RETENTION_ARCHIVE
	}
	// Somebody keeps the clocks: in the ten minutes of a run none gets so far from
	// another one that its node has to give up what it leads.
	kept := int64(p.eta) / 8 * 1_000_000 / 2 / int64(10*time.Minute)
	p.clock = clockPlan{drift: min(p.clock.drift, kept)}
	if w.chance(0.3) {
		p.clock.set = 10 * time.Second
	}
	if p.tasks%5 == 2 { // of five that differ in nothing else one has such machines: no draw, seeds stay what they were
		p.clock.nap = 12 * time.Second
	}
	// Some claims have to run out in every run.
	p.work.lazy, p.work.dies = max(p.work.lazy, 0.1), max(p.work.dies, 0.02)
	p.disk.full = 0
	p.net.delay = pick(w, []time.Duration{200 * time.Microsecond, 2 * time.Millisecond, 10 * time.Millisecond})
	p.disk.sync = pick(w, []time.Duration{200 * time.Microsecond, 5 * time.Millisecond, 30 * time.Millisecond})
	p.disk.read = min(p.disk.read, time.Millisecond)
	p.disk.loop = min(p.disk.loop, time.Millisecond)
	p.crash = crashPlan{
		every: pick(w, []time.Duration{5 * time.Second, 15 * time.Second}), down: pick(w, []time.Duration{500 * time.Millisecond, 5 * time.Second, 15 * time.Second}),
		steps: w.chance(0.5), drained: pick(w, []float64{0, 0.3}),
	}
	c := &p.cluster
	*c = clusterPlan{
		nodes: pick(w, []int{3, 3, 4, 5, 5, 7}), zones: pick(w, []int{1, 3}),
		heartbeat: 100 * time.Millisecond, stable: time.Second,
		dead:   pick(w, []time.Duration{3 * time.Second, 10 * time.Second}),
		repair: pick(w, []time.Duration{2 * time.Second, 10 * time.Second}),
		loss:   pick(w, []float64{0, 0.01, 0.1}), again: pick(w, []float64{0, 0.02}), disorder: w.chance(0.5),
		hints: pick(w, []time.Duration{200 * time.Millisecond, time.Second}), mistakes: pick(w, []float64{0, 0.02}),
		one: pick(w, []float64{0, 0.2, 0.5}), all: pick(w, []float64{0, 0.05}),
	}
	sometimes := func(of ...time.Duration) time.Duration {
		if w.chance(0.6) {
			return 0
		}
		return pick(w, of)
	}
	c.split, c.slow, c.apart = sometimes(8*time.Second, 20*time.Second), sometimes(20*time.Second), pick(w, []time.Duration{2 * time.Second, 10 * time.Second})
	c.wipe, c.restore, c.flip = sometimes(15*time.Second, 30*time.Second), sometimes(8*time.Second, 30*time.Second), sometimes(30*time.Second)
	c.members = sometimes(10*time.Second, 25*time.Second)
	c.resizes(p.tasks)
	return p
}

// resizes has the number of replicas change in one seed of three, from another one than
// three on: by a number that was drawn for something else, so that the other seeds stay
// what they were.
func (c *clusterPlan) resizes(drawn int) {
	c.first = 3
	if drawn%3 != 2 {
		return
	}
	least, most := c.replicas()
	c.first = least + drawn/3%(most-least+1)
	c.resize = []time.Duration{5 * time.Second, 12 * time.Second}[drawn/16%2]
}

// forgetful makes the plan one in which little is remembered for long: but for
// longer than a partition may be without a leader, for else a task that waits may
// never hear of what it depends on. So networks are whole again soon, and no disk is set
// back: a node that cannot be spared leads nothing until others can go on without it.
func (p *plan) forgetful() {
	p.cluster.restore, p.cluster.apart, p.cluster.dead = 0, 2*time.Second, 3*time.Second
	p.collect, p.retention = 200*time.Millisecond, 20*time.Second
	p.grace, p.clock.set, p.storm, p.cluster.members = 20*time.Second, 0, 120*time.Second, 10*time.Second
	p.work.keyed = 0 // a key that is free again names a new task, and answers about the old one are late
}

// fierce makes the plan one in which leaders and cohorts change all the time, and
// no disk gets lost. Unique keys stay away: answers about a key are late where its task
// is another one by then. So many hints are wrong that no cohort would ever be quiet for
// long enough to lose a member that nobody replaces: three replicas, as they are.
func (s *sim) fierce() {
	p := &s.plan
	p.partitions, p.lease, p.storm = pick(&s.world, []int{2, 4}), 2*time.Second, 40*time.Second
	p.tasks, p.workers, p.readers, p.hands = 300, 5, 1, 0
	p.net.delay = pick(&s.world, []time.Duration{time.Millisecond, 10 * time.Millisecond})
	p.crash = crashPlan{every: 4 * time.Second, down: pick(&s.world, []time.Duration{500 * time.Millisecond, 4 * time.Second}), steps: s.chance(0.5), drained: 0.1}
	p.work.keyed, p.work.dies, p.work.fails, p.clock.set, p.what = 0, 0.05, 0.1, 0, nornv1.Retention_RETENTION_DELETE
	if p.collect = 0; s.chance(0.5) {
		p.collect, p.retention, p.deadRetention = 200*time.Millisecond, 3*time.Second, 3*time.Second
	}
	c := &p.cluster
	c.nodes, c.zones = pick(&s.world, []int{4, 5}), 1
	c.dead, c.repair, c.one = 3*time.Second, pick(&s.world, []time.Duration{2 * time.Second, 10 * time.Second}), pick(&s.world, []float64{0, 0.2})
	c.loss, c.disorder, c.mistakes, c.hints = pick(&s.world, []float64{0.02, 0.1}), true, 0.05, 200*time.Millisecond
	c.wipe, c.restore, c.flip, c.first, c.resize = 0, 0, 0, 3, 0
	c.split, c.slow, c.apart, c.members = 6*time.Second, 15*time.Second, 3*time.Second, 5*time.Second
}

// calm takes all trouble away.
func (c *clusterPlan) calm() {
	c.loss, c.again, c.disorder, c.mistakes = 0, 0, false, 0
	c.split, c.slow, c.wipe, c.restore, c.flip, c.members, c.resize = 0, 0, 0, 0, 0, 0, 0
}

// durability draws the level of a write; nil is the default.
func (s *sim) durability() *nornv1.Durability {
	c := &s.plan.cluster
	switch {
	case s.fleet == nil:
	case s.chance(c.one):
		return &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
	case s.chance(c.all):
		return &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}
	}
	return nil
}

// consistency draws the level of a read; nil is the default.
func (s *sim) consistency() *nornv1.Consistency {
	c := &s.plan.cluster
	switch {
	case s.fleet == nil || s.healing:
	case s.chance(c.one):
		return &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ONE}
	case s.chance(c.all):
		return &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ALL}
	}
	return nil
}

// weak tells whether what is acknowledged to a request may be lost all the
// same: with one copy of it on a disk, in a run in which disks get lost.
func (s *sim) weak(m any) bool {
	return s.fleet != nil && s.fleet.lossy && one(m)
}

// one tells whether a write asks for a single copy.
func one(m any) bool {
	w, ok := m.(interface{ GetDurability() *nornv1.Durability })
	return ok && w.GetDurability().GetLevel() == nornv1.WriteLevel_WRITE_LEVEL_ONE
}

// alone tells whether a read asks for a single copy.
func alone(m any) bool {
	r, ok := m.(interface{ GetConsistency() *nornv1.Consistency })
	return ok && r.GetConsistency().GetLevel() == nornv1.ReadLevel_READ_LEVEL_ONE
}
