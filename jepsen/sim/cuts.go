package sim

import (
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// cutFor is how long a node is cut off from the others, and cutEvery about how often
	// one is.
	cutFor, cutEvery = 6 * time.Second, 12 * time.Second
)

// cuts makes the plan one in which nothing goes wrong but that one node after the other is
// cut off from the others, and not from its clients: with more workers than there is work,
// so that a task that waits waits for a reason.
func (p *plan) cuts() {
	p.partitions, p.queues, p.headSize, p.eta = 16, []string{"a"}, 64, 500*time.Millisecond
	p.lease, p.storm, p.collect, p.what = 30*time.Second, 5*cutEvery, 0, nornv1.Retention_RETENTION_UNSPECIFIED
	p.tasks, p.producers, p.workers, p.readers, p.admins, p.hands = 1800, 6, 24, 0, 0, 0
	p.work = workPlan{think: 20 * time.Millisecond, attempts: p.work.attempts, quick: true}
	p.net = netPlan{delay: 200 * time.Microsecond}
	p.disk = diskPlan{sync: time.Millisecond, loop: 50 * time.Microsecond, read: 50 * time.Microsecond, depth: 2, answer: time.Millisecond}
	p.crash, p.clock = crashPlan{}, clockPlan{}
	c := &p.cluster
	c.nodes, c.zones, c.dead, c.repair, c.one, c.all = 3, 1, 10*time.Second, 10*time.Second, 0, 0
	c.hints = 200 * time.Millisecond
	c.calm()
}

// cutOff cuts a node off for a while, and then another one.
func (f nemesis) cutOff() {
	s := f.s
	if s.healing {
		return
	}
	one := s.rnd.IntN(len(f.nodes))
	for j := range f.nodes {
		if j != one {
			f.links[one][j].cut, f.links[j][one].cut = true, true
		}
	}
	s.stats[Splits]++
	s.note("%s is cut off", f.nodes[one].self.Node)
	s.after(cutFor, f.mend)
	s.after(cutEvery+s.about(time.Second), f.cutOff)
}
