package session

import (
	"time"

	"github.com/norn-dev/norn/clock"
)

// simNet is the network. Every message is one frame on its own.
type simNet struct {
	drop, double, late float64
	pair               *pairFault
	seen               map[Kind]int
}

// toWorker sends a frame of a node to the process that it is addressed to, whatever
// that has turned to since.
func (t *simNet) toWorker(w *world, n *simNode, m Message) {
	if r, ok := m.Body.(*RunTask); ok && r.Check == 0 && !w.healed && w.chance(0.03) {
		life := n.life
		w.after(w.span(20*time.Millisecond), func() {
			if n.life == life {
				n.do(func(d *Dispatcher, now clock.Time) { d.Unsent(now, m.Instance, r.Claim) })
			}
		})
		return
	}
	if w.wire {
		m = w.overWire(m, true)
	}
	t.carry(w, m, func() {
		m := m
		if w.tamper.message != nil {
			w.tamper.message(&m, true)
		}
		for _, s := range w.workers {
			if s.instance() != m.Instance || s.dead {
				continue
			}
			if s.frozen {
				s.inbox = append(s.inbox, m)
				continue
			}
			w.tracef("n%d → w%d/%d %s", n.no, s.no, m.Association, w.show(m.Body))
			s.do(func(worker *Worker, now clock.Time) { worker.Step(now, m) })
		}
	})
}

func (t *simNet) toNode(w *world, s *simWorker, n *simNode, m Message) {
	if w.tamper.message != nil {
		w.tamper.message(&m, false)
	}
	life := n.life
	if w.now < s.cut && !w.healed {
		return
	}
	if w.wire {
		m = w.overWire(m, false)
	}
	t.carry(w, m, func() {
		if n.life != life {
			return
		}
		w.tracef("w%d/%d → n%d %s", s.no, m.Association, n.no, w.show(m.Body))
		n.do(func(d *Dispatcher, now clock.Time) { d.Step(now, m) })
	})
}

// carry delivers a frame, or not, or twice, sooner or later.
func (t *simNet) carry(w *world, m Message, deliver func()) {
	t.seen[m.Body.Kind()]++
	if t.pair != nil && !w.healed && t.pair.carry(w, m, deliver) {
		return
	}
	if w.healed {
		w.after(w.span(4*time.Millisecond), deliver)
		return
	}
	copies := 1
	if w.chance(t.double) {
		copies = 2
	}
	for range copies {
		if w.chance(t.drop) {
			continue
		}
		d := w.span(5 * time.Millisecond)
		if w.chance(t.late) {
			d = w.span(1500 * time.Millisecond)
		}
		w.after(d, func() {
			deliver()
			if t.pair != nil {
				t.pair.delivered(w, m)
			}
		})
	}
}

// callOf gives the core call that a frame belongs to, request or answer.
func callOf(m Message) string {
	switch b := m.Body.(type) {
	case *Heartbeat, *HeartbeatReply:
		return "heartbeat"
	case *GetRunningTasks, *RunningTasks:
		return "getRunningTasks"
	case *RunTask:
		if b.Check == 0 {
			return "runTask"
		}
	case *RunReply:
		return "runTask"
	case *Notify, *NotifyReply:
		return "notify"
	case *UpdateStatus:
		if b.End.Kind != EndChecked {
			return "updateStatus"
		}
	case *StatusAck:
		return "updateStatus"
	}
	return ""
}

// pairFault does one thing to frames of call a around frames of call b, of the same
// worker.
type pairFault struct {
	a, b  string
	fault string // drop, duplicate, delay, reorder
	share float64
	held  []heldFrame
	hits  int
}

type heldFrame struct {
	instance Instance
	deliver  func()
}

// carry takes a frame of a out of the ordinary way; false leaves it there.
//
//	drop       it is lost; the next frames of b come without it
//	duplicate  it comes at once, and again right after the next frame of b
//	delay      it comes some time after the next frame of b
//	reorder    it comes right after the next frame of b
func (p *pairFault) carry(w *world, m Message, deliver func()) bool {
	if callOf(m) != p.a || !w.chance(p.share) || len(p.held) > 20 {
		return false
	}
	switch p.fault {
	case "drop":
		p.held = append(p.held, heldFrame{m.Instance, nil})
	case "duplicate":
		w.after(w.span(4*time.Millisecond), deliver)
		p.held = append(p.held, heldFrame{m.Instance, deliver})
	case "delay":
		d := w.span(800 * time.Millisecond)
		p.held = append(p.held, heldFrame{m.Instance, func() { w.after(d, deliver) }})
	case "reorder":
		p.held = append(p.held, heldFrame{m.Instance, deliver})
	}
	return true
}

// delivered releases what waits for a frame of b.
func (p *pairFault) delivered(w *world, m Message) {
	if callOf(m) != p.b {
		return
	}
	var kept []heldFrame
	for _, h := range p.held {
		switch {
		case h.instance != m.Instance:
			kept = append(kept, h)
		default:
			p.hits++
			if h.deliver != nil {
				w.after(0, h.deliver)
			}
		}
	}
	p.held = kept
}
