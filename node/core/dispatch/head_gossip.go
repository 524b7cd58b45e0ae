package dispatch

import (
	"maps"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// tellEvery is how often a leader tells its best tasks where two others follow
	// them. With more it is so much rarer that a node sends as much as ever.
	tellEvery = 5 * time.Millisecond
	// maxNews bounds the queues of one message; the rest follows in the next.
	maxNews = 64
	// wantedFor is after what time a node that is asked for a queue asks those that have
	// something of it again: news may be lost. It is told of what changes for twice as long.
	wantedFor = time.Second
	// MaxLead is how many answers a node may be ahead of another leader before it
	// asks there: asking costs several times what a grant of its own does, and
	// what it knows of the others is some milliseconds old.
	MaxLead = 16
	// MaxBehind is for how long requests here pass a better task elsewhere over
	// before one of them goes there, however few there are: else one that is alone
	// waits for as long as there is anything here. As many as MaxLead lets pass are
	// fetched within the second that issue 5 allows.
	MaxBehind = 50 * time.Millisecond
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

// headGossip tells the nodes that have asked for a queue what is best here, and asks others to
// tell this one: each node so serves claims by itself as long as no other one has fallen behind
// (design 7.3).
type headGossip struct {
	c *Machine
	// Invariant: there are at most MaxQueues entries in each of subscribers and renewals.
	// Beyond it all are forgotten at once, and whoever still wants news asks again (Audit).
	subscribers map[string]*subscribers // by queue
	// Invariant: each queue is in notices once; twice would tell twice as many nodes as there
	// are tasks (Audit).
	notices  []pendingNotice  // queues that somebody waits for and that have something now
	stirred  []string         // queues of which followers are to be told
	at       int64            // mono ns before which nothing is told
	renewals map[string]int64 // by queue that somebody asks for here: when others are asked again, mono ns
}

// newHeadGossip makes the gossip of a process that nobody has asked yet.
func newHeadGossip(c *Machine) *headGossip {
	return &headGossip{c: c, subscribers: make(map[string]*subscribers), renewals: make(map[string]int64)}
}

// changed hears that the best task of a queue here is another one, and whether there is one.
func (s *headGossip) changed(name string, ready bool) {
	all := s.subscribers[name]
	if all == nil {
		return
	}
	if len(all.follows) > 0 && !all.stirred {
		all.stirred = true
		s.stirred = append(s.stirred, name)
	}
	if ready && len(all.waits) > 0 {
		s.filled(name)
	}
}

// renew asks other leaders for news of queues that somebody asks for here, once in a second:
// those that have something, as far as it is known, or of which nothing is known. Who has
// nothing tells by itself when that changes.
func (s *headGossip) renew(now clock.Time, names []string) {
	if s.c.View.Alone {
		return
	}
	var due []string
	for _, name := range names {
		if s.renewals[name] <= now.Mono && !s.c.Index.paused[name] {
			if len(s.renewals) >= s.c.MaxQueues {
				clear(s.renewals) // they are asked again sooner
			}
			s.renewals[name] = now.Mono + int64(wantedFor)
			due = append(due, name)
		}
	}
	if len(due) == 0 {
		return
	}
	for _, m := range s.c.remote.leaders() {
		ask := &message.QueueHeads{}
		for _, name := range due {
			h := s.c.remote.of(m, name)
			if (h.ready || !h.known) && (h.asked == 0 || now.Mono-h.asked >= int64(wantedFor)) {
				h.asked = now.Mono
				ask.Heads = append(ask.Heads, message.QueueHead{Queue: name, Asks: true})
			}
		}
		if len(ask.Heads) > 0 {
			s.c.Round.SendNow(m, ask)
		}
	}
}

// tell tells the followers of what has changed, if it is time.
//
// A message has at most [maxNews] queues. The pause until the next one grows with the number of
// followers, so that a node's rate of messages stays what it is with two of them, however large
// the cluster is.
func (s *headGossip) tell(now clock.Time) {
	if len(s.stirred) == 0 || now.Mono < s.at {
		return
	}
	news := make(map[register.Member]*message.QueueHeads)
	told, left := 0, s.stirred[:0]
	for _, name := range s.stirred {
		all := s.subscribers[name]
		if told == maxNews && all != nil {
			left = append(left, name)
			continue
		}
		if all == nil {
			continue
		}
		all.stirred = false
		maps.DeleteFunc(all.follows, func(m register.Member, until int64) bool { return until <= now.Mono || !s.c.View.Up(m) })
		if len(all.follows) == 0 {
			continue
		}
		h := s.head(name)
		if h == all.told {
			continue
		}
		all.told = h
		told++
		for _, m := range view.MembersOf(all.follows) {
			mail := round.For(news, m)
			mail.Heads = append(mail.Heads, h)
			if !h.Ready {
				s.told(now, m, &h)
			}
		}
	}
	clear(s.stirred[len(left):])
	s.stirred = left
	s.at = now.Mono + int64(tellEvery)*int64(max(2, len(news)))/2
	round.SendAll(s.c.Round.SendNow, news)
}

// nextNews is when there is something to tell, mono ns.
func (s *headGossip) nextNews() int64 {
	at := int64(clock.Never)
	if len(s.stirred) > 0 {
		at = s.at
	}
	for i := range s.notices {
		at = min(at, s.notices[i].at)
	}
	return at
}

// head counts what is ready of a queue.
//
// The sample has the ranks at the places of [message.RankPlaces] (1, 2, 4, …), by which another
// node estimates how many of these tasks lie before one of its own. Where the windows in memory
// end before the sample does, the last rank fills it and Seen says how many were counted.
func (s *headGossip) head(name string) message.QueueHead {
	h := s.c.remote.head(name)
	h.Full = true
	if !h.Ready {
		return h
	}
	beyond := false
	first := s.c.Index.queues[name].heads.Front(message.MostRanks, func(member, place int) *claim.Rank {
		window, more := vnode.Window(s.c.Partitions.See(ring.Partition(member)), name)
		if place >= len(window) {
			beyond = beyond || more
			return nil
		}
		return &window[place].Rank
	})
	for ; h.Marks.N < len(message.RankPlaces) && message.RankPlaces[h.Marks.N] <= len(first); h.Marks.N++ {
		h.Marks.Ranks[h.Marks.N] = first[message.RankPlaces[h.Marks.N]-1].Rank
	}
	if beyond && h.Marks.N < len(message.RankPlaces) { // there are more, not before these
		h.Marks.Seen = len(first)
		for ; h.Marks.N < len(message.RankPlaces); h.Marks.N++ {
			h.Marks.Ranks[h.Marks.N] = first[len(first)-1].Rank
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
	return s.behind(w, leaders, ours, min(MaxLead*w.max, message.MostRanks))
}

// behind tells whether some leader may have so many tasks that are better than ours.
func (s *remoteClaims) behind(w *claimRequest, leaders []register.Member, ours *claim.Rank, lead int) bool {
	for _, m := range leaders {
		for _, name := range w.names {
			if s.c.Index.paused[name] {
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
	if !w.mayDecline || MaxLead*w.max > message.MostRanks {
		return false
	}
	_, _, ours := s.c.Index.best(w)
	if ours == nil {
		return false
	}
	leaders := s.leaders()
	return s.behind(w, leaders, ours, min(MaxLead*(1+len(leaders)), message.MostRanks))
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
			case s.c.Index.paused[name] || !h.before(ours) || s.alreadyTried(w, m):
			case h.behind == 0 && !calm:
				h.behind = now.Mono
			case h.open == 0 && (calm || now.Mono-h.behind >= int64(MaxBehind)) && (best == nil || h.rank.Compare(best) < 0):
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
