package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
)

// heartbeat associates a worker with this node, or goes on with it.
//
// Failure: the worker sends the next one, and gives itself up when none is
// answered in time.
// Partial failure: it is counted here and not there: this side believes in the
// worker for longer than the worker does.
// Delay: counted when it comes, which errs to the same side. One that was sent
// before the newest is dropped; so is one of an earlier association.
// Replay: dropped by its stamp.
// Identity: it is addressed to nobody, the worker takes who answers. Who may have
// the name is decided by the CP path. An instance that was lost is told to die.
func (d *Dispatcher) heartbeat(s *session, m Message, b *Heartbeat) {
	version := Negotiate(b.MinVersion, b.MaxVersion, MinVersion, MaxVersion)
	refuse := func(r Refusal, format string, args ...any) {
		d.out.Send = append(d.out.Send, Message{Instance: m.Instance, Association: m.Association, Body: &HeartbeatReply{
			Echo: m.Stamp, Version: MaxVersion, Refused: r, Text: fmt.Sprintf(format, args...),
		}})
	}
	switch {
	case version == 0:
		refuse(RefusedVersion, "the worker speaks versions %d to %d, this node %d to %d: update one of them", b.MinVersion, b.MaxVersion, MinVersion, MaxVersion)
		return
	case s == nil && d.left.has(m.Instance):
		return // it has left, and said this before
	case s == nil && len(d.sessions) >= d.cfg.MaxSessions && !d.evict():
		refuse(RefusedBacklog, "this node has %d workers already: turn to another", len(d.sessions))
		return
	case b.Identity.Instance != m.Instance || b.Identity.Name == "" || b.Capacity.Slots < 1 || b.Capacity.Takes() > MaxTakes || len(b.Capacity.Queues) > MaxQueues || m.Association == 0:
		refuse(RefusedInvalid, "the heartbeat breaks a rule: name, slots, queues and association are needed, within their limits")
		return
	case b.Stop < 0 || b.Stop > d.cfg.Timeouts.LoseAfter/2:
		refuse(RefusedInvalid, "the handlers need %v to stop, over half of the %v after which an unhealthy worker is lost", b.Stop, d.cfg.Timeouts.LoseAfter)
		return
	}
	if s == nil {
		s = d.newSession(b.Identity)
	} else {
		s.judge()
	}
	if m.Association < s.association || m.Association == s.association && m.Stamp <= s.beat && !mutant.OldBeat.On() {
		return
	}
	d.counts.Heartbeats++
	s.timeouts = d.cfg.Timeouts.Max(b.Timeouts)
	if m.Association > s.association {
		s.associate(m.Association)
	}
	s.version, s.capacity, s.set, s.met, s.grace = version, b.Capacity, b.Set, b.Settled, max(b.Stop, b.Grace)
	s.beat = m.Stamp
	s.stamped(m.Stamp)
	s.draining, s.trouble, s.resting = b.Draining, b.Trouble, b.Resting
	if s.closed { // it was told too early
		s.closed, s.name.at = false, d.now.Mono
	}
	s.alive(b)
	s.nameDue()
	s.reschedule()
}

