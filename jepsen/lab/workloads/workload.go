package workloads

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
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/record"
)

// Workload is what clients do.
type Workload struct {
	Name, About string
	// begin makes the clients.
	Begin func(*Crew) error
	// claims: tasks are handed out, and in the end until all are done.
	Claims bool
	// queues are those that workers claim from; nil: those of all workloads.
	Queues []string
	// args are more arguments of nodes.
	Args []string
	// kept is for how long finished tasks are kept; 0: for ever.
	Kept time.Duration
	// calm is how long nothing is wrong before the faults and after them; 0: faults
	// come at once.
	Calm time.Duration
	// finish ends, once the cluster is whole again, what clients have begun; nil:
	// there is nothing to end.
	Finish func(context.Context, *Crew) error
	// least is how many acknowledged tasks a second there must be for a run to
	// prove anything.
	Least float64
	// lacks says what else is missing for that; "" is nothing. nil: nothing else.
	Lacks func(*Seen) string
}

// Workloads are all there are, the default first.
func Workloads() []Workload {
	return []Workload{
		{Name: "enqueue", About: "enqueues through each node with every write level, and through all nodes in turn; readings beside (W1 without claims, W14)", Begin: (*Crew).enqueuers, Least: LeastPerSecond},
		{Name: "claims", About: "fewer enqueues; workers claim, renew, update, complete, fail, release and forget; in the end everything is done (W1 to W5)", Begin: (*Crew).workers, Claims: true, Least: LeastPerSecond},
		hot(), diaries(), dependencies(), repeats(), collected(), looked(), heavy(), ranked(), scheduled(),
	}
}

// Named finds one by its name.
func Named(name string) (Workload, bool) {
	all := Workloads()
	if i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name }); i >= 0 {
		return all[i], true
	}
	return Workload{}, false
}

// Crew are the clients of a run.
type Crew struct {
	*cluster.Lab
	Ctx    context.Context // ends when no more faults come
	Queues []string        // that workers claim from; nil: those of all workloads
	Work   sync.WaitGroup

	mu    sync.Mutex            // guards what follows
	known []id.ID               // some tasks that were sent
	Owed  map[id.ID]client.Task // that others wait for, and that may not be there
	later []errand              // what is to be done once more
	sent  []client.Task         // by clients that do things twice
	// positions is how far logs are known; nil: nobody reads them again.
	positions map[id.ID]*position
	// numbers are guarded by claims only; nil: the workload has none.
	Numbers *vector
	// crons are schedules that launch tasks; nil: there are none.
	Crons *Crons
}

// Hand is one client: it does one thing after the other.
type Hand struct {
	*Crew
	Process int
	Client  *client.Client
	Node    *cluster.Process // the only one it talks to; nil: all
	Rnd     *rand.Rand       // its own
	think   time.Duration
	from    []string // the queues that it claims from; nil: those of all workloads
	most    int      // tasks that it claims at once; 0: as many as in all workloads
}

// Join makes a client that does something again and again until the storm is
// over.
func (c *Crew) Join(node *cluster.Process, timeout, think time.Duration, do func(*Hand)) error {
	to := c.Members()
	if node != nil {
		to = []*cluster.Process{node}
	}
	dialled, err := c.Dial(timeout, to...)
	if err != nil {
		return err
	}
	process := c.Rec.Process()
	h := &Hand{Crew: c, Process: process, Client: dialled, Node: node, Rnd: rand.New(rand.NewPCG(c.Cfg.Seed, uint64(process))), think: think, from: c.Queues}
	c.Work.Go(func() {
		for c.Ctx.Err() == nil {
			do(h)
			h.pause()
			if now := c.HeirsOf(to); now != nil {
				h.turn(timeout, now)
				to = now
			}
		}
	})
	return nil
}

// turn has a client talk to other nodes from now on.
func (h *Hand) turn(timeout time.Duration, to []*cluster.Process) {
	dialled, err := h.Dial(timeout, to...)
	if err != nil {
		h.Found("internal", "a client cannot turn to %s: %v", cluster.Names(to), err) // their addresses are good ones
		return
	}
	if h.Client = dialled; h.Node != nil {
		h.Node = to[0]
	}
}

// pause waits about as long as the client thinks.
func (h *Hand) pause() {
	select {
	case <-h.Ctx.Done():
	case <-time.After(time.Duration(h.Rnd.Int64N(int64(2*h.think) + 1))):
	}
}

// levels are the write levels of clients that talk to one node. One comes last:
// it is the one that must work through every node.
var levels = []client.Durability{client.Quorum, client.All, client.Copies(2), client.One}

// enqueuers are the clients of workload enqueue.
func (c *Crew) enqueuers() error {
	think := c.Cfg.Think
	for _, p := range c.Members() {
		for i, level := range levels {
			probe := i == len(levels)-1
			if err := c.Join(p, 3*time.Second, think, func(h *Hand) { h.Enqueue(level, probe) }); err != nil {
				return err
			}
		}
		if err := c.Join(p, 3*time.Second, think, (*Hand).read); err != nil {
			return err
		}
	}
	for range 3 {
		if err := c.Join(nil, 30*time.Second, think, func(h *Hand) { h.Enqueue(client.Quorum, false) }); err != nil {
			return err
		}
	}
	return nil
}

