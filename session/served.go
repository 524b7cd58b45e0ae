package session

import (
	"container/heap"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
)

// session is one worker as its dispatcher knows it.
type session struct {
	d           *Dispatcher
	id          Identity
	association uint64
	version     uint32
	capacity    Capacity
	set         SetVersion
	grace       time.Duration // its handlers may need so long to end

	state    State
	timeouts Timeouts // the longer of ours and the worker's
	stamps   Stamps
	beat     int64 // stamp of the newest heartbeat
	// The newest frame: its stamp on the worker's clock, its receipt on ours.
	stamp, received int64
	met             bool // the worker had been told that it has its name, by whomever

	name     nameState
	listed   bool // what it runs is known
	list     retry
	closed   bool   // the stream of this association has ended
	stuck    bool   // what it was to be given was not written: first it has to say something, or there has to be room again
	draining bool   // the worker takes nothing new
	trouble  string // why the worker cannot begin tasks; "": it can
	resting  bool   // it takes nothing for a while, because of that
	drain    bool   // an operator wants that
	suicide  string // an operator wants it to die
	killed   int64  // mono ns since which; 0: nobody does
	refused  Refusal
	text     string
	leaving  bool
	revoked  bool // its loss is agreed on, or its name is somebody else's

	book book
	// early are claims that ended while the list was on its way.
	early map[Claim]struct{}
	push  uint64

	checks   []sentCheck
	checkNo  uint64
	credited uint64
	checkAt  int64

	want     *want
	rest     rest
	renewing []int64 // stamps of heartbeats whose claims are being renewed

	wake  int64
	index int // in the heap; -1: not in it
	gone  bool
}

type sentCheck struct {
	number uint64
	at     int64
}

type want struct {
	no              uint64
	queues          []string // it asks for
	stamp, received int64    // of the newest frame when it was asked
}

// maxRenewing bounds heartbeats whose renewals are under way; the claims of further
// ones are renewed by the next.
const maxRenewing = 4

func (d *Dispatcher) newSession(id Identity) *session {
	s := &session{d: d, id: id, index: -1, checkAt: clock.Never, book: newBook()}
	d.sessions[id.Instance] = s
	return s
}

// send puts a frame into the next Ready.
func (s *session) send(b Body) {
	s.d.out.Send = append(s.d.out.Send, Message{Instance: s.id.Instance, Association: s.association, Body: b})
}

// stamped notes the stamp of a frame, the newest one. Whichever is noted, a
// deadline that counts from it is early enough: it was sent before it came.
func (s *session) stamped(stamp int64) {
	if stamp > s.stamp {
		s.stamp, s.received, s.stuck = stamp, s.d.now.Mono, false
	}
}

// settled tells whether tasks may be handed out as far as the worker's name and
// its list go.
func (s *session) settled() bool { return s.name.held && (s.listed || mutant.Unlisted.On()) }

// judge takes the health that follows from the stamps. It comes before anything
// that was received is looked at.
func (s *session) judge() {
	s.stamps.Settled = s.settled()
	next := s.timeouts.Health(s.state, s.stamps, s.d.now.Mono)
	switch {
	case s.state == MustDie:
	case next == MustDie:
		s.lose("nothing was heard of it in time")
	case s.killed != 0 && s.d.now.Mono >= s.goneBy():
		next = MustDie
		s.lose(s.suicide)
	}
	s.state = next
}

// lose gives a worker up: nothing goes to it any more but the word to die. Its
// claims are not free before the cluster has agreed, by the revocation of its name,
// that it does not live on with another dispatcher.
func (s *session) lose(why string) {
	s.d.counts.Lost++
	s.state = MustDie
	s.unwant()
	s.send(&Suicide{Reason: why})
	s.askName(NameRevoke)
}

// goneBy is when a worker that was killed, and has not left, is declared lost, mono ns.
func (s *session) goneBy() int64 { return addNs(s.killed, s.timeouts.LoseAfter) }

// silent tells whether a worker has said nothing for so long that it has given itself up.
func (s *session) silent() bool {
	return s.received <= s.killed && s.timeouts.Health(Unhealthy, s.stamps, s.d.now.Mono) == MustDie
}

// free settles every entry for the same reason and forgets it.
func (s *session) free(why Why) {
	for _, c := range s.book.sorted() {
		s.d.settle(s.id.Instance, c, why, End{})
		s.book.remove(s.book.all[c])
	}
}

// handOver lets every entry go to whoever serves the worker now, and what an operator
// wants of it.
func (s *session) handOver() {
	var all []Question
	for _, c := range s.book.sorted() {
		all = append(all, Question{Claim: c, Lease: s.book.all[c].lease})
		s.book.remove(s.book.all[c])
	}
	if len(all) > 0 {
		s.d.out.Doubt = append(s.d.out.Doubt, Doubt{Instance: s.id.Instance, Claims: all})
	}
	if s.suicide != "" || s.drain {
		s.d.out.Orders = append(s.d.out.Orders, Order{Identity: s.id, Kill: s.suicide != "", Reason: s.suicide})
	}
}

// due does what the time has come for.
func (s *session) due() {
	now := s.d.now.Mono
	if s.state == MustDie && now >= addNs(s.received, s.d.cfg.ForgetAfter) {
		s.d.drop(s)
		return
	}
	s.nameDue()
	if s.state == MustDie || s.leaving {
		return
	}
	if !s.listed && now >= s.list.at {
		s.askList()
	}
	if now >= s.book.doubtAt {
		s.book.doubt(now)
	}
	if s.book.unsure > 0 && s.listed && now >= s.book.ask.at {
		s.notify()
	}
	if s.settled() && now >= s.checkAt {
		s.sendCheck()
	}
}

// reschedule finds out what the session wants next, and when.
func (s *session) reschedule() {
	if s.gone {
		return
	}
	s.wantTasks()
	s.wake = s.timeouts.NextHealth(s.state, s.stamps)
	switch {
	case s.state == MustDie:
		s.wake = addNs(s.received, s.d.cfg.ForgetAfter)
	case s.killed != 0:
		s.wake = min(s.wake, s.goneBy())
	}
	s.wake = min(s.wake, s.name.at)
	if s.state != MustDie && !s.leaving {
		if !s.listed {
			s.wake = min(s.wake, s.list.at)
		} else if s.book.unsure > 0 {
			s.wake = min(s.wake, s.book.ask.at)
		}
		if s.settled() {
			s.wake = min(s.wake, s.checkAt)
		}
		s.wake = min(s.wake, s.book.doubtAt)
	}
	if s.d.now.Mono < s.rest.until {
		s.wake = min(s.wake, s.rest.until)
	}
	s.wake = max(s.wake, s.d.now.Mono+1) // what is due was done
	if s.index < 0 {
		heap.Push(&s.d.order, s)
	} else {
		heap.Fix(&s.d.order, s.index)
	}
}
