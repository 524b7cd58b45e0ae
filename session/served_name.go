package session

import (
	"time"

	"github.com/norn-dev/norn/clock"
)

// nameState is how a session stands with its name.
type nameState struct {
	held  bool
	until int64 // mono ns up to which it surely is
	// The request under way; no 0: none.
	no    uint64
	op    NameOp
	asked int64
	lease time.Duration
	// at is when to ask next, or to give up waiting for an answer.
	at   int64
	wait time.Duration // before it is read again
	take Instance
}

// covers tells whether the name is held for all of a life from now on. Only then
// may the worker count on an answer: however it ends, it has ended before anybody
// else can have the name.
func (n nameState) covers(now int64, life time.Duration) bool {
	return n.held && now <= n.until-int64(life)
}

// nameWait is how long an answer of the CP path is waited for before it is asked
// again. A late answer to the older request is dropped, which is always safe.
const nameWait = 5 * time.Second

// askName sends a request, in place of whichever is under way.
func (s *session) askName(op NameOp) {
	delete(s.d.names, s.name.no)
	n := &s.name
	n.no, n.op, n.asked = s.d.number(), op, s.d.now.Mono
	n.at = addNs(n.asked, nameWait)
	n.lease = max(s.d.cfg.NameLease, 2*s.timeouts.Life())
	s.d.names[n.no] = s
	r := NameRequest{No: n.no, Op: op, Identity: s.id, Association: s.association}
	if op == NameAcquire || op == NameTake {
		r.Lease = n.lease
	}
	if op == NameTake {
		r.Expect = n.take
	}
	s.d.out.Names = append(s.d.out.Names, r)
}

// nameDue asks for what the session needs of its name now.
func (s *session) nameDue() {
	n, now := &s.name, s.d.now.Mono
	beat := s.stamps.Heartbeat == now // called for a heartbeat
	if n.no != 0 && now < n.at {
		return // an answer is on its way
	}
	late := n.no != 0 // it is not: ask again
	delete(s.d.names, n.no)
	n.no = 0
	switch {
	case s.revoked:
		n.at = clock.Never
	case s.leaving:
		if late || now >= n.at {
			s.askName(NameRelease)
		}
	case s.state == MustDie:
		if late || now >= n.at {
			s.askName(NameRevoke)
		}
	case s.closed:
		// It may be with another node, which is to ask about what is unsure here.
		if s.book.unsure > 0 && now >= n.at {
			s.askName(NameRead)
		} else if s.book.unsure == 0 {
			n.at = clock.Never
		}
	case n.held:
		// Renewed by heartbeats only: who is silent does not keep a name.
		n.at = clock.Never
		if beat && now >= n.until-int64(n.lease)*3/4 {
			s.askName(NameAcquire)
		}
	case s.refused != Accepted && !beat:
		n.at = clock.Never // the next heartbeat tries again
	case late || beat && s.refused != Accepted || now >= n.at:
		s.askName(NameAcquire)
	}
}

// Name takes the answer to a request about a name, or the news that it is somebody
// else's.
//
// Failure: NameUnknown, or none: it is asked again. Partial failure: a grant whose
// answer was lost is granted again, it is the same worker and association.
// Delay: a grant counts from when it was asked for. Replay: numbers are used once.
// Identity: the number, or instance and verdict.
func (d *Dispatcher) Name(now clock.Time, a NameAnswer) {
	d.pass(now)
	s := d.names[a.No]
	if a.No == 0 {
		s = d.sessions[a.Instance]
	}
	if s == nil {
		return
	}
	s.judge()
	if a.No != 0 {
		if s.name.no != a.No {
			return // judging it has asked for something else
		}
		delete(d.names, a.No)
		s.name.no, s.name.at = 0, addNs(d.now.Mono, d.cfg.NameRetry)
		if a.Verdict == NameStands {
			s.name.wait = min(max(d.cfg.NameRetry, 2*s.name.wait), nameWait)
			s.name.at = addNs(d.now.Mono, s.name.wait)
		}
	}
	s.nameAnswer(a)
	s.reschedule()
}

func (s *session) nameAnswer(a NameAnswer) {
	n := &s.name
	switch a.Verdict {
	case NameGranted:
		if n.op != NameAcquire && n.op != NameTake || s.leaving || s.state == MustDie {
			return
		}
		if o := s.d.sessions[n.take]; o != nil && n.op == NameTake && !o.revoked {
			o.refused, o.text = RefusedStale, "a later life of this worker, "+s.id.Instance.String()+", has its name"
			o.replacedBy(s.id)
			o.reschedule()
		}
		first := !n.held
		n.held, n.at = true, clock.Never
		n.until = clock.WorkerDeadline(n.asked, 0, n.lease, clock.Margin(n.lease, 0))
		s.refused, s.text = Accepted, ""
		if first {
			s.ready()
		}
	case NameRefused:
		s.nameTaken(a.Holder)
	case NameDead:
		s.refused, s.text = RefusedDead, "this instance was declared lost"
		s.outlived()
	case NameSuperseded:
		s.d.counts.HandedOver++
		s.handOver()
		s.d.drop(s)
	case NameReleased:
		if s.leaving {
			s.d.drop(s)
		}
	case NameRevoked:
		if s.state == MustDie {
			s.revoked, n.at = true, clock.Never
			if s.killed == 0 || s.silent() { // else it may go on, for as long as its leases last
				s.free(WhyLost)
			}
		}
	}
}

// nameTaken decides what becomes of a worker whose name another instance has.
//
// One that never had a name runs nothing: it waits, and asks again with each
// heartbeat. (In Bistro it is told to die and started again by somebody; a worker
// here is part of a program that may do more than work.)
func (s *session) nameTaken(holder Identity) {
	if s.leaving {
		s.d.drop(s)
		return
	}
	health := Healthy // as far as this node knows
	if o := s.d.sessions[holder.Instance]; o != nil {
		health = o.state
	}
	if s.state == MustDie {
		s.replacedBy(holder)
		return
	}
	switch r := Replaces(holder, health, s.id, s.d.cfg.Bump); {
	case r == ReplaceDead, r == ReplaceLost && s.d.cfg.Bump:
		s.name.take = holder.Instance
		s.askName(NameTake)
		return
	case r == ReplaceStale:
		s.refused, s.text = RefusedStale, "a later life of this worker, "+holder.Instance.String()+", has its name"
	default:
		s.refused, s.text = RefusedName, "the name "+s.id.Name+" is held by "+holder.Instance.String()+" on "+holder.Machine+": wait, or take another name"
	}
	s.name.held = false
	if !s.met && len(s.book.all) == 0 && s.refused == RefusedName {
		s.reply()
		return
	}
	s.replacedBy(holder)
}

// replacedBy ends the session of a worker that has lost its name to another. When
// the other proves that it is dead its claims are free; otherwise they go by their
// leases, or by its own word when it leaves.
func (s *session) replacedBy(holder Identity) {
	if Replaces(s.id, Healthy, holder, false) == ReplaceDead {
		s.free(WhyLost)
	}
	s.outlived()
}

// outlived makes a session must_die without freeing anything.
func (s *session) outlived() {
	s.state, s.revoked, s.name.at, s.name.held = MustDie, true, clock.Never, false
	s.unwant()
	s.send(&Suicide{Reason: s.text})
	s.reply()
}
