package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// Workload is what clients do.
type Workload struct {
	Name, About string
	// begin makes the clients.
	begin func(*crew) error
	// claims: tasks are handed out, and in the end until all are done.
	claims bool
	// queues are those that workers claim from; nil: those of all workloads.
	queues []string
	// args are more arguments of nodes.
	args []string
	// kept is for how long finished tasks are kept; 0: for ever.
	kept time.Duration
	// calm is how long nothing is wrong before the faults and after them; 0: faults
	// come at once.
	calm time.Duration
	// finish ends, once the cluster is whole again, what clients have begun; nil:
	// there is nothing to end.
	finish func(context.Context, *crew) error
	// least is how many acknowledged tasks a second there must be for a run to
	// prove anything.
	least float64
	// lacks says what else is missing for that; "" is nothing. nil: nothing else.
	lacks func(*Result) string
}

// Workloads are all there are, the default first.
func Workloads() []Workload {
	return []Workload{
		{Name: "enqueue", About: "enqueues through each node with every write level, and through all nodes in turn; readings beside (W1 without claims, W14)", begin: (*crew).enqueuers, least: leastPerSecond},
		{Name: "claims", About: "fewer enqueues; workers claim, renew, update, complete, fail, release and forget; in the end everything is done (W1 to W5)", begin: (*crew).workers, claims: true, least: leastPerSecond},
		hot(), diaries(), dependencies(), repeats(), collected(), looked(), heavy(), ranked(), scheduled(),
	}
}

// workload finds one by its name.
func workload(name string) (Workload, bool) {
	all := Workloads()
	if i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name }); i >= 0 {
		return all[i], true
	}
	return Workload{}, false
}

// crew are the clients of a run.
type crew struct {
	*lab
	ctx    context.Context // ends when no more faults come
	queues []string        // that workers claim from; nil: those of all workloads
	work   sync.WaitGroup

	mu    sync.Mutex            // guards what follows
	known []id.ID               // some tasks that were sent
	owed  map[id.ID]client.Task // that others wait for, and that may not be there
	later []errand              // what is to be done once more
	sent  []client.Task         // by clients that do things twice
	// positions is how far logs are known; nil: nobody reads them again.
	positions map[id.ID]*position
	// numbers are guarded by claims only; nil: the workload has none.
	numbers *vector
	// crons are schedules that launch tasks; nil: there are none.
	crons *crons
}

// hand is one client: it does one thing after the other.
type hand struct {
	*crew
	process int
	client  *client.Client
	node    *process   // the only one it talks to; nil: all
	rnd     *rand.Rand // its own
	think   time.Duration
	from    []string // the queues that it claims from; nil: those of all workloads
	most    int      // tasks that it claims at once; 0: as many as in all workloads
}

// join makes a client that does something again and again until the storm is
// over.
func (c *crew) join(node *process, timeout, think time.Duration, do func(*hand)) error {
	to := c.members()
	if node != nil {
		to = []*process{node}
	}
	dialled, err := c.dial(timeout, to...)
	if err != nil {
		return err
	}
	process := c.rec.process()
	h := &hand{crew: c, process: process, client: dialled, node: node, rnd: rand.New(rand.NewPCG(c.cfg.Seed, uint64(process))), think: think, from: c.queues}
	c.work.Go(func() {
		for c.ctx.Err() == nil {
			do(h)
			h.pause()
			if now := c.heirsOf(to); now != nil {
				h.turn(timeout, now)
				to = now
			}
		}
	})
	return nil
}

// turn has a client talk to other nodes from now on.
func (h *hand) turn(timeout time.Duration, to []*process) {
	dialled, err := h.dial(timeout, to...)
	if err != nil {
		h.found("internal", "a client cannot turn to %s: %v", names(to), err) // their addresses are good ones
		return
	}
	if h.client = dialled; h.node != nil {
		h.node = to[0]
	}
}

// heirsOf gives the nodes that are in the positions of some, where one of them was
// replaced; else nil. Their clients would talk to nobody for the rest of the run.
func (l *lab) heirsOf(some []*process) (now []*process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range some {
		for heir := l.heirs[p]; heir != nil; heir = l.heirs[p] {
			p = heir
		}
		if p != some[i] && now == nil {
			now = slices.Clone(some)
		}
		if now != nil {
			now[i] = p
		}
	}
	return now
}

// pause waits about as long as the client thinks.
func (h *hand) pause() {
	select {
	case <-h.ctx.Done():
	case <-time.After(time.Duration(h.rnd.Int64N(int64(2*h.think) + 1))):
	}
}

