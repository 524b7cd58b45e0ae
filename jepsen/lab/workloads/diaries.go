package workloads

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/record"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of workload updates.
const (
	diaryQueue = "diaries"
	// maxHandful is how many entries are under way in an order of their own.
	maxHandful = 4
	// leastEntries and leastReread are how many updates must have been acknowledged in a
	// second, and how many readings answered that had to show what had been seen.
	leastEntries, leastReread = 10, 5
)

// diaries is the workload of long logs that others read while they are written (W4).
func diaries() Workload {
	return Workload{
		Name: "updates", About: "long logs, whose entries are sent in any order and some of them twice, while others read them through all nodes and ask to be shown at least what anybody has seen (W4)",
		Begin: (*Crew).diarists, Claims: true, Queues: []string{diaryQueue}, Finish: reread, Least: LeastPerSecond / 5, Lacks: unread,
	}
}

// position is how far a log is known: its last visible entry that somebody has seen, and
// the last that majorities have acknowledged with all those before it.
type position struct{ seen, sure *history.Entry }

// diarists are the clients of workload updates.
func (c *Crew) diarists() error {
	c.mu.Lock()
	c.positions = map[id.ID]*position{}
	c.mu.Unlock()
	think := c.Cfg.Think
	for _, p := range c.Members() {
		if err := c.Join(p, 3*time.Second, 3*think, func(h *Hand) { h.Send(h.diaries(), client.Quorum, false) }); err != nil {
			return err
		}
		for range 3 {
			if err := c.Join(p, 3*time.Second, think/4, (*Hand).diarist); err != nil {
				return err
			}
		}
		for range 2 {
			if err := c.Join(p, 3*time.Second, think/2, (*Hand).reader); err != nil {
				return err
			}
		}
	}
	for range 3 {
		if err := c.Join(nil, 10*time.Second, think/4, (*Hand).diarist); err != nil {
			return err
		}
	}
	return nil
}

// diaries makes one or two tasks.
func (h *Hand) diaries() []client.Task {
	all := make([]client.Task, 1+h.Rnd.IntN(2))
	for i, task := range h.Client.NewIDs(len(all)) {
		all[i] = client.Task{
			ID: task, Queue: diaryQueue, Payload: fmt.Appendf(nil, "%s of process %d", task, h.Process),
			Retry: &nornv1.RetryPolicy{MaxAttempts: 1000, InitialSeconds: 0.1, MaxSeconds: 0.5},
		}
	}
	h.knows(all)
	return all
}

// diarist claims some tasks, one after the other writes its log, and some give up then,
// so that the next worker begins another log of the same task.
func (h *Hand) diarist() {
	for _, c := range h.Claim(LongPoll) {
		j := &Job{Hand: h, Claim: c}
		j.diary()
		switch n := j.Rnd.IntN(10); {
		case n < 6:
			j.Complete()
		case n < 8:
			j.release()
		case n < 9:
			j.fail()
		default: // forgotten
		}
	}
}

// diary writes one log: a handful of entries at a time, in any order.
func (j *Job) diary() {
	quorum := true // of all up to here
	for n := uint64(4 + j.Rnd.IntN(24)); j.seq < n && j.Ctx.Err() == nil; {
		handful := 1 + j.Rnd.IntN(maxHandful)
		written := true
		for _, i := range j.Rnd.Perm(handful) {
			level := client.Quorum
			if j.Rnd.IntN(8) == 0 {
				level, quorum = client.One, false
			}
			written = j.entry(j.seq+uint64(i), level) && written
			j.work(30 * time.Millisecond)
		}
		if !written {
			return // what comes after a hole is not shown
		}
		j.seq += uint64(handful)
		j.Hand.saw(j.ID, history.Entry{Token: j.Token, Seq: j.seq - 1}, quorum)
		if lost := !j.renew(); lost {
			return
		}
	}
}

// entry writes one entry, again when nobody knows what came of it, and some twice.
func (j *Job) entry(seq uint64, level client.Durability) (written bool) {
	for range again {
		err := j.updateAt(seq, level)
		if err != nil && !record.Unknown(err) {
			return written
		}
		written = written || err == nil
		if written && j.Rnd.IntN(10) > 0 {
			return true
		}
	}
	return written
}

// saw notes that an entry is visible.
func (h *Hand) saw(task id.ID, e history.Entry, sure bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.positions[task]
	if p == nil {
		p = &position{}
		h.positions[task] = p
	}
	further := func(than *history.Entry) bool {
		return than == nil || e.Token > than.Token || e.Token == than.Token && e.Seq > than.Seq
	}
	if further(p.seen) {
		p.seen = &e
	}
	if sure && further(p.sure) {
		p.sure = &e
	}
}

// reader reads a log, with as many copies as it comes to, and wants to be shown at least
// what anybody has seen of it through whatever node.
func (h *Hand) reader() {
	h.mu.Lock()
	var task id.ID
	if len(h.known) > 0 {
		task = h.known[h.Rnd.IntN(len(h.known))]
	}
	var least *history.Entry
	if p := h.positions[task]; p != nil {
		least = p.seen
	}
	h.mu.Unlock()
	if task.IsZero() {
		return
	}
	level := client.ReadOne
	if h.Rnd.IntN(3) == 0 {
		level = client.ReadQuorum
	}
	h.getAtLeast(task, level, least)
}

// reread has each node show of each log what majorities have acknowledged of it, now
// that nothing is wrong.
func reread(ctx context.Context, c *Crew) error {
	c.mu.Lock()
	positions := maps.Clone(c.positions)
	c.mu.Unlock()
	tasks := slices.SortedFunc(maps.Keys(positions), id.ID.Compare)
	for _, p := range c.Members() {
		dialled, err := c.Dial(machine.Patience, p)
		if err != nil {
			return err
		}
		h := &Hand{Crew: c, Process: c.Rec.Process(), Client: dialled, Node: p}
		for _, task := range tasks {
			if least := positions[task].sure; least != nil && ctx.Err() == nil && h.getAtLeast(task, client.ReadOne, least) != history.OK {
				c.Found("lost", "%s does not show update %x/%d of task %s, which majorities have acknowledged", p.Name, least.Token, least.Seq, task)
			}
		}
	}
	return nil
}

// unread says what is missing in a run for logs to be judged.
func unread(r *Seen) string {
	entries, readings := 0, 0
	least := map[uint64]bool{}
	for _, e := range r.Events {
		switch {
		case e.Phase == history.Invoke && e.Func == history.Get && e.After != nil:
			least[e.Op] = true
		case e.Phase == history.OK && e.Func == history.Update:
			entries++
		case e.Phase == history.OK && least[e.Op]:
			readings++
		}
	}
	seconds := int(r.Duration.Seconds())
	if entries < leastEntries*seconds || readings < leastReread*seconds {
		return fmt.Sprintf("%d updates and %d readings that had to show what had been seen, %d and %d are the least", entries, readings, leastEntries*seconds, leastReread*seconds)
	}
	return ""
}
