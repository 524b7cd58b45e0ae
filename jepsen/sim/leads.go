package sim

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// tenure is a node that stands for the leader of a partition.
type tenure struct {
	began int64          // when it asked for the first vote; 0: it is alone
	note  *history.Event // what is to be said if it wins; nil: it has not asked for the cell yet
}

func (f *fleet) stands(p ring.Partition, nonce uint64) *tenure {
	k := cellOf{p, nonce}
	if f.standing[k] == nil {
		f.standing[k] = &tenure{}
	}
	return f.standing[k]
}

// polls sees a node ask for votes. Runs of schedules have no ledger.
func (f *fleet) polls(m message.PeerMessage) {
	ballots, is := m.(*message.Ballots)
	if !is || f.standing == nil {
		return
	}
	for i := range ballots.Ballots {
		if b := &ballots.Ballots[i]; !b.Pre {
			s := f.stands(b.Partition, b.Nonce)
			s.began = cmp.Or(s.began, f.s.Now)
		}
	}
}

// asks sees a node ask for cells that make it the leader. What it knows by now is on
// its disk, and is all that it takes over (I7): if it gets the cell, the history says
// so, and the ledger holds it to what workers believe.
func (f *fleet) asks(n *node, q *register.Request) {
	for i := range q.Changes {
		c := &q.Changes[i]
		f.sought.add(c, f.s.Now)
		if c.New.Leader != n.self || f.standing == nil {
			continue
		}
		items, err := f.takesOver(n, c)
		if err != nil {
			f.s.violation(Audit, "%spartition %d: %v", n, c.Partition, err)
			return
		}
		s := f.stands(c.Partition, c.New.Nonce)
		s.note = &history.Event{
			Phase: history.Note, Func: history.Lead, Items: items, From: cellNoted(c.Partition, &c.Old), Cell: cellNoted(c.Partition, &c.New),
			Known: f.s.Now, Began: s.began,
			Text: fmt.Sprintf("%s leads partition %d in epoch %d, and knows of %d claims and ends", n.self.Node, c.Partition, c.New.Epoch, len(items)),
		}
	}
}

// takesOver gives the claims that a node knows of a partition, also those that are
// suspended, which come back once it hears of a retry that came before them; and, where the cohort changes, the tasks that have ended.
func (f *fleet) takesOver(n *node, c *register.Change) (items []history.Item, err error) {
	all, err := vnode.Active(n.disk.Mem, c.Partition)
	if err != nil {
		return nil, err
	}
	more, err := vnode.Suspended(n.disk.Mem, c.Partition)
	if err != nil {
		return nil, err
	}
	all = append(all, more...)
	for i := range all {
		items = append(items, history.Item{Task: all[i].Task, Token: all[i].Record.Token})
	}
	if sameMembers(c.Old.Cohort, c.New.Cohort) {
		return items, nil
	}
	task, some := vnode.NextTask(n.disk.Mem, c.Partition, id.ID{})
	for ; some; task, some = vnode.NextTask(n.disk.Mem, c.Partition, task) {
		end, err := vnode.Outcome(n.disk.Mem, c.Partition, task)
		if err != nil {
			return nil, err
		}
		if end.Finished() {
			items = append(items, history.Item{Task: task, State: convert.State(nornv1.State(end))})
		}
	}
	return items, nil
}

// leads notes that a cell has a new leader, and what it knew.
func (f *fleet) leads(p ring.Partition, now *register.Cell) {
	k := cellOf{p, now.Nonce}
	if s := f.standing[k]; s != nil && s.note != nil {
		delete(f.standing, k)
		f.s.record(s.note)
	}
}

// cellNoted is a cell in a history. Members are in order, with their incarnations:
// a node whose disk was lost is another one.
func cellNoted(p ring.Partition, c *register.Cell) *history.Cell {
	all := &history.Cell{Partition: int(p), Epoch: c.Epoch, Leader: c.Leader.Node, Nonce: c.Nonce}
	for _, m := range c.Cohort {
		all.Cohort = append(all.Cohort, fmt.Sprintf("%s/%x", m.Node, m.Incarnation[:4]))
	}
	slices.Sort(all.Cohort)
	return all
}
