package witness

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

// Leaders notes in the history who becomes the leader of a partition, and what it knows by then: the ledger
// holds it to what workers believe. A nil one notes nothing.
type Leaders struct {
	f        Fleet
	standing map[cellOf]*tenure // those who want to lead, by the nonces of the cells they ask for
}

// NewLeaders knows of nobody who wants to lead.
func NewLeaders(f Fleet) *Leaders { return &Leaders{f: f, standing: map[cellOf]*tenure{}} }

// tenure is a node that stands for the leader of a partition.
type tenure struct {
	began int64          // when it asked for the first vote; 0: it is alone
	note  *history.Event // what is to be said if it wins; nil: it has not asked for the cell yet
}

func (l *Leaders) stands(p ring.Partition, nonce uint64) *tenure {
	k := cellOf{p, nonce}
	if l.standing[k] == nil {
		l.standing[k] = &tenure{}
	}
	return l.standing[k]
}

// Polls sees a node ask for votes.
func (l *Leaders) Polls(m message.PeerMessage) {
	ballots, is := m.(*message.Ballots)
	if !is || l == nil {
		return
	}
	for i := range ballots.Ballots {
		if b := &ballots.Ballots[i]; !b.Pre {
			s := l.stands(b.Partition, b.Nonce)
			s.began = cmp.Or(s.began, l.f.Look().Now)
		}
	}
}

// Asks sees a node ask for a cell that makes it the leader. What it knows by now is on
// its disk, and is all that it takes over (I7): if it gets the cell, the history says
// so. It returns an error when the disk of the node cannot be read.
func (l *Leaders) Asks(n Node, c *register.Change) error {
	if l == nil || c.New.Leader != n.Self() {
		return nil
	}
	items, err := takesOver(n, c)
	if err != nil {
		return fmt.Errorf("%spartition %d: %w", n, c.Partition, err)
	}
	s := l.stands(c.Partition, c.New.Nonce)
	s.note = &history.Event{
		Phase: history.Note, Func: history.Lead, Items: items, From: cellNoted(c.Partition, &c.Old), Cell: cellNoted(c.Partition, &c.New),
		Known: l.f.Look().Now, Began: s.began,
		Text: fmt.Sprintf("%s leads partition %d in epoch %d, and knows of %d claims and ends", n.Self().Node, c.Partition, c.New.Epoch, len(items)),
	}
	return nil
}

// takesOver gives the claims that a node knows of a partition, also those that are
// suspended, which come back once it hears of a retry that came before them; and, where the cohort changes, the tasks that have ended.
func takesOver(n Node, c *register.Change) (items []history.Item, err error) {
	all, err := vnode.Active(n.Disk().Mem, c.Partition)
	if err != nil {
		return nil, err
	}
	more, err := vnode.Suspended(n.Disk().Mem, c.Partition)
	if err != nil {
		return nil, err
	}
	all = append(all, more...)
	for i := range all {
		items = append(items, history.Item{Task: all[i].Task, Token: all[i].Record.Token})
	}
	if Same(c.Old.Cohort, c.New.Cohort) {
		return items, nil
	}
	task, some := vnode.NextTask(n.Disk().Mem, c.Partition, id.ID{})
	for ; some; task, some = vnode.NextTask(n.Disk().Mem, c.Partition, task) {
		end, err := vnode.Outcome(n.Disk().Mem, c.Partition, task)
		if err != nil {
			return nil, err
		}
		if end.Finished() {
			items = append(items, history.Item{Task: task, State: convert.State(nornv1.State(end))})
		}
	}
	return items, nil
}

// Leads notes that a cell has a new leader, and what it knew.
func (l *Leaders) Leads(p ring.Partition, now *register.Cell) {
	if l == nil {
		return
	}
	k := cellOf{p, now.Nonce}
	if s := l.standing[k]; s != nil && s.note != nil {
		delete(l.standing, k)
		l.f.Record(s.note)
	}
}

// Same tells whether two lists have the same members, in whatever order.
func Same(a, b []register.Member) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(m register.Member) bool { return !slices.Contains(b, m) })
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
