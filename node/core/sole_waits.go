package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// soleWait is a request that waits until a majority has said that this node still leads.
type soleWait struct {
	r     *Request
	until int64 // mono ns: then it goes on without, and is refused
}

// maxSoleWaits bounds them.
const maxSoleWaits = 1 << 14

// hear has a request wait that asks who has a unique key, or is to have it, until a
// majority has said that this node still leads, and tells whether it does. A process that
// stood still would give the key of a task that has been retried since, or under an ID that
// has been used and is done, or retry a task whose key another one has by now.
func (s *soles) hear(now clock.Time, r *Request) (waits bool) {
	if s.hearing = r.sole; r.sole.at != 0 || s.g.c.routes.alone {
		return false
	}
	var parts []ring.Partition
	for _, task := range keyedBy(s.g.c, r.Body) {
		p := ring.Of(task, len(s.g.c.cells))
		if s.g.shared(p) && s.g.c.vnodes.see(p).Leading() != 0 && !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return false
	}
	if len(s.waits) >= maxSoleWaits {
		s.g.c.refuse(r.From, crowded())
		return true
	}
	r.sole = soleSince{max(now.Mono, 1), parts}
	s.waits = append(s.waits, soleWait{r, now.Mono + int64(grantTimeout)})
	for _, p := range parts {
		s.want(p)
	}
	return true
}

// keyedBy gives tasks of the partitions in which a request asks who has a unique key. Where
// it names a task that is known here no key is given away.
func keyedBy(c *Core, m gproto.Message) (all []id.ID) {
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
			if b := t.GetId(); len(b) != id.Size || !vnode.Known(c.tx, ring.Of(id.ID(b), len(c.cells)), id.ID(b)) {
				home(t.GetQueue(), t.GetKey())
			}
		}
	case *nornv1.RetryRequest:
		for _, b := range m.GetIds() {
			if len(b) == id.Size && id.ID(b).Kind() == id.KindKey {
				all = append(all, id.ID(b))
			}
		}
	}
	return all
}

// goOn has requests go on that need not wait any longer.
func (s *soles) goOn(now clock.Time) {
	s.look = false
	waits := s.waits
	s.waits = nil
	for _, w := range waits {
		if s.decided(w.r) || w.until <= now.Mono {
			s.g.c.request(now, w.r)
			continue
		}
		s.waits = append(s.waits, w)
	}
}

// decided tells whether all is known that a request waits for. Where something was asked
// before it came it is asked again.
func (s *soles) decided(r *Request) bool {
	done := true
	for _, p := range r.sole.parts {
		if s.g.c.vnodes.see(p).Leading() != 0 && !s.since(p, r.sole.at) {
			s.want(p)
			done = false
		}
	}
	return done
}