// levels are the write levels of clients that talk to one node. One comes last:
// it is the one that must work through every node.
var levels = []client.Durability{client.Quorum, client.All, client.Copies(2), client.One}

// enqueuers are the clients of workload enqueue.
func (c *crew) enqueuers() error {
	think := c.cfg.Think
	for _, p := range c.members() {
		for i, level := range levels {
			probe := i == len(levels)-1
			if err := c.join(p, 3*time.Second, think, func(h *hand) { h.enqueue(level, probe) }); err != nil {
				return err
			}
		}
		if err := c.join(p, 3*time.Second, think, (*hand).read); err != nil {
			return err
		}
	}
	for range 3 {
		if err := c.join(nil, 30*time.Second, think, func(h *hand) { h.enqueue(client.Quorum, false) }); err != nil {
			return err
		}
	}
	return nil
}

// maxBatch is how many tasks one call of a workload enqueues at most.
const maxBatch = 12

// tasks makes some new tasks.
func (h *hand) tasks() []client.Task {
	all := make([]client.Task, 1+h.rnd.IntN(maxBatch))
	for i, task := range h.client.NewIDs(len(all)) {
		all[i] = client.Task{
			ID: task, Queue: queues[h.rnd.IntN(len(queues))], Priority: int32(h.rnd.IntN(3) - 1),
			Payload: fmt.Appendf(nil, "%s of process %d", task, h.process),
		}
	}
	h.knows(all)
	return all
}

// knows remembers some of the tasks that were sent.
func (h *hand) knows(all []client.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range all {
		switch {
		case all[i].ID.IsZero():
		case len(h.known) < 4096:
			h.known = append(h.known, all[i].ID)
		default:
			h.known[h.rnd.IntN(len(h.known))] = all[i].ID
		}
	}
}

// enqueue enqueues some new tasks. The probe is the client whose success is the
// availability of its node (I15).
func (h *hand) enqueue(level client.Durability, probe bool) {
	h.send(h.tasks(), level, probe)
}

// send enqueues some tasks, and gives what was answered for each; nil: nothing.
func (h *hand) send(all []client.Task, level client.Durability, probe bool) []client.Result {
	asked := &history.Event{Func: history.Enqueue, Weak: level == client.One}
	for i := range all {
		asked.Items = append(asked.Items, history.Item{Task: all[i].ID, Spec: specOf(&all[i])})
	}
	fair := probe && h.reachable()
	var before patient
	if fair {
		before = h.strain.patient(h.node)
	}
	h.rec.invoke(h.process, asked)
	got, err := h.client.EnqueueMany(context.Background(), all, client.WithDurability(level))
	phase := h.rec.end(asked, err, history.Event{Items: results(asked, got)})
	fine := phase == history.OK
	for i, r := range got {
		fine = fine && r.Err == nil
		if r.Err == nil && r.Receipt.GetDurableCopies() < 2 {
			h.thinly(asked.Op, i)
		}
	}
	if fair && h.reachable() {
		h.probed(h.node, fine, before, err)
	}
	return got
}

// read reads a task, or the counters.
func (h *hand) read() {
	h.mu.Lock()
	var task id.ID
	if len(h.known) > 0 {
		task = h.known[h.rnd.IntN(len(h.known))]
	}
	h.mu.Unlock()
	if task.IsZero() {
		return
	}
	level := client.ReadQuorum
	if h.rnd.IntN(2) == 0 {
		level = client.ReadOne
	}
	h.get(task, level)
}

// get reads one task.
func (h *hand) get(task id.ID, level client.Consistency) history.Phase {
	return h.getAtLeast(task, level, nil)
}

// getAtLeast reads one task, whose log is to show an entry at least; nil: whatever.
func (h *hand) getAtLeast(task id.ID, level client.Consistency, least *history.Entry) history.Phase {
	asked := h.rec.invoke(h.process, &history.Event{Func: history.Get, Items: items([]id.ID{task}), Weak: level == client.ReadOne, After: least})
	options := []client.ReadOption{client.WithConsistency(level)}
	if least != nil {
		options = append(options, client.AtLeast(least.Token, least.Seq))
	}
	got, err := h.client.Get(context.Background(), task, options...)
	answer := history.Event{}
	switch {
	case err == nil:
		answer.Items = []history.Item{seen(got)}
		if log := answer.Items[0].Log; h.positions != nil && len(log) > 0 {
			h.saw(task, log[len(log)-1], false)
		}
	case kind(err) == "NOT_FOUND":
		answer.Items, err = []history.Item{{Task: task, State: history.Absent}}, nil
	}
	return h.rec.end(asked, err, answer)
}
