package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

const (
	// maxCredit bounds the claim requests of one queue that are on their way to
	// one node at once, of which it is not known to have more. It begins with one,
	// doubles with each that was granted something and falls to one with each that
	// was not: no herds.
	maxCredit = 64
	// seekAgain is after what time a node is asked again although it said that it
	// has nothing: its news may have been lost.
	seekAgain = time.Second
	// shyPause is after what time a leader is asked again that did not lead yet.
	shyPause = 50 * time.Millisecond
	// maxSeeks is how many nodes are asked again in that time, one after the other;
	// of more each has its turn later.
	maxSeeks = 8
	// StrandedAfter is after what time without a leader in reach those who wait are sent
	// away.
	StrandedAfter = 500 * time.Millisecond
	// maxFew is up to what number the ready tasks of a queue are counted for
	// others: for more requests than there are tasks an answer is only work.
	maxFew = 8
)

// remoteClaims finds work that other nodes hand out, for the claim requests that came
// here: the best head goes first, as far as it is known (design 7.3).
type remoteClaims struct {
	c     *Machine
	heads map[register.Member]map[string]*remote
	// Invariant: each is the newest request with its key that is under way, and its Join is a
	// *remoteClaim: a repeated request finds it here and replaces it.
	asked map[message.AskKey]*router.Scatter // claims on their way
	at    int64                              // mono ns of the next look at who waits
	turn  int
	again uint64            // turns of those that are asked again
	who   []register.Member // the other leaders
	seen  uint64            // as of this routes.seen
	met   []register.Member // those who have been asked for the ones that wait
	metAs uint64            // as of this routes.seen
	shy   int64             // mono ns at which those who did not lead yet are asked again

	stranded int64 // mono ns at which those who wait are sent away; clock.Never: somebody leads
}

// remote is what is known of one queue at another leader.
type remote struct {
	known bool
	ready bool
	rank  claim.Rank
	marks message.RankSample
	open  int // requests on their way
	// Invariant: credit is at least 1 and at most [maxCredit]. At 0 the node would never be
	// asked again (Audit).
	credit int
	few    int    // see [message.QueueHead]
	fills  uint64 // how often it was told that there is something
	heard  int64  // mono ns of the last news
	asked  int64  // when it was asked for tasks or for news last, mono ns
	behind int64  // mono ns since when what is better there is passed over, or since the last request went; 0: it is not

	inquired int64 // mono ns of a question that is not answered, see [freshnessProbes]; 0: there is none
}

// full tells whether as many requests as make sense are on their way to a queue
// elsewhere: one for each of a few tasks, this node's share of many.
// The window is that of TCP's slow start (Jacobson 1988): it doubles with each success and
// falls to one without, so this node learns how much another one gives it without being told.
func (s *remoteClaims) full(h *remote) bool {
	if h.known && h.ready && h.few > 0 {
		return h.open >= min(h.credit, h.few)
	}
	return h.open >= max(h.credit, h.marks.Count()/(1+len(s.leaders())))
}

// newRemoteClaims makes the view of a process that knows nothing of other leaders.
func newRemoteClaims(c *Machine) *remoteClaims {
	return &remoteClaims{
		c: c, heads: make(map[register.Member]map[string]*remote), asked: make(map[message.AskKey]*router.Scatter),
		at: clock.Never, shy: clock.Never, stranded: clock.Never,
	}
}

// leaders are the other nodes that lead something and are up, in order.
func (s *remoteClaims) leaders() []register.Member {
	if s.seen == s.c.View.Changes {
		return s.who
	}
	all := make(map[register.Member]bool)
	for p := range s.c.View.Cells {
		if m, ok := s.c.Routes.Leader(ring.Partition(p)); ok && m != s.c.Self {
			all[m] = true
		}
	}
	s.seen, s.who = s.c.View.Changes, view.MembersOf(all)
	return s.who
}

// of gives what is known of a queue at a member, and makes an entry where there is none. Past
// MaxQueues names of one member all of its entries go: they are hints, and the next news brings
// back those that matter.
func (s *remoteClaims) of(m register.Member, name string) *remote {
	queues := s.heads[m]
	if queues == nil {
		queues = make(map[string]*remote)
		s.heads[m] = queues
	}
	if queues[name] == nil {
		if len(queues) > s.c.MaxQueues {
			clear(queues) // it is a hint
		}
		queues[name] = &remote{credit: 1}
	}
	return queues[name]
}

