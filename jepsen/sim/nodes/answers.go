package nodes

import (
	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store"
)

// archive writes finished tasks elsewhere, or fails to.
func (n *Node) archive(view store.View, a *message.Archive) {
	if n.Disk.Bad != "" {
		defer ends(n)
	}
	tasks, err := a.Tasks(view)
	if err != nil {
		n.S.Broken("an archive stops the node: %v", err)
		return
	}
	failed := !n.S.Healing && n.S.Chance(0.2)
	if !failed {
		for _, t := range tasks {
			n.S.Archived[convert.Parse(t.GetId())] = true
		}
	}
	done := func() {
		n.Later(n.S.About(n.S.Plan.Disk.Sync), func() { n.Put(message.Archived{Tag: a.Tag, Tasks: len(tasks), Failed: failed}, true) })
	}
	if n.S.Archives != nil && !failed {
		n.S.Archives(tasks, done)
		return
	}
	done()
}

// read runs one read on its snapshot.
func (n *Node) read(view store.View, r *message.Read) {
	if n.Disk.Bad != "" {
		defer ends(n)
	}
	reply, empty, err := r.Run(view, n.Clock.Time(n.S.Now))
	if err != nil {
		n.S.Broken("a read stops the node: %v", err)
		return
	}
	switch {
	case empty:
	case reply.To.Internal():
		n.Put(message.Answered{Reply: reply}, true)
	default:
		n.Send(reply)
	}
	if r.Waits {
		n.Later(n.S.About(n.S.Plan.Disk.Read), func() { n.Put(message.ReadDone{From: r.From, Empty: empty}, true) })
	}
}

// Send answers a request over its connection. What surely never leaves is told
// back when it carried grants.
func (n *Node) Send(reply message.Reply) {
	if n.S.Mutant.Reply != nil && !n.S.Mutant.Reply(n, &reply) {
		return
	}
	c := n.Conns[reply.To.Conn]
	if q := n.Asked[reply.To]; q == nil && c != nil {
		n.S.Violation("replies", "request %v was answered twice, or nobody asked it: %v %v", reply.To, reply.Message, reply.Err)
		return
	}
	if q := n.Asked[reply.To]; q != nil && n.S.Fleet != nil && n.S.Fleet.Witness != nil {
		n.S.Fleet.Witness.Granted(q.Body.Body, &reply)
	}
	if q := n.Asked[reply.To]; q != nil && n.S.Fleet != nil {
		witness.Receipts(n.S.Fleet.Seen(), q.Body.Body, &reply)
	}
	delete(n.Asked, reply.To)
	n.remember(reply.Message)
	if c == nil {
		n.undelivered(reply.Grants)
		return
	}
	// It lies in the connection's buffer until the writer takes it.
	n.Later(n.S.About(n.S.Plan.Disk.Loop), func() {
		if n.Conns[reply.To.Conn] == nil {
			n.undelivered(reply.Grants)
			return
		}
		c.answer(reply)
	})
}

func (n *Node) undelivered(grants []message.GrantRef) {
	if len(grants) > 0 {
		n.S.Stats[stats.Undelivered]++
		n.Put(message.Undelivered{Grants: grants}, true)
	}
}

// remember notes which queues surely hand out tasks.
func (n *Node) remember(m any) {
	if reply, ok := m.(*nornv1.QueuesReply); ok {
		for _, q := range reply.GetQueues() {
			if !q.GetSettings().GetPaused() {
				delete(n.paused, q.GetName())
			}
		}
	}
}
