package core

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// tellEvery is how often a leader tells its best tasks where there are two
	// others. With more it is so much rarer that a node sends as much as ever.
	tellEvery = 5 * time.Millisecond
	// maxNews bounds the queues of one message; the rest follows in the next.
	maxNews = 64
	// wantedFor is how long after a claim request others are to know what is ready
	// here, and how often it is told again: news may be lost.
	wantedFor = time.Second
	// maxLead is how many answers a node may be ahead of another leader before it
	// asks there: asking costs several times what a grant of its own does, and
	// what it knows of the others is some milliseconds old.
	maxLead = 16
	// maxBehind is for how long requests here pass a better task elsewhere over
	// before one of them goes there, however few there are: else one that is alone
	// waits for as long as there is anything here. As many as maxLead lets pass are
	// fetched within the second that issue 5 allows.
	maxBehind = 50 * time.Millisecond
)

// before tells whether there is a better task than one.
func (h *remote) before(rank *claim.Rank) bool {
	return h.known && h.ready && h.rank.Compare(rank) < 0
}

// better is about how many tasks lie before a rank, of those that are told of, and
// how many there may be at most.
func (h *remote) better(rank *claim.Rank) (n, most int) {
	if !h.before(rank) {
		return 0, 0
	}
	n = 1
	for i := 0; i < h.marks.N && h.marks.Ranks[i].Compare(rank) < 0; i++ {
		n = message.RankPlaces[i]
	}
	if most = n; h.marks.Seen > 0 {
		n = min(n, h.marks.Seen)
	}
	return n, most
}

// headGossip tells the other nodes what is best here, while somebody asks for it:
// each node so serves claims by itself as long as no other one has fallen behind
// (design 7.3).
type headGossip struct {
	c  *Core
	at int64 // mono ns before which nothing is told
}

// want notes that somebody asks for a queue: here, or where that was told from.
func (s *headGossip) want(now clock.Time, name string, here bool) {
	q := s.c.readyIndex.queues[name]
	if here {
		s.c.readyIndex.asks(now, name)
	}
	if q == nil || s.c.view.Alone {
		return // who asks in vain is told when there is something
	}
	q.wanted = now.Mono + int64(wantedFor)
	if here {
		q.asked = q.wanted
	}
	if q.again <= now.Mono {
		q.again, q.told = q.wanted, message.QueueHead{}
		s.c.readyIndex.announce(q)
	}
}

// work tells the news, if it is time.
func (s *headGossip) work(now clock.Time) {
	if len(s.c.readyIndex.stirred) == 0 || now.Mono < s.at {
		return
	}
	news, anew := &message.QueueHeads{}, make(map[string]bool)
	all := s.c.readyIndex.stirred
	left := all[:0]
	for _, q := range all {
		if len(news.Heads) == maxNews {
			left = append(left, q)
			continue
		}
		q.stirred = false
		if q.wanted <= now.Mono {
			q.wanted = 0
			continue
		}
		if h := s.head(now, q); h != q.told {
			if q.told == (message.QueueHead{}) || h.Wanted != q.told.Wanted { // that tasks are wanted here is for all
				anew[q.name] = true
			}
			q.told = h
			news.Heads = append(news.Heads, h)
		}
	}
	clear(all[len(left):])
	s.c.readyIndex.stirred = left
	others := s.others()
	s.at = now.Mono + int64(tellEvery)*int64(max(2, len(others)))/2
	if len(news.Heads) == 0 {
		return
	}
	for _, m := range others {
		to := news
		known := func(h message.QueueHead) bool { return !anew[h.Queue] && s.c.remoteClaims.spares(m, &h) }
		if slices.ContainsFunc(news.Heads, known) {
			to = &message.QueueHeads{Heads: slices.DeleteFunc(slices.Clone(news.Heads), known)}
		}
		for i := range to.Heads {
			if h := &to.Heads[i]; !h.Ready {
				s.c.remoteClaims.subscribe(h.Queue, m, false)
			}
		}
		if len(to.Heads) > 0 {
			s.c.round.SendNow(m, to)
		}
	}
}

func (s *headGossip) others() []register.Member {
	return view.MembersOf(s.c.view.Alive())
}

// next is when there is something to tell, mono ns.
func (s *headGossip) next() int64 {
	if len(s.c.readyIndex.stirred) == 0 {
		return clock.Never
	}
	return s.at
}

