package roots

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/ground"
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

// Proofs hear of comparisons, and say what those prove.
type Proofs interface {
	// Began notes that this node begins a comparison, Heard that the other member does.
	Began(now clock.Time, k message.Pair, session uint64)
	Heard(now clock.Time, k message.Pair, session uint64)
	// Same hears that a comparison of this node found no difference, and tells whether it is
	// the one that began last; Completed hears it of one that the other member began.
	Same(now clock.Time, k message.Pair, session uint64) bool
	Completed(now clock.Time, from register.Member, m *message.RepairCompleted)
	// Margin is how much earlier than a comparison came what it proves, ns.
	Margin() int64
	// Hold is for how long a proof waits: more seldom nothing is compared again.
	Hold() time.Duration
}

// Env is what a machine needs.
type Env struct {
	*ground.Ground
	// Every is the interval in which each other member hears of what has changed; 0: never.
	Every time.Duration
	// Proofs hear of the comparisons.
	Proofs Proofs
	// Busy tells whether a partition is being compared fact by fact.
	Busy func(message.Pair) bool
}

// Machine finds the partitions in which this node and another member of the cohort differ.
type Machine struct {
	env   Env
	At    int64  // mono ns of the next message; Never: there are no others
	Equal uint64 // comparisons without a difference
	First int    // how many partitions this node compares fact by fact where they differ
	// Invariant: shared is in the order of peers and partitions, each once: what a peer shares
	// lies side by side, and is found by bisection (Audit).
	shared []Shared // by peer and partition
	from   int      // of those, the first of the next message
	differ []message.Pair
	// Invariant: waits has exactly the pairs of differ (Audit).
	waits map[message.Pair]bool // those in differ
}

// New makes a machine that shares nothing with anybody yet.
func New(env Env) *Machine {
	return &Machine{env: env, At: clock.Never, waits: make(map[message.Pair]bool)}
}

// Shared is a partition that this node and another one keep.
type Shared struct {
	message.Pair
	// Begins: this node compares it where it differs.
	Begins       bool
	agreed       agreement
	ours, theirs *rootSaid // nil: none is under way
	walked       int64     // mono ns at which it began to wait last; 0: never
}

// agreement is that both sides had the same.
type agreement struct {
	is        bool
	sum       crdt.Sum
	epoch     uint64
	since, at int64 // mono ns of the first and of the last comparison that said so
}

// rootSaid is a comparison under way.
type rootSaid struct {
	session uint64
	sum     crdt.Sum
	epoch   uint64
	at      int64 // mono ns
}

func (r *rootSaid) is(session uint64) bool { return r != nil && session != 0 && r.session == session }

// comparePeers orders pairs by peer and then by partition: the partitions of one message lie
// side by side.
func comparePeers(a, b message.Pair) int {
	return cmp.Or(a.Peer.Compare(b.Peer), cmp.Compare(a.Partition, b.Partition))
}

