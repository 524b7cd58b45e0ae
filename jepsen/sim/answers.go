package sim

import (
	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store"
)

// archive writes finished tasks elsewhere, or fails to.
func (n *node) archive(view store.View, a *message.Archive) {
	if n.disk.Bad != "" {
		defer ends(n)
	}
	tasks, err := a.Tasks(view)
	if err != nil {
		n.s.broken("an archive stops the node: %v", err)
		return
	}
	failed := !n.s.healing && n.s.Chance(0.2)
	if !failed {
		for _, t := range tasks {
			n.s.archived[convert.Parse(t.GetId())] = true
		}
	}
	done := func() {
		n.later(n.s.About(n.s.plan.Disk.Sync), func() { n.put(message.Archived{Tag: a.Tag, Tasks: len(tasks), Failed: failed}, true) })
	}
	if n.s.archives != nil && !failed {
		n.s.archives(tasks, done)
		return
	}
	done()
}

// read runs one read on its snapshot.
func (n *node) read(view store.View, r *message.Read) {
	if n.disk.Bad != "" {
		defer ends(n)
	}
	reply, empty, err := r.Run(view, n.Clock.Time(n.s.Now))
	if err != nil {
		n.s.broken("a read stops the node: %v", err)
		return
	}
	switch {
	case empty:
	case reply.To.Internal():
		n.put(message.Answered{Reply: reply}, true)
	default:
		n.send(reply)
	}
	if r.Waits {
		n.later(n.s.About(n.s.plan.Disk.Read), func() { n.put(message.ReadDone{From: r.From, Empty: empty}, true) })
	}
}

// send answers a request over its connection. What surely never leaves is told
// back when it carried grants.
func (n *node) send(reply message.Reply) {
	if n.s.mutant.Reply != nil && !n.s.mutant.Reply(n, &reply) {
		return
	}
	c := n.conns[reply.To.Conn]
	if q := n.asked[reply.To]; q == nil && c != nil {
		n.s.violation("replies", "request %v was answered twice, or nobody asked it: %v %v", reply.To, reply.Message, reply.Err)
		return
	}
	if q := n.asked[reply.To]; q != nil && n.s.fleet != nil && n.s.fleet.witness != nil {
		n.s.fleet.witness.Granted(q.body.Body, &reply)
	}
	if q := n.asked[reply.To]; q != nil && n.s.fleet != nil {
		witness.Receipts(outside{n.s.fleet}, q.body.Body, &reply)
	}
	delete(n.asked, reply.To)
	n.remember(reply.Message)
	if c == nil {
		n.undelivered(reply.Grants)
		return
	}
	// It lies in the connection's buffer until the writer takes it.
	n.later(n.s.About(n.s.plan.Disk.Loop), func() {
		if n.conns[reply.To.Conn] == nil {
			n.undelivered(reply.Grants)
			return
		}
		c.answer(reply)
	})
}

func (n *node) undelivered(grants []message.GrantRef) {
	if len(grants) > 0 {
		n.s.stats[stats.Undelivered]++
		n.put(message.Undelivered{Grants: grants}, true)
	}
}

// remember notes which queues surely hand out tasks.
func (n *node) remember(m any) {
	if reply, ok := m.(*nornv1.QueuesReply); ok {
		for _, q := range reply.GetQueues() {
			if !q.GetSettings().GetPaused() {
				delete(n.paused, q.GetName())
			}
		}
	}
}
