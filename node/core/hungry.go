package core

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

const (
	// firstFed is how many of those that wait for a queue hear at once of a few tasks in
	// it. If all did, all would ask, and all but a few in vain: the more nodes there are,
	// the more each task would cost.
	firstFed = 4
	// feedAgain is after what time as many again hear as have heard, if there is still
	// something: those who were told may have no use for it by now, or the news is lost.
	feedAgain = 5 * time.Millisecond
)

// hungry are the other nodes that were told that a queue has nothing, and that are to hear
// when it has: those first that have asked for it.
type hungry struct{ asked, told []register.Member }

func (h *hungry) len() int { return len(h.asked) + len(h.told) }

func (h *hungry) add(m register.Member, asked bool) {
	switch is := func(o register.Member) bool { return o == m }; {
	case slices.Contains(h.asked, m):
	case asked:
		h.told = slices.DeleteFunc(h.told, is)
		h.asked = append(h.asked, m)
	case !slices.Contains(h.told, m):
		h.told = append(h.told, m)
	}
}

func (h *hungry) has(m register.Member) bool {
	return h != nil && (slices.Contains(h.asked, m) || slices.Contains(h.told, m))
}

// leave forgets some.
func (h *hungry) leave(who func(register.Member) bool) {
	h.asked, h.told = slices.DeleteFunc(h.asked, who), slices.DeleteFunc(h.told, who)
}

// take removes n of those that come first, of equals some that are drawn: else all leaders
// would tell the same ones.
func (h *hungry) take(n int, rnd *rand.Rand) (some []register.Member) {
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

// meal is a queue that others are hungry for and that may have something.
type meal struct {
	queue string
	at    int64 // mono ns of the next look
	fed   int   // so many have heard of it since it was filled last
}

// starve notes that a node is told that a queue has nothing: it is to hear when
// there is something again.
func (s *seeks) starve(name string, m register.Member, asked bool) {
	if s.hungry[name] == nil {
		if len(s.hungry) >= s.c.cfg.MaxQueues { // most of them nobody asks for any more: a queue with tasks is left out
			clear(s.hungry) // who still waits asks again
		}
		s.hungry[name] = &hungry{}
	}
	s.hungry[name].add(m, asked)
}

// spares tells whether a node need not hear of a head: that there is nothing it knows, and
// of a few tasks it hears in its turn.
func (s *seeks) spares(m register.Member, h *message.QueueHead) bool {
	all := s.hungry[h.Queue]
	return all.has(m) && (!h.Ready || h.Few > 0 && all.len() > firstFed)
}

// filled hears that a queue may have something.
func (s *seeks) filled(name string) {
	if len(s.hungry) == 0 || s.hungry[name] == nil {
		return
	}
	i := slices.IndexFunc(s.meals, func(m meal) bool { return m.queue == name })
	if i < 0 {
		i = len(s.meals)
		s.meals = append(s.meals, meal{queue: name})
	}
	s.meals[i].at, s.meals[i].fed = 0, 0
}

// feed tells the hungry: all of them when there is much, else a few at first, and
// more and more for as long as there is something.
func (s *seeks) feed(now clock.Time) {
	if len(s.meals) == 0 {
		return
	}
	news := make(map[register.Member]*message.QueueHeads)
	left := s.meals[:0]
	for _, m := range s.meals {
		if m.at > now.Mono {
			left = append(left, m)
			continue
		}
		h, all := s.head(m.queue), s.hungry[m.queue]
		if !h.Ready || all == nil { // those who wait here were first
			continue
		}
		all.leave(func(o register.Member) bool { return !s.c.view.Up(o) }) // who comes back asks
		n := max(firstFed, h.Few, m.fed)
		if h.Few == 0 {
			n = all.len()
		}
		for _, o := range all.take(n, s.c.cfg.Rand) {
			if news[o] == nil {
				news[o] = &message.QueueHeads{}
			}
			news[o].Heads = append(news[o].Heads, h)
		}
		if all.len() == 0 {
			delete(s.hungry, m.queue)
			continue
		}
		m.fed, m.at = m.fed+n, now.Mono+int64(feedAgain)
		left = append(left, m)
	}
	clear(s.meals[len(left):])
	s.meals = left
	for _, m := range membersOf(news) {
		s.c.round.Ready.Early = append(s.c.round.Ready.Early, message.Send{To: m, Message: news[m]})
	}
}

// next is when something is due, mono ns.
func (s *seeks) next() int64 {
	at := min(s.at, s.shy, s.stranded)
	for i := range s.meals {
		at = min(at, s.meals[i].at)
	}
	return at
}