// Begins tells whether of two members the first one compares a partition. Each two nodes
// share the partitions that both keep out evenly.
//
// It is a hash of the partition and of both members that does not depend on their order: both
// sides come to opposite answers without a message.
func Begins(p ring.Partition, self, other register.Member) bool {
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

// Changed takes over what this node shares with others, after cells or trees have changed.
func (s *Machine) Changed(now clock.Time) {
	if !s.same() {
		s.shares()
	}
	switch {
	case len(s.shared) == 0 || s.env.Every <= 0:
		s.At = clock.Never
	case s.At == clock.Never:
		s.At = now.Mono + int64(s.part(min(len(s.shared), rootsMost)))
	}
}

// same tells whether this node shares what it did. Most changes of the register are of leaders:
// a cluster of 20 nodes and 4,096 partitions begins with a thousand of them.
func (s *Machine) same() bool {
	c, n := &s.env, 0
	next := make(map[register.Member]int) // where the next partition of a peer is
	for i := range s.shared {
		if i == 0 || s.shared[i].Peer != s.shared[i-1].Peer {
			next[s.shared[i].Peer] = i
		}
	}
	for p := range c.View.Cells {
		at, cohort := ring.Partition(p), c.View.Cells[p].Cohort
		if !slices.Contains(cohort, c.Self) || vnode.Tree(c.Partitions.See(at)) == nil {
			continue
		}
		for _, m := range cohort {
			if m == c.Self {
				continue
			}
			i, known := next[m]
			if !known || i == len(s.shared) || s.shared[i].Partition != at || s.shared[i].Peer != m {
				return false
			}
			next[m], n = i+1, n+1
		}
	}
	return n == len(s.shared)
}

// shares works out what this node shares, and keeps what it knows of what it did before.
func (s *Machine) shares() {
	c := &s.env
	before := s.shared
	s.shared, s.First = make([]Shared, 0, len(before)), 0
	for p := range c.View.Cells {
		at, cohort := ring.Partition(p), c.View.Cells[p].Cohort
		if !slices.Contains(cohort, c.Self) || vnode.Tree(c.Partitions.See(at)) == nil {
			continue
		}
		for _, m := range cohort {
			if m != c.Self {
				s.shared = append(s.shared, Shared{Pair: message.Pair{Partition: at, Peer: m}, Begins: Begins(at, c.Self, m)})
			}
		}
	}
	s.shared = slices.Clip(slices.Clone(s.shared)) // it stays for long
	slices.SortFunc(s.shared, func(a, b Shared) int { return comparePeers(a.Pair, b.Pair) })
	for i := range s.shared {
		e := &s.shared[i]
		for len(before) > 0 && comparePeers(before[0].Pair, e.Pair) < 0 {
			before = before[1:]
		}
		if len(before) > 0 && before[0].Pair == e.Pair {
			*e = before[0]
		}
		if e.Begins {
			s.First++
		}
	}
}

// part is what so many of the partitions take of the interval.
func (s *Machine) part(n int) time.Duration {
	return s.env.Every * time.Duration(n) / time.Duration(max(len(s.shared), 1))
}

// of is a partition that this node shares with a peer; nil: it does not.
func (s *Machine) Of(k message.Pair) *Shared {
	i, found := slices.BinarySearchFunc(s.shared, k, func(e Shared, k message.Pair) int { return comparePeers(e.Pair, k) })
	if !found {
		return nil
	}
	return &s.shared[i]
}

// with gives what is shared with a peer.
func (s *Machine) with(m register.Member) []Shared {
	from, _ := slices.BinarySearchFunc(s.shared, m, func(e Shared, m register.Member) int { return e.Peer.Compare(m) })
	to := from
	for to < len(s.shared) && s.shared[to].Peer == m {
		to++
	}
	return s.shared[from:to]
}

// Work says the next sums, if it is time.
func (s *Machine) Work(now clock.Time) {
	if s.At > now.Mono {
		return
	}
	if len(s.shared) == 0 {
		s.At = clock.Never
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
	s.At = now.Mono + int64(s.part(len(some)))
	s.say(now, some)
}

// say says the sums of those that are due, all of one peer.
func (s *Machine) say(now clock.Time, some []Shared) {
	c := &s.env
	m := &message.Roots{Session: c.Rand.Uint64() | 1, Hash: antientropy.HashVersion}
	for i := range some {
		e := &some[i]
		if s.env.Busy(e.Pair) || vnode.Tree(c.Partitions.See(e.Partition)) == nil {
			continue
		}
		sum := s.sum(e.Partition)
		if !s.due(now, e, sum) {
			continue
		}
		if e.ours != nil && c.View.Up(e.Peer) { // it was lost, or the peer does not know the question
			s.differs(now, e)
		}
		e.ours = &rootSaid{m.Session, sum, c.View.Cells[e.Partition].Epoch, now.Mono}
		c.Proofs.Began(now, e.Pair, m.Session)
		m.Roots = append(m.Roots, message.Root{Partition: e.Partition, Sum: sum})
	}
	if len(m.Roots) > 0 {
		c.Round.Ready.Send = append(c.Round.Ready.Send, message.Send{To: some[0].Peer, Message: m})
	}
}

// due tells whether a partition is to be compared: it has changed here since both agreed, or
// it is long ago. What a comparison proves is about what came here some time before it began
// ([Proofs]), so that who begins has it once more after that.
func (s *Machine) due(now clock.Time, e *Shared, sum crdt.Sum) bool {
	a := &e.agreed
	switch {
	case !a.is || a.sum != sum || a.epoch != s.env.View.Cells[e.Partition].Epoch:
		return true
	case !e.Begins:
		return false
	}
	return a.at-a.since < s.env.Proofs.Margin() || now.Mono-a.at >= int64(s.untouched())
}

// untouched is for how long a partition that nothing happens to is not compared again.
func (s *Machine) untouched() time.Duration {
	every := s.env.Every
	return max(every, min(againAfter*every, s.env.Proofs.Hold())) - every/2
}

// Asked answers which partitions are the same here.
func (s *Machine) Asked(now clock.Time, from register.Member, m *message.Roots) {
	c := &s.env
	answer := &message.SameRoots{Session: m.Session}
	for i := range m.Roots {
		e := s.Of(message.Pair{Partition: m.Roots[i].Partition, Peer: from})
		if e == nil || m.Hash != antientropy.HashVersion || c.View.Deleting(e.Partition) || vnode.Tree(c.Partitions.See(e.Partition)) == nil {
			continue
		}
		sum := s.sum(e.Partition)
		if sum != m.Roots[i].Sum {
			if e.Begins && now.Mono-e.walked >= int64(c.Every-c.Every/4) { // most often it has found it itself
				s.differs(now, e)
			}
			continue
		}
		e.theirs = &rootSaid{m.Session, sum, c.View.Cells[e.Partition].Epoch, now.Mono}
		c.Proofs.Heard(now, e.Pair, m.Session)
		answer.Partitions = append(answer.Partitions, e.Partition)
	}
	c.Round.Ready.Send = append(c.Round.Ready.Send, message.Send{To: from, Message: answer})
}

// Answered hears which partitions are the same: of all others in the question it is to be
// found out what differs.
func (s *Machine) Answered(now clock.Time, from register.Member, m *message.SameRoots) {
	c := &s.env
	done := &message.RootsCompleted{Session: m.Session}
	for _, p := range m.Partitions {
		e := s.Of(message.Pair{Partition: p, Peer: from})
		if e == nil || !e.ours.is(m.Session) {
			continue
		}
		said := e.ours
		e.ours = nil
		if c.Proofs.Same(now, e.Pair, m.Session) {
			s.agree(e, said.sum, said.epoch, said.at)
			s.Equal++
			done.Age = max(done.Age, time.Duration(now.SinceMono(said.at)))
			done.Partitions = append(done.Partitions, p)
		}
	}
	if len(done.Partitions) > 0 {
		c.Round.Ready.Send = append(c.Round.Ready.Send, message.Send{To: from, Message: done})
	}
	for i, all := 0, s.with(from); i < len(all); i++ {
		if e := &all[i]; e.ours.is(m.Session) {
			e.ours = nil
			if e.Begins {
				s.differs(now, e)
			}
		}
	}
}

// Completed hears that what was the same here is so on both disks.
func (s *Machine) Completed(now clock.Time, from register.Member, m *message.RootsCompleted) {
	for _, p := range m.Partitions {
		k := message.Pair{Partition: p, Peer: from}
		if e := s.Of(k); e != nil && e.theirs.is(m.Session) {
			s.agree(e, e.theirs.sum, e.theirs.epoch, e.theirs.at)
			e.theirs = nil
		}
		s.env.Proofs.Completed(now, from, &message.RepairCompleted{Partition: p, Session: m.Session, Age: m.Age})
	}
}

// agree notes that both sides had the same sum. The first such time stays as long as the sum
// does.
func (s *Machine) agree(e *Shared, sum crdt.Sum, epoch uint64, at int64) {
	if a := &e.agreed; a.is && a.sum == sum && a.epoch == epoch {
		a.at = max(a.at, at)
		return
	}
	e.agreed = agreement{true, sum, epoch, at, at}
}

// differs has a partition compared fact by fact, in its turn.
func (s *Machine) differs(now clock.Time, e *Shared) {
	if !e.Begins || s.waits[e.Pair] || s.env.Busy(e.Pair) {
		return
	}
	e.walked = now.Mono
	s.waits[e.Pair], s.differ = true, append(s.differ, e.Pair)
}

// Next takes the first one that waits and may be compared now: with a node in reach, or with
// any other as long as there are few of those.
func (s *Machine) Next(vain bool) (k message.Pair, ok bool) {
	for i, k := range s.differ {
		if !vain && !s.env.View.Up(k.Peer) {
			continue
		}
		s.differ = slices.Delete(s.differ, i, i+1)
		delete(s.waits, k)
		return k, true
	}
	return k, false
}

// Returned has all be compared again with a peer that was out of reach: it may have lost
// something.
func (s *Machine) Returned(m register.Member) {
	for i, all := 0, s.with(m); i < len(all); i++ {
		all[i].agreed, all[i].ours = agreement{}, nil
	}
}

// Forget drops what is known of a partition.
func (s *Machine) Forget(p ring.Partition) {
	s.differ = slices.DeleteFunc(s.differ, func(k message.Pair) bool { return k.Partition == p })
	for k := range s.waits { // Any order: each is looked at for itself.
		if k.Partition == p {
			delete(s.waits, k)
		}
	}
	for i := range s.shared {
		if e := &s.shared[i]; e.Partition == p {
			e.agreed, e.ours, e.theirs, e.walked = agreement{}, nil, nil, 0
		}
	}
}

// Waits is how many wait to be compared fact by fact.
func (s *Machine) Waits() int { return len(s.differ) }

// All are the partitions that this node shares with others; nobody changes them.
func (s *Machine) All() []Shared { return s.shared }

// Agreed is when both sides had the same the last time that they were compared, mono ns; ok is
// false when they have not agreed.
func (e *Shared) Agreed() (at int64, ok bool) { return e.agreed.at, e.agreed.is }

// sum is that over the facts of a partition that has a tree.
func (s *Machine) sum(p ring.Partition) crdt.Sum {
	return vnode.Root(s.env.Partitions.See(p), s.env.Round.Tx).Sum
}
