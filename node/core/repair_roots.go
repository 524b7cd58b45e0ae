package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// rootsMost bounds the partitions of one message, so that a turn of the loop reads few
	// roots.
	rootsMost = 512
	// againAfter is after how many intervals partitions are compared again whose facts have
	// not changed here since both sides agreed.
	againAfter = 6
)

// roots finds the partitions in which this node and another member of the cohort differ. In
// each interval every other node hears once of those that have changed here since both agreed:
// the sums over their facts, those of all partitions that both keep in one message. Of two
// members one, by a hash of the partition, compares what differs, and has unchanged ones
// compared again after some intervals: the other side may have lost something.
type roots struct {
	r      *repairs
	at     int64          // mono ns of the next message; Never: there are no others
	shared []sharedRoot   // by peer and partition
	from   int            // of those, the first of the next message
	first  int            // how many of them this node begins
	differ []message.Pair // that wait to be compared fact by fact
	waits  map[message.Pair]bool
}

// sharedRoot is a partition that this node and another one keep.
type sharedRoot struct {
	message.Pair
	begins       bool
	agreed       agreement
	ours, theirs rootSaid
	walked       int64 // mono ns at which it began to wait last; 0: never
}

// agreement is that both sides had the same.
type agreement struct {
	is        bool
	sum       crdt.Sum
	epoch     uint64
	since, at int64 // mono ns of the first and of the last comparison that said so
}

// rootSaid is a comparison under way; session 0: none.
type rootSaid struct {
	session uint64
	sum     crdt.Sum
	epoch   uint64
	at      int64 // mono ns
}

func comparePeers(a, b message.Pair) int {
	return cmp.Or(a.Peer.Compare(b.Peer), cmp.Compare(a.Partition, b.Partition))
}

