package session

import (
	"cmp"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/proto"
)

// maxQuestions bounds the claims of one Notify.
const maxQuestions = proto.MaxSessionQuestions

// credit of a session: how many tasks may be pushed now. Who serves no queue now, because
// its handlers hang, wants none; who refuses what it is given rests, and then is tried with one.
func (s *session) room() int {
	if len(s.capacity.Queues) == 0 || s.resting || s.state != Healthy || !s.settled() || s.closed || s.stuck || s.draining || s.drain || s.leaving || s.suicide != "" {
		return 0
	}
	room := max(0, s.capacity.Takes()-len(s.book.all))
	switch {
	case s.d.now.Mono < s.rest.until:
		return 0
	case s.rest.row > 0 || s.trouble != "":
		return min(1, room) // to try
	}
	return room
}

// roomFor is the same for one queue: what the queue may have, no more than all.
func (s *session) roomFor(q QueueSlots) int {
	room := s.room()
	if q.Slots > 0 {
		room = min(room, q.Slots+s.capacity.Prefetch-s.book.perQueue[q.Queue])
	}
	return max(0, room)
}

// wantTasks asks for tasks when there is room for some, once at a time. A want that
// leaves out a queue which has room now is replaced; one that only asks for fewer
// tasks than would fit is not, the next one follows its answer.
func (s *session) wantTasks() {
	room := s.room()
	if room == 0 {
		s.unwant()
		return
	}
	if s.want != nil && !s.leftOut() {
		return
	}
	s.unwant()
	w := Want{No: s.d.number(), Instance: s.id.Instance, Name: s.id.Name, Max: room, Lease: s.capacity.Lease, Association: s.association}
	var names []string
	for _, q := range s.capacity.Queues {
		if n := s.roomFor(q); n > 0 {
			w.Queues = append(w.Queues, QueueSlots{Queue: q.Queue, Slots: n, Weight: cmp.Or(q.Weight, 1)})
			names = append(names, q.Queue)
		}
	}
	if len(w.Queues) == 0 {
		return
	}
	s.want = &want{no: w.No, queues: names, stamp: s.stamp, received: s.received}
	s.d.wants[w.No] = s
	s.d.out.Want = append(s.d.out.Want, w)
}

// leftOut tells whether a queue has room that the open want does not name. Both
// lists are in the worker's order.
func (s *session) leftOut() bool {
	named := s.want.queues
	for _, q := range s.capacity.Queues {
		if len(named) > 0 && named[0] == q.Queue {
			named = named[1:]
		} else if s.roomFor(q) > 0 {
			return true
		}
	}
	return false
}

func (s *session) unwant() {
	if s.want != nil {
		delete(s.d.wants, s.want.no)
		s.d.out.Unwant = append(s.d.out.Unwant, s.want.no)
		s.want = nil
	}
}

// Granted takes the answer to a want, which it closes: claims that were granted,
// or none. asked is the mono ns at which the leader was asked for them. What cannot
// be pushed any more is settled at once: nothing of it was ever sent.
func (d *Dispatcher) Granted(now clock.Time, no uint64, asked int64, all []Assignment) {
	d.pass(now)
	s := d.wants[no]
	if s == nil {
		for _, a := range all {
			d.settle(Instance{}, a.Claim, WhyUnsent, End{})
		}
		return
	}
	s.judge()
	w := s.want
	if w != nil {
		delete(d.wants, w.no)
		s.want = nil
	}
	for _, a := range all {
		q, serves := s.capacity.queue(a.Queue)
		if w == nil || !serves || s.roomFor(q) == 0 || s.book.all[a.Claim] != nil {
			d.settle(s.id.Instance, a.Claim, WhyUnsent, End{})
			continue
		}
		s.runTask(w, asked, a)
	}
	s.reschedule()
}

// runTask pushes a claim: known as running first, then sent.
func (s *session) runTask(w *want, asked int64, a Assignment) {
	stamp, received := w.stamp, w.received
	if s.received <= asked {
		stamp, received = s.stamp, s.received // newer, and still before it was asked
	}
	s.push++
	s.d.counts.Pushes++
	e := s.book.add(a.Claim, a.Queue, a.Lease, sent)
	e.push = s.push
	e.at = addNs(s.d.now.Mono, s.d.cfg.AskAfter)
	s.book.doubtAt = min(s.book.doubtAt, e.at)
	s.send(&RunTask{
		Push: s.push, Claim: a.Claim, Queue: a.Queue, Echo: stamp,
		Waited: time.Duration(max(0, asked-received)), Lease: a.Lease, Grant: a.Grant,
	})
}

