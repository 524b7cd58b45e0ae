package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/register"
)

// Audit tells which invariant of a machine does not hold. It is for tests.
func (c *Machine) Audit() error {
	waits := errors.Join(c.Pending.Agrees(waiting.Task, "dispatch", len(c.Index.byTime)),
		c.Pending.Agrees(waiting.Probes, "dispatch", len(c.probes.held)), c.Pending.Agrees(waiting.Pause, "dispatch", len(c.offers.postponed)))
	return errors.Join(waits, c.Index.Audit(), auditOffers(&c.offers), auditAbandoned(c.abandoned), auditRemote(c.remote), auditGossip(c.gossip), auditProbes(c.probes))
}

// auditOffers looks at the order of postponed requests.
func auditOffers(o *offers) error {
	if !slices.IsSortedFunc(o.postponed, func(a, b postponedClaim) int { return cmp.Compare(a.at, b.at) }) {
		return errors.New("dispatch: postponed requests are not in the order of their times")
	}
	return nil
}

// auditAbandoned compares the two views of abandoned requests.
func auditAbandoned(u *abandonedClaims) error {
	for _, o := range u.order {
		if !u.known[o.key] {
			return fmt.Errorf("dispatch: request %d was given up, and is not known", o.key.Request)
		}
	}
	if len(u.known) != len(u.order) || len(u.told) > maxUnanswered {
		return fmt.Errorf("dispatch: %d requests were given up, %d are known, others are told of %d", len(u.order), len(u.known), len(u.told))
	}
	return nil
}

// auditRemote looks at the windows of requests to other leaders.
func auditRemote(s *remoteClaims) error {
	for m, queues := range s.heads { // Any order: each is judged for itself.
		for name, h := range queues { // Any order: likewise.
			if h.credit < 1 || h.credit > maxCredit || h.open < 0 {
				return fmt.Errorf("dispatch: %d requests for queue %s are at node %s, %d may be", h.open, name, m.Node, h.credit)
			}
		}
	}
	return nil
}

// auditGossip looks at who is told of what, and how often.
func auditGossip(s *headGossip) error {
	if most := max(s.c.MaxQueues, 1); len(s.subscribers) > most || len(s.renewals) > most {
		return fmt.Errorf("dispatch: others ask for %d queues, %d are asked for, the limit is %d", len(s.subscribers), len(s.renewals), most)
	}
	for name, all := range s.subscribers { // Any order: each is judged for itself.
		seen := make(map[register.Member]bool)
		for _, m := range all.waits {
			if _, follows := all.follows[m]; follows || seen[m] {
				return fmt.Errorf("dispatch: node %s is told twice of queue %s", m.Node, name)
			}
			seen[m] = true
		}
	}
	for i, n := range s.notices {
		if slices.ContainsFunc(s.notices[:i], func(o pendingNotice) bool { return o.queue == n.queue }) {
			return fmt.Errorf("dispatch: there are two notices of queue %s", n.queue)
		}
	}
	return nil
}

// auditProbes counts the requests that are held.
func auditProbes(q *freshnessProbes) error {
	if len(q.held) > MaxProbes {
		return fmt.Errorf("dispatch: %d requests are held, the limit is %d", len(q.held), MaxProbes)
	}
	return nil
}

// Audit tells which invariant of an index does not hold. It is for tests.
func (d *Index) Audit() error {
	bytes, waiting := 0, 0
	for _, w := range d.byTime {
		if w.key().Named() && d.byAsk[w.key()] != w {
			return fmt.Errorf("dispatch: request %d waits and cannot be found by its number", w.ask.Request)
		}
		if bytes += w.bytes; w.done {
			return fmt.Errorf("dispatch: request %d of connection %d waits and is done", w.from.Request, w.from.Conn)
		}
	}
	for conn, all := range d.byConn { // Any order: they are counted.
		if waiting += len(all); len(all) == 0 {
			return fmt.Errorf("dispatch: connection %d is remembered for no request", conn)
		}
	}
	if bytes != d.bytes || waiting > len(d.byTime) {
		return fmt.Errorf("dispatch: %d requests wait with %d bytes, and %d with %d are counted", len(d.byTime), bytes, waiting, d.bytes)
	}
	if err := auditLines(d); err != nil {
		return err
	}
	for key, a := range d.asked { // Any order: each is judged for itself.
		if live := a.alive(); live != a.live || live == 0 {
			return fmt.Errorf("dispatch: request %d has %d grants that are not over, and %d are counted", key.Request, live, a.live)
		}
	}
	if len(d.last) > max(d.most, 1) {
		return fmt.Errorf("dispatch: %d queues were asked for, the limit is %d", len(d.last), d.most)
	}
	return nil
}

// auditLines looks at the lines of the queues, and at which of them are dirty.
func auditLines(d *Index) error {
	dirty := make(map[*queue]bool)
	for _, q := range d.dirty {
		if q == nil || !q.dirty || dirty[q] || d.queues[q.name] != q {
			return errors.New("dispatch: a queue is to be looked at that is not dirty, is there twice, or is gone")
		}
		dirty[q] = true
	}
	for name, q := range d.queues { // Any order: each is judged for itself.
		if q.dirty != dirty[q] {
			return fmt.Errorf("dispatch: queue %s is dirty, and nobody is going to look at it", name)
		}
		if !slices.IsSortedFunc(q.wait, func(a, b *claimRequest) int { return cmp.Compare(a.Number, b.Number) }) {
			return fmt.Errorf("dispatch: the line of queue %s is not in the order of arrival", name)
		}
		done := 0
		for _, w := range q.wait {
			if w.done {
				done++
			}
		}
		if done != q.stale {
			return fmt.Errorf("dispatch: in the line of queue %s are %d requests that are done, and %d are counted", name, done, q.stale)
		}
	}
	return nil
}

// alive counts the grants that are not over.
func (a *asked) alive() (n int) {
	for _, g := range a.grants {
		if !g.Over {
			n++
		}
	}
	return n
}
