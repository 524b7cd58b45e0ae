package core

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
	// firstTold is how many of those that wait for a queue hear at once of a few tasks in
	// it. If all did, all would ask, and all but a few in vain: the more nodes there are,
	// the more each task would cost.
	firstTold = 4
	// tellAgain is after what time as many again hear as have heard, if there is still
	// something: those who were told may have no use for it by now, or the news is lost.
	tellAgain = 5 * time.Millisecond
)

// subscribers are the other nodes that were told that a queue has nothing, and that are to hear
// when it has: those first that have asked for it.
type subscribers struct{ asked, told []register.Member }

func (h *subscribers) len() int { return len(h.asked) + len(h.told) }

func (h *subscribers) add(m register.Member, asked bool) {
	switch is := func(o register.Member) bool { return o == m }; {
	case slices.Contains(h.asked, m):
	case asked:
		h.told = slices.DeleteFunc(h.told, is)
		h.asked = append(h.asked, m)
	case !slices.Contains(h.told, m):
		h.told = append(h.told, m)
	}
}

func (h *subscribers) has(m register.Member) bool {
	return h != nil && (slices.Contains(h.asked, m) || slices.Contains(h.told, m))
}

// leave forgets some.
func (h *subscribers) leave(who func(register.Member) bool) {
	h.asked, h.told = slices.DeleteFunc(h.asked, who), slices.DeleteFunc(h.told, who)
}

// take removes n of those that come first, of equals some that are drawn: else all leaders
// would tell the same ones.
func (h *subscribers) take(n int, rnd *rand.Rand) (some []register.Member) {
	for _, from := range []*[]register.Member{&h.asked, &h.told} {
		k := min(n-len(some), len(*from))
		if k == 0 {
			continue
		}
		at := rnd.IntN(len(*from))
		turned := slices.Concat((*from)[at:], (*from)[:at])
		some, *from = append(some, turned[:k]...), turned[k:]
	}
	return some
}

// pendingNotice is a queue that others are hungry for and that may have something.
type pendingNotice struct {
	queue string
	at    int64 // mono ns of the next look
	told  int   // so many have heard of it since it was filled last
}

// subscribe notes that a node is told that a queue has nothing: it is to hear when
// there is something again.
func (s *remoteClaims) subscribe(name string, m register.Member, asked bool) {
	if s.subscribers[name] == nil {
		if len(s.subscribers) >= s.c.cfg.MaxQueues { // most of them nobody asks for any more: a queue with tasks is left out
			clear(s.subscribers) // who still waits asks again
		}
		s.subscribers[name] = &subscribers{}
	}
	s.subscribers[name].add(m, asked)
}

// spares tells whether a node need not hear of a head: that there is nothing it knows, and
// of a few tasks it hears in its turn.
func (s *remoteClaims) spares(m register.Member, h *message.QueueHead) bool {
	all := s.subscribers[h.Queue]
	return all.has(m) && (!h.Ready || h.Few > 0 && all.len() > firstTold)
}

// filled hears that a queue may have something.
func (s *remoteClaims) filled(name string) {
	if len(s.subscribers) == 0 || s.subscribers[name] == nil {
		return
	}
	i := slices.IndexFunc(s.notices, func(m pendingNotice) bool { return m.queue == name })
	if i < 0 {
		i = len(s.notices)
		s.notices = append(s.notices, pendingNotice{queue: name})
	}
	s.notices[i].at, s.notices[i].told = 0, 0
}

// notify tells the hungry: all of them when there is much, else a few at first, and
// more and more for as long as there is something.
func (s *remoteClaims) notify(now clock.Time) {
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
		h, all := s.head(m.queue), s.subscribers[m.queue]
		if !h.Ready || all == nil { // those who wait here were first
			continue
		}
		all.leave(func(o register.Member) bool { return !s.c.view.Up(o) }) // who comes back asks
		n := max(firstTold, h.Few, m.told)
		if h.Few == 0 {
			n = all.len()
		}
		for _, o := range all.take(n, s.c.cfg.Rand) {
			mail := round.For(news, o)
			mail.Heads = append(mail.Heads, h)
		}
		if all.len() == 0 {
			delete(s.subscribers, m.queue)
			continue
		}
		m.told, m.at = m.told+n, now.Mono+int64(tellAgain)
		left = append(left, m)
	}
	clear(s.notices[len(left):])
	s.notices = left
	round.SendAll(s.c.round.SendNow, news)
}

// next is when something is due, mono ns.
func (s *remoteClaims) next() int64 {
	at := min(s.at, s.shy, s.stranded)
	for i := range s.notices {
		at = min(at, s.notices[i].at)
	}
	return at
}
