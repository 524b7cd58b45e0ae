package workloads

import (
	"context"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// registerQueues is how many queues have a note that everybody sets: each is a
// register of its own, kept by the same group that keeps leaders.
const registerQueues = 4

// looked is the workload of the register (W6).
func looked() Workload {
	return Workload{
		Name: "register", About: "clients compare and set notes of queues, which the register keeps, through all nodes; others look at leaders and epochs at each node, and have them worked out anew; some tasks beside (W6)",
		Begin: (*Crew).registrars, Claims: true, Lacks: unregistered,
	}
}

// noteOf writes a cell as a note, and cellOf reads it.
func noteOf(c *history.Cell) string { return fmt.Sprintf("%d %s %d", c.Epoch, c.Leader, c.Nonce) }

func cellOf(queue int, note string) (*history.Cell, error) {
	c := &history.Cell{Partition: cluster.Partitions + queue} // the cells of partitions are others
	_, err := fmt.Sscanf(note, "%d %s %d", &c.Epoch, &c.Leader, &c.Nonce)
	return c, err
}

func registerQueue(k int) string { return fmt.Sprintf("register%d", k) }

// change sets the note of a queue.
func changeOf(c *history.Cell, version uint64) client.QueueChange {
	return client.QueueChange{Settings: &nornv1.QueueSettings{Note: noteOf(c)}, Fields: []string{"note"}, IfVersion: version}
}

// registrars are the clients of workload register.
func (c *Crew) registrars() error {
	to, err := c.Dial(30*time.Second, c.Members()...)
	if err != nil {
		return err
	}
	for k := range registerQueues {
		first := &history.Cell{Partition: cluster.Partitions + k, Epoch: 1, Leader: "first", Nonce: uint64(k)}
		if _, err := to.Queues().Set(context.Background(), registerQueue(k), changeOf(first, 0)); err != nil {
			return fmt.Errorf("the first note of %s: %w", registerQueue(k), err)
		}
	}
	think := c.Cfg.Think
	for _, p := range c.Members() {
		for _, do := range []func(*Hand){(*Hand).swap, (*Hand).swap, (*Hand).look, func(h *Hand) { h.Enqueue(client.Quorum, false) }} {
			if err := c.Join(p, 3*time.Second, think, do); err != nil {
				return err
			}
		}
		if err := c.Join(p, 3*time.Second, think/4, (*Hand).finishSome); err != nil {
			return err
		}
	}
	if err := c.Join(nil, 10*time.Second, think/4, (*Hand).finishSome); err != nil {
		return err
	}
	return c.Join(nil, 10*time.Second, 2*time.Second, (*Hand).disturb)
}

// disturb has it worked out anew who keeps and who leads what.
func (h *Hand) disturb() {
	_, _ = h.Client.Cluster().Rebalance(context.Background(), true, client.ChangeOptions{}) // the other clients see what comes of it
}

// swap sets the note of some queue, if it is still what it was.
func (h *Hand) swap() {
	k := h.Rnd.IntN(registerQueues)
	q, err := h.Client.Queues().Get(context.Background(), registerQueue(k))
	if err != nil {
		return
	}
	from, err := cellOf(k, q.GetSettings().GetNote())
	if err != nil {
		h.Found("register", "the note of %s is %q: %v", registerQueue(k), q.GetSettings().GetNote(), err)
		return
	}
	to := &history.Cell{Partition: from.Partition, Epoch: from.Epoch + 1, Leader: fmt.Sprintf("w%d", h.Process), Nonce: h.Rnd.Uint64()}
	asked := h.Rec.Invoke(h.Process, &history.Event{Func: history.CellSwap, From: from, Cell: to})
	_, err = h.Client.Queues().Set(context.Background(), registerQueue(k), changeOf(to, q.GetVersion()))
	h.Rec.End(asked, err, history.Event{Cell: nil})
}

// look writes down what a node shows of leaders and epochs.
func (h *Hand) look() {
	life := h.Node.Life()
	asked := h.Rec.Invoke(h.Process, &history.Event{Func: history.Look, Text: life})
	s, err := h.Client.Status(context.Background())
	answer := history.Event{}
	if h.Node.Life() != life {
		s = nil // whose answer it is nobody knows
	}
	for _, p := range s.GetPartitions() {
		answer.Cells = append(answer.Cells, history.Cell{Partition: int(p.GetId()), Epoch: p.GetEpoch(), Leader: p.GetLeader(), Cohort: p.GetCohort()})
	}
	h.Rec.End(asked, err, answer)
}

// unregistered says when too little was asked of the register.
func unregistered(r *Seen) string {
	swaps, looks := 0, 0
	for _, e := range r.Events {
		switch {
		case e.Func == history.CellSwap && e.Phase == history.OK:
			swaps++
		case e.Func == history.Look && e.Phase == history.OK:
			looks++
		}
	}
	if least := int(2 * r.Duration.Seconds()); swaps < least || looks < least {
		return fmt.Sprintf("%d swaps and %d looks, %d of each are the least", swaps, looks, least)
	}
	return ""
}