// best is the node to ask next: the one with the best head that is known, or
// one of which nothing is known; none when all have nothing. A request that does
// not wait asks everybody once, but not as a part of another one: who has just said
// that it has nothing tells when it has, and the worker waits for that next.
func (s *remoteClaims) best(w *claimRequest, leaders []register.Member) (to register.Member, rank *claim.Rank, found bool) {
	s.turn++
	for i := range leaders {
		m := leaders[(s.turn+i)%len(leaders)]
		if s.alreadyTried(w, m) {
			continue
		}
		for _, name := range w.names {
			h := s.of(m, name)
			switch {
			case s.c.Index.paused[name], w.parks && s.full(h):
			case h.known && h.ready:
				if rank == nil || h.rank.Compare(rank) < 0 {
					to, rank, found = m, &h.rank, true
				}
			case !found && (!h.known || !w.parks && !(w.prompt && s.empty(h))):
				to, found = m, true
			}
		}
	}
	return to, rank, found
}

// empty tells whether a leader has just said that it has nothing. News may be lost.
func (s *remoteClaims) empty(h *remote) bool {
	return h.known && !h.ready && s.c.Round.Now.Mono-h.heard < int64(wantedFor)
}

// claim serves a request from here or from elsewhere, whoever has the better
// task. It tells whether the request is on its way or answered.
func (s *remoteClaims) claim(now clock.Time, w *claimRequest) bool {
	if s.c.View.Alone || w.routed {
		return s.c.grant(now, w)
	}
	leaders := s.leaders()
	to, theirs, found := s.best(w, leaders)
	w.now = now.Mono
	if q, _, ours := s.c.Index.best(w); q != nil {
		calm := (q.looked == 0 || now.Mono-q.looked >= int64(MaxBehind)) && len(w.tried) == 0
		q.looked = now.Mono
		here := theirs == nil || ours.Compare(theirs) <= 0
		if !here && !s.lags(w, leaders, ours) { // else the best of all is to be asked
			late, is := s.overdue(now, w, leaders, ours, calm)
			if here = !is; is {
				to = late
			}
		}
		if here && s.c.grant(now, w) {
			return true
		}
	}
	if found {
		s.ask(now, w, to)
	}
	return found
}

// ask sends a request to another leader. The one that is asked first may decline: what
// made it the first may be gone by the time it is asked. Then the next one is to grant
// whatever it has, so that no request goes in circles.
//
// The request is sent without its wait: the leader answers at once, and the waiting is done
// here, where the client's connection ends. The number of tasks and the key go along, so that
// the leader repeats its grants if the same request reaches it twice.
func (s *remoteClaims) ask(now clock.Time, w *claimRequest, to register.Member) {
	first := len(w.tried) == 0 && !w.mustServe
	for _, name := range w.names {
		h := s.of(to, name)
		h.open, h.behind, h.asked = h.open+1, now.Mono, now.Mono
	}
	w.tried = append(slices.DeleteFunc(w.tried, func(t trial) bool { return t.at == to }), trial{to, s.fills(to, w)})
	body := gproto.CloneOf(w.body)
	body.WaitSeconds = 0
	waited := time.Duration(now.Mono - w.received)
	r := s.c.Routes
	g := r.Gather(now, &message.Request{From: w.from, By: w.ask.By}, nil, 0)
	k := &remoteClaim{s: s, w: w, to: to, waited: waited}
	g.Join, g.Then, g.Abandoned, g.Choosy = k, k.came, k.abandoned, first
	if w.key().Named() {
		s.asked[w.key()] = g
	}
	r.Forward(now, g, to, nil, body, nil)
}

// remoteClaim is a claim request at another leader.
type remoteClaim struct {
	s      *remoteClaims
	w      *claimRequest
	to     register.Member
	waited time.Duration
	reply  *nornv1.ClaimReply
	err    *proto.Error
}

// Take keeps the reply of the leader. It is part of router.Joiner, as are Fail and Answer.
func (k *remoteClaim) Take(_ []int, m gproto.Message) { k.reply, _ = m.(*nornv1.ClaimReply) }

// Fail keeps the error in its place.
func (k *remoteClaim) Fail(_ []int, err *proto.Error) { k.err = err }

// Answer is not used: came answers by itself, because a reply without tasks is not passed on.
func (k *remoteClaim) Answer() (gproto.Message, *proto.Error) { return k.reply, nil }

// abandoned notes that the request is no longer on its way.
func (k *remoteClaim) abandoned(g *router.Scatter) { k.s.returned(g, k.w, k.to, false) }

// came passes on what was granted, or lets the search go on.
func (k *remoteClaim) came(g *router.Scatter) {
	got := len(k.reply.GetGrants()) > 0
	k.s.returned(g, k.w, k.to, got)
	if g.Declined {
		k.w.mustServe = true
		k.w.tried = slices.DeleteFunc(k.w.tried, func(t trial) bool { return t.at == k.to }) // it may be the best one after all
	}
	if !got && k.unanswerable() {
		k.s.c.Round.Refuse(k.w.from, k.err)
		return
	}
	if e := k.err; !got && e != nil && e.Kind == nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE && e.Effect == nornv1.Effect_EFFECT_NONE {
		k.s.unmet(k.to)
	}
	if !got {
		news := !k.s.alreadyTried(k.w, k.to) // faster than the answer
		k.s.c.pursue(k.s.c.Round.Now, k.w)
		if news { // it may have found something elsewhere, and others wait
			k.more()
		}
		return
	}
	k.reply.WaitedSeconds = k.waited.Seconds()
	k.s.c.Round.Answer(message.Reply{To: k.w.from, Message: k.reply, Grants: g.Grants, After: k.s.c.Round.After(0)})
	k.more()
}

