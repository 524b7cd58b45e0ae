package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Queues of the workload.
const (
	qPlain   = "kill.plain"
	qDeps    = "kill.deps"
	qKeys    = "kill.keys"
	qGate    = "kill.gate"    // paused, drained and resumed
	qPurge   = "kill.purge"   // purged, and claimed from by its own only
	qBrief   = "kill.brief"   // finished tasks are deleted soon
	qArchive = "kill.archive" // finished tasks are archived soon
)

const (
	keyWindow = 2 * time.Second
	retention = time.Second
	// backlog is how many unfinished tasks are enough.
	backlog = 2500
)

// killLoad is the workload: everything a client can do, all the time.
type killLoad struct {
	j    *judge
	c    *client.Client
	seed uint64

	gate    sync.RWMutex // held for reading by each step: whoever has it alone has silence
	stop    chan struct{}
	running sync.WaitGroup
	open    atomic.Int64 // unfinished tasks, as counted last
	dying   chan [2]id.ID
	note    string // of qPlain, as acknowledged last
	version uint64

	mu     sync.Mutex // guards recent
	recent []id.ID    // some acknowledged tasks
}

// run repeats a step until the load is stopped.
func (k *killLoad) run(ctx context.Context, n uint64, every time.Duration, step func(context.Context, *rand.Rand)) {
	k.running.Go(func() {
		r := rand.New(rand.NewPCG(k.seed, n))
		for {
			select {
			case <-k.stop:
				return
			case <-time.After(every/2 + rand.N(every)):
			}
			k.gate.RLock()
			call, cancel := context.WithTimeout(ctx, patient(r))
			step(call, r)
			cancel()
			k.gate.RUnlock()
		}
	})
}

// patient is how long a client tries: mostly for longer than a restart takes.
func patient(r *rand.Rand) time.Duration {
	if r.IntN(3) > 0 {
		return 30 * time.Second
	}
	return time.Duration(20+r.IntN(300)) * time.Millisecond
}

func (k *killLoad) full() bool { return k.open.Load() > backlog }

// remember keeps an acknowledged task for those who cancel and read.
func (k *killLoad) remember(r *rand.Rand, task id.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.recent) < 300 {
		k.recent = append(k.recent, task)
	} else {
		k.recent[r.IntN(300)] = task
	}
}

