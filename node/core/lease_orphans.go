package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// stuckEvery is how often a member looks for claims that are stuck: they block
	// nothing, but their tasks count as claimed there.
	stuckEvery = 5 * time.Second
	// maxStuck bounds the claims of one partition that are asked about at once.
	maxStuck = 1000
)

// reconcileLeases brings the claims of this node in line with their leaders' (design 6).
func (g *leases) reconcileLeases(now clock.Time) {
	if g.reconcileAt > now.Mono {
		return
	}
	g.reconcileAt = now.Mono + int64(stuckEvery)
	to := make(map[register.Member]*message.AskOrphans)
	if mutant.UngatedClaims.On() {
		g.reconcileAll(now, to)
	}
	for p, v := range g.c.vnodes.Each() {
		leader, ok := placement.Leading(&g.c.view.Cells[p])
		if v.Leading() != 0 || !ok || leader == g.c.cfg.Self || !g.c.view.Up(leader) {
			continue
		}
		if all := vnode.Stuck(v, now, maxStuck); len(all) > 0 {
			mail := round.For(to, leader)
			mail.Parts = append(mail.Parts, message.PartClaims{Partition: ring.Partition(p), Epoch: g.c.view.Cells[p].Epoch, Claims: vnode.AppendHeld(nil, all)})
		}
	}
	round.SendAll(g.c.round.Send, to)
}

// reconcileAll asks everybody about every claim, for a mutant.
func (g *leases) reconcileAll(now clock.Time, to map[register.Member]*message.AskOrphans) {
	for p, v := range g.c.vnodes.Each() {
		for _, m := range g.c.view.Cells[p].Cohort {
			all := vnode.Stuck(v, now.Add(2*clock.MaxLease), maxStuck)
			if m == g.c.cfg.Self || len(all) == 0 || v.Leading() != 0 {
				continue
			}
			mail := round.For(to, m)
			mail.Parts = append(mail.Parts, message.PartClaims{Partition: ring.Partition(p), Epoch: g.c.view.Cells[p].Epoch, Claims: vnode.AppendHeld(nil, all)})
		}
	}
}

// answerOrphans answers a member that asks about claims.
func (g *leases) answerOrphans(from register.Member, m *message.AskOrphans) {
	answer := &message.NotHeld{}
	for i := range m.Parts {
		part := &m.Parts[i]
		if int(part.Partition) >= len(g.c.view.Cells) {
			continue
		}
		v := g.c.vnodes.Use(part.Partition)
		all, err := vnode.DecodeHeld(part.Claims)
		if err != nil || v.Leading() == 0 && !mutant.UngatedClaims.On() {
			continue
		}
		if others := vnode.Unheld(v, all); len(others) > 0 {
			answer.Parts = append(answer.Parts, message.PartClaims{Partition: part.Partition, Epoch: v.Leading(), Claims: vnode.AppendHeld(nil, others)})
		}
	}
	if len(answer.Parts) > 0 {
		g.c.round.Send(from, answer)
	}
}

// dropNotHeld ends what the leader of the epoch promised here does not hold.
func (g *leases) dropNotHeld(now clock.Time, m *message.NotHeld) {
	for i := range m.Parts {
		part := &m.Parts[i]
		if int(part.Partition) >= len(g.c.view.Cells) || g.c.vnodes.See(part.Partition).Leading() != 0 || g.c.view.Deleting(part.Partition) {
			continue
		}
		all, err := vnode.DecodeHeld(part.Claims)
		if err == nil && (mutant.UngatedClaims.On() || g.c.acceptors.Accept(part.Partition, part.Epoch)) {
			g.c.round.Check(vnode.Dismiss(g.c.vnodes.Use(part.Partition), g.c.round.Tx, all, now))
		}
	}
}
