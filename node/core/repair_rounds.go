package core

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/roots"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

const (
	// maxRounds is how many partitions this node compares at once: repair must not
	// keep claims waiting. With nodes that are out of reach it is maxVain beside
	// those: what waits for an answer that most likely does not come must not keep
	// the others from each other, and whoever answers all the same has its turn.
	maxRounds, maxVain = 4, 1
	// repairRate is how many bytes of facts a second travel for repair from and to
	// this node, repairBurst what may go at once.
	repairRate, repairBurst = 32 << 20, 4 << 20
	// settleTime is how young a task is left alone: its write is most likely under
	// way (protocol (f)).
	settleTime = 2 * time.Second
)

// repairs compares what this node has with what the others of each cohort
// have, round and round (design 6): first the sums of all partitions that two nodes share
// ([roots.Machine]), then, a few partitions at a time, the facts of those that differ. A comparison
// moves facts both ways, so of two members one begins it ([roots.Begins]).
type repairs struct {
	c       *Core
	cfg     antientropy.Config
	moving  antientropy.Config // of partitions that are copied and handed over
	now     clock.Time         // of the call under way
	at      int64              // mono ns of the next start of what was asked for; Never: nothing waits
	started int64              // mono ns of the last one of what differs
	begun   []message.Pair     // rounds that go on, in order
	ours    map[message.Pair]*antientropy.Initiator
	theirs  map[message.Pair]answerer
	wake    map[message.Pair]int64 // when to go on with ours, mono ns
	rouse   map[message.Pair]int64 // and with theirs
	moved   uint64                 // facts
	failed  uint64                 // rounds
	compare uint64                 // rounds that ended well
	urgent  urgent
	roots   *roots.Machine
}

func newRepairs(c *Core) *repairs {
	return &repairs{
		c: c, at: clock.Never,
		cfg: antientropy.Config{
			Settle: settleTime, MinBackoff: c.cfg.Repair,
			Bucket: antientropy.NewBucket(repairRate, repairBurst),
		},
		moving: antientropy.Config{
			PageBytes: movePage, ScanBytes: moveScan, Timeout: moveTimeout, Retries: moveRetries, MinBackoff: moveRetry,
			Bucket: antientropy.NewBucket(moveRate, moveBurst),
		},
		ours:   make(map[message.Pair]*antientropy.Initiator),
		theirs: make(map[message.Pair]answerer),
		wake:   make(map[message.Pair]int64),
		rouse:  make(map[message.Pair]int64),
	}
}

// newRoots is made once there is all that it needs.
func newRoots(c *Core) *roots.Machine {
	return roots.New(roots.Env{
		Self: c.cfg.Self, Every: c.cfg.Repair, View: c.view, Round: c.round, Partitions: c.vnodes,
		Random: c.cfg.Rand.Uint64, Proofs: c.collect.tombstones, Busy: c.repairs.busy,
	})
}

// pause is the time between two starts, so that all that may differ has its turn once in the
// interval.
func (r *repairs) pause() time.Duration {
	return r.c.cfg.Repair / time.Duration(max(r.roots.First, 1))
}

// busy tells whether a comparison of ours is under way.
func (r *repairs) busy(k message.Pair) bool { return r.ours[k] != nil && r.ours[k].Busy() }

// work begins what is due and goes on with what waits.
func (r *repairs) work(now clock.Time) {
	r.now = now
	r.roots.Work(now)
	if min(r.at, r.due()) <= now.Mono {
		r.begin(now)
	}
	for _, k := range due(now, r.wake) {
		switch i := r.ours[k]; {
		case i == nil:
		case r.gone(k.Peer):
			r.ready(k, i.GiveUp(now))
		default:
			r.ready(k, i.Advance(now))
		}
	}
	for _, k := range due(now, r.rouse) {
		if a, ok := r.theirs[k]; ok {
			r.want(r.rouse, k, a.Advance(now))
		}
	}
}

// due takes out what is due, in order. Most often nothing is.
func due(now clock.Time, wake map[message.Pair]int64) (all []message.Pair) {
	for k, at := range wake { // Any order: sorted below.
		if at <= now.Mono {
			all = append(all, k)
			delete(wake, k)
		}
	}
	slices.SortFunc(all, message.Pair.Compare)
	return all
}

// gone tells whether a peer was removed and is out of reach: another incarnation may
// have its name, and what is for this one need not be said again and again.
func (r *repairs) gone(m register.Member) bool {
	n, known := r.c.view.State.Find(m)
	return known && n.Status == register.Removed && !r.c.view.Up(m)
}

// due is when the next partition that differs is compared, mono ns.
func (r *repairs) due() int64 {
	if r.roots.Waits() == 0 || len(r.begun) >= maxRounds {
		return clock.Never
	}
	return r.started + int64(r.pause())
}

