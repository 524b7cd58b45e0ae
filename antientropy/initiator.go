package antientropy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
)

// ErrTimeout is returned when a peer has not answered, however often asked.
var ErrTimeout = errors.New("antientropy: no answer")

// ErrRefused is returned when a peer does not take part.
var ErrRefused = errors.New("antientropy: refused")

// ErrProtocol is returned when a peer answers what nobody asked.
var ErrProtocol = errors.New("antientropy: answer does not fit")

// Bounds of one request, so that its answer and the memory for what is still to
// be looked at stay small.
const (
	asksMost  = 512
	asksCrowd = 64      // per request, while many nodes wait
	crowd     = 4 << 10 // nodes
	wantsMost = 1024
	tagsMost  = 4 << 10 // per request
)

const (
	// tripsLost is after how many round trips a message counts as lost: a page
	// takes longer than a question.
	tripsLost = 8
	// soonest is the least that is waited for an answer: a sync may come between.
	soonest = 250 * time.Millisecond
	// unknown is what is waited for before there was any answer.
	unknown = time.Second
)

// Initiator compares one partition with one peer's, a round at a time. Make one
// with [NewInitiator] and keep it: it remembers what to leave alone.
type Initiator struct {
	cfg     Config
	tree    *Tree
	replica Replica
	backoff backoff

	session, seq uint64
	hash         uint8 // agreed on; 0 before
	active       bool
	out          *Message // sent and not answered
	size         int      // of out, bytes
	first        int64    // mono ns at which it was sent first
	again        int64    // mono ns at which it is sent again
	tries        int
	trip         time.Duration // the slowest answer lately; 0: not known

	walk   walk
	result Result
}

// NewInitiator makes an initiator.
func NewInitiator(cfg Config, tree *Tree, replica Replica) *Initiator {
	cfg.complete()
	return &Initiator{cfg: cfg, tree: tree, replica: replica, backoff: newBackoff(cfg.MinBackoff, cfg.MaxBackoff)}
}

// Busy tells whether a round is going on.
func (i *Initiator) Busy() bool { return i.active }

// NotBefore is the mono ns before which no round should be started: the peer
// backs off. Who is in a hurry may start one all the same.
func (i *Initiator) NotBefore() int64 { return i.backoff.until }

// Start begins a round; one that is going on is dropped. The session is drawn at
// random.
func (i *Initiator) Start(now clock.Time, session uint64) Ready {
	i.backoff.tidy(now)
	i.session, i.seq, i.hash, i.active = session, 0, 0, true
	i.out, i.result = nil, Result{}
	i.walk = walk{i: i}
	hello := &Message{Kind: KindHello, Hash: HashVersion, Root: i.tree.Root(i.replica.View())}
	return i.send(now, hello)
}

// Step takes a message of the responder. What is not the reply to the last
// message sent is ignored.
func (i *Initiator) Step(now clock.Time, m *Message) Ready {
	if i.out == nil || m.Session != i.session || m.Seq != i.seq {
		return i.Advance(now)
	}
	size := m.Size()
	i.result.Received += uint64(size)
	i.cfg.Bucket.Take(now, size)
	sent := i.out
	i.timed(now)
	switch {
	case m.Kind == KindRefusal:
		why := fmt.Errorf("%w: reason %d", ErrRefused, m.Reason)
		if m.Reason == ReasonVersion {
			why = fmt.Errorf("%w: the peer has not hash %d", ErrVersion, sent.Hash)
		}
		return i.end(now, why)
	case m.Kind == KindWelcome && sent.Kind == KindHello:
		if !known(m.Hash) || m.Hash > sent.Hash {
			return i.end(now, fmt.Errorf("%w: the peer wants hash %d", ErrVersion, m.Hash))
		}
		i.out, i.hash = nil, m.Hash
		mine := i.tree.Root(i.replica.View()).Sum
		if mine == m.Root.Sum || sent.Root.Sum == m.Root.Sum {
			i.result.Equal = true
			return i.end(now, nil)
		}
		i.walk.differ(now, Path{}, mine != (crdt.Sum{}), m.Root.Sum != (crdt.Sum{}))
	case m.Kind == KindAnswer && sent.Kind == KindRequest:
		i.out = nil
		if err := i.walk.answered(now, sent, m); err != nil {
			return i.end(now, err)
		}
	}
	return i.Advance(now)
}

