package replication

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// factRef names a fact.
type factRef struct {
	task id.ID
	key  crdt.Key
}

// MaxResent is about how many bytes of facts that were here before are sent again in one
// round: a request names a task in a few bytes that may have many, and all goes in one
// message. A batch of the largest frame that is repeated is less.
const MaxResent = 32 << 20

// crowdedOut says that a request repeats too much for one round.
func crowdedOut() *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d MiB of what is repeated are sent to other nodes at this moment, the limit of this node; it may be kept there already: try again", MaxResent>>20).Unsure().Again(ResendAfter)
}

// repeatWrite sends what a receipt promises of a task that was here before; false: that is too
// much for this round.
func (w *Writes) repeatWrite(p ring.Partition, task id.ID, about crdt.Key) bool {
	if w.again == nil {
		w.again = make(map[factRef]bool)
	}
	if w.again[factRef{task, about}] {
		return true
	}
	if w.Resent >= MaxResent {
		return false
	}
	w.again[factRef{task, about}] = true
	var facts []crdt.Fact
	if about.Kind == 0 || about.Kind == crdt.KindFailed {
		var err error
		if facts, err = vnode.Decisions(w.m.Round.Tx, p, task, about); !w.m.Round.Check(err) {
			return true
		}
	} else {
		for _, key := range []crdt.Key{about, {Kind: crdt.KindTombstone}} {
			if f, ok := vnode.FactOf(w.m.Round.Tx, p, task, key); ok {
				facts = append(facts, f)
			}
		}
	}
	for _, f := range facts {
		w.Resent += len(f.Body) + FactBytes
		w.add(p, f)
	}
	return true
}

// shed lets go of writes, the oldest first, while much waits for those who are out of reach
// and for nobody else: else, for as long as one node is down, no more would be taken than
// fits into writeTimeout. They get it by comparison once they are back, as all that has
// waited for that long. With room it is kept: who is back soon is sent it sooner. Who is
// in reach and does not keep up is waited for, and slows down who writes.
//
// Only a write that its majorities have on disk is let go, with nobody waiting for it: what is
// lost is the early delivery to a member that is out of reach, and repair delivers it when that
// one is back. The limit keeps one node that is down from stopping the writes of all others.
func (w *Writes) shed() {
	if w.Bytes <= ShedBytes {
		return
	}
	w.Open = slices.DeleteFunc(w.Open, func(o *write) bool {
		over := w.Bytes > ShedBytes && w.spare(o)
		if over {
			w.Bytes -= o.Bytes
		}
		return over
	})
}

// skipped counts an answer for an earlier write, too ([Policy.LostRound]).
func (w *Writes) skipped(from register.Member, m *message.FactsTaken, o *write) {
	for p, part := range o.parts { // Any order: each is counted for itself.
		if !slices.Contains(m.Refused, p) && part.Take(from) {
			part.Add(from)
		}
	}
	w.settle(o)
}

// spare tells whether no answer waits for a write, a majority of each cohort that is needed
// has it on disk, and who has not answered is out of reach.
func (w *Writes) spare(o *write) bool {
	if len(o.held) > 0 {
		return false
	}
	for _, part := range o.parts { // Any order: all are looked at.
		if slices.ContainsFunc(part.Left, w.m.View.Up) || !part.Reached(quorum.Majority(len(part.Cohort))) {
			return false
		}
	}
	return true
}

// lonely tells whether somebody who has not answered is out of reach.
func (w *Writes) lonely(o *write) bool {
	for _, part := range o.parts { // Any order: all are looked at.
		if slices.ContainsFunc(part.Left, func(m register.Member) bool { return !w.m.View.Up(m) }) {
			return true
		}
	}
	return false
}

// hopeless tells whether a request waits for copies that those in reach cannot make.
// An answer of this kind comes as soon as the members in reach can no longer be enough, instead
// of after [WriteTimeout]: the client may ask another node while it still has time.
func (w *Writes) hopeless(o *write, h *waitingAnswer) bool {
	return slices.ContainsFunc(h.items, func(it item) bool {
		part := o.parts[it.partition]
		return !o.enough(it.partition, h.need) && !part.Within(level(h.need, len(part.Cohort)), w.m.View.Up)
	})
}

// giveUp answers a request whose time is over, item by item: what has its
// copies is done, the rest is unknown.
func (w *Writes) giveUp(o *write, h *waitingAnswer) {
	for i := range h.items {
		it := &h.items[i]
		if o.enough(it.partition, h.need) {
			it.count(o)
			continue
		}
		it.epoch = 0
		part := o.parts[it.partition]
		need, why := level(h.need, len(part.Cohort)), "the rest did not answer in time"
		switch {
		case need > len(part.Cohort):
			why = "its cohort has no more members until nodes join"
		case !part.Within(need, w.m.View.Up):
			why = "too few of its other members are in reach of this node"
		}
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE,
			"%d of %d copies of partition %d are on disk, %d were asked for; %s. It may be kept all the same: ask again with the same ID, or for fewer copies",
			part.Count(), len(part.Cohort), it.partition, need, why).Keeping("durable copies").Unsure().Again(100 * time.Millisecond)
		e.Lasting = need > len(part.Cohort)
		if w.m.Policy.TimeoutFailed {
			e.Effect = nornv1.Effect_EFFECT_NONE
		}
		it.fail(e)
	}
	w.answer(h)
}
