package lease

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// StuckEvery is how often a member looks for claims that are stuck: they block
	// nothing, but their tasks count as claimed there.
	StuckEvery = 5 * time.Second
	// maxStuck bounds the claims of one partition that are asked about at once.
	maxStuck = 1000
)

// Reconcile brings the claims of this node in line with their leaders' (design 6).
//
// A member may hold a claim that its leader has ended: the message that said so was lost, or it
// was down. It asks the leader about claims that should have ended long ago, and drops those
// that the leader does not hold, in an epoch that its promise allows.
func (g *Machine) Reconcile(now clock.Time) {
	if g.env.View.Alone || g.reconcileAt > now.Mono {
		return
	}
	g.reconcileAt = now.Mono + int64(StuckEvery)
	to := make(map[register.Member]*message.AskOrphans)
	if g.env.Policy.UngatedClaims {
		reconcileAll(g, now, to)
	}
	for p, v := range g.env.Partitions.Each() {
		leader, ok := placement.Leading(&g.env.View.Cells[p])
		if v.Leading() != 0 || !ok || leader == g.env.Self || !g.env.View.Up(leader) {
			continue
		}
		if all := vnode.Stuck(v, now, maxStuck); len(all) > 0 {
			mail := round.For(to, leader)
			mail.Parts = append(mail.Parts, message.PartClaims{Partition: ring.Partition(p), Epoch: g.env.View.Cells[p].Epoch, Claims: vnode.AppendHeld(nil, all)})
		}
	}
	round.SendAll(g.env.Round.Send, to)
}

// reconcileAll asks everybody about every claim ([Policy.UngatedClaims]).
func reconcileAll(g *Machine, now clock.Time, to map[register.Member]*message.AskOrphans) {
	for p, v := range g.env.Partitions.Each() {
		for _, m := range g.env.View.Cells[p].Cohort {
			all := vnode.Stuck(v, now.Add(2*clock.MaxLease), maxStuck)
			if m == g.env.Self || len(all) == 0 || v.Leading() != 0 {
				continue
			}
			mail := round.For(to, m)
			mail.Parts = append(mail.Parts, message.PartClaims{Partition: ring.Partition(p), Epoch: g.env.View.Cells[p].Epoch, Claims: vnode.AppendHeld(nil, all)})
		}
	}
}

// AnswerOrphans answers a member that asks about claims.
func (g *Machine) AnswerOrphans(from register.Member, m *message.AskOrphans) {
	answer := &message.NotHeld{}
	for i := range m.Parts {
		part := &m.Parts[i]
		if int(part.Partition) >= len(g.env.View.Cells) {
			continue
		}
		v := g.env.Partitions.Use(part.Partition)
		all, err := vnode.DecodeHeld(part.Claims)
		if err != nil || v.Leading() == 0 && !g.env.Policy.UngatedClaims {
			continue
		}
		if others := vnode.Unheld(v, all); len(others) > 0 {
			answer.Parts = append(answer.Parts, message.PartClaims{Partition: part.Partition, Epoch: v.Leading(), Claims: vnode.AppendHeld(nil, others)})
		}
	}
	if len(answer.Parts) > 0 {
		g.env.Round.Send(from, answer)
	}
}

// DropNotHeld ends what the leader of the epoch promised here does not hold.
func (g *Machine) DropNotHeld(now clock.Time, m *message.NotHeld) {
	for i := range m.Parts {
		part := &m.Parts[i]
		if int(part.Partition) >= len(g.env.View.Cells) || g.env.Partitions.See(part.Partition).Leading() != 0 || g.env.View.Deleting(part.Partition) {
			continue
		}
		all, err := vnode.DecodeHeld(part.Claims)
		if err == nil && (g.env.Policy.UngatedClaims || g.env.Acceptors.Accept(part.Partition, part.Epoch)) {
			g.env.Round.Check(vnode.Dismiss(g.env.Partitions.Use(part.Partition), g.env.Round.Tx, all, now))
		}
	}
}
