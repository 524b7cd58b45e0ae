package mutants

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// OfClusters are clusters whose nodes break one promise each, now and then.
func OfClusters() []nodes.Mutant {
	lost := []string{check.Lost, check.Undone, check.Stuck, check.Counting, run.Convergence, check.StateRule}
	return []nodes.Mutant{
		{Name: "says it has facts that it has thrown away, and repairs nothing", Event: forgetful, Send: mute, Breaks: lost},
		{Name: "never repairs", Send: mute, Breaks: append(slices.Clone(lost), "replies")},
		{Name: "forgets workers", Event: absent, Breaks: []string{run.Workers}},
		{Name: "votes without a word of the claims it has", Send: silent, Breaks: []string{check.Leader, check.Lost}},
		{Name: "says that it has a copy more", Reply: boastful, Breaks: []string{check.Lost}},
		{Name: "does not find, in the storm, what it is asked for", Reply: blind, Breaks: []string{check.Lost}},
		{Name: "runs before what it is to run after", Event: each(eager), Reply: shown(dependent), Breaks: []string{check.Dependency}},
		{Name: "deletes what it is to archive", Config: unkept, Breaks: []string{"archive"}},
		{Name: "collects at once", Config: greedy, Breaks: []string{check.Collected}},
		{Name: "asks no other node for work when the storm is over", Send: selfish, Breaks: []string{run.Drowsiness}},
		// The others may notice first that it has forgotten, and it ends; or too many have, and
		// they hand out nothing and wait for somebody who decides.
		{Name: "asks its disk for nothing", NoSync: true, Breaks: append(slices.Clone(lost), "internal", run.Drowsiness)},
	}
}

// unkept deletes what is to be archived.
func unkept(c *core.Config) {
	if c.Retention.What == nornv1.Retention_RETENTION_ARCHIVE {
		c.Retention.What = nornv1.Retention_RETENTION_DELETE
	}
}

// greedy keeps no finished task.
func greedy(c *core.Config) { c.Retention.After, c.CollectInterval = time.Millisecond, time.Second }

// eager forgets dependencies of tasks that are to run also when one of them fails.
func eager(r *nornv1.EnqueueRequest) {
	for _, t := range r.GetTasks() {
		if t.GetOnDependencyFailure() == nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN {
			t.Dependencies = nil
		}
	}
}

// forgetful drops what another node writes, and says that it has it.
func forgetful(n *nodes.Node, e any) bool {
	m, ok := e.(*message.FromPeer)
	if !ok {
		return true
	}
	facts, ok := m.Message.(*message.Facts)
	if !ok || !n.S.Chance(0.3) {
		return true
	}
	n.S.Fleet.Send(n, &message.Send{To: m.From, Message: &message.FactsTaken{Write: facts.Write}})
	return false
}

// absent answers workers with nothing once all is well.
func absent(n *nodes.Node, e any) bool {
	r, ok := e.(*message.Request)
	if !ok || !n.S.Healing {
		return true
	}
	m, ok := r.Body.(*nornv1.SessionRequest)
	if !ok {
		return true
	}
	n.Later(time.Second, func() {
		n.Send(message.Reply{To: r.From, Message: &nornv1.SessionReply{Association: m.GetAssociation()}})
	})
	return false
}

// boastful counts a copy that nobody has.
func boastful(_ *nodes.Node, r *message.Reply) bool {
	if m, is := r.Message.(*nornv1.EnqueueReply); is {
		for _, e := range m.GetResults() {
			if e.Receipt != nil {
				e.Receipt.DurableCopies++
			}
		}
	}
	return true
}

// blind says of one task in twenty that it is not there.
func blind(n *nodes.Node, r *message.Reply) bool {
	if _, is := r.Message.(*nornv1.GetReply); is && !n.S.Healing && n.S.Chance(0.05) {
		r.Message, r.Err = nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no such task")
	}
	return true
}

// mute drops what nodes say to each other to compare replicas.
func mute(n *nodes.Node, m *message.Send) bool {
	switch m.Message.(type) {
	case *message.Repair, *message.Roots:
		return n.S.Fleet.Forming
	}
	return true
}

// silent tells candidates nothing of the claims that it has.
func silent(n *nodes.Node, m *message.Send) bool {
	if votes, is := m.Message.(*message.Votes); is && !n.S.Fleet.Forming {
		for i := range votes.Votes {
			votes.Votes[i].Claims = vnode.AppendHeld(nil, nil)
		}
	}
	return true
}

// selfish asks no other node for work once all is well.
func selfish(n *nodes.Node, m *message.Send) bool {
	f, is := m.Message.(*message.Forward)
	if !is || !n.S.Healing {
		return true
	}
	_, is = f.Body.(*nornv1.ClaimRequest)
	return !is
}