// head counts what is ready of a queue.
func (s *headGossip) head(now clock.Time, q *queue) message.QueueHead {
	h := s.c.remoteClaims.head(q.name)
	h.Wanted, h.Full = q.asked > now.Mono, true
	if !h.Ready {
		return h
	}
	n, beyond := 0, false
	var last claim.Rank
	at := s.c.readyIndex.queues[q.name]
	at.heads.Walk(func(member, place int) *claim.Rank {
		window, more := vnode.Window(s.c.vnodes.See(ring.Partition(member)), q.name)
		if place >= len(window) {
			beyond = beyond || more
			return nil
		}
		return &window[place].Rank
	}, func(r *claim.Rank) bool {
		n++
		last = *r
		if n == message.RankPlaces[h.Marks.N] {
			h.Marks.Ranks[h.Marks.N] = *r
			h.Marks.N++
		}
		return h.Marks.N < len(message.RankPlaces)
	})
	if beyond && h.Marks.N < len(message.RankPlaces) { // there are more, not before these
		h.Marks.Seen = n
		for ; h.Marks.N < len(message.RankPlaces); h.Marks.N++ {
			h.Marks.Ranks[h.Marks.N] = last
		}
	}
	return h
}

// passed counts what is better elsewhere than a task that is granted here, as far
// as it is known: the rank error.
func (s *remoteClaims) passed(name string, rank *claim.Rank) (n int) {
	for _, m := range s.leaders() {
		better, _ := s.of(m, name).better(rank)
		n += better
	}
	return n
}

// lags tells whether some leader has fallen so far behind a task of ours that it
// is to be asked first.
func (s *remoteClaims) lags(w *claimRequest, leaders []register.Member, ours *claim.Rank) bool {
	return s.behind(w, leaders, ours, min(maxLead*w.max, message.MostRanks))
}

// behind tells whether some leader may have so many tasks that are better than ours.
func (s *remoteClaims) behind(w *claimRequest, leaders []register.Member, ours *claim.Rank, lead int) bool {
	for _, m := range leaders {
		for _, name := range w.names {
			if s.c.readyIndex.paused[name] {
				continue
			}
			if _, most := s.of(m, name).better(ours); most >= lead {
				return true
			}
		}
	}
	return false
}

// declines tells whether a request from elsewhere is granted nothing, because much better
// tasks are where it was not sent to: the best ones were here when it was, and have been
// granted to others since. What is next best here may come hundreds of tasks after what is
// elsewhere, as tasks that are enqueued one after the other mostly share a partition. How
// many that has to be grows with the leaders: of more of them what is known is older, and
// more nodes send theirs to the best. A request for many tasks is not sent twice for that:
// what it gets is out of order by more than a leader tells of.
func (s *remoteClaims) declines(w *claimRequest) bool {
	if !w.mayDecline || maxLead*w.max > message.MostRanks {
		return false
	}
	_, _, ours := s.c.readyIndex.best(w)
	if ours == nil {
		return false
	}
	leaders := s.leaders()
	return s.behind(w, leaders, ours, min(maxLead*(1+len(leaders)), message.MostRanks))
}

// overdue is the leader that a request has to be sent to because others have passed
// over what is better there for too long: the one with the best task, one request at
// a time. While it is calm, and nobody has asked here for as long as that, none is to be
// passed over: where requests are rare, each would be another reason to wait.
func (s *remoteClaims) overdue(now clock.Time, w *claimRequest, leaders []register.Member, ours *claim.Rank, calm bool) (to register.Member, found bool) {
	var best *claim.Rank
	for _, m := range leaders {
		for _, name := range w.names {
			h := s.of(m, name)
			switch {
			case s.c.readyIndex.paused[name] || !h.before(ours) || s.alreadyTried(w, m):
			case h.behind == 0 && !calm:
				h.behind = now.Mono
			case h.open == 0 && (calm || now.Mono-h.behind >= int64(maxBehind)) && (best == nil || h.rank.Compare(best) < 0):
				to, best, found = m, &h.rank, true
			}
		}
	}
	return to, found
}

// RankErrors counts grants by how many better tasks, as far as it was known, were
// ready elsewhere.
type RankErrors struct {
	Counts [len(RankBounds) + 1]uint64 // the last: over all bounds
	Sum    uint64
}

// RankBounds are the upper ends of the classes, inclusive.
var RankBounds = [...]int{0, 1, 4, 16, 64, 256, 1024}

func (r *RankErrors) add(n int) {
	i := 0
	for i < len(RankBounds) && n > RankBounds[i] {
		i++
	}
	r.Counts[i]++
	r.Sum += uint64(n)
}
