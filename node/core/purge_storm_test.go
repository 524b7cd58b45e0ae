package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"pgregory.net/rapid"
)

// collecting is a trio to which everything happens.
type collecting struct {
	*trio
	rt     *rapid.T
	tasks  []id.ID
	buried []map[id.ID]bool // by node: what it has seen collected
}

// look fails when a node has a fact again of what it has seen collected.
func (s *collecting) look() {
	for i, p := range s.peers {
		if p.down {
			continue
		}
		for task, stone := range p.remains() {
			if stone {
				s.buried[i][task] = true
			} else if s.buried[i][task] {
				s.rt.Fatalf("%s is back on node %d", task, i)
			}
		}
	}
}

// rest lets time pass in which nothing is lost.
func (s *collecting) rest(d time.Duration) {
	const step = 3 * time.Second
	for ; d > 0; d -= step {
		s.pass(step)
		s.settle()
		s.look()
	}
}

// up draws a node; ok is false when it is down.
func (s *collecting) up(t *rapid.T) (i int, ok bool) {
	i = rapid.IntRange(0, 2).Draw(t, "node")
	return i, !s.peers[i].down
}

func (s *collecting) crash(t *rapid.T) {
	if i, up := s.up(t); up {
		s.kill(i)
	} else {
		s.open(i)
	}
	s.tell()
}

func (s *collecting) write(t *rapid.T) {
	if i, ok := s.up(t); ok {
		s.tasks = append(s.tasks, s.ids.Next(s.now.Wall))
		s.enqueue(i, s.tasks[len(s.tasks)-1], nil)
	}
}

func (s *collecting) complete(t *rapid.T) {
	if i, ok := s.up(t); ok && len(s.tasks) > 0 {
		task := rapid.SampledFrom(s.tasks).Draw(t, "task")
		s.send(i, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1}}})
	}
}

func (s *collecting) some(t *rapid.T) {
	for range min(len(s.post), 20) {
		s.deliver(rapid.IntRange(0, min(len(s.post)-1, 10)).Draw(t, "letter"))
	}
}

// TestCollectionStorm: whatever is lost, crashes, and whoever leads, what a node
// has seen collected never has another fact there (K8), and in the end no
// tombstone is left anywhere, and everything else is everywhere.
func TestCollectionStorm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &collecting{trio: newTrio(t).collecting(), rt: rt, buried: []map[id.ID]bool{{}, {}, {}}}
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": s.write, "enqueue more": s.write, "complete": s.complete, "complete more": s.complete,
			"deliver": s.some, "crash": s.crash,
			"twice": func(t *rapid.T) {
				if len(s.post) > 0 {
					s.post = append(s.post, s.post[rapid.IntRange(0, len(s.post)-1).Draw(t, "letter")])
				}
			},
			"lose":   func(*rapid.T) { s.post = nil },
			"second": func(*rapid.T) { s.pass(time.Second) },
			"rest":   func(t *rapid.T) { s.rest(time.Duration(rapid.IntRange(5, 60).Draw(t, "seconds")) * time.Second) },
			"grace":  func(*rapid.T) { s.rest(shortGrace + 30*time.Second) },
			"leader": func(t *rapid.T) {
				if i, ok := s.up(t); ok {
					s.name(i)
				}
			},
			"": func(*rapid.T) { s.look() },
		})
		for i, p := range s.peers {
			if p.down {
				s.open(i)
			}
		}
		s.elect()
		bare := func(p *peer) bool { stones, _ := p.have(); return stones == 0 }
		if took, ok := s.until(4*shortGrace, func() bool { return s.every(bare) && s.differs() == "" }, s.look); !ok {
			rt.Fatalf("after %v there are still tombstones, or %s", took, s.differs())
		}
		want := s.peers[0].facts(t)
		for i, p := range s.peers {
			if got := p.facts(t); !slices.Equal(got, want) {
				rt.Fatalf("node %d has %d facts, the first one %d", i, len(got), len(want))
			}
		}
	})
}