// some are up to n of the tasks that were remembered.
func (k *killLoad) some(r *rand.Rand, n int) (tasks []id.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range min(n, len(k.recent)) {
		if t := k.recent[r.IntN(len(k.recent))]; !slices.Contains(tasks, t) {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// newTask is a task whose payload says whose it is, and whether it is to die.
func (k *killLoad) newTask(r *rand.Rand, queue string, dies bool) client.Task {
	t := client.Task{ID: k.c.NewID(), Queue: queue, Priority: int32(r.IntN(5) - 2)}
	t.Payload = []byte("L" + t.ID.String())
	if dies {
		t.Payload[0] = 'D'
		if r.IntN(2) == 0 {
			t.Retry = &nornv1.RetryPolicy{MaxAttempts: 1}
		}
	}
	return t
}

// send enqueues tasks, one by one or in one batch, sometimes twice.
func (k *killLoad) send(ctx context.Context, r *rand.Rand, tasks ...client.Task) {
	for range 1 + r.IntN(5)/4 {
		if len(tasks) == 1 {
			begun := k.j.enqueues(tasks...)
			receipt, err := k.c.Enqueue(ctx, tasks[0])
			k.j.enqueued(begun, tasks[0].ID, receipt.GetExisted(), err)
			if err == nil {
				k.remember(r, tasks[0].ID)
			}
			continue
		}
		begun := k.j.enqueues(tasks...)
		results, err := k.c.EnqueueMany(ctx, tasks)
		k.j.note("enqueue of a batch", 1)
		for i := range tasks {
			if err != nil {
				k.j.enqueued(begun, tasks[i].ID, false, err)
				continue
			}
			k.j.enqueued(begun, tasks[i].ID, results[i].Receipt.GetExisted(), results[i].Err)
			if r.IntN(4) == 0 && results[i].Err == nil {
				k.remember(r, tasks[i].ID)
			}
		}
	}
}

// produce enqueues tasks that depend on nothing.
func (k *killLoad) produce(ctx context.Context, r *rand.Rand) {
	if k.full() {
		return
	}
	queue := []string{qPlain, qPlain, qPlain, qGate, qBrief, qArchive}[r.IntN(6)]
	n := 1
	if r.IntN(2) == 0 {
		n += r.IntN(30)
	}
	tasks := make([]client.Task, n)
	for i := range tasks {
		tasks[i] = k.newTask(r, queue, r.IntN(60) == 0)
		if r.IntN(8) == 0 {
			tasks[i].NotBefore = time.Now().Add(time.Duration(r.IntN(800)) * time.Millisecond)
			k.j.note("enqueue with a delay", 1)
		}
	}
	k.send(ctx, r, tasks...)
}

// policies of tasks whose dependencies die.
var policies = []nornv1.DependencyFailure{
	nornv1.DependencyFailure_DEPENDENCY_FAILURE_CANCEL, nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN, nornv1.DependencyFailure_DEPENDENCY_FAILURE_WAIT,
}

// depend enqueues tasks that depend on others.
func (k *killLoad) depend(ctx context.Context, r *rand.Rand) {
	if k.full() {
		return
	}
	switch n := r.IntN(40); {
	case n < 20:
		k.chain(ctx, r)
	case n < 36:
		k.doomed(ctx, r)
	case n < 38:
		// What it depends on never comes.
		t := k.newTask(r, qDeps, false)
		t.Dependencies = []id.ID{k.c.NewID()}
		k.send(ctx, r, t)
		k.j.note("dependency that never comes", 1)
	default:
		k.fan(ctx, r, 100+r.IntN(200))
	}
}

// chain enqueues tasks each of which depends on the one before, in any order.
func (k *killLoad) chain(ctx context.Context, r *rand.Rand) {
	tasks := make([]client.Task, 2+r.IntN(5))
	for i := range tasks {
		tasks[i] = k.newTask(r, qDeps, false)
		if i > 0 {
			tasks[i].Dependencies = []id.ID{tasks[i-1].ID}
			tasks[i].OnDependencyFailure = policies[r.IntN(3)]
		}
	}
	switch r.IntN(3) {
	case 0:
		k.send(ctx, r, tasks...)
		return
	case 1:
		slices.Reverse(tasks)
		k.j.note("chain, unknown dependencies first", 1)
	}
	for _, t := range tasks {
		k.send(ctx, r, t)
	}
	k.j.note("chain", 1)
}

// doomed enqueues a task that dies or is cancelled, and one of each policy
// that depends on it.
func (k *killLoad) doomed(ctx context.Context, r *rand.Rand) {
	parent := k.newTask(r, qDeps, true)
	k.send(ctx, r, parent)
	for _, policy := range policies {
		t := k.newTask(r, qDeps, false)
		t.Dependencies, t.OnDependencyFailure = []id.ID{parent.ID}, policy
		if r.IntN(3) == 0 {
			t.Dependencies = append(t.Dependencies, k.some(r, 2)...)
		}
		k.send(ctx, r, t)
		k.j.note("dependency that dies", 1)
		select {
		case k.dying <- [2]id.ID{parent.ID, t.ID}:
		default:
		}
	}
	if r.IntN(4) == 0 {
		k.cancel(ctx, []id.ID{parent.ID}, client.CancelOptions{Reason: "doomed"})
	}
}

// fan enqueues many tasks that depend on one, and one that depends on many of
// them.
func (k *killLoad) fan(ctx context.Context, r *rand.Rand, n int) {
	root := k.newTask(r, qDeps, false)
	tasks := make([]client.Task, n)
	join := k.newTask(r, qDeps, false)
	join.OnDependencyFailure = policies[r.IntN(3)]
	for i := range tasks {
		tasks[i] = k.newTask(r, qDeps, false)
		tasks[i].Dependencies = []id.ID{root.ID}
		join.Dependencies = append(join.Dependencies, tasks[i].ID)
	}
	k.send(ctx, r, tasks...)
	k.send(ctx, r, root)
	k.send(ctx, r, join)
	k.j.note("fan: dependents", n)
}

// avalanche cancels a task on which so many depend that it takes the server
// more than one step to tell them. Whoever kills it now kills it in between.
func (k *killLoad) avalanche(ctx context.Context, r *rand.Rand) {
	root := k.newTask(r, qDeps, false)
	root.NotBefore = time.Now().Add(time.Hour)
	tasks := make([]client.Task, 2000)
	for i := range tasks {
		tasks[i] = k.newTask(r, qDeps, false)
		tasks[i].Dependencies, tasks[i].OnDependencyFailure = []id.ID{root.ID}, policies[i%2]
	}
	k.send(ctx, r, root)
	k.send(ctx, r, tasks...)
	k.cancel(ctx, []id.ID{root.ID}, client.CancelOptions{Reason: "avalanche"})
}

// key enqueues a task with a unique key.
func (k *killLoad) key(ctx context.Context, r *rand.Rand) {
	if k.full() {
		return
	}
	t := client.Task{Queue: qKeys, Key: fmt.Sprintf("k%d", r.IntN(12))}
	if r.IntN(3) == 0 {
		t.KeyWindow = keyWindow
	}
	t.Payload = []byte("L" + t.Key)
	if r.IntN(12) == 0 {
		t.Payload = append(t.Payload, " otherwise"...)
	}
	kind := map[bool]string{true: "key with a window", false: "key"}[t.KeyWindow > 0]
	if r.IntN(5) == 0 { // the client looks up and sends
		k.j.enqueues(t)
		receipt, err := k.c.Enqueue(ctx, t)
		if err != nil {
			return
		}
		t.ID, _ = id.Parse(receipt.GetId())
		begun := k.j.enqueues(t)
		k.j.enqueued(begun, t.ID, true, nil) // whether it was new is of no use so late
		k.j.note(kind+": enqueue by the key alone", 1)
		return
	}
	begun := k.j.begins()
	task, _, err := k.c.LookupKey(ctx, t.Queue, t.Key, t.KeyWindow)
	if err != nil {
		return
	}
	t.ID = task
	k.j.enqueues(t)
	receipt, err := k.c.Enqueue(ctx, t)
	k.j.enqueued(begun, t.ID, receipt.GetExisted(), err)
	switch {
	case err == nil && receipt.GetExisted():
		k.j.note(kind+": taken", 1)
	case err == nil:
		k.j.note(kind+": new", 1)
	case errors.Is(err, client.ErrAlreadyExists):
		k.j.note(kind+": taken by another", 1)
	}
}

// cancel cancels tasks by their IDs.
func (k *killLoad) cancel(ctx context.Context, tasks []id.ID, o client.CancelOptions) {
	refs := make([]client.Ref, len(tasks))
	for i, t := range tasks {
		refs[i].ID = t
	}
	begun := k.j.asks(cancelling, refs...)
	results, err := k.c.Cancel(ctx, tasks, o)
	k.j.settled(begun, cancelling, refs, results, err)
}

// settled hears the results of a batch.
func (j *judge) settled(begun int64, d deed, refs []client.Ref, results []client.Result, err error) {
	for i, r := range refs {
		if err != nil {
			j.hears(begun, d, r, 0, err)
			continue
		}
		j.hears(begun, d, r, results[i].State, results[i].Err)
	}
}

// cancelSome cancels tasks that were enqueued before, or a group of new ones by
// a filter.
func (k *killLoad) cancelSome(ctx context.Context, r *rand.Rand) {
	if r.IntN(2) == 0 {
		o := client.CancelOptions{Reason: "some"}
		if r.IntN(3) == 0 {
			o.Only = []nornv1.State{nornv1.State_STATE_READY, nornv1.State_STATE_SCHEDULED}
		}
		k.cancel(ctx, k.some(r, 1+r.IntN(3)), o)
		return
	}
	group := fmt.Sprintf("g%d", r.Uint64())
	tasks := make([]client.Task, 3+r.IntN(20))
	for i := range tasks {
		tasks[i] = k.newTask(r, qPlain, false)
		tasks[i].Headers = map[string]string{"group": group}
		tasks[i].NotBefore = time.Now().Add(time.Duration(r.IntN(300)) * time.Millisecond)
	}
	k.send(ctx, r, tasks...)
	begun := k.j.cancelsWhere(qPlain, group)
	b, err := k.c.CancelWhere(ctx, client.Filter{Queue: qPlain, Headers: map[string]string{"group": group}}, client.BulkOptions{Reason: "group"})
	k.j.cancelledWhere(begun, qPlain, group, true, b, err)
}

// purge fills a queue, has some of it claimed, and purges it.
func (k *killLoad) purge(ctx context.Context, r *rand.Rand) {
	tasks := make([]client.Task, 5+r.IntN(20))
	for i := range tasks {
		tasks[i] = k.newTask(r, qPurge, false)
		switch r.IntN(4) {
		case 0:
			tasks[i].NotBefore = time.Now().Add(time.Hour)
		case 1:
			if i > 0 {
				tasks[i].Dependencies, tasks[i].OnDependencyFailure = []id.ID{tasks[i-1].ID}, policies[2]
			}
		}
	}
	k.send(ctx, r, tasks...)
	queues := []string{qPurge}
	begun := k.j.claims(queues)
	claims, err := k.c.Claim(ctx, client.ClaimRequest{Queues: queues, Max: 1 + r.IntN(3), Lease: time.Second, Worker: "purge"})
	k.j.claimed(begun, queues, grantsOf(claims), err) // and never finished
	begun = k.j.cancelsWhere(qPurge, "")
	b, err := k.c.Queues().Purge(ctx, qPurge, client.BulkOptions{Reason: "purge"})
	k.j.cancelledWhere(begun, qPurge, "", false, b, err)
}

// retryDead retries what has died, and then what was cancelled with it.
func (k *killLoad) retryDead(ctx context.Context, r *rand.Rand) {
	if r.IntN(15) == 0 {
		queue := []string{qPlain, qDeps, qKeys}[r.IntN(3)]
		k.j.retriesWhere(queue)
		b, err := k.c.RetryWhere(ctx, client.Filter{Queue: queue, Limit: 20}, client.BulkOptions{})
		k.j.retriedWhere(queue, b, err)
		return
	}
	var family [2]id.ID
	select {
	case family = <-k.dying:
	default:
		return
	}
	begun := k.j.begins()
	parent, err := k.c.Get(ctx, family[0])
	if err != nil {
		return
	}
	k.j.reads(begun, family[0], parent.GetState())
	if !client.Finished(parent.GetState()) {
		select { // not yet
		case k.dying <- family:
		default:
		}
		return
	}
	for _, task := range family {
		begun := k.j.asks(retrying, client.Ref{ID: task})
		results, err := k.c.Retry(ctx, []id.ID{task})
		k.j.settled(begun, retrying, []client.Ref{{ID: task}}, results, err)
	}
}