// unanswerable tells whether nobody will ever say what a request was granted here. A node
// that has not answered is asked again while it is up, and says so then. Of one that is
// gone only the client can free it, by a new request that names this one: so it has to
// know at once that this one has no answer.
func (k *remoteClaim) unanswerable() bool {
	if k.err == nil {
		delete(k.w.doubts, k.to)
		return false
	}
	if k.w.doubts == nil {
		k.w.doubts = make(map[register.Member]*proto.Error)
	}
	k.w.doubts[k.to], k.w.failedQuorum = k.err, true
	return k.err.Effect == nornv1.Effect_EFFECT_UNKNOWN && !k.s.c.View.Up(k.to)
}

// doubt gives why it cannot be said that there is nothing for a request; nil: it can.
func (s *remoteClaims) doubt(w *claimRequest) (why *proto.Error) {
	leaders := s.leaders()
	for _, m := range view.MembersOf(w.doubts) {
		switch e := w.doubts[m]; {
		case e.Effect == nornv1.Effect_EFFECT_UNKNOWN:
			return e
		case slices.Contains(leaders, m):
			why = e
		}
	}
	return why
}

// more sends others to where there is something.
func (k *remoteClaim) more() {
	for _, name := range k.w.names {
		if k.s.of(k.to, name).ready {
			k.s.send(k.s.c.Round.Now, k.to, name)
		}
	}
}

// fills counts how often a node has told that a queue of a request has something.
func (s *remoteClaims) fills(m register.Member, w *claimRequest) (n uint64) {
	for _, name := range w.names {
		n += s.of(m, name).fills
	}
	return n
}

// alreadyTried tells whether a request was at a node in vain, and nothing has come there
// since it was sent.
func (s *remoteClaims) alreadyTried(w *claimRequest, m register.Member) bool {
	return slices.Contains(w.tried, trial{m, s.fills(m, w)})
}

// returned notes that a request is no longer on its way.
func (s *remoteClaims) returned(g *router.Scatter, w *claimRequest, to register.Member, got bool) {
	if s.asked[w.key()] == g {
		delete(s.asked, w.key())
	}
	for _, name := range w.names {
		h := s.of(to, name)
		h.open = max(0, h.open-1)
		switch {
		case got:
			h.credit = min(2*h.credit, maxCredit)
		case !g.Declined:
			h.credit = 1
		}
	}
}

// withdraw gives up a request with this key that is on its way, if there is
// one, and gives its origin.
func (s *remoteClaims) withdraw(key message.AskKey) (message.Origin, bool) {
	g := s.asked[key]
	if g == nil {
		return message.Origin{}, false
	}
	k := g.Join.(*remoteClaim)
	s.c.Routes.Abandon(g)
	return k.w.from, true
}

// learn takes the news of another leader.
func (s *remoteClaims) learn(now clock.Time, from register.Member, m *message.QueueHeads) {
	for _, n := range m.Heads {
		if n.Asks {
			continue // it says nothing
		}
		h := s.of(from, n.Queue)
		h.known, h.ready, h.rank, h.few = true, n.Ready, n.Rank, n.Few
		h.heard, h.inquired = now.Mono, 0
		if n.Full || !n.Ready {
			h.marks = n.Marks // else those of before: what has gone since was before them
		}
		if q := s.c.Index.queues[n.Queue]; q != nil {
			if _, ours, ok := q.heads.Best(); ok && !h.before(ours) {
				h.behind = 0
			}
		}
		if n.Ready {
			h.fills++
			s.send(now, from, n.Queue)
		}
	}
}

// send has requests that wait for a queue asked for at a node that has work.
func (s *remoteClaims) send(now clock.Time, to register.Member, name string) {
	q := s.c.Index.queues[name]
	h := s.of(to, name)
	for q != nil && !s.full(h) && !s.c.Index.paused[name] {
		w := s.c.Index.first(q, now.Mono, nil)
		if w == nil || w.routed {
			return
		}
		s.c.Index.drop(w)
		s.ask(now, w, to)
		q = s.c.Index.queues[name]
	}
}

// resumed has those ask who wait for a queue that was paused, where there is something.
func (s *remoteClaims) resumed(now clock.Time, name string) {
	for _, m := range s.leaders() {
		if h := s.of(m, name); !h.known || h.ready {
			s.send(now, m, name)
		}
	}
}

