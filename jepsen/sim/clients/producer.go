package clients

import (
	"encoding/binary"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// producer enqueues tasks. A batch with an unknown outcome is sent again under
// the same IDs until it is known, or until the producer loses interest.
type producer struct {
	*Caller
	ids     *id.Generator
	Busy    int // batches that are not settled yet
	stopped bool
}

func (s *People) newProducer() *producer {
	p := &producer{Caller: s.NewCaller()}
	p.ids = id.NewGenerator(s.Rnd.Uint32(), s.Rnd.Uint64)
	p.After(s.About(s.Plan.Work.Think), p.act)
	return p
}

func (p *producer) act() {
	s := p.S
	if p.stopped {
		return
	}
	if s.serial >= p.allowance() {
		p.again()
		p.After(s.About(3*s.Plan.Work.Think), p.act)
		return
	}
	switch n := s.Rnd.IntN(20); {
	case n == 0:
		p.again()
	case n == 1:
		p.conflict()
	case s.Chance(s.Plan.Work.Keyed) && !s.Cannot(history.Key) && !s.Cannot("rich-enqueue"):
		p.keyed()
	default:
		p.batch()
	}
	p.After(s.About(p.pace()), p.act)
}

// allowance is how many tasks there may be by now: a cluster keeps most of them
// for the storm.
func (p *producer) allowance() int {
	s := p.S
	if s.Fleet != nil && !s.Fleet.Stormy {
		return s.Plan.Tasks / 3
	}
	return s.Plan.Tasks
}

// pace is the mean pause of a producer: the tasks of a cluster last for most of
// its storm.
func (p *producer) pace() time.Duration {
	s := p.S
	if s.Fleet == nil || !s.Fleet.Stormy {
		return s.Plan.Work.Think
	}
	const perAct = 2 // tasks, about
	return s.Plan.Storm * time.Duration(perAct*s.Plan.Producers) / time.Duration(s.Plan.Tasks)
}

// Draw makes a task.
func (p *producer) Draw() *run.Job {
	s, w := p.S, &p.S.Plan.Work
	s.serial++
	j := &run.Job{ID: p.ids.Next(p.Clock.Wall(s.Now)), Queue: world.Pick(&s.World, s.Plan.Queues), Priority: int32(s.Rnd.IntN(3)) - 1}
	if w.Quick {
		j.Priority = 0 // none is to wait for others
	}
	j.Payload = binary.BigEndian.AppendUint32([]byte("task "), uint32(s.serial))
	if s.Chance(w.Delayed) {
		j.NotBefore = p.Clock.Wall(s.Now) + int64(s.Between(-time.Second, 15*time.Second))
	}
	if s.Chance(0.3) {
		j.Attempts = uint32(1 + s.Rnd.IntN(4))
	}
	if s.Chance(w.Depends) && !s.Cannot("rich-enqueue") {
		p.depend(j)
	}
	return j
}

// depend gives a task dependencies: known ones, ones that come later, ones that
// never come, and sometimes a cycle.
func (p *producer) depend(j *run.Job) {
	s := p.S
	j.OnFailure = nornv1.DependencyFailure(s.Rnd.IntN(3))
	for range 1 + s.Rnd.IntN(2) {
		if d := s.Board.Some(&s.World); d != nil && s.Chance(0.7) {
			j.Deps = with(j.Deps, d.ID)
			continue
		}
		d := p.Draw() // not enqueued yet: unknown to the node
		j.Deps = with(j.Deps, d.ID)
		if s.Chance(0.1) {
			d.Deps = with(d.Deps, j.ID) // a cycle
		}
		if s.Chance(0.8) {
			p.Busy++ // the run is not over before it is there
			p.After(s.About(3*time.Second), func() {
				p.Busy--
				p.Send([]*run.Job{d}, 8)
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
	var jobs []*run.Job
	for range 1 + p.S.Rnd.IntN(4) {
		jobs = append(jobs, p.Draw())
	}
	p.Send(jobs, 8)
}

// again sends a task that is known: a repetition after a lost answer, or long
// after.
func (p *producer) again() {
	if j := p.S.Board.Some(&p.S.World); j != nil && j.Sent {
		p.S.Stats[stats.Repeated]++
		p.Send([]*run.Job{j}, 1)
	}
}

// conflict asks for another task under the ID of an acknowledged one.
func (p *producer) conflict() {
	j := p.S.Board.Some(&p.S.World)
	if j == nil || !j.Acked || p.S.Fleet != nil {
		return // of two replicas that do not know of each other's, both say yes
	}
	other := *j
	other.Priority += 7
	p.Do(&nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{other.Spec()}}, 5*time.Second, func(*Answer) {})
}

// Send enqueues a batch, and again while its outcome is unknown. In the calm
// it never gives up.
func (p *producer) Send(jobs []*run.Job, tries int) {
	s := p.S
	p.Busy++
	m := &nornv1.EnqueueRequest{Durability: s.Durability()}
	for _, j := range jobs {
		s.Board.Add(j)
		m.Tasks = append(m.Tasks, j.Spec())
	}
	p.Do(m, s.Between(500*time.Millisecond, 4*time.Second), func(a *Answer) {
		p.Busy--
		if a.End != nil {
			for _, j := range jobs {
				j.Sent = true
			}
		}
		left := jobs
		if a.Fine() {
			left = p.settle(jobs, a.End.Items, s.Weak(m))
		} else if a.Refused != nil && a.Refused.Kind == nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			left = nil
		}
		if len(left) > 0 && (tries > 1 || s.Healing) {
			p.Busy++
			p.After(s.About(time.Second), func() {
				p.Busy--
				p.Send(left, tries-1)
			})
		}
	})
}

// settle notes which tasks are in, and gives those that are worth another try.
func (p *producer) settle(jobs []*run.Job, results []history.Item, weak bool) (left []*run.Job) {
	for n, r := range results {
		switch r.Error {
		case "":
			jobs[n].Weak = weak && (jobs[n].Weak || !jobs[n].Acked)
			jobs[n].Acked = true
			if r.Existed {
				p.S.Stats[stats.Existed]++
			} else {
				p.S.Stats[stats.Enqueues]++
			}
		case "OVERLOADED", "DISK_FULL", "UNAVAILABLE", "CONFLICT":
			left = append(left, jobs[n])
		}
	}
	return left
}

// keyed enqueues the task of a unique key: first it asks which ID that is.
func (p *producer) keyed() {
	s := p.S
	j := p.Draw()
	j.Key = world.Pick(&s.World, []string{"k1", "k2", "k3"})
	j.Deps = nil
	if s.Chance(0.4) {
		j.Window = world.Pick(&s.World, []time.Duration{5 * time.Second, 20 * time.Second})
		j.Key += "w"
	}
	// Tasks of one key have one spec, or the second is refused: either is right. Of
	// two replicas that do not know of each other's, both say yes.
	if s.Chance(0.7) || s.Fleet != nil {
		j.Payload, j.Priority, j.NotBefore, j.Attempts = []byte(j.Key), 0, 0, 0
		j.OnFailure = 0
	}
	p.Busy++
	p.Do(&nornv1.KeyRequest{Queue: j.Queue, Key: j.Key, WindowSeconds: j.Window.Seconds()}, 3*time.Second, func(a *Answer) {
		p.Busy--
		if !a.Fine() {
			return
		}
		j.ID = a.End.Items[0].Task
		if known := s.Board.ByID[j.ID]; known != nil && s.Chance(0.5) {
			j = known // the same spec again
		}
		s.Stats[stats.Keyed]++
		p.Send([]*run.Job{j}, 8)
	})
}
