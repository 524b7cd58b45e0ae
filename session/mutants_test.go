package session

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
)

// mutants are rules taken away. Each is done from outside, to the state of a
// machine after a step or to a frame on its way, so that the machines themselves
// need no switch for it.
var mutants = map[string]struct {
	broken string // what the checks then say
	tamper func(w *world) tamper
	// setup makes it likely; nil: the usual trouble does.
	setup func(w *world)
}{
	"a denied claim is not barred": {"has said that", func(*world) tamper {
		return tamper{worker: func(s *simWorker) { clear(s.w.bars) }}
	}, nil},
	"pushes are not remembered": {"is started by", func(*world) tamper {
		return tamper{worker: func(s *simWorker) { s.w.pushes = window{} }}
	}, nil},
	"frames of older associations are taken": {"", func(w *world) tamper {
		return tamper{message: func(m *Message, toWorker bool) {
			if toWorker {
				m.Association = w.associationOf(m.Instance)
			}
		}}
	}, func(w *world) {
		w.moreTasks(80)
		w.net.late = 0.5
		w.everyTrouble(150*time.Millisecond, func() { w.workers[w.rng.IntN(len(w.workers))].turn() })
	}},
	"frames to an earlier instance are taken": {"", func(w *world) tamper {
		return tamper{message: func(m *Message, toWorker bool) {
			if toWorker {
				m.Instance = w.successor(m.Instance)
				m.Association = w.associationOf(m.Instance)
			}
		}}
	}, func(w *world) {
		w.moreTasks(80)
		w.net.late = 0.5
		w.everyTrouble(300*time.Millisecond, func() { w.workers[w.rng.IntN(len(w.workers))].kill() })
	}},
	"the deadline counts from the receipt of a push": {"", func(w *world) tamper {
		return tamper{message: func(m *Message, toWorker bool) {
			if r, ok := m.Body.(*RunTask); ok && toWorker {
				again := *r
				again.Echo, again.Waited = w.clockOf(m.Instance), 0
				m.Body = &again
			}
		}}
	}, nil},
	"a renewal counts from its receipt": {"", func(w *world) tamper {
		return tamper{message: func(m *Message, toWorker bool) {
			if r, ok := m.Body.(*Renewed); ok && toWorker {
				again := *r
				again.Echo = w.clockOf(m.Instance)
				m.Body = &again
			}
		}}
	}, func(w *world) { w.moreTasks(100); w.net.late = 0.6 }},
	"a heartbeat counts from its answer": {"believes", func(w *world) tamper {
		return tamper{worker: func(s *simWorker) {
			if st := &s.w.life.stamps; st.Heartbeat == s.w.echoed && s.w.life.state != MustDie && st.Settled {
				st.Heartbeat, st.Check = s.w.now.Mono, s.w.now.Mono
			}
		}}
	}, nil},
	"a dispatcher goes by its own time-outs only": {"believes", func(*world) tamper {
		return tamper{message: func(m *Message, toWorker bool) {
			if b, ok := m.Body.(*Heartbeat); ok && !toWorker {
				again := *b
				again.Timeouts = Timeouts{}
				m.Body = &again
			}
		}}
	}, func(w *world) {
		for at, node := range map[time.Duration]int{2 * time.Second: 1, 4 * time.Second: 0} {
			w.after(at, func() {
				for _, s := range w.workers {
					if !s.dead && !s.frozen {
						s.turnTo(w.nodes[node])
					}
					if node == 0 {
						w.after(w.span(15*time.Millisecond), func() { s.cut = int64(15 * time.Second) })
					}
				}
			})
		}
	}},
	"a worker gives up as late as its dispatcher": {"", func(*world) tamper {
		return tamper{worker: func(s *simWorker) { s.w.life.stop = -2 * time.Second }}
	}, cutOff},
	"a lost answer is taken for a refusal": {"", func(*world) tamper {
		return tamper{node: func(n *simNode) {
			for _, s := range n.d.sessions {
				for _, c := range s.book.sorted() {
					if e := s.book.all[c]; e.state == unsure {
						s.book.remove(e)
						n.d.settle(s.id.Instance, c, WhyRefused, End{})
					}
				}
			}
		}}
	}, nil},
	"who is not heard is free, wherever it lives on": {"", func(*world) tamper {
		return tamper{name: func(r NameRequest, v NameVerdict) NameVerdict {
			if r.Op == NameRevoke {
				return NameRevoked
			}
			return v
		}}
	}, nil},
	"a name is believed in for ever": {"is granted to", func(*world) tamper {
		return tamper{node: func(n *simNode) {
			for _, s := range n.d.sessions {
				if s.name.held {
					s.name.until = clock.Never
				}
			}
		}}
	}, func(w *world) {
		w.after(2*time.Second, func() {
			w.nodes[0].apart = int64(15 * time.Second)
			for n := range 3 {
				w.addWorker(w.workers[n].name, "elsewhere", "")
			}
		})
	}},
	"an ending is said once": {"", func(*world) tamper {
		return tamper{worker: func(s *simWorker) {
			for _, h := range s.w.has.all {
				if h.phase == ended {
					h.retry.at = clock.Never
				}
			}
			for _, r := range s.w.denied {
				r.at = clock.Never
			}
		}}
	}, nil},
	"an unknown outcome is not asked about": {"", func(*world) tamper {
		return tamper{message: func(m *Message, toWorker bool) {
			if b, ok := m.Body.(*Notify); ok {
				again := *b
				again.Claims = nil
				m.Body = &again
			}
		}}
	}, nil},
}