// begin starts the next comparisons: those that somebody has asked for, and one of what differs.
func (r *repairs) begin(now clock.Time) {
	r.at = clock.Never
	r.hurry(now)
	if r.due() > now.Mono {
		return
	}
	r.started = now.Mono
	up, vain := r.under()
	if k, ok := r.roots.Next(vain < maxVain); ok && up < maxRounds {
		if i := r.comparable(now, k); i != nil {
			r.begun = append(r.begun, k)
			r.ready(k, i.Start(now, r.c.collect.tombstones.begin(now, k)))
		}
	}
}

// comparable is what compares a partition that differs, as long as it is for this node to
// begin and nothing is under way or backs off.
func (r *repairs) comparable(now clock.Time, k message.Pair) *antientropy.Initiator {
	if e := r.roots.Of(k); e == nil || !e.Begins || vnode.Tree(r.c.vnodes.See(k.Partition)) == nil {
		return nil
	}
	if i := r.initiator(k, r.cfg); !i.Busy() && i.NotBefore() <= now.Mono {
		return i
	}
	return nil
}

// under gives how many comparisons are under way with nodes in reach, and how many
// with others.
func (r *repairs) under() (up, vain int) {
	for _, k := range r.begun {
		if r.c.view.Up(k.Peer) {
			up++
		} else {
			vain++
		}
	}
	return up, vain
}

// room is looked for by what waits to be hurried: some nodes may be out of reach now,
// and hold no place any more.
func (r *repairs) room(now clock.Time) {
	if len(r.urgent.todo) > 0 {
		r.at = min(r.at, now.Mono)
	}
}

func (r *repairs) initiator(k message.Pair, cfg antientropy.Config) *antientropy.Initiator {
	i := r.ours[k]
	if i == nil {
		i = antientropy.NewInitiator(cfg, vnode.Tree(r.c.vnodes.See(k.Partition)), &partition{r.c, k.Partition, k.Peer})
		r.ours[k] = i
	}
	return i
}

// copy compares a partition that moves, at once and at the rate of moves. How it
// ends the moves are told.
func (r *repairs) copy(now clock.Time, k message.Pair) {
	delete(r.ours, k)
	delete(r.wake, k)
	r.ready(k, r.initiator(k, r.moving).Start(now, r.c.collect.tombstones.begin(now, k)))
}

// returned has a peer that was out of reach compared with at its next turn,
// however long it did not answer before. What a move or a hand-over waits for goes
// on: without an end it would wait for its own.
func (r *repairs) returned(m register.Member) {
	silent := func(k message.Pair) bool {
		return k.Peer == m && r.ours[k] != nil && !r.c.transfer.busy[k] && !r.c.elector.Compares(k)
	}
	for _, k := range r.begun {
		if silent(k) && r.urgent.going[k] {
			delete(r.urgent.going, k)
			r.urgent.add(k)
		}
	}
	r.begun = slices.DeleteFunc(r.begun, silent)
	maps.DeleteFunc(r.ours, func(k message.Pair, _ *antientropy.Initiator) bool { return silent(k) })
	r.roots.Returned(m)
}

// forget ends all comparisons of a partition.
func (r *repairs) forget(p ring.Partition) {
	gone := func(k message.Pair) bool { return k.Partition == p }
	maps.DeleteFunc(r.c.transfer.busy, func(k message.Pair, _ bool) bool { return gone(k) })
	r.begun = slices.DeleteFunc(r.begun, gone)
	maps.DeleteFunc(r.ours, func(k message.Pair, _ *antientropy.Initiator) bool { return gone(k) })
	maps.DeleteFunc(r.theirs, func(k message.Pair, _ answerer) bool { return gone(k) })
	maps.DeleteFunc(r.wake, func(k message.Pair, _ int64) bool { return gone(k) })
	maps.DeleteFunc(r.rouse, func(k message.Pair, _ int64) bool { return gone(k) })
	r.urgent.forget(p)
	r.roots.Forget(p)
	r.c.collect.tombstones.forget(p)
}

// take goes on with a message of the other side.
func (r *repairs) take(now clock.Time, from register.Member, m *message.Repair) {
	r.now = now
	if int(m.Partition) >= len(r.c.view.Cells) || m.Message == nil {
		return
	}
	k := message.Pair{Partition: m.Partition, Peer: from}
	switch m.Message.Kind {
	case antientropy.KindHello, antientropy.KindRequest:
		// Whoever asks may need what is here, or bring what is not: a newcomer, or
		// a member that was thought dead.
		tree := vnode.Tree(r.c.vnodes.See(m.Partition))
		cohort := r.c.view.Cells[m.Partition].Cohort
		_, known := r.c.view.State.Find(from)
		known = known || slices.Contains(cohort, from)
		ours := slices.Contains(cohort, r.c.cfg.Self) || r.c.acceptors.Proposed(m.Partition)
		if tree == nil || !known || !ours || r.c.view.Deleting(m.Partition) {
			r.send(k, antientropy.Refuse(m.Message, antientropy.ReasonAbsent))
			return
		}
		r.c.collect.tombstones.asked(now, k, m.Message)
		r.want(r.rouse, k, r.answerer(k, tree, !slices.Contains(cohort, from)).Step(now, m.Message))
	default:
		if i := r.ours[k]; i != nil {
			r.ready(k, i.Step(now, m.Message))
		}
	}
}

