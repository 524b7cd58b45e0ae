package repair

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
	"github.com/norn-dev/norn/node/core/repair/roots"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

const (
	// MaxRounds is how many partitions this node compares at once: repair must not
	// keep claims waiting. With nodes that are out of reach it is MaxVain beside
	// those: what waits for an answer that most likely does not come must not keep
	// the others from each other, and whoever answers all the same has its turn.
	MaxRounds, MaxVain = 4, 1
	// repairRate is how many bytes of facts a second travel for repair from and to
	// this node, repairBurst what may go at once.
	repairRate, repairBurst = 32 << 20, 4 << 20
	// Settle is how young a task is left alone: its write is most likely under
	// way (protocol (f)).
	Settle = 2 * time.Second
)

// Machine compares what this node has with what the others of each cohort
// have, round and round (design 6): first the sums of all partitions that two nodes share
// ([roots.Machine]), then, a few partitions at a time, the facts of those that differ. A comparison
// moves facts both ways, so of two members one begins it ([roots.Begins]).
type Machine struct {
	env Env
	// Bucket bounds what may travel for comparisons in turn.
	Bucket *antientropy.Bucket
	// Roots finds what differs.
	Roots *roots.Machine
	// Well and Failed count rounds.
	Well, Failed uint64

	cfg     antientropy.Config
	at      int64 // mono ns of the next start of what was asked for; Never: nothing waits
	started int64 // mono ns of the last one of what differs
	// Invariant: each pair is in begun once, and at most [MaxRounds] of them are with nodes in
	// reach when the next one begins. Twice the same would
	// count one comparison as two, and keep others waiting (Audit).
	begun []message.Pair // rounds that go on, in order
	// A new comparison of a pair replaces the old one, whose messages then match no session.
	ours   map[message.Pair]*antientropy.Initiator
	theirs map[message.Pair]answerer
	wake   map[message.Pair]int64 // when to go on with ours, mono ns
	rouse  map[message.Pair]int64 // and with theirs
	moved  uint64                 // facts
	urgent urgent
	trees  trees
	scrubs scrubs
}

// New makes a machine that compares nothing yet.
func New(env Env) *Machine {
	bucket := antientropy.NewBucket(repairRate, repairBurst)
	r := &Machine{
		env: env, at: clock.Never, Bucket: bucket,
		cfg:    antientropy.Config{Settle: Settle, MinBackoff: env.Every, Bucket: bucket},
		ours:   make(map[message.Pair]*antientropy.Initiator),
		theirs: make(map[message.Pair]answerer),
		wake:   make(map[message.Pair]int64),
		rouse:  make(map[message.Pair]int64),
	}
	r.Roots = roots.New(roots.Env{
		Ground: env.Ground,
		Every:  env.Every,
		Proofs: env.Proofs, Busy: r.Busy,
	})
	r.trees, r.scrubs = trees{env: &r.env, roots: r.Roots}, scrubs{env: &r.env, at: clock.Never}
	return r
}

// Changed takes over what has changed in the view.
func (r *Machine) Changed(now clock.Time) {
	r.trees.changed()
	r.scrubs.changed(now)
	r.Roots.Changed(now)
}

// Grow begins to build the trees that are missing.
func (r *Machine) Grow() { r.trees.changed() }

// Tend builds trees and checks them, for a bounded number of facts.
func (r *Machine) Tend(now clock.Time) {
	r.trees.work(now)
	r.scrubs.work(now)
}

// Mended counts nodes of trees that were not what the facts say.
func (r *Machine) Mended() uint64 { return r.scrubs.mended }

// Begun is how many comparisons in turn are under way.
func (r *Machine) Begun() int { return len(r.begun) }

// Asked is when the next comparison begins that somebody has asked for, mono ns; Never: none.
func (r *Machine) Asked() int64 { return r.at }

// pause is the time between two starts, so that all that may differ has its turn once in the
// interval.
func (r *Machine) pause() time.Duration {
	return r.env.Every / time.Duration(max(r.Roots.First, 1))
}

// Busy tells whether a comparison of ours is under way.
func (r *Machine) Busy(k message.Pair) bool { return r.ours[k] != nil && r.ours[k].Busy() }

