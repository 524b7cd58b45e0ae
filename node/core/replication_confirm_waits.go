package core

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
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// confirmWaits are requests and answers that wait until a majority has said that this node still
// leads what they are about ([lease.Machine.Confirm]).
type confirmWaits struct {
	c       *Core
	waits   []confirmationWait
	look    bool                   // one of them may be done
	hearing message.ConfirmedSince // of the request that is being handled
}

// confirmationWait is a request that waits until a majority has said that this node still leads,
// or an answer that has its copies and does so.
type confirmationWait struct {
	since message.ConfirmedSince
	r     *message.Request // nil: then it is an answer
	held  *waitingAnswer
	until int64 // mono ns: then it goes on without, and is refused
}

// maxConfirmationWaits bounds them.
const maxConfirmationWaits = 1 << 14

// readIndex has a request wait that retries a task, or asks who has a unique key or is to have
// it, until a majority has said that this node still leads, and tells whether it does. A
// process that stood still would give the key of a task that has been retried since, or
// under an ID that has been used and is done, or retry a task whose key another one has by
// now, or which has been retried and died again.
func (s *confirmWaits) readIndex(now clock.Time, r *message.Request) (waits bool) {
	if s.hearing = r.Confirm; r.Confirm.At != 0 || r.Unsure || s.c.view.Alone {
		return false // it was asked, or too few of the same members have just answered something else
	}
	var parts []ring.Partition
	for _, task := range ledBy(s.c, r.Body) {
		p := ring.Of(task, len(s.c.view.Cells))
		if s.c.leases.Shared(p) && s.c.vnodes.See(p).Leading() != 0 && !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return false
	}
	if !portion.Fits(maxConfirmationWaits, int64(len(s.waits)), s.heldBy(r.From.Conn), 1) {
		s.c.round.Refuse(r.From, refusal.Crowded(router.MaxWaiting))
		return true
	}
	r.Confirm = message.ConfirmedSince{At: max(now.Mono, 1), Parts: parts}
	s.waits = append(s.waits, confirmationWait{since: r.Confirm, r: r, until: now.Mono + int64(lease.Timeout)})
	for _, p := range parts {
		s.c.leases.Confirm(p)
	}
	return true
}

// heldBy is how many requests of a connection wait: they are looked at only when there are many.
func (s *confirmWaits) heldBy(conn uint64) (n int64) {
	if len(s.waits) < maxConfirmationWaits/4 || conn >= message.OwnConns {
		return 0
	}
	for i := range s.waits {
		if r := s.waits[i].r; r != nil && r.From.Conn == conn {
			n++
		}
	}
	return n
}

// ledBy gives tasks of the partitions in which a request retries tasks or asks who has a
// unique key. Where it names a task that is known here no key is given away.
func ledBy(c *Core, m gproto.Message) (all []id.ID) {
	home := func(queue, key string) { all = append(all, id.UniqueKey([16]byte(c.cfg.Cluster.ID), queue, key, 0, 0)) }
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
			if b := t.GetId(); len(b) != id.Size || !vnode.Known(c.round.Tx, ring.Of(id.ID(b), len(c.view.Cells)), id.ID(b)) {
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

// stillLeads refuses to decide something about a partition unless a majority has said, since it
// was asked for the request that is being handled, that this node leads.
func (s *confirmWaits) stillLeads(p ring.Partition, guarantee string) *proto.Error {
	if !slices.Contains(s.hearing.Parts, p) || s.c.vnodes.See(p).Leading() != 0 && s.c.leases.ConfirmedSince(p, s.hearing.At) {
		return nil
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no majority has confirmed that node %s still leads partition %d; try again", s.c.cfg.Self.Node, p).Keeping(guarantee).Again(50 * time.Millisecond)
}

// goOn has requests and answers go on that need not wait any longer.
func (s *confirmWaits) goOn(now clock.Time) {
	s.look = false
	waits := s.waits
	s.waits = nil
	for _, w := range waits {
		switch {
		case !s.decided(w.since) && w.until > now.Mono:
			s.waits = append(s.waits, w)
		case w.r != nil:
			s.c.request(now, w.r)
		default:
			s.answer(w)
		}
	}
}

// next is when one of them is looked at, mono ns.
func (s *confirmWaits) next() int64 {
	switch {
	case len(s.waits) == 0:
		return clock.Never
	case s.look:
		return 0
	}
	return s.waits[0].until
}

// decided tells whether all is known that somebody waits for. Where something was asked
// before that it is asked again.
func (s *confirmWaits) decided(since message.ConfirmedSince) bool {
	done := true
	for _, p := range since.Parts {
		if s.c.vnodes.See(p).Leading() != 0 && !s.c.leases.ConfirmedSince(p, since.At) {
			s.c.leases.Confirm(p)
			done = false
		}
	}
	return done
}

// awaitConfirmation has an answer wait that has its copies now, if it says what is so only when this
// node leads still: else the next leader may have decided otherwise before any of them had
// come to it. If a majority has them, and says after that that nobody else was elected
// meanwhile, whoever is elected later hears of them before it decides.
func (s *confirmWaits) awaitConfirmation(h *waitingAnswer) (waits bool) {
	since := message.ConfirmedSince{At: max(s.c.round.Now.Mono, 1)}
	for _, it := range h.items {
		if it.epoch != 0 && !slices.Contains(since.Parts, it.partition) {
			since.Parts = append(since.Parts, it.partition)
		}
	}
	if len(since.Parts) == 0 {
		return false
	}
	s.waits = append(s.waits, confirmationWait{since: since, held: h, until: since.At + int64(lease.Timeout)})
	s.look = true
	return true
}

// answer lets such an answer go, with what is unknown.
func (s *confirmWaits) answer(w confirmationWait) {
	for _, it := range w.held.items {
		if it.epoch == 0 || it.epoch == s.c.vnodes.See(it.partition).Leading() && s.c.leases.ConfirmedSince(it.partition, w.since.At) {
			continue
		}
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "while this was written another node may have come to lead partition %d, and have decided otherwise; ask again", it.partition).Keeping("unique keys").Unsure().Again(50 * time.Millisecond)
		it.fail(e)
	}
	s.c.round.Answer(w.held.reply)
}