// answerer answers one peer, at the rate of moves where that copies a partition
// or hands it over.
type answerer struct {
	*antientropy.Responder
	moves bool
}

func (r *repairs) answerer(k message.Pair, tree *antientropy.Tree, moves bool) answerer {
	a, ok := r.theirs[k]
	if !ok || a.moves != moves {
		cfg := r.cfg
		if moves {
			cfg = r.moving
		}
		a = answerer{antientropy.NewResponder(cfg, tree, &partition{r.c, k.Partition, k.Peer}), moves}
		r.theirs[k] = a
	}
	return a
}

// want sends what a machine wants sent, and notes when it is to go on: what it said
// before about that is over.
func (r *repairs) want(wake map[message.Pair]int64, k message.Pair, ready antientropy.Ready) {
	if ready.Send != nil {
		r.send(k, ready.Send)
	}
	switch {
	case ready.More:
		wake[k] = 0
	case ready.Wake == clock.Never:
		delete(wake, k)
	default:
		wake[k] = ready.Wake
	}
}

// ready does what a machine of ours wants.
func (r *repairs) ready(k message.Pair, ready antientropy.Ready) {
	r.want(r.wake, k, ready)
	if ready.Result == nil {
		return
	}
	r.begun = slices.DeleteFunc(r.begun, func(o message.Pair) bool { return o == k })
	if r.urgent.ended(k) {
		r.at = min(r.at, r.now.Mono)
	}
	r.moved += ready.Result.Pulled + ready.Result.Pushed
	if ready.Result.Err != nil {
		r.failed++
	} else {
		r.compare++
	}
	r.c.collect.tombstones.ended(r.now, k, ready.Result)
	r.c.scrubs.suspect(k.Partition, ready.Result.Suspects)
	elected := r.c.elector.Compared(k, agreed(ready.Result))
	if r.c.transfer.compared(r.now, k, ready.Result) || elected {
		delete(r.ours, k) // the next comparison, as a member, is another one
	}
}

func (r *repairs) send(k message.Pair, m *antientropy.Message) {
	send := r.c.round.Send
	if promisesNothing(m) {
		send = r.c.round.SendNow
	}
	send(k.Peer, &message.Repair{Partition: k.Partition, Message: m})
}

// promisesNothing tells that a message of a comparison need not wait for the
// disk: a question, or facts and nothing else. What says of this node that it has
// something (roots, what is below a node, facts taken over) does wait, because
// others delete or vote by it. Pages of a copy follow each other without a sync
// in between.
func promisesNothing(m *antientropy.Message) bool {
	switch m.Kind {
	case antientropy.KindRequest:
		return len(m.Push) == 0
	case antientropy.KindAnswer:
		return m.New == 0 && !m.Told && len(m.Splits) == 0 // what it had already may not be on the disk yet
	}
	return false
}

// next is when something is due, mono ns.
func (r *repairs) next() int64 {
	at := min(r.at, r.roots.At, r.due())
	for _, w := range r.wake { // Any order: the least is taken.
		at = min(at, w)
	}
	for _, w := range r.rouse {
		at = min(at, w)
	}
	return at
}

// partition is what an exchange sees of a vnode.
type partition struct {
	c    *Core
	p    ring.Partition
	from register.Member // the peer
}

// View reads the store, with a tree that has all facts written so far.
func (p *partition) View() store.View { return vnode.Settled(p.c.vnodes.Use(p.p), p.c.round.Tx) }

// Facts walks the facts after a place.
func (p *partition) Facts(place antientropy.Position, to id.ID) iter.Seq[crdt.Fact] {
	return vnode.FactsAfter(p.c.vnodes.Use(p.p), p.c.round.Tx, place, to)
}

// Apply merges facts of the peer.
func (p *partition) Apply(facts []crdt.Fact) (changed, refused int) {
	p.c.round.Tx.Bulk() // where a replica is filled, most of it is new and lies in a row
	n, _, _ := peers{p.c}.keep(p.c.repairs.now, p.from, &message.PartFacts{Partition: p.p, Facts: facts}, false)
	return n.changed, len(facts) - n.taken
}
