package session

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (d *Dispatcher) settle(instance Instance, c Claim, why Why, end End) {
	x := Settle{Instance: instance, Claim: c, Why: why, End: end}
	if s := d.sessions[instance]; s != nil {
		if x.Name = s.id.Name; why == WhyLost {
			x.Grace = s.grace
		}
	}
	d.out.Settle = append(d.out.Settle, x)
}

// updateStatus takes the end of a claim, or the word that it was not running.
//
// Failure: the worker repeats it. Partial failure: it is written and not
// acknowledged; the repetition is written again, which changes nothing.
// Delay: what it says stays true for ever: a claim ends once, and one that was
// denied is barred. So it counts in whatever state the session is, and whichever
// dispatcher the worker has turned to since. The list of a new session, which may
// be older, does not bring it back.
// Replay: while it is being written a second one is dropped, unless it says more:
// then it is written next, and that is what is acknowledged. So "ended" beats "was
// not running" in either order, and a completion, which counts whatever became of the
// claim, beats all.
// Identity: task and token; the leader ends nothing for a wrong token, and, but by a
// completion, nothing that another session holds.
func (d *Dispatcher) updateStatus(s *session, m Message, b *UpdateStatus) {
	if s != nil {
		s.judge()
		if e := s.book.all[b.Claim]; e != nil {
			s.rest.ended(d.now.Mono, e, b.End)
			s.book.remove(e) // its slot is free; the worker goes on until the end is written
		}
		if !s.listed && len(s.early) < MaxTakes && !mutant.EarlyEndLost.On() {
			if s.early == nil {
				s.early = make(map[Claim]struct{})
			}
			s.early[b.Claim] = struct{}{}
		}
		if m.Association == s.association {
			s.stamped(m.Stamp)
		}
		s.reschedule()
	}
	key := settleKey{m.Instance, b.Claim}
	if b.End.Kind == EndNone || b.End.Kind == EndChecked {
		return
	}
	if is := d.settling[key]; is != nil {
		begun := func(x Settle) bool { return x.Instance == m.Instance && x.Claim == b.Claim }
		switch i := slices.IndexFunc(d.out.Settle, begun); {
		case b.End.Kind.worth() <= max(is.kind.worth(), is.better.Kind.worth()):
		case i >= 0: // nobody has begun to write it
			d.out.Settle = slices.Delete(d.out.Settle, i, i+1)
			d.write(key, is.association, b.End)
		default:
			is.better = b.End
		}
		return
	}
	if len(d.settling) < maxSettling {
		d.write(key, m.Association, b.End)
	}
}

// write has a status written.
func (d *Dispatcher) write(key settleKey, association uint64, end End) {
	why := WhyEnded
	if end.Kind == EndNotRunning {
		why = WhyNotRunning
	}
	d.settling[key] = &settled{association: association, kind: end.Kind}
	d.settle(key.instance, key.claim, why, end)
}

// Outcome is what became of a [Settle]. Done says that it is written, or surely
// never can be: then the worker may forget the claim. Otherwise the worker's next
// repetition is tried.
type Outcome struct {
	Done  bool
	Lost  bool         // the claim was over before
	State nornv1.State // of the task, where that is known
}

// Settled takes the answer to a Settle with WhyEnded or WhyNotRunning.
func (d *Dispatcher) Settled(now clock.Time, instance Instance, c Claim, o Outcome) {
	d.pass(now)
	key := settleKey{instance, c}
	is := d.settling[key]
	if is == nil {
		return
	}
	delete(d.settling, key)
	association := is.association
	s := d.sessions[instance]
	if s != nil && is.kind == EndReported && o.Done && !o.Lost { // it was not: it gave the task back
		s.rest.refused(d.now.Mono, Accepted)
		s.reschedule()
	}
	if is.better.Kind != EndNone {
		d.write(key, association, is.better)
		return
	}
	if !o.Done {
		return
	}
	if s != nil {
		association = max(association, s.association)
	}
	d.out.Send = append(d.out.Send, Message{Instance: instance, Association: association, Body: &StatusAck{Claim: c, Lost: o.Lost, State: o.State}})
}

// leave ends a session whose worker runs nothing and never starts anything again.
// Everything that is still believed to be there is free.
//
// Failure: the worker repeats it. Partial failure: it is acknowledged again, also
// without a session. Delay and replay: it stays true for ever, whichever association
// it was said in. Identity: the instance.
func (s *session) leave() {
	s.free(WhyLeft)
	s.unwant()
	if s.leaving {
		return
	}
	s.leaving = true
	if s.revoked {
		s.d.drop(s)
		return
	}
	s.askName(NameRelease)
}

// departed remembers the newest instances that have left. A heartbeat that their
// word of leaving has overtaken would begin a session that nobody is behind, and
// hold the name for the time it takes to lose it.
type departed struct {
	all   map[Instance]struct{}
	order []Instance
}

// maxDeparted bounds them: requests overtake each other by milliseconds.
const maxDeparted = 4096

func (l *departed) add(i Instance) {
	if _, ok := l.all[i]; ok {
		return
	}
	if l.all == nil {
		l.all = make(map[Instance]struct{})
	}
	if len(l.order) == maxDeparted {
		delete(l.all, l.order[0])
		l.order = l.order[1:]
	}
	l.all[i] = struct{}{}
	l.order = append(l.order, i)
}

func (l *departed) has(i Instance) bool {
	_, ok := l.all[i]
	return ok
}