// evict makes room by forgetting the lost worker that was heard longest ago; false
// when there is none. It costs a look at every session, when the node is full.
func (d *Dispatcher) evict() bool {
	var oldest *session
	for _, s := range d.order {
		if s.revoked && (oldest == nil || s.received < oldest.received) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	d.drop(oldest)
	return true
}

// alive counts a heartbeat, and answers it.
func (s *session) alive(b *Heartbeat) {
	if s.state == MustDie || s.suicide != "" {
		s.send(&Suicide{Reason: s.deathNote(), Final: s.suicide != ""})
	}
	if s.state == MustDie && s.refused == Accepted {
		s.refused, s.text = RefusedDead, "this instance was declared lost"
	}
	if s.state == MustDie || s.killed != 0 { // what it runs is not renewed, and it does not get better
		s.reply()
		return
	}
	s.rest.quiet(s.d.now.Mono)
	s.stamps.Heartbeat = s.d.now.Mono
	if !s.settled() || !b.Settled {
		// Whoever waits for us is not late with a check. A worker that was never told
		// that it has its name counts from the first answer that says so, which may be
		// the one to this heartbeat, though a check of it was credited long ago.
		s.stamps.Check = s.d.now.Mono
	}
	for _, c := range b.Claims {
		if e := s.book.all[c]; e != nil && (e.state == sent || e.state == unsure) {
			s.book.put(e, knownRunning, s.d.now.Mono)
		}
	}
	s.credit(b.Checked)
	s.judge()
	s.reply()
	s.renew(b.Claims)
}

func (s *session) deathNote() string {
	if s.suicide != "" {
		return s.suicide
	}
	return "it was lost"
}

// associate begins anew with a worker that has a new stream: its name has to
// follow, and what it runs is asked again. What was pushed before and is not in
// that list will not begin any more, but only the worker can say so.
func (s *session) associate(n uint64) {
	s.association, s.closed = n, false
	s.beat, s.stamp = 0, 0
	s.unwant()
	s.checks, s.credited, s.checkNo, s.push, s.renewing = nil, 0, 0, 0, nil
	s.early = nil
	if s.revoked || s.leaving {
		return
	}
	// What was believed lost may have lived on with another dispatcher. The cluster
	// decides: if it has agreed on the loss, the name is refused.
	s.state, s.listed = New, false
	s.stamps.Checked, s.stamps.Check, s.stamps.Heartbeat = false, s.d.now.Mono, s.d.now.Mono
	s.name = nameState{}
	s.askName(NameAcquire)
	s.askList()
	for _, c := range s.book.sorted() {
		s.book.put(s.book.all[c], unsure, s.d.now.Mono)
	}
}

// reply answers the newest heartbeat, or says something new about it.
func (s *session) reply() {
	r := &HeartbeatReply{Echo: s.beat, Version: s.version, Refused: s.refused, Text: s.text, Set: s.d.set, Drain: s.drain}
	if s.refused == Accepted {
		r.Good = s.killed == 0 && s.settled() && s.name.covers(s.d.now.Mono, s.timeouts.Life())
		r.Timeouts, r.Checked, r.Cancelled = s.d.cfg.Timeouts, s.credited, s.book.stops()
	}
	s.send(r)
}

// renew has the claims of a heartbeat renewed.
func (s *session) renew(claims []Claim) {
	if len(claims) == 0 || len(claims) > MaxTakes {
		return
	}
	if len(s.renewing) >= maxRenewing {
		s.renewing = s.renewing[1:] // the oldest one was not answered in all that time
	}
	s.renewing = append(s.renewing, s.beat)
	lease := clock.MaxLease
	for _, c := range claims {
		if e := s.book.all[c]; e == nil {
			lease = 0
		} else {
			lease = min(lease, e.lease)
		}
	}
	s.d.out.Renew = append(s.d.out.Renew, Renew{Instance: s.id.Instance, Name: s.id.Name, Association: s.association, Echo: s.beat, Claims: claims, Lease: lease})
}

// askList asks what the worker runs.
func (s *session) askList() {
	s.send(&GetRunningTasks{Request: s.association})
	s.list.at = addNs(s.d.now.Mono, s.d.cfg.NameRetry)
}

// runningTasks takes the list of what a worker runs; before it nothing is pushed.
//
// Failure: it is asked again, and the session stays new. Partial failure: it reads.
// Delay: the first answer in this association is taken, whichever request it
// answers: nothing was pushed since, and what has ended since is in early.
// Replay: later ones are dropped, they would bring back what has ended.
// Identity: instance and association, checked by Step.
func (s *session) runningTasks(b *RunningTasks) {
	if s.listed || s.state == MustDie {
		return
	}
	s.listed = true
	for _, h := range b.Held {
		_, gone := s.early[h.Claim]
		cancel := CauseNone
		if e := s.book.all[h.Claim]; e != nil {
			cancel = e.cancel
			s.book.remove(e)
		}
		if !gone && !h.Ended { // whose end it tells until that is acknowledged
			s.book.cancel(s.book.add(h.Claim, h.Queue, h.Lease, knownRunning), cancel)
		}
	}
	s.early = nil
	s.ready()
}

// ready is called when the name or the list has come: with both the session is
// settled, and the worker need not wait for its next heartbeat to hear of it.
func (s *session) ready() {
	if !s.settled() || s.state == MustDie {
		return
	}
	if !s.stamps.Checked {
		s.stamps.Check = s.d.now.Mono
		s.sendCheck()
	}
	s.judge()
	s.reply()
}

// sendCheck sends a health check: a task like others, through all that tasks go
// through on their way to the worker and back, but for a claim: those are the
// cluster's health, not the worker's.
func (s *session) sendCheck() {
	s.checkNo++
	s.push++
	if len(s.checks) == maxChecks {
		s.checks = slices.Delete(s.checks, 0, 1)
	}
	s.checks = append(s.checks, sentCheck{s.checkNo, s.d.now.Mono})
	s.send(&RunTask{
		Push: s.push, Check: s.checkNo, Queue: HealthQueue,
		Echo: s.stamp, Waited: time.Duration(s.d.now.Mono - s.received),
	})
	next := s.d.cfg.CheckPeriod
	if s.state != Healthy {
		next = min(next, s.d.cfg.Timeouts.Period)
	}
	s.checkAt = addNs(s.d.now.Mono, next)
}

// credit counts a check that has passed, as of when it was sent.
//
// Failure and partial failure: the next heartbeats say it too, and another check follows.
// Delay: it counts as of its sending, so a late word proves no more than it did then.
// Replay: each check is credited once. Identity: the check's number in this association.
func (s *session) credit(number uint64) {
	i := slices.IndexFunc(s.checks, func(c sentCheck) bool { return c.number == number })
	if i < 0 || s.state == MustDie {
		return
	}
	s.stamps.Checked, s.stamps.Check = true, max(s.stamps.Check, s.checks[i].at)
	s.credited = number
	s.checks = slices.Delete(s.checks, 0, i+1)
	before := s.state
	s.judge()
	if before != s.state {
		s.checkAt = addNs(s.d.now.Mono, s.d.cfg.CheckPeriod)
		s.reply()
	}
}