// Advance goes on with the round: call it when a [Ready] has More, or at its
// Wake.
func (i *Initiator) Advance(now clock.Time) Ready {
	ready := never()
	if !i.active {
		return ready
	}
	if i.out != nil {
		switch {
		case now.Mono >= i.last():
			return i.end(now, ErrTimeout)
		case now.Mono < i.again:
			ready.Wake = i.again
			return ready
		}
		return i.sendAgain(now)
	}
	if wait := i.cfg.Bucket.Wait(now); wait > 0 {
		ready.Wake = now.Add(wait).Mono
		return ready
	}
	if !i.walk.compare(now, i.cfg.budget()) {
		ready.More = true
		return ready
	}
	request := i.walk.request()
	if request == nil {
		return i.end(now, nil)
	}
	i.result.Requests++
	return i.send(now, request)
}

// GiveUp ends a round whose peer will not answer any more, as when its time is over.
func (i *Initiator) GiveUp(now clock.Time) Ready {
	if !i.active {
		return never()
	}
	return i.end(now, ErrTimeout)
}

// send numbers a message and keeps it until it is answered.
func (i *Initiator) send(now clock.Time, m *Message) Ready {
	i.seq++
	m.Session, m.Seq = i.session, i.seq
	i.out, i.size, i.tries, i.first = m, m.Size(), 0, now.Mono
	return i.sendAgain(now)
}

// patience is when a message is sent again that was sent so often: soon, where
// answers come soon, and later each time, because whoever is slow is not helped
// by having it twice.
func (i *Initiator) patience() time.Duration {
	wait := max(tripsLost*i.trip, soonest)
	if i.trip == 0 {
		wait = unknown
	}
	for n := 1; n < i.tries && wait < i.cfg.Timeout; n++ {
		wait *= 2
	}
	return min(wait, i.cfg.Timeout)
}

// last is when nothing more is waited for, mono ns.
func (i *Initiator) last() int64 {
	return clock.Time{Mono: i.first}.Add(i.cfg.Timeout * time.Duration(i.cfg.Retries+1)).Mono
}

// timed notes how long an answer took. One to a message that was sent twice says
// nothing: it may be to either.
func (i *Initiator) timed(now clock.Time) {
	if took := time.Duration(now.SinceMono(i.first)); i.tries == 1 {
		i.trip = max(took, i.trip-i.trip/8, 1)
	}
}

func (i *Initiator) sendAgain(now clock.Time) Ready {
	i.tries++
	i.again = min(now.Add(i.patience()).Mono, i.last())
	i.result.Sent += uint64(i.size)
	i.cfg.Bucket.Take(now, i.size)
	return Ready{Send: i.out, Wake: i.again}
}

// end ends the round.
func (i *Initiator) end(now clock.Time, err error) Ready {
	r := i.result
	r.Err = err
	moved := r.Pulled+r.Pushed > 0
	quiet := r.Young > 0 && r.Skipped == 0 && len(i.walk.struck) == 0
	i.backoff.round(now, err == nil && (r.Equal || moved || quiet))
	i.active, i.out, i.walk, i.result = false, nil, walk{}, Result{}
	return Ready{Result: &r, Wake: clock.Never}
}

// nothing came of a node that differs.
func (w *walk) nothing(now clock.Time, p Path) {
	w.struck = addPath(w.struck, p)
	if w.i.backoff.strike(now, w.i.session, p) {
		w.i.result.Suspects = addPath(w.i.result.Suspects, p)
	}
}

// leave tells whether a node that differs is to be left alone, and counts it.
func (w *walk) leave(now clock.Time, p Path) bool {
	if w.i.backoff.off(now, p) {
		w.i.result.Skipped++
		return true
	}
	if w.i.cfg.Settle > 0 && p.Level >= secondLevel {
		var s [2]Span
		first := p.spans(s[:0])[0].From
		if first.Nanos() > now.Add(-w.i.cfg.Settle).Wall {
			w.i.result.Young++
			return true
		}
	}
	return false
}

// without takes a tag out of an ascending list, in place.
func without(tags []uint32, t uint32) []uint32 {
	if n, found := slices.BinarySearch(tags, t); found {
		return slices.Delete(tags, n, n+1)
	}
	return tags
}
