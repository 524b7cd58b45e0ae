package session

import (
	"time"

	"github.com/norn-dev/norn/clock"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// simCP is a model of the CP path: names are cells with leases, claims are leases on
// tasks. Its leases have no buffer: what the worker must be finished by is exactly
// their end.
type simCP struct {
	world *world
	names map[string]*simName
	tasks []*simTask1
	wants []*simWant
	// lease is the shortest one. Long ones outlast the worker, so that what stops a
	// task is that the worker gives itself up.
	lease time.Duration
}

type simName struct {
	cell Cell
	ends int64 // real ns
}

type simTask1 struct {
	no     int
	queue  string
	token  uint64
	done   bool
	holder Instance // of the newest claim, while it has not ended
	ends   int64    // real ns
	lease  time.Duration
	cancel bool
}

type simWant struct {
	node *simNode
	life int
	want Want
}

func (t *simTask1) claim() Claim { return Claim{simTask(t.no), t.token} }

// delay is how long a request takes to the CP path, or back from it.
func (cp *simCP) delay() time.Duration {
	if cp.world.chance(0.02) && !cp.world.healed {
		return cp.world.span(2 * time.Second)
	}
	return cp.world.span(8 * time.Millisecond)
}

// answer runs an answer on a node, unless that has crashed since.
func (cp *simCP) answer(n *simNode, f func(d *Dispatcher, now clock.Time)) {
	life := n.life
	cp.world.after(cp.delay(), func() {
		if n.life == life {
			n.do(f)
		}
	})
}

func (cp *simCP) nameRequest(n *simNode, r NameRequest) {
	w, life := cp.world, n.life
	w.after(cp.delay(), func() {
		if (w.chance(0.05) || w.now < n.apart) && !w.healed {
			return // lost
		}
		c := cp.names[r.Identity.Name]
		if c == nil {
			c = &simName{}
			cp.names[r.Identity.Name] = c
		}
		cell, v := c.cell.Apply(r, w.now >= c.ends)
		if v == NameGranted {
			c.ends = w.now + int64(r.Lease)
			w.check.named(w, r.Identity)
		}
		w.tracef("cp: n%d %v %s by w%d/%d: %v", n.no, r.Op, r.Identity.Name, r.Identity.Instance[0]-1, r.Association, v)
		if w.tamper.name != nil {
			v = w.tamper.name(r, v)
		}
		c.cell = cell
		if n.life != life || w.chance(0.05) && !w.healed {
			return
		}
		a := NameAnswer{No: r.No, Instance: r.Identity.Instance, Verdict: v, Holder: c.cell.Holder}
		cp.answer(n, func(d *Dispatcher, now clock.Time) { d.Name(now, a) })
		if v == NameGranted && r.Op == NameAcquire {
			cp.heldBy(n, r.Identity.Instance)
		}
	})
}

// heldBy tells a node what a worker holds as far as the cluster knows.
func (cp *simCP) heldBy(n *simNode, i Instance) {
	var all []Question
	for _, t := range cp.tasks {
		if t.holder == i {
			all = append(all, Question{Claim: t.claim(), Lease: t.lease})
		}
	}
	if len(all) > 0 && cp.world.chance(0.5) {
		cp.answer(n, func(d *Dispatcher, now clock.Time) { d.Doubt(now, i, all) })
	}
}

// doubt brings claims to the node that the worker has turned to now.
func (cp *simCP) doubt(x Doubt) {
	for _, s := range cp.world.workers {
		if s.instance() == x.Instance && s.node != nil {
			cp.answer(s.node, func(d *Dispatcher, now clock.Time) { d.Doubt(now, x.Instance, x.Claims) })
		}
	}
}

func (cp *simCP) want(n *simNode, x Want) {
	cp.wants = append(cp.wants, &simWant{node: n, life: n.life, want: x})
	cp.world.after(0, cp.serve)
}

func (cp *simCP) unwant(n *simNode, no uint64) {
	for i, x := range cp.wants {
		if x.node == n && x.life == n.life && x.want.No == no {
			cp.wants = append(cp.wants[:i], cp.wants[i+1:]...)
			return
		}
	}
}

func (cp *simCP) dropWants(n *simNode) {
	var kept []*simWant
	for _, x := range cp.wants {
		if x.node != n {
			kept = append(kept, x)
		}
	}
	cp.wants = kept
}

// free tells whether a task can be granted, and lets its claim lapse.
func (cp *simCP) free(t *simTask1) bool {
	if t.holder != (Instance{}) && cp.world.now >= t.ends {
		cp.world.tracef("cp: %v lapses", cp.world.name(t.claim()))
		cp.world.check.lapsed(cp.world, t.claim())
		t.holder = Instance{}
	}
	return !t.done && t.holder == (Instance{})
}

// serve grants what is ready to those who want it.
func (cp *simCP) serve() {
	w := cp.world
	for len(cp.wants) > 0 {
		i := w.rng.IntN(len(cp.wants))
		x := cp.wants[i]
		asked := x.node.clk.mono(w.now)
		var all []Assignment
		for _, q := range x.want.Queues {
			n := q.Slots
			for _, t := range cp.tasks {
				if t.queue != q.Queue || n == 0 || len(all) == x.want.Max || !cp.free(t) {
					continue
				}
				n--
				t.token++
				t.lease = cp.lease + w.span(time.Second)
				t.holder, t.ends = x.want.Instance, w.now+int64(t.lease)
				all = append(all, Assignment{Claim: t.claim(), Queue: t.queue, Lease: t.lease, Grant: &nornv1.Grant{
					Task: &nornv1.Task{Id: t.claim().Task.String(), Queue: t.queue}, Token: t.token, LeaseSeconds: t.lease.Seconds(),
				}})
				w.tracef("cp: %v granted to w%d", w.name(t.claim()), x.want.Instance[0]-1)
			}
		}
		if len(all) == 0 {
			return
		}
		cp.wants = append(cp.wants[:i], cp.wants[i+1:]...)
		if w.chance(0.02) && !w.healed {
			all = nil // the answer is lost: these lapse
		}
		cp.answer(x.node, func(d *Dispatcher, now clock.Time) { d.Granted(now, x.want.No, asked, all) })
	}
}

func (cp *simCP) find(c Claim) *simTask1 {
	for _, t := range cp.tasks {
		if t.claim() == c && t.holder != (Instance{}) {
			return t
		}
	}
	return nil
}

// finished tells whether every task is.
func (cp *simCP) finished() bool {
	for _, t := range cp.tasks {
		if !t.done && !t.cancel {
			return false
		}
	}
	return true
}

// settle ends a claim, and answers where an answer is wanted.
func (cp *simCP) settle(n *simNode, s Settle) {
	w := cp.world
	w.after(cp.delay(), func() {
		if w.chance(0.05) && !w.healed {
			if s.Why == WhyEnded || s.Why == WhyNotRunning {
				cp.answer(n, func(d *Dispatcher, now clock.Time) { d.Settled(now, s.Instance, s.Claim, Outcome{}) })
			}
			return
		}
		if s.Why == WhyEnded && s.End.Kind == EndCompleted {
			cp.tasks[s.Claim.Task[19]].done = true // late or not
		}
		if t := cp.find(s.Claim); t != nil {
			t.holder = Instance{}
			w.after(0, cp.serve)
		}
		cp.answer(n, func(d *Dispatcher, now clock.Time) { d.Settled(now, s.Instance, s.Claim, Outcome{Done: true}) })
	})
}

func (cp *simCP) renew(n *simNode, r Renew) {
	w := cp.world
	w.after(cp.delay(), func() {
		var items []Renewal
		for _, c := range r.Claims {
			t := cp.find(c)
			switch {
			case t == nil || cp.free(t) || t.done:
				items = append(items, Renewal{Claim: c, Lost: CauseLost})
			case t.cancel:
				items = append(items, Renewal{Claim: c, Lost: CauseCancelled})
			default:
				t.ends = max(t.ends, w.now+int64(t.lease))
				items = append(items, Renewal{Claim: c, Lease: t.lease})
			}
		}
		cp.answer(n, func(d *Dispatcher, now clock.Time) {
			d.Renewed(now, r.Instance, r.Association, r.Echo, items, true)
		})
	})
}