// Work begins what is due and goes on with what waits.
//
// It sends at most a page for each comparison that waits, and begins one of what differs.
func (r *Machine) Work(now clock.Time) {
	r.Roots.Work(now)
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
func (r *Machine) gone(m register.Member) bool {
	n, known := r.env.View.State.Find(m)
	return known && n.Status == register.Removed && !r.env.View.Up(m)
}

// due is when the next partition that differs is compared, mono ns.
func (r *Machine) due() int64 {
	if r.Roots.Waits() == 0 || len(r.begun) >= MaxRounds {
		return clock.Never
	}
	return r.started + int64(r.pause())
}

// begin starts the next comparisons: those that somebody has asked for, and one of what differs.
func (r *Machine) begin(now clock.Time) {
	r.at = clock.Never
	r.hurry(now)
	if r.due() > now.Mono {
		return
	}
	r.started = now.Mono
	up, vain := r.under()
	if k, ok := r.Roots.Next(vain < MaxVain); ok && up < MaxRounds {
		if i := r.comparable(now, k); i != nil {
			r.begun = append(r.begun, k)
			r.start(now, k, i)
		}
	}
}

// comparable is what compares a partition that differs, as long as it is for this node to
// begin and nothing is under way or backs off.
func (r *Machine) comparable(now clock.Time, k message.Pair) *antientropy.Initiator {
	if e := r.Roots.Of(k); e == nil || !e.Begins || vnode.Tree(r.env.Partitions.See(k.Partition)) == nil {
		return nil
	}
	if i := r.initiator(k, r.cfg); !i.Busy() && i.NotBefore() <= now.Mono {
		return i
	}
	return nil
}

// start begins a comparison.
func (r *Machine) start(now clock.Time, k message.Pair, i *antientropy.Initiator) {
	session := r.env.Rand.Uint64()
	r.env.Proofs.Began(now, k, session)
	r.ready(k, i.Start(now, session))
}

// under gives how many comparisons are under way with nodes in reach, and how many
// with others.
func (r *Machine) under() (up, vain int) {
	for _, k := range r.begun {
		if r.env.View.Up(k.Peer) {
			up++
		} else {
			vain++
		}
	}
	return up, vain
}

// Room is looked for by what waits to be hurried: some nodes may be out of reach now,
// and hold no place any more.
func (r *Machine) Room(now clock.Time) {
	if len(r.urgent.todo) > 0 {
		r.at = min(r.at, now.Mono)
	}
}

// initiator is the comparison of a pair, made if there is none; cfg says how fast it may go.
func (r *Machine) initiator(k message.Pair, cfg antientropy.Config) *antientropy.Initiator {
	i := r.ours[k]
	if i == nil {
		i = antientropy.NewInitiator(cfg, vnode.Tree(r.env.Partitions.See(k.Partition)), &replica{&r.env, k.Partition, k.Peer})
		r.ours[k] = i
	}
	return i
}

// Copy compares a partition that moves, at once and at the rate of moves. How it
// ends the moves are told.
func (r *Machine) Copy(now clock.Time, k message.Pair) {
	delete(r.ours, k)
	delete(r.wake, k)
	r.start(now, k, r.initiator(k, r.env.Moving))
}

// Returned has a peer that was out of reach compared with at its next turn,
// however long it did not answer before. What a move or a hand-over waits for goes
// on: without an end it would wait for its own.
func (r *Machine) Returned(m register.Member) {
	silent := func(k message.Pair) bool {
		return k.Peer == m && r.ours[k] != nil && !r.env.Others.Awaits(k)
	}
	for _, k := range r.begun {
		if silent(k) && r.urgent.going[k] {
			delete(r.urgent.going, k)
			r.urgent.add(k)
		}
	}
	r.begun = slices.DeleteFunc(r.begun, silent)
	maps.DeleteFunc(r.ours, func(k message.Pair, _ *antientropy.Initiator) bool { return silent(k) })
	r.Roots.Returned(m)
}

// Forget ends all comparisons of a partition that is not kept here any more.
func (r *Machine) Forget(p ring.Partition) {
	r.trees.forget(p)
	r.scrubs.forget(p)
	gone := func(k message.Pair) bool { return k.Partition == p }
	r.begun = slices.DeleteFunc(r.begun, gone)
	maps.DeleteFunc(r.ours, func(k message.Pair, _ *antientropy.Initiator) bool { return gone(k) })
	maps.DeleteFunc(r.theirs, func(k message.Pair, _ answerer) bool { return gone(k) })
	maps.DeleteFunc(r.wake, func(k message.Pair, _ int64) bool { return gone(k) })
	maps.DeleteFunc(r.rouse, func(k message.Pair, _ int64) bool { return gone(k) })
	r.urgent.drop(p)
	r.Roots.Forget(p)
}

// Step goes on with a message of the other side.
//
// A partition that is not kept here, or is being deleted, is answered with a refusal, which
// ends the other side's comparison at once. A message of an earlier session is ignored by the
// machine that it goes to.
func (r *Machine) Step(now clock.Time, from register.Member, m *message.Repair) {
	if int(m.Partition) >= len(r.env.View.Cells) || m.Message == nil {
		return
	}
	k := message.Pair{Partition: m.Partition, Peer: from}
	switch m.Message.Kind {
	case antientropy.KindHello, antientropy.KindRequest:
		// Whoever asks may need what is here, or bring what is not: a newcomer, or
		// a member that was thought dead.
		cohort := r.env.View.Cells[m.Partition].Cohort
		_, known := r.env.View.State.Find(from)
		known = known || slices.Contains(cohort, from)
		ours := slices.Contains(cohort, r.env.Self) || r.env.Others.Proposed(m.Partition)
		var tree *antientropy.Tree
		if known && ours && !r.env.View.Deleting(m.Partition) {
			tree = vnode.Tree(r.env.Partitions.Use(m.Partition))
		}
		if tree == nil {
			r.send(k, antientropy.Refuse(m.Message, antientropy.ReasonAbsent))
			return
		}
		if m.Message.Kind == antientropy.KindHello {
			r.env.Proofs.Heard(now, k, m.Message.Session)
		}
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

// answerer is what answers a pair. It is made anew when the peer's comparisons change between
// those in turn and those that copy a partition, which have other page sizes.
func (r *Machine) answerer(k message.Pair, tree *antientropy.Tree, moves bool) answerer {
	a, ok := r.theirs[k]
	if !ok || a.moves != moves {
		cfg := r.cfg
		if moves {
			cfg = r.env.Moving
		}
		a = answerer{antientropy.NewResponder(cfg, tree, &replica{&r.env, k.Partition, k.Peer}), moves}
		r.theirs[k] = a
	}
	return a
}

// want sends what a machine wants sent, and notes when it is to go on: what it said
// before about that is over.
func (r *Machine) want(wake map[message.Pair]int64, k message.Pair, ready antientropy.Ready) {
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
func (r *Machine) ready(k message.Pair, ready antientropy.Ready) {
	r.want(r.wake, k, ready)
	if ready.Result == nil {
		return
	}
	r.begun = slices.DeleteFunc(r.begun, func(o message.Pair) bool { return o == k })
	if r.urgent.ended(k) {
		r.at = min(r.at, r.env.Round.Now.Mono)
	}
	r.moved += ready.Result.Pulled + ready.Result.Pushed
	if ready.Result.Err != nil {
		r.Failed++
	} else {
		r.Well++
	}
	r.scrubs.suspect(k.Partition, ready.Result.Suspects)
	if r.env.Others.Compared(r.env.Round.Now, k, ready.Result) {
		delete(r.ours, k) // the next comparison, as a member, is another one
	}
}

// send sends a message of a comparison: after the sync where it says what this node has.
func (r *Machine) send(k message.Pair, m *antientropy.Message) {
	send := r.env.Round.Send
	if promisesNothing(m) {
		send = r.env.Round.SendNow
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

// Due is when something is due, mono ns.
func (r *Machine) Due() int64 {
	at := min(r.at, r.Roots.At, r.due(), r.trees.next(), r.scrubs.at)
	for _, w := range r.wake { // Any order: the least is taken.
		at = min(at, w)
	}
	for _, w := range r.rouse {
		at = min(at, w)
	}
	return at
}

// replica is what an exchange sees of a vnode.
type replica struct {
	env  *Env
	p    ring.Partition
	from register.Member // the peer
}

// View reads the store, with a tree that has all facts written so far.
func (p *replica) View() store.View { return vnode.Settled(p.env.Partitions.Use(p.p), p.env.Round.Tx) }

// Facts walks the facts after a place.
func (p *replica) Facts(place antientropy.Position, to id.ID) iter.Seq[crdt.Fact] {
	return vnode.FactsAfter(p.env.Partitions.Use(p.p).Partition, p.env.Round.Tx, place, to)
}

// Apply merges facts of the peer.
func (p *replica) Apply(facts []crdt.Fact) (changed, refused int) {
	p.env.Round.Tx.Bulk(0, 0) // where a replica is filled, most of it is new and lies in a row
	changed, taken := p.env.Others.Keep(p.env.Round.Now, p.from, &message.PartFacts{Partition: p.p, Facts: facts})
	return changed, len(facts) - taken
}
