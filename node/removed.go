package node

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

const (
	// keepsLook is the pause between two looks at what a removed node still has,
	// keepsAfter how long it hands over before it says what that is, keepsEvery how
	// often it says so again.
	keepsLook, keepsAfter, keepsEvery = 5 * time.Second, time.Minute, 10 * time.Minute
)

// kept is what was said of what a removed node still has. The loop's alone.
type kept struct {
	look time.Time // when to look again
	next time.Time // when to say what it has; zero: it had nothing
	done bool      // it was said that nothing is left
}

// say tells when a removed node has nothing left that the others may lack, and now
// and then, as long as it has, what it waits for: whoever is to stop it has to know.
func (k *kept) say(n *Node) {
	empty, now := n.members.empty.Load(), time.Now()
	if empty && !k.done && !n.members.leaves.Load() && !rejoins(n) {
		n.log.Info("node.handed_over", "tasks", n.core.Stats().Quarantined,
			"meaning", "this node was removed, and the others have all that it had: nothing is left here, it can be stopped and its data directory deleted; "+
				"of so many tasks, older than gc-grace and unknown to them, they keep the facts aside (`norn cluster verify` names them)")
	}
	if empty && !k.done && rejoins(n) {
		rejoin(n)
	}
	k.done = empty
	if empty || now.Before(k.look) {
		return
	}
	k.look = now.Add(keepsLook)
	left, why := core.Handover(n.core)
	switch {
	case left == 0:
		k.next = time.Time{}
	case k.next.IsZero():
		k.next = now.Add(keepsAfter)
	case !now.Before(k.next):
		k.next = now.Add(keepsEvery)
		n.log.Warn("node.keeps", "partitions", left, "tasks", n.core.Stats().QuarantinedTasks, "reason", why,
			"meaning", "this node was removed and has facts of so many partitions that the others may lack, of so many tasks kept aside: leave it running, or start it again, until it says node.handed_over")
	}
}

// outside tells whether the others say that this node was removed, which its own register does
// not hear any more: two of them, or the only one; or one who is all that this node was told
// to join, where the others may be gone.
func (m *membership) outside(s *group.Status) bool {
	return s.Removed || s.Refused == group.RemovedNode && pointed(m, s.RefusedBy)
}

// pointed tells whether a member is the one, and the only one, at the addresses to join.
func pointed(m *membership, who register.Member) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, addr := range foreignTo(m.n) {
		if seed := m.seeds[addr]; seed.Member != who {
			return false
		}
	}
	return len(m.seeds) > 0
}

// foreignTo are the addresses to join that are not this node's own.
func foreignTo(n *Node) []string {
	own := n.record().Addresses
	return slices.DeleteFunc(slices.Clone(n.cfg.Join), func(a string) bool { return slices.Contains(own, a) })
}

// rebuilt tells whether those at the addresses to join say that their cluster has begun anew
// from a backup without this node: more of them than say that it goes on as it was.
func rebuilt(m *membership, generation uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	yes, no := make(map[register.Member]bool), make(map[register.Member]bool)
	for _, seed := range m.seeds { // Any order: they are counted.
		switch {
		case seed.Cluster != m.n.cluster.ID:
		case generation < seed.Rebuilt && seed.Rebuilt <= register.MaxGeneration:
			yes[seed.Member] = true
		case generation == seed.Generation && seed.Member != m.n.self:
			no[seed.Member] = true
		}
	}
	return len(yes) > len(no)
}

// seed notes who has answered at an address to join.
func (m *membership) seed(addr string, who *peer.Identity) {
	m.mu.Lock()
	m.seeds[addr] = *who
	m.mu.Unlock()
	if g := m.group.Load(); g != nil {
		m.seen(g.Status())
	}
}