// foundBy is a seed that finds a mutant; others do too.
var foundBy = map[string]uint64{
	"a denied claim is not barred":                   1,
	"a dispatcher goes by its own time-outs only":    0,
	"a heartbeat counts from its answer":             7,
	"a lost answer is taken for a refusal":           0,
	"a name is believed in for ever":                 0,
	"a renewal counts from its receipt":              35,
	"a worker gives up as late as its dispatcher":    7,
	"an ending is said once":                         1,
	"an unknown outcome is not asked about":          2,
	"frames of older associations are taken":         1,
	"frames to an earlier instance are taken":        6,
	"pushes are not remembered":                      28,
	"the deadline counts from the receipt of a push": 3,
	"who is not heard is free, wherever it lives on": 10,
}

// associationOf and clockOf look into the process that a frame goes to.
func (w *world) associationOf(i Instance) uint64 {
	for _, s := range w.workers {
		if s.instance() == i {
			return s.w.association
		}
	}
	return 0
}

// successor is the newest worker with the name of an instance.
func (w *world) successor(i Instance) Instance {
	for _, s := range w.workers {
		if s.instance() == i {
			for _, o := range w.workers {
				if o.name == s.name && !o.dead {
					i = o.instance()
				}
			}
		}
	}
	return i
}

func (w *world) clockOf(i Instance) int64 {
	for _, s := range w.workers {
		if s.instance() == i {
			return s.w.stamp
		}
	}
	return 0
}

// cutOff has nodes hear nothing of any worker from some moment on.
func cutOff(w *world) {
	w.moreTasks(100)
	w.cp.lease = 20 * time.Second
	w.after(3*time.Second, func() {
		for _, s := range w.workers {
			s.cut = int64(15 * time.Second)
		}
	})
}

// everyTrouble does something until the world heals.
func (w *world) everyTrouble(d time.Duration, f func()) {
	w.every(d, func() {
		if !w.healed {
			f()
		}
	})
}

// TestMutants shows that the checks can fail: with any of these rules taken away
// some seed breaks, and with the rule in place it does not. The seeds in foundBy
// only save time.
func TestMutants(t *testing.T) {
	const most = 100
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		t.Run(name, func(t *testing.T) {
			m := mutants[name]
			run := func(seed uint64, broken bool) string {
				w := newWorld(seed)
				w.badNet()
				if broken {
					w.tamper = m.tamper(w)
				}
				if m.setup != nil {
					m.setup(w)
				}
				w.run(15 * time.Second)
				return strings.Join(w.check.broken, "\n")
			}
			for seed := range uint64(most) {
				if seed == 0 {
					seed = foundBy[name] // the usual way out
				}
				if text := run(seed, true); text != "" && strings.Contains(text, m.broken) {
					t.Logf("seed %d: %s", seed, text)
					if text := run(seed, false); text != "" {
						t.Errorf("with the rule in place: %s", text)
					}
					return
				}
			}
			t.Errorf("%d seeds find nothing wrong", most)
		})
	}
}