// runReply takes the answer to a push.
//
// Failure: without one the outcome is unknown, and the worker is asked.
// Partial failure: it is held there and unknown here: asked, and not denied.
// Delay: an answer that was overtaken by a status finds no entry. Replay: the same.
// Identity: the number of the push. A refusal counts only while nothing better is
// known; the worker decides each push once, so it never refuses what it took.
func (s *session) runReply(b *RunReply) {
	e := s.book.all[b.Claim]
	if e == nil || e.push != b.Push || e.state != sent && e.state != unsure {
		return
	}
	if b.Refused == Accepted {
		s.book.put(e, knownRunning, s.d.now.Mono)
		return
	}
	s.d.counts.Refused++
	s.book.remove(e)
	end := End{}
	if b.Refused == RefusedRunning {
		end = End{Kind: EndFailed, Uncounted: true, RetryIn: s.rest.putsOff(s.d.now.Mono, b.Claim.Task), Error: "its worker still ran it under an earlier claim"}
	} else {
		s.rest.refused(s.d.now.Mono, b.Refused)
	}
	s.d.settle(s.id.Instance, b.Claim, WhyRefused, end)
}

// Unsent is called when a RunTask of Ready was never written to the worker's
// stream, not one byte of it: only then is it known without asking. The session is
// given nothing more until the worker has said something or [Dispatcher.Writable] is
// called: it would be given the same task at once, for ever.
func (d *Dispatcher) Unsent(now clock.Time, instance Instance, c Claim) {
	d.pass(now)
	if s := d.sessions[instance]; s != nil && s.book.all[c] != nil && s.book.all[c].state == sent {
		s.stuck = true
		s.book.remove(s.book.all[c])
		d.settle(instance, c, WhyUnsent, End{})
		s.reschedule()
	}
}

// Writable is called when there is room again in the stream of a worker, after a
// RunTask did not fit.
func (d *Dispatcher) Writable(now clock.Time, instance Instance) {
	d.pass(now)
	if s := d.sessions[instance]; s != nil && s.stuck {
		s.stuck = false
		s.reschedule()
	}
}

// Closed is called when the stream of an association has ended. It proves nothing
// about the worker; what was pushed and not answered is unsure at once, and nothing
// more is asked for until the worker is back. As long as something is unsure the name
// is looked at: when the worker has it by another node, that one hears of the doubts.
func (d *Dispatcher) Closed(now clock.Time, instance Instance, association uint64) {
	d.pass(now)
	s := d.sessions[instance]
	if s == nil || s.association != association {
		return
	}
	s.judge()
	for _, c := range s.book.sorted() {
		if e := s.book.all[c]; e.state == sent {
			s.book.put(e, unsure, s.d.now.Mono)
		}
	}
	s.closed, s.name.at = true, d.now.Mono
	s.nameDue()
	s.reschedule()
}

// Doubt is called with claims that the cluster takes for held by a worker, but
// that no answer of it confirms here: those of the CP path when the worker turns to
// this node, and those that another node hands over. The worker is asked.
func (d *Dispatcher) Doubt(now clock.Time, instance Instance, all []Question) {
	d.pass(now)
	s := d.sessions[instance]
	if s == nil {
		return
	}
	s.judge()
	for _, q := range all {
		if _, busy := d.settling[settleKey{instance, q.Claim}]; !busy && s.book.all[q.Claim] == nil && s.state != MustDie && !s.leaving && len(s.book.all) < 2*MaxTakes {
			s.book.put(s.book.add(q.Claim, "", q.Lease, sent), unsure, s.d.now.Mono)
		}
	}
	s.reschedule()
}

// notify asks about everything that is unsure, later each time.
func (s *session) notify() {
	q := s.book.question()
	s.d.counts.Asked += uint64(len(q.Claims))
	s.send(q)
	s.book.ask.wait = min(max(s.d.cfg.AskAfter, 2*s.book.ask.wait), s.d.cfg.AskMax)
	s.book.ask.at = addNs(s.d.now.Mono, s.book.ask.wait)
}

// notifyReply takes the answer to a Notify: what was asked and is not reported is
// held by the worker.
//
// Failure: it is asked again. Partial failure: the worker has reported, or does so
// until that is acknowledged. Delay: an answer says what held when it was given,
// for the claims that were in its question and are unsure since. Replay: the same.
// Identity: instance and association by Step, the question by its number.
func (s *session) notifyReply(b *NotifyReply) {
	if b.Seq > s.book.seq {
		return
	}
	for _, c := range b.Ended {
		if e := s.book.all[c]; e != nil {
			s.book.remove(e) // its status ends it, or has already
		}
	}
	for _, c := range s.book.sorted() {
		if e := s.book.all[c]; e.state == unsure && e.asked <= b.Seq {
			s.book.put(e, knownRunning, s.d.now.Mono)
		}
	}
}