// begins tells whether of two members the first one compares a partition. Each two nodes
// share the partitions that both keep out evenly.
func begins(p ring.Partition, self, other register.Member) bool {
	low, high := self, other
	if high.Compare(low) < 0 {
		low, high = high, low
	}
	h := uint64(p) + 1
	for i := range low.Incarnation {
		h = (h ^ uint64(low.Incarnation[i])<<8 ^ uint64(high.Incarnation[i])) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return (h>>63 == 0) == (low == self)
}

// changed takes over what this node shares with others, after cells or trees have changed.
func (s *roots) changed(now clock.Time) {
	c := s.r.c
	before := s.shared
	s.shared, s.first = make([]sharedRoot, 0, len(before)), 0
	for p := range c.view.Cells {
		at, cohort := ring.Partition(p), c.view.Cells[p].Cohort
		if !slices.Contains(cohort, c.cfg.Self) || vnode.Tree(c.vnodes.See(at)) == nil {
			continue
		}
		for _, m := range cohort {
			if m != c.cfg.Self {
				s.shared = append(s.shared, sharedRoot{Pair: message.Pair{Partition: at, Peer: m}, begins: begins(at, c.cfg.Self, m)})
			}
		}
	}
	slices.SortFunc(s.shared, func(a, b sharedRoot) int { return comparePeers(a.Pair, b.Pair) })
	for i := range s.shared {
		e := &s.shared[i]
		for len(before) > 0 && comparePeers(before[0].Pair, e.Pair) < 0 {
			before = before[1:]
		}
		if len(before) > 0 && before[0].Pair == e.Pair {
			*e = before[0]
		}
		if e.begins {
			s.first++
		}
	}
	switch {
	case len(s.shared) == 0 || c.cfg.Repair <= 0:
		s.at = clock.Never
	case s.at == clock.Never:
		s.at = now.Mono + int64(s.share(min(len(s.shared), rootsMost)))
	}
}

// share is what so many of the partitions take of the interval.
func (s *roots) share(n int) time.Duration {
	return s.r.c.cfg.Repair * time.Duration(n) / time.Duration(max(len(s.shared), 1))
}

// of is a partition that this node shares with a peer; nil: it does not.
func (s *roots) of(k message.Pair) *sharedRoot {
	i, found := slices.BinarySearchFunc(s.shared, k, func(e sharedRoot, k message.Pair) int { return comparePeers(e.Pair, k) })
	if !found {
		return nil
	}
	return &s.shared[i]
}

// with gives what is shared with a peer.
func (s *roots) with(m register.Member) []sharedRoot {
	from, _ := slices.BinarySearchFunc(s.shared, m, func(e sharedRoot, m register.Member) int { return e.Peer.Compare(m) })
	to := from
	for to < len(s.shared) && s.shared[to].Peer == m {
		to++
	}
	return s.shared[from:to]
}

// work says the next sums, if it is time.
func (s *roots) work(now clock.Time) {
	if s.at > now.Mono {
		return
	}
	if len(s.shared) == 0 {
		s.at = clock.Never
		return
	}
	if s.from >= len(s.shared) {
		s.from = 0
	}
	end := s.from
	for end < len(s.shared) && end-s.from < rootsMost && s.shared[end].Peer == s.shared[s.from].Peer {
		end++
	}
	some := s.shared[s.from:end]
	s.from = end
	s.at = now.Mono + int64(s.share(len(some)))
	s.say(now, some)
}

// say says the sums of those that are due, all of one peer.
func (s *roots) say(now clock.Time, some []sharedRoot) {
	c := s.r.c
	m := &message.Roots{Session: c.cfg.Rand.Uint64() | 1, Hash: antientropy.HashVersion}
	for i := range some {
		e := &some[i]
		if s.r.busy(e.Pair) || vnode.Tree(c.vnodes.See(e.Partition)) == nil {
			continue
		}
		sum := vnode.Root(c.vnodes.See(e.Partition), c.round.Tx)
		if !s.due(now, e, sum) {
			continue
		}
		if e.ours.session != 0 && c.view.Up(e.Peer) { // it was lost, or the peer does not know the question
			s.differs(now, e)
		}
		e.ours = rootSaid{m.Session, sum, c.view.Cells[e.Partition].Epoch, now.Mono}
		c.collect.tombstones.beginAs(now, e.Pair, m.Session)
		m.Roots = append(m.Roots, message.Root{Partition: e.Partition, Sum: sum})
	}
	if len(m.Roots) > 0 {
		c.round.Ready.Send = append(c.round.Ready.Send, message.Send{To: some[0].Peer, Message: m})
	}
}

// due tells whether a partition is to be compared: it has changed here since both agreed, or
// it is long ago. What a comparison proves is about what came here some time before it began
// ([tombstones.margin]), so that who begins has it once more after that.
func (s *roots) due(now clock.Time, e *sharedRoot, sum crdt.Sum) bool {
	a := &e.agreed
	switch {
	case !a.is || a.sum != sum || a.epoch != s.r.c.view.Cells[e.Partition].Epoch:
		return true
	case !e.begins:
		return false
	}
	return a.at-a.since < s.r.c.collect.tombstones.margin() || now.Mono-a.at >= int64(s.untouched())
}

// untouched is for how long a partition that nothing happens to is not compared again.
func (s *roots) untouched() time.Duration {
	every := s.r.c.cfg.Repair
	return max(every, min(againAfter*every, s.r.c.collect.tombstones.hold())) - every/2
}

// asked answers which partitions are the same here.
func (s *roots) asked(now clock.Time, from register.Member, m *message.Roots) {
	c := s.r.c
	answer := &message.SameRoots{Session: m.Session}
	for i := range m.Roots {
		e := s.of(message.Pair{Partition: m.Roots[i].Partition, Peer: from})
		if e == nil || m.Hash != antientropy.HashVersion || c.view.Deleting(e.Partition) || vnode.Tree(c.vnodes.See(e.Partition)) == nil {
			continue
		}
		sum := vnode.Root(c.vnodes.See(e.Partition), c.round.Tx)
		if sum != m.Roots[i].Sum {
			if e.begins && now.Mono-e.walked >= int64(c.cfg.Repair-c.cfg.Repair/4) { // most often it has found it itself
				s.differs(now, e)
			}
			continue
		}
		e.theirs = rootSaid{m.Session, sum, c.view.Cells[e.Partition].Epoch, now.Mono}
		c.collect.tombstones.hear(now, e.Pair, m.Session)
		answer.Partitions = append(answer.Partitions, e.Partition)
	}
	c.round.Ready.Send = append(c.round.Ready.Send, message.Send{To: from, Message: answer})
}

// answered hears which partitions are the same: of all others in the question it is to be
// found out what differs.
func (s *roots) answered(now clock.Time, from register.Member, m *message.SameRoots) {
	c := s.r.c
	done := &message.RootsCompleted{Session: m.Session}
	for _, p := range m.Partitions {
		e := s.of(message.Pair{Partition: p, Peer: from})
		if e == nil || m.Session == 0 || e.ours.session != m.Session {
			continue
		}
		said := e.ours
		e.ours = rootSaid{}
		if c.collect.tombstones.same(now, e.Pair, m.Session) {
			s.agree(e, said.sum, said.epoch, said.at)
			s.r.compare++
			done.Age = max(done.Age, time.Duration(now.SinceMono(said.at)))
			done.Partitions = append(done.Partitions, p)
		}
	}
	if len(done.Partitions) > 0 {
		c.round.Ready.Send = append(c.round.Ready.Send, message.Send{To: from, Message: done})
	}
	for i, all := 0, s.with(from); i < len(all); i++ {
		if e := &all[i]; m.Session != 0 && e.ours.session == m.Session {
			e.ours = rootSaid{}
			if e.begins {
				s.differs(now, e)
			}
		}
	}
}

// completed hears that what was the same here is so on both disks.
func (s *roots) completed(now clock.Time, from register.Member, m *message.RootsCompleted) {
	for _, p := range m.Partitions {
		k := message.Pair{Partition: p, Peer: from}
		if e := s.of(k); e != nil && m.Session != 0 && e.theirs.session == m.Session {
			s.agree(e, e.theirs.sum, e.theirs.epoch, e.theirs.at)
			e.theirs = rootSaid{}
		}
		s.r.c.collect.tombstones.compared(now, from, &message.RepairCompleted{Partition: p, Session: m.Session, Age: m.Age})
	}
}

func (s *roots) agree(e *sharedRoot, sum crdt.Sum, epoch uint64, at int64) {
	if a := &e.agreed; a.is && a.sum == sum && a.epoch == epoch {
		a.at = max(a.at, at)
		return
	}
	e.agreed = agreement{true, sum, epoch, at, at}
}

// differs has a partition compared fact by fact, in its turn.
func (s *roots) differs(now clock.Time, e *sharedRoot) {
	if !e.begins || s.waits[e.Pair] || s.r.busy(e.Pair) {
		return
	}
	if s.waits == nil {
		s.waits = make(map[message.Pair]bool)
	}
	e.walked = now.Mono
	s.waits[e.Pair], s.differ = true, append(s.differ, e.Pair)
	s.r.at = min(s.r.at, max(now.Mono, s.r.started+int64(s.r.pause())))
}

// next takes the first one that waits and may be compared now: with a node in reach, or with
// any other as long as there are few of those.
func (s *roots) next(vain bool) (k message.Pair, ok bool) {
	for i, k := range s.differ {
		if !vain && !s.r.c.view.Up(k.Peer) {
			continue
		}
		s.differ = slices.Delete(s.differ, i, i+1)
		delete(s.waits, k)
		return k, true
	}
	return k, false
}

// returned has all be compared again with a peer that was out of reach: it may have lost
// something.
func (s *roots) returned(m register.Member) {
	for i, all := 0, s.with(m); i < len(all); i++ {
		all[i].agreed, all[i].ours = agreement{}, rootSaid{}
	}
}

// forget drops what is known of a partition.
func (s *roots) forget(p ring.Partition) {
	s.differ = slices.DeleteFunc(s.differ, func(k message.Pair) bool { return k.Partition == p })
	for k := range s.waits { // Any order: each is looked at for itself.
		if k.Partition == p {
			delete(s.waits, k)
		}
	}
	for i := range s.shared {
		if e := &s.shared[i]; e.Partition == p {
			e.agreed, e.ours, e.theirs, e.walked = agreement{}, rootSaid{}, rootSaid{}, 0
		}
	}
}
