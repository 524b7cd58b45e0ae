package replication

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Confirmations are requests and answers that wait until a majority has said that this node still
// leads what they are about ([lease.Machine.Confirm]).
type Confirmations struct {
	m *Machine
	// Invariant: each has either a request or an answer, never both and never none;
	// [Confirmations.GoOn] would drop what it cannot tell apart (Audit).
	Waits   []*ConfirmationWait
	Look    bool                   // one of them may be done
	hearing message.ConfirmedSince // of the request that is being handled
}

// ConfirmationWait is a request that waits until a majority has said that this node still leads,
// or an answer that has its copies and does so.
type ConfirmationWait struct {
	since message.ConfirmedSince
	r     *message.Request // nil: then it is an answer
	held  *waitingAnswer
	until int64 // mono ns: then it goes on without, and is refused
	waits *waiting.Wait
}

// MaxConfirmationWaits bounds them.
const MaxConfirmationWaits = 1 << 14

// ReadIndex has a request wait that retries a task, or asks who has a unique key or is to have
// it, until a majority has said that this node still leads, and tells whether it does. A
// process that stood still would give the key of a task that has been retried since, or
// under an ID that has been used and is done, or retry a task whose key another one has by
// now, or which has been retried and died again.
//
// This is the read index of Raft (Ongaro 2014, 6.4) with one difference: it is asked for before
// the decision and again before the answer ([Confirmations.Decided]), as the decision itself is
// a write that another leader might not see.
func (s *Confirmations) ReadIndex(now clock.Time, r *message.Request) (waits bool) {
	if s.hearing = r.Confirm; r.Confirm.At != 0 || r.Unsure || s.m.View.Alone {
		return false // it was asked, or too few of the same members have just answered something else
	}
	var parts []ring.Partition
	for _, task := range ledBy(s.m, r.Body) {
		p := ring.Of(task, len(s.m.View.Cells))
		if s.m.Leases.Shared(p) && s.m.Partitions.See(p).Leading() != 0 && !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return false
	}
	if !portion.Fits(MaxConfirmationWaits, int64(len(s.Waits)), s.heldBy(r.From.Conn), 1) {
		s.m.Round.Refuse(r.From, refusal.Crowded(router.MaxWaiting))
		return true
	}
	r.Confirm = message.ConfirmedSince{At: max(now.Mono, 1), Parts: parts}
	s.wait(waiting.Confirmed, r.From, &ConfirmationWait{since: r.Confirm, r: r, until: now.Mono + int64(lease.Timeout)})
	for _, p := range parts {
		s.m.Leases.Confirm(p)
	}
	return true
}

// wait has a request or an answer wait. Who gives it up while it does is told so: nothing was done
// for a request, and what an answer would have said is not known.
func (s *Confirmations) wait(kind waiting.Kind, from message.Origin, w *ConfirmationWait) {
	w.waits = s.m.Pending.Open(kind, from, func(why *proto.Error) {
		s.Waits = slices.DeleteFunc(s.Waits, func(o *ConfirmationWait) bool { return o == w })
		if why != nil && w.r == nil {
			why = refusal.GivenUp()
		}
		s.m.refuse(from, why)
	})
	s.Waits = append(s.Waits, w)
}

// heldBy is how many requests of a connection wait: they are looked at only when there are many.
func (s *Confirmations) heldBy(conn uint64) (n int64) {
	if len(s.Waits) < MaxConfirmationWaits/4 || conn >= message.OwnConns {
		return 0
	}
	for i := range s.Waits {
		if r := s.Waits[i].r; r != nil && r.From.Conn == conn {
			n++
		}
	}
	return n
}

