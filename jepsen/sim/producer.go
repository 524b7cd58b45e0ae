package sim

import (
	"encoding/binary"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// producer enqueues tasks. A batch with an unknown outcome is sent again under
// the same IDs until it is known, or until the producer loses interest.
type producer struct {
	*caller
	ids     *id.Generator
	busy    int // batches that are not settled yet
	stopped bool
}

func (s *sim) newProducer() *producer {
	p := &producer{caller: s.newCaller()}
	p.ids = id.NewGenerator(s.Rnd.Uint32(), s.Rnd.Uint64)
	p.after(s.About(s.plan.Work.Think), p.act)
	return p
}

func (p *producer) act() {
	s := p.s
	if p.stopped {
		return
	}
	if s.serial >= p.allowance() {
		p.again()
		p.after(s.About(3*s.plan.Work.Think), p.act)
		return
	}
	switch n := s.Rnd.IntN(20); {
	case n == 0:
		p.again()
	case n == 1:
		p.conflict()
	case s.Chance(s.plan.Work.Keyed) && !s.cannot(history.Key) && !s.cannot("rich-enqueue"):
		p.keyed()
	default:
		p.batch()
	}
	p.after(s.About(p.pace()), p.act)
}

// allowance is how many tasks there may be by now: a cluster keeps most of them
// for the storm.
func (p *producer) allowance() int {
	s := p.s
	if s.fleet != nil && !s.fleet.stormy {
		return s.plan.Tasks / 3
	}
	return s.plan.Tasks
}

// pace is the mean pause of a producer: the tasks of a cluster last for most of
// its storm.
func (p *producer) pace() time.Duration {
	s := p.s
	if s.fleet == nil || !s.fleet.stormy {
		return s.plan.Work.Think
	}
	const perAct = 2 // tasks, about
	return s.plan.Storm * time.Duration(perAct*s.plan.Producers) / time.Duration(s.plan.Tasks)
}

// draw makes a task.
func (p *producer) draw() *job {
	s, w := p.s, &p.s.plan.Work
	s.serial++
	j := &job{id: p.ids.Next(p.clock.Wall(s.Now)), queue: world.Pick(&s.World, s.plan.Queues), priority: int32(s.Rnd.IntN(3)) - 1}
	if w.Quick {
		j.priority = 0 // none is to wait for others
	}
	j.payload = binary.BigEndian.AppendUint32([]byte("task "), uint32(s.serial))
	if s.Chance(w.Delayed) {
		j.notBefore = p.clock.Wall(s.Now) + int64(s.Between(-time.Second, 15*time.Second))
	}
	if s.Chance(0.3) {
		j.attempts = uint32(1 + s.Rnd.IntN(4))
	}
	if s.Chance(w.Depends) && !s.cannot("rich-enqueue") {
		p.depend(j)
	}
	return j
}

// depend gives a task dependencies: known ones, ones that come later, ones that
// never come, and sometimes a cycle.
func (p *producer) depend(j *job) {
	s := p.s
	j.onFailure = nornv1.DependencyFailure(s.Rnd.IntN(3))
	for range 1 + s.Rnd.IntN(2) {
		if d := s.board.some(&s.World); d != nil && s.Chance(0.7) {
			j.deps = with(j.deps, d.id)
			continue
		}
		d := p.draw() // not enqueued yet: unknown to the node
		j.deps = with(j.deps, d.id)
		if s.Chance(0.1) {
			d.deps = with(d.deps, j.id) // a cycle
		}
		if s.Chance(0.8) {
			p.busy++ // the run is not over before it is there
			p.after(s.About(3*time.Second), func() {
				p.busy--
				p.send([]*job{d}, 8)
			})
		}
	}
}

// with adds an ID once.
func with(ids []id.ID, i id.ID) []id.ID {
	for _, o := range ids {
		if o == i {
			return ids
		}
	}
	return append(ids, i)
}

func (p *producer) batch() {
	var jobs []*job
	for range 1 + p.s.Rnd.IntN(4) {
		jobs = append(jobs, p.draw())
	}
	p.send(jobs, 8)
}

// again sends a task that is known: a repetition after a lost answer, or long
// after.
func (p *producer) again() {
	if j := p.s.board.some(&p.s.World); j != nil && j.sent {
		p.s.stats[stats.Repeated]++
		p.send([]*job{j}, 1)
	}
}

// conflict asks for another task under the ID of an acknowledged one.
func (p *producer) conflict() {
	j := p.s.board.some(&p.s.World)
	if j == nil || !j.acked || p.s.fleet != nil {
		return // of two replicas that do not know of each other's, both say yes
	}
	other := *j
	other.priority += 7
	p.do(&nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{other.spec()}}, 5*time.Second, func(*answer) {})
}

// send enqueues a batch, and again while its outcome is unknown. In the calm
// it never gives up.
func (p *producer) send(jobs []*job, tries int) {
	s := p.s
	p.busy++
	m := &nornv1.EnqueueRequest{Durability: s.durability()}
	for _, j := range jobs {
		s.board.add(j)
		m.Tasks = append(m.Tasks, j.spec())
	}
	p.do(m, s.Between(500*time.Millisecond, 4*time.Second), func(a *answer) {
		p.busy--
		if a.end != nil {
			for _, j := range jobs {
				j.sent = true
			}
		}
		left := jobs
		if a.fine() {
			left = p.settle(jobs, a.end.Items, s.weak(m))
		} else if a.refused != nil && a.refused.Kind == nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			left = nil
		}
		if len(left) > 0 && (tries > 1 || s.healing) {
			p.busy++
			p.after(s.About(time.Second), func() {
				p.busy--
				p.send(left, tries-1)
			})
		}
	})
}

// settle notes which tasks are in, and gives those that are worth another try.
func (p *producer) settle(jobs []*job, results []history.Item, weak bool) (left []*job) {
	for n, r := range results {
		switch r.Error {
		case "":
			jobs[n].weak = weak && (jobs[n].weak || !jobs[n].acked)
			jobs[n].acked = true
			if r.Existed {
				p.s.stats[stats.Existed]++
			} else {
				p.s.stats[stats.Enqueues]++
			}
		case "OVERLOADED", "DISK_FULL", "UNAVAILABLE", "CONFLICT":
			left = append(left, jobs[n])
		}
	}
	return left
}

// keyed enqueues the task of a unique key: first it asks which ID that is.
func (p *producer) keyed() {
	s := p.s
	j := p.draw()
	j.key = world.Pick(&s.World, []string{"k1", "k2", "k3"})
	j.deps = nil
	if s.Chance(0.4) {
		j.window = world.Pick(&s.World, []time.Duration{5 * time.Second, 20 * time.Second})
		j.key += "w"
	}
	// Tasks of one key have one spec, or the second is refused: either is right. Of
	// two replicas that do not know of each other's, both say yes.
	if s.Chance(0.7) || s.fleet != nil {
		j.payload, j.priority, j.notBefore, j.attempts = []byte(j.key), 0, 0, 0
		j.onFailure = 0
	}
	p.busy++
	p.do(&nornv1.KeyRequest{Queue: j.queue, Key: j.key, WindowSeconds: j.window.Seconds()}, 3*time.Second, func(a *answer) {
		p.busy--
		if !a.fine() {
			return
		}
		j.id = a.end.Items[0].Task
		if known := s.board.byID[j.id]; known != nil && s.Chance(0.5) {
			j = known // the same spec again
		}
		s.stats[stats.Keyed]++
		p.send([]*job{j}, 8)
	})
}
