package dispatch

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/register"
)

const (
	// firstTold is how many of those that wait for a queue hear at once of one task in it. If
	// all did, all would ask, and all but one in vain: the more nodes there are, the more each
	// task would cost.
	firstTold = 1
	// tellAgain is after what time as many again hear as have heard, if there is still
	// something: those who were told may have no use for it by now, or the news is lost.
	tellAgain = 2 * time.Millisecond
)

// subscribers are the other nodes that have asked for a queue, each once: who was told that it
// has nothing waits until it has, and who was told that it has something follows what becomes of
// that for a while.
type subscribers struct {
	// Invariant: a member is in waits or in follows, not in both, and once. Who were in both
	// would be told of each task twice, and would ask for each twice (Audit).
	waits   []register.Member
	follows map[register.Member]int64 // until when, mono ns
	told    message.QueueHead         // what those who follow were told last
	stirred bool                      // there is news for them
}

// draw removes some of those that wait. They are drawn: else all leaders would tell the same ones.
func (h *subscribers) draw(n int, rnd *rand.Rand) []register.Member {
	if n = min(n, len(h.waits)); n == 0 {
		return nil
	}
	at := rnd.IntN(len(h.waits))
	turned := slices.Concat(h.waits[at:], h.waits[:at])
	h.waits = turned[n:]
	return turned[:n]
}

// pendingNotice is a queue that others wait for and that may have something.
type pendingNotice struct {
	queue string
	at    int64 // mono ns of the next look
	told  int   // so many have heard of it since it was filled last
}

// told notes what a node that has asked for a queue is told of it.
func (s *headGossip) told(now clock.Time, m register.Member, h *message.QueueHead) {
	all := s.subscribers[h.Queue]
	if all == nil {
		if len(s.subscribers) >= s.c.MaxQueues { // most of them nobody asks for any more: a queue with tasks is left out
			clear(s.subscribers) // who still waits asks again
		}
		all = &subscribers{follows: make(map[register.Member]int64)}
		s.subscribers[h.Queue] = all
	}
	if !h.Ready {
		delete(all.follows, m)
		if !slices.Contains(all.waits, m) {
			all.waits = append(all.waits, m)
		}
		return
	}
	if all.follows[m] == 0 || all.stirred {
		all.told = message.QueueHead{} // what the others know may be what changes next
	}
	all.follows[m] = now.Mono + 2*int64(wantedFor)
	all.waits = slices.DeleteFunc(all.waits, func(o register.Member) bool { return o == m })
}

// filled hears that a queue that others wait for may have something.
func (s *headGossip) filled(name string) {
	i := slices.IndexFunc(s.notices, func(m pendingNotice) bool { return m.queue == name })
	if i < 0 {
		i = len(s.notices)
		s.notices = append(s.notices, pendingNotice{queue: name})
	}
	s.notices[i].at, s.notices[i].told = 0, 0
}

// notify tells those that wait: all of them when there is much, else a few at first, and
// more and more for as long as there is something.
//
// As many of them as there are tasks hear at once, and as many again each [tellAgain]: exponential
// growth, so the last one of n hears after about log2(n) pauses, while a single task wakes one
// node and not all.
func (s *headGossip) notify(now clock.Time) {
	if len(s.notices) == 0 {
		return
	}
	news := make(map[register.Member]*message.QueueHeads)
	left := s.notices[:0]
	for _, m := range s.notices {
		if m.at > now.Mono {
			left = append(left, m)
			continue
		}
		h, all := s.c.remote.head(m.queue), s.subscribers[m.queue]
		if !h.Ready || all == nil { // those who wait here were first
			continue
		}
		all.waits = slices.DeleteFunc(all.waits, func(o register.Member) bool { return !s.c.View.Up(o) }) // who comes back asks
		n := max(firstTold, h.Few, m.told)
		if h.Few == 0 {
			n = len(all.waits)
		}
		for _, o := range all.draw(n, s.c.Rand) {
			mail := round.For(news, o)
			mail.Heads = append(mail.Heads, h)
			s.told(now, o, &h)
		}
		if len(all.waits) == 0 {
			continue
		}
		m.told, m.at = m.told+n, now.Mono+int64(tellAgain)
		left = append(left, m)
	}
	clear(s.notices[len(left):])
	s.notices = left
	round.SendAll(s.c.Round.SendNow, news)
}

// served tells a node that asked for tasks what is left.
func (s *headGossip) served(now clock.Time, to register.Member, w *claimRequest) {
	news := &message.QueueHeads{}
	for _, name := range w.names {
		h := s.c.remote.head(name)
		news.Heads = append(news.Heads, h)
		s.told(now, to, &h)
	}
	s.c.Round.SendNow(to, news)
}