// ledBy gives tasks of the partitions in which a request retries tasks or asks who has a
// unique key. Where it names a task that is known here no key is given away.
func ledBy(c *Machine, m gproto.Message) (all []id.ID) {
	home := func(queue, key string) { all = append(all, id.UniqueKey(c.Cluster, queue, key, 0, 0)) }
	switch m := m.(type) {
	case *nornv1.KeyRequest:
		if m.GetWindowSeconds() == 0 {
			home(m.GetQueue(), m.GetKey())
		}
	case *nornv1.EnqueueRequest:
		for _, t := range m.GetTasks() {
			if t.GetKey() == "" || t.GetKeyWindowSeconds() != 0 {
				continue
			}
			if b := t.GetId(); len(b) != id.Size || !vnode.Known(c.Round.Tx, ring.Of(id.ID(b), len(c.View.Cells)), id.ID(b)) {
				home(t.GetQueue(), t.GetKey())
			}
		}
	case *nornv1.RetryRequest:
		for _, b := range m.GetIds() {
			if len(b) == id.Size {
				all = append(all, id.ID(b))
			}
		}
	}
	return all
}

// StillLeads refuses to decide something about a partition unless a majority has said, since it
// was asked for the request that is being handled, that this node leads.
func (s *Confirmations) StillLeads(p ring.Partition, guarantee string) *proto.Error {
	if !slices.Contains(s.hearing.Parts, p) || s.m.Partitions.See(p).Leading() != 0 && s.m.Leases.ConfirmedSince(p, s.hearing.At) {
		return nil
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no majority has confirmed that node %s still leads partition %d; try again", s.m.Self.Node, p).Keeping(guarantee).Again(50 * time.Millisecond)
}

// GoOn has requests and answers go on that need not wait any longer.
func (s *Confirmations) GoOn(now clock.Time) {
	s.Look = false
	waits := s.Waits
	s.Waits = nil
	for _, w := range waits {
		switch {
		case !w.waits.Open(): // its sender has given it up
		case !s.Decided(w.since) && w.until > now.Mono:
			s.Waits = append(s.Waits, w)
		case w.r != nil:
			w.waits.Close()
			s.m.Node.Request(now, w.r)
		default:
			w.waits.Close()
			s.answer(w)
		}
	}
}

// Due is when one of them is looked at, mono ns.
func (s *Confirmations) Due() int64 {
	switch {
	case len(s.Waits) == 0:
		return clock.Never
	case s.Look:
		return 0
	}
	return s.Waits[0].until
}

// Decided tells whether all is known that somebody waits for. Where something was asked
// before that it is asked again.
func (s *Confirmations) Decided(since message.ConfirmedSince) bool {
	done := true
	for _, p := range since.Parts {
		if s.m.Partitions.See(p).Leading() != 0 && !s.m.Leases.ConfirmedSince(p, since.At) {
			s.m.Leases.Confirm(p)
			done = false
		}
	}
	return done
}

// awaitConfirmation has an answer wait that has its copies now, if it says what is so only when this
// node leads still: else the next leader may have decided otherwise before any of them had
// come to it. If a majority has them, and says after that that nobody else was elected
// meanwhile, whoever is elected later hears of them before it decides.
func (s *Confirmations) awaitConfirmation(h *waitingAnswer) (waits bool) {
	since := message.ConfirmedSince{At: max(s.m.Round.Now.Mono, 1)}
	for _, it := range h.items {
		if it.epoch != 0 && !slices.Contains(since.Parts, it.partition) {
			since.Parts = append(since.Parts, it.partition)
		}
	}
	if len(since.Parts) == 0 {
		return false
	}
	s.wait(waiting.Decided, h.reply.To, &ConfirmationWait{since: since, held: h, until: since.At + int64(lease.Timeout)})
	s.Look = true
	return true
}

// answer lets such an answer go, with what is unknown.
func (s *Confirmations) answer(w *ConfirmationWait) {
	for _, it := range w.held.items {
		if it.epoch == 0 || it.epoch == s.m.Partitions.See(it.partition).Leading() && s.m.Leases.ConfirmedSince(it.partition, w.since.At) {
			continue
		}
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "while this was written another node may have come to lead partition %d, and have decided otherwise; ask again", it.partition).Keeping("unique keys").Unsure().Again(50 * time.Millisecond)
		it.fail(e)
	}
	s.m.Round.Answer(w.held.reply)
}
