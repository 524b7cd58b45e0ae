package node

import (
	"strconv"

	"github.com/norn-dev/norn/node/core"
)

// publish copies the core's counters for readers on other goroutines.
func (n *Node) publish() {
	s := n.core.Stats()
	was := n.metrics.Core.Swap(&s)
	if was != nil && s.Clashes > was.Clashes {
		n.metrics.Clash(n.log, &s)
	}
	if was != nil && s.Unread > was.Unread {
		n.metrics.Unread(n.log, &s)
	}
	if was != nil && (s.Quarantined > was.Quarantined || s.QuarantineFull > was.QuarantineFull) {
		n.metrics.Quarantined(n.log, was, &s)
	}
	if s.Differs != "" && (was == nil || was.Differs != s.Differs) {
		n.log.Warn("config.differs", "settings", s.Differs,
			"meaning", "these are to be the same on all nodes, and the node that leads the register has others; of the default retention the longer one counts")
	}
	if s.RegisterBack != "" && (was == nil || was.RegisterBack == "") {
		n.log.Error("register.back", "error", s.RegisterBack,
			"meaning", "the register has gone back to an earlier state: members, settings, schedules and leaders that were decided since then are lost, and may be decided otherwise. If disks of nodes that keep it were brought back from copies, stop all nodes and begin the register anew from the node that knows the most, with --force-new-register; then look through queues and schedules")
	}
	n.metrics.Clock(n.log, &s)
	n.members.empty.Store(core.Left(n.core))
	n.members.keeps.say(n)
	if w := core.Attest(n.core, n.members.witness.Load()); w != nil {
		n.members.witness.Store(w)
	}
	n.members.sayForgotten(core.Forgotten(n.core))
	n.metrics.Leading.Store(int64(n.core.Leading()))
	if a := n.core.Available(n.available.Load().Seen); a != nil {
		sayCopies(n, n.available.Load(), a)
		n.available.Store(a)
	}
}

// sayCopies logs that a quorum is one of fewer copies than there are to be, because there are
// fewer nodes, and when that changes.
func sayCopies(n *Node, was, is *core.Available) {
	switch {
	case is.Replicas == 0, was.Replicas == is.Replicas && was.Copies == is.Copies:
	case is.Copies < is.Replicas:
		n.log.Warn("cluster.few_copies", "copies", is.Copies, "replicas", is.Replicas, "meaning",
			"the cluster has fewer nodes than replicas: what it acknowledges as quorum is on a majority of so many copies only. Add nodes; a new cluster waits for them with --bootstrap-expect, and with --replicas "+strconv.Itoa(is.Copies)+" this is as it is meant")
	case was.Replicas != 0 && was.Copies < was.Replicas:
		n.log.Info("cluster.copies", "copies", is.Copies, "replicas", is.Replicas, "meaning", "every partition has as many copies as it is to have")
	}
}