// meet asks those who have begun to lead for the ones that wait, so that they know of them.
// What was known of one that has led before is of before: it may have started anew since.
// A new leader is asked even if nothing is known of its queues: it may be full of tasks that
// the node before it has never told of, as a failed leader cannot.
func (s *remoteClaims) meet(now clock.Time) {
	leaders, again := s.leaders(), s.shy <= now.Mono
	if s.metAs == s.seen && !again {
		return
	}
	if s.metAs = s.seen; again {
		s.shy = clock.Never
	}
	names := slices.Sorted(maps.Keys(s.c.Index.queues))
	for _, m := range leaders {
		if slices.Contains(s.met, m) {
			continue
		}
		for _, h := range s.heads[m] { // Any order: each is changed for itself.
			h.known, h.ready, h.marks, h.few = false, false, message.RankSample{}, 0
		}
		for _, name := range names {
			s.send(now, m, name)
		}
	}
	s.met = leaders
}

// unmet has a node asked once more: it is named as a leader, and does not lead yet.
func (s *remoteClaims) unmet(m register.Member) {
	s.met = slices.DeleteFunc(slices.Clone(s.met), func(o register.Member) bool { return o == m })
	s.shy = min(s.shy, s.c.Round.Now.Mono+int64(shyPause))
}

// askAgain asks again for those who wait, one per queue and leader, should news have been
// lost, and spreads what the others are hungry for.
func (s *remoteClaims) askAgain(now clock.Time) {
	s.c.gossip.notify(now)
	s.meet(now)
	s.strand(now)
	if s.c.View.Alone || len(s.c.Index.byTime) == 0 {
		s.at, s.shy = clock.Never, clock.Never
		return
	}
	if s.at == clock.Never {
		s.at = now.Mono + int64(seekAgain)
	}
	if now.Mono < s.at {
		return
	}
	leaders := s.leaders()
	s.at = now.Mono + int64(seekAgain)/int64(max(1, min(len(leaders), maxSeeks)))
	if len(leaders) == 0 {
		return
	}
	s.again++
	to := leaders[s.again%uint64(len(leaders))] // the same for all queues: none misses any
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(s.c.Index.queues)) {
		if h := s.of(to, name); h.open == 0 {
			s.send(now, to, name)
		}
		if s.c.Index.WaitingFor(name) > 0 {
			waiting = append(waiting, name)
		}
	}
	s.c.gossip.renew(now, waiting)
}

// strand sends those away who wait at a node that leads nothing and has had no leader in
// reach for a while: as it is cut off from the others, mostly, who go on. What is asked
// for from then on is refused at once ([Machine.Claim]).
func (s *remoteClaims) strand(now clock.Time) {
	switch c := s.c; {
	case c.View.Alone || len(c.Index.byTime) == 0 || c.Partitions.Led() > 0 || len(s.leaders()) > 0:
		s.stranded = clock.Never
	case s.stranded == clock.Never:
		s.stranded = now.Mono + int64(StrandedAfter)
	case s.stranded <= now.Mono:
		for len(c.Index.byTime) > 0 {
			w := c.Index.byTime[0]
			c.Index.drop(w)
			c.giveUp(now, w)
		}
		s.stranded = clock.Never
	}
}

// head is the best task here that may be handed out, as others are told: without the sample of
// ranks.
func (s *remoteClaims) head(name string) message.QueueHead {
	h := message.QueueHead{Queue: name}
	if q := s.c.Index.queues[name]; q != nil && !s.c.Index.paused[name] {
		if _, rank, ok := q.heads.Best(); ok {
			h.Ready, h.Rank, h.Few = true, *rank, s.few(q)
		}
	}
	return h
}

// nextAsk is when something is due, mono ns.
func (s *remoteClaims) nextAsk() int64 { return min(s.at, s.shy, s.stranded) }

// many tells whether there is more here than is counted for others.
func (s *remoteClaims) many(w *claimRequest) bool {
	q, _, _ := s.c.Index.best(w)
	return q != nil && s.few(q) == 0
}

// few counts the ready tasks of a queue, if they are.
// It gives 0 for none and for more than [maxFew]: then a number would be no help.
func (s *remoteClaims) few(q *queue) (n int) {
	if q.heads.Len() > maxFew {
		return 0
	}
	more := false
	q.heads.Walk(func(member, place int) *claim.Rank {
		window, beyond := vnode.Window(s.c.Partitions.See(ring.Partition(member)), q.name)
		if place >= len(window) {
			more = more || beyond
			return nil
		}
		return &window[place].Rank
	}, func(*claim.Rank) bool {
		n++
		return n <= maxFew
	})
	if n > maxFew || more {
		return 0
	}
	return n
}
