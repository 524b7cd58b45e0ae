package node

import (
	"time"

	"github.com/norn-dev/norn/node/core"
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
