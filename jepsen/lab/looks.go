package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// registerQueues is how many queues have a note that everybody sets: each is a
// register of its own, kept by the same group that keeps leaders.
const registerQueues = 4

// looked is the workload of the register (W6).
func looked() Workload {
	return Workload{
		Name: "register", About: "clients compare and set notes of queues, which the register keeps, through all nodes; others look at leaders and epochs at each node, and have them worked out anew; some tasks beside (W6)",
		begin: (*crew).registrars, claims: true, lacks: unregistered,
	}
}

// noteOf writes a cell as a note, and cellOf reads it.
func noteOf(c *history.Cell) string { return fmt.Sprintf("%d %s %d", c.Epoch, c.Leader, c.Nonce) }

func cellOf(queue int, note string) (*history.Cell, error) {
	c := &history.Cell{Partition: partitions + queue} // the cells of partitions are others
	_, err := fmt.Sscanf(note, "%d %s %d", &c.Epoch, &c.Leader, &c.Nonce)
	return c, err
}

func registerQueue(k int) string { return fmt.Sprintf("register%d", k) }

// change sets the note of a queue.
func changeOf(c *history.Cell, version uint64) client.QueueChange {
	return client.QueueChange{Settings: &nornv1.QueueSettings{Note: noteOf(c)}, Fields: []string{"note"}, IfVersion: version}
}

// registrars are the clients of workload register.
func (c *crew) registrars() error {
	to, err := c.dial(30*time.Second, c.members()...)
	if err != nil {
		return err
	}
	for k := range registerQueues {
		first := &history.Cell{Partition: partitions + k, Epoch: 1, Leader: "first", Nonce: uint64(k)}
		if _, err := to.Queues().Set(context.Background(), registerQueue(k), changeOf(first, 0)); err != nil {
			return fmt.Errorf("the first note of %s: %w", registerQueue(k), err)
		}
	}
	think := c.cfg.Think
	for _, p := range c.members() {
		for _, do := range []func(*hand){(*hand).swap, (*hand).swap, (*hand).look, func(h *hand) { h.enqueue(client.Quorum, false) }} {
			if err := c.join(p, 3*time.Second, think, do); err != nil {
				return err
			}
		}
		if err := c.join(p, 3*time.Second, think/4, (*hand).finishSome); err != nil {
			return err
		}
	}
	if err := c.join(nil, 10*time.Second, think/4, (*hand).finishSome); err != nil {
		return err
	}
	return c.join(nil, 10*time.Second, 2*time.Second, (*hand).disturb)
}

// disturb has it worked out anew who keeps and who leads what.
func (h *hand) disturb() {
	_, _ = h.client.Cluster().Rebalance(context.Background(), true, client.ChangeOptions{}) // the other clients see what comes of it
}

// swap sets the note of some queue, if it is still what it was.
func (h *hand) swap() {
	k := h.rnd.IntN(registerQueues)
	q, err := h.client.Queues().Get(context.Background(), registerQueue(k))
	if err != nil {
		return
	}
	from, err := cellOf(k, q.GetSettings().GetNote())
	if err != nil {
		h.found("register", "the note of %s is %q: %v", registerQueue(k), q.GetSettings().GetNote(), err)
		return
	}
	to := &history.Cell{Partition: from.Partition, Epoch: from.Epoch + 1, Leader: fmt.Sprintf("w%d", h.process), Nonce: h.rnd.Uint64()}
	asked := h.rec.invoke(h.process, &history.Event{Func: history.CellSwap, From: from, Cell: to})
	_, err = h.client.Queues().Set(context.Background(), registerQueue(k), changeOf(to, q.GetVersion()))
	h.rec.end(asked, err, history.Event{Cell: nil})
}

// look writes down what a node shows of leaders and epochs.
func (h *hand) look() {
	life := h.node.life()
	asked := h.rec.invoke(h.process, &history.Event{Func: history.Look, Text: life})
	s, err := h.client.Status(context.Background())
	answer := history.Event{}
	if h.node.life() != life {
		s = nil // whose answer it is nobody knows
	}
	for _, p := range s.GetPartitions() {
		answer.Cells = append(answer.Cells, history.Cell{Partition: int(p.GetId()), Epoch: p.GetEpoch(), Leader: p.GetLeader(), Cohort: p.GetCohort()})
	}
	h.rec.end(asked, err, answer)
}

// unregistered says when too little was asked of the register.
func unregistered(r *Result) string {
	swaps, looks := 0, 0
	for _, e := range r.Events {
		switch {
		case e.Func == history.CellSwap && e.Phase == history.OK:
			swaps++
		case e.Func == history.Look && e.Phase == history.OK:
			looks++
		}
	}
	if least := int(2 * r.Config.Duration.Seconds()); swaps < least || looks < least {
		return fmt.Sprintf("%d swaps and %d looks, %d of each are the least", swaps, looks, least)
	}
	return ""
}