// Renewed takes renewals of the claims of one heartbeat. It may be called several
// times, as leaders answer; done says that no more will come.
func (d *Dispatcher) Renewed(now clock.Time, instance Instance, association uint64, echo int64, items []Renewal, done bool) {
	d.pass(now)
	s := d.sessions[instance]
	if s == nil || s.association != association || !slices.Contains(s.renewing, echo) {
		return
	}
	s.judge()
	for _, r := range items {
		if r.Lost == CauseNone {
			d.counts.Renewals++
		}
	}
	if len(items) > 0 && s.state != MustDie && s.killed == 0 {
		s.send(&Renewed{Echo: echo, Items: items})
	}
	if done {
		s.renewing = slices.DeleteFunc(s.renewing, func(e int64) bool { return e == echo })
	}
	s.reschedule()
}

// Cancel stops one claim, because its task was cancelled (CauseCancelled) or an
// operator wants it (CauseKilled). It is false when the worker is not known to hold
// it. The worker is told now, and again with every answer to a heartbeat.
func (d *Dispatcher) Cancel(now clock.Time, instance Instance, c Claim, cause Cause) bool {
	d.pass(now)
	s := d.sessions[instance]
	if s == nil || s.book.all[c] == nil {
		return false
	}
	e := s.book.all[c]
	s.book.cancel(e, cause)
	s.send(&KillTask{Claim: c, Lease: e.lease, Cause: cause})
	return true
}

// Drain has a worker take nothing new, finish and leave. It is false when there is
// no such worker here.
func (d *Dispatcher) Drain(now clock.Time, instance Instance) bool {
	d.pass(now)
	s := d.sessions[instance]
	if s == nil || s.state == MustDie {
		return false
	}
	s.drain = true
	s.reply()
	s.reschedule()
	return true
}

// Kill has a worker stop everything at once and leave; it is told again with every
// heartbeat. The word is for this instance, and means nothing to a later one. Nothing that
// it runs is renewed any more. When it has not left after LoseAfter it is declared lost:
// others may have its name. What it runs it may run all the same, so its claims end by
// their leases. It is false when there is no such worker here.
func (d *Dispatcher) Kill(now clock.Time, instance Instance, reason string) bool {
	d.pass(now)
	s := d.sessions[instance]
	if s == nil {
		return false
	}
	s.judge()
	if s.suicide = reason; s.killed == 0 {
		s.killed = d.now.Mono
	}
	s.send(&Suicide{Reason: reason, Final: true})
	s.reschedule()
	return true
}

// AskLines asks a worker for log lines of a claim; the answer comes in Ready.Lines
// under the same request number. It is false when there is no such worker here. It
// is not repeated.
func (d *Dispatcher) AskLines(now clock.Time, instance Instance, q GetLogLines) bool {
	d.pass(now)
	s := d.sessions[instance]
	if s == nil {
		return false
	}
	s.send(&q)
	return true
}

// SetVersion says which set of sessions the cluster has now; workers are told, and
// echo it.
func (d *Dispatcher) SetVersion(v SetVersion) { d.set = v }

// Info is a session as an operator sees it.
type Info struct {
	Identity    Identity
	Association uint64
	State       State
	Named       bool // it has its name
	Listed      bool // what it runs is known
	Draining    bool
	Killed      bool // by an operator
	Refused     Refusal
	Capacity    Capacity
	Running     []Claim       // believed to be running, sorted
	Unsure      int           // of those: the outcome of the push is unknown
	Declined    uint64        // tasks that it did not take, or gave back as they came
	Declines    Refusal       // why, the newest of them; Accepted: it gave it back
	Resting     time.Duration // it is given nothing, because it refused many in a row; 0: it is not, or only for a moment
	Set         SetVersion    // newest one it has echoed
	Silent      time.Duration // since its newest frame
	Trouble     string        // why it cannot begin tasks; "": it can
}

// Sessions lists the sessions by name, then instance.
func (d *Dispatcher) Sessions(now clock.Time) []Info {
	all := make([]Info, 0, len(d.sessions))
	for _, s := range slices.SortedFunc(maps.Values(d.sessions), func(a, b *session) int {
		if n := strings.Compare(a.id.Name, b.id.Name); n != 0 {
			return n
		}
		return strings.Compare(string(a.id.Instance[:]), string(b.id.Instance[:]))
	}) {
		all = append(all, s.info(now))
	}
	return all
}

func (s *session) info(now clock.Time) Info {
	r := s.rest
	i := Info{
		Declined: r.total, Declines: r.last,
		Identity: s.id, Association: s.association, State: s.state, Named: s.name.held, Listed: s.listed,
		Draining: s.draining || s.drain, Killed: s.killed != 0, Refused: s.refused, Capacity: s.capacity, Unsure: s.book.unsure, Set: s.set,
		Silent: now.SinceMono(s.received), Running: s.book.sorted(), Trouble: s.trouble,
	}
	if r.row >= manyRests {
		i.Resting = max(0, time.Duration(r.until-now.Mono))
	}
	return i
}

// Renews tells whether the claims of a worker may be renewed for its session: it was not
// killed.
func (d *Dispatcher) Renews(instance Instance) bool {
	s := d.sessions[instance]
	return s == nil || s.killed == 0
}

// Knows tells whether there is a session of an instance.
func (d *Dispatcher) Knows(instance Instance) bool { return d.sessions[instance] != nil }

// Info gives one session; ok is false when there is none.
func (d *Dispatcher) Info(now clock.Time, instance Instance) (Info, bool) {
	s := d.sessions[instance]
	if s == nil {
		return Info{}, false
	}
	return s.info(now), true
}