// MaxBatch is how many tasks one call of a workload enqueues at most.
const MaxBatch = 12

// tasks makes some new tasks.
func (h *Hand) tasks() []client.Task {
	all := make([]client.Task, 1+h.Rnd.IntN(MaxBatch))
	for i, task := range h.Client.NewIDs(len(all)) {
		all[i] = client.Task{
			ID: task, Queue: Queues[h.Rnd.IntN(len(Queues))], Priority: int32(h.Rnd.IntN(3) - 1),
			Payload: fmt.Appendf(nil, "%s of process %d", task, h.Process),
		}
	}
	h.knows(all)
	return all
}

// knows remembers some of the tasks that were sent.
func (h *Hand) knows(all []client.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range all {
		switch {
		case all[i].ID.IsZero():
		case len(h.known) < 4096:
			h.known = append(h.known, all[i].ID)
		default:
			h.known[h.Rnd.IntN(len(h.known))] = all[i].ID
		}
	}
}

// Enqueue enqueues some new tasks. The probe is the client whose success is the
// availability of its node (I15).
func (h *Hand) Enqueue(level client.Durability, probe bool) {
	h.Send(h.tasks(), level, probe)
}

// Send enqueues some tasks, and gives what was answered for each; nil: nothing.
func (h *Hand) Send(all []client.Task, level client.Durability, probe bool) []client.Result {
	asked := &history.Event{Func: history.Enqueue, Weak: level == client.One}
	for i := range all {
		asked.Items = append(asked.Items, history.Item{Task: all[i].ID, Spec: record.SpecOf(&all[i])})
	}
	fair := probe && h.reachable()
	var before cluster.Patient
	if fair {
		before = h.Strain.Patient(h.Node)
	}
	h.Rec.Invoke(h.Process, asked)
	got, err := h.Client.EnqueueMany(context.Background(), all, client.WithDurability(level))
	phase := h.Rec.End(asked, err, history.Event{Items: record.Results(asked, got)})
	fine := phase == history.OK
	for i, r := range got {
		fine = fine && r.Err == nil
		if r.Err == nil && r.Receipt.GetDurableCopies() < 2 {
			h.thinly(asked.Op, i)
		}
	}
	if fair && h.reachable() {
		h.Probed(h.Node, fine, before, err)
	}
	return got
}

// read reads a task, or the counters.
func (h *Hand) read() {
	h.mu.Lock()
	var task id.ID
	if len(h.known) > 0 {
		task = h.known[h.Rnd.IntN(len(h.known))]
	}
	h.mu.Unlock()
	if task.IsZero() {
		return
	}
	level := client.ReadQuorum
	if h.Rnd.IntN(2) == 0 {
		level = client.ReadOne
	}
	h.Get(task, level)
}

// Get reads one task.
func (h *Hand) Get(task id.ID, level client.Consistency) history.Phase {
	return h.getAtLeast(task, level, nil)
}

// getAtLeast reads one task, whose log is to show an entry at least; nil: whatever.
func (h *Hand) getAtLeast(task id.ID, level client.Consistency, least *history.Entry) history.Phase {
	asked := h.Rec.Invoke(h.Process, &history.Event{Func: history.Get, Items: record.Items([]id.ID{task}), Weak: level == client.ReadOne, After: least})
	options := []client.ReadOption{client.WithConsistency(level)}
	if least != nil {
		options = append(options, client.AtLeast(least.Token, least.Seq))
	}
	got, err := h.Client.Get(context.Background(), task, options...)
	answer := history.Event{}
	switch {
	case err == nil:
		answer.Items = []history.Item{record.Seen(got)}
		if log := answer.Items[0].Log; h.positions != nil && len(log) > 0 {
			h.saw(task, log[len(log)-1], false)
		}
	case record.Kind(err) == "NOT_FOUND":
		answer.Items, err = []history.Item{{Task: task, State: history.Absent}}, nil
	}
	return h.Rec.End(asked, err, answer)
}

// reachable tells whether the client's node runs and can be reached.
func (h *Hand) reachable() bool {
	if h.Node == nil {
		return false
	}
	there, back := h.Linked(h.Node)
	return h.Node.Running(cluster.Steady) && there == (network.Link{}) && back == (network.Link{})
}

func (h *Hand) thinly(op uint64, item int) {
	h.Lab.Mu.Lock()
	defer h.Lab.Mu.Unlock()
	t := cluster.Thin{Op: op, Item: item, Node: network.Driver}
	if h.Node != nil {
		t.Node = h.Node.N
	}
	h.Lab.Thin = append(h.Lab.Thin, t)
}

// LeastPerSecond is the least rate of acknowledged tasks for a run to prove
// anything.
const LeastPerSecond = 20

// ClockSkew is how far the wall clock of a node may be from that of this
// process: they have the same one.
const ClockSkew = 10 * time.Millisecond

// Seen is what a workload looks at to say what is missing in a run.
type Seen struct {
	Duration time.Duration // of the storm
	Events   []*history.Event
	Calm     []cluster.Window // when nothing was wrong
}

// calm tells whether nothing was wrong at a time.
func (r *Seen) quietAt(at int64) bool {
	for _, w := range r.Calm {
		if int64(w.From) <= at && at <= int64(w.To) {
			return true
		}
	}
	return false
}
