package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/hunt/policies"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/retention"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"

	gproto "google.golang.org/protobuf/proto"
)

// large is a cluster whose cells stand as planned, with a network that loses
// nothing and takes a millisecond. Only what the cores say is counted: not the
// register, not gossip, not signs of life.
type large struct {
	b        testing.TB
	now      clock.Time
	cores    []*Core
	stores   []*memstore.Mem
	index    map[register.Member]int
	wake     []int64 // mono ns
	post     []parcel
	messages int
	busy     time.Duration // in Step and Ready

	ids       *id.Generator
	requests  uint64
	works     bool // a worker at each node claims one task after the other, and completes it
	enqueued  int
	completed int
	said      func(from, to int, m any) // hears each message
	sent      map[string]int64          // by task, mono ns
	longest   time.Duration             // from its enqueue until a task was granted
}

type parcel struct {
	at int64
	to int
	m  *message.FromPeer
}

func newLarge(b testing.TB, nodes, partitions int) *large {
	l := &large{b: b, ids: id.NewGenerator(1, rand.New(rand.NewPCG(1, 2)).Uint64), now: clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}, index: map[register.Member]int{}, sent: map[string]int64{}}
	var members []register.Member
	var planned []ring.Node
	for i := range nodes {
		m := register.Member{Node: fmt.Sprintf("n%03d", i), Incarnation: register.Incarnation{byte(i), byte(i >> 8), 1}}
		l.index[m] = i
		members = append(members, m)
		planned = append(planned, ring.Node{Member: ring.Member{Name: m.Node, Key: m.Incarnation}, Weight: 100})
	}
	plan, err := ring.Place(ring.Plan{}, planned, partitions, 3)
	if err != nil {
		b.Fatal(err)
	}
	state := register.State{Cluster: register.Cluster{ID: register.UUID{1}, Partitions: partitions, Replicas: 3}, Members: members, Revision: 1, Plan: register.Value{Version: 1, Data: plan.AppendTo(nil)}}
	for _, m := range members {
		state.Nodes = append(state.Nodes, register.Node{Member: m, Version: 1, Status: register.Active, Weight: 100})
	}
	for p := range partitions {
		cell := register.Cell{Epoch: 1, Nonce: uint64(p)}
		for _, m := range plan.Cohort(ring.Partition(p)) {
			cell.Cohort = append(cell.Cohort, register.Member{Node: m.Name, Incarnation: m.Key})
		}
		cell.Leader = cell.Cohort[0]
		state.Cells = append(state.Cells, cell)
	}
	for i, m := range members {
		s := memstore.New()
		c, err := Open(Config{
			Policy: policies.Chosen(),
			Self:   m, Cluster: state.Cluster, Eta: eta, Buffer: eta, GCGrace: 7 * 24 * time.Hour, Lease: leaseTime,
			Retry: crdt.Retry{MaxAttempts: 3, Initial: time.Second, Max: time.Hour, Multiplier: 2000}, HeadSize: 256,
			MaxPayload: 1 << 20, MaxWaiters: 100, MaxQueues: 100, MaxClaims: 1000, CollectInterval: time.Minute,
			Retention: retention.Rule{What: nornv1.Retention_RETENTION_DELETE, After: time.Hour}, Repair: 10 * time.Second,
			Rand: rand.New(rand.NewPCG(uint64(i), 1)),
		}, s, l.now)
		if err != nil {
			b.Fatal(err)
		}
		l.cores, l.stores, l.wake = append(l.cores, c), append(l.stores, s), append(l.wake, 0)
	}
	for i, c := range l.cores {
		l.step(i, message.Changed{State: state})
		l.step(i, message.Alive{Members: slices.DeleteFunc(slices.Clone(members), func(m register.Member) bool { return m == c.cfg.Self })})
		c.round.Ready.Register, c.view.Current = nil, true // as if it had answered
		for p := range state.Cells {                       // nobody has to be elected
			if state.Cells[p].Leader == c.cfg.Self {
				c.vnodes.Use(ring.Partition(p)).Lead(state.Cells[p].Epoch)
			}
		}
	}
	return l
}

func (l *large) step(i int, event any) {
	began := time.Now()
	if err := l.cores[i].Step(l.now, event); err != nil {
		l.b.Fatal(err)
	}
	l.busy += time.Since(began)
	l.wake[i] = l.now.Mono
}

// run lets time pass.
func (l *large) run(d time.Duration) {
	end := l.now.Mono + int64(d)
	for l.now.Mono < end {
		next := end
		if len(l.post) > 0 {
			next = min(next, l.post[0].at)
		}
		for i := range l.wake {
			next = min(next, l.wake[i])
		}
		l.now = l.now.Add(time.Duration(max(0, next-l.now.Mono)))
		for len(l.post) > 0 && l.post[0].at <= l.now.Mono {
			p := l.post[0]
			l.post = l.post[1:]
			l.step(p.to, p.m)
		}
		for i, c := range l.cores {
			if l.wake[i] > l.now.Mono {
				continue
			}
			began := time.Now()
			ready, err := c.Ready(l.now)
			l.busy += time.Since(began)
			if err != nil {
				l.b.Fatal(err)
			}
			l.wake[i] = max(ready.WakeMono, l.now.Mono+1)
			if ready.Persist != nil {
				l.stores[i].Apply(ready.Persist)
				c.Recycle(ready.Persist)
			}
			for _, s := range slices.Concat(ready.Early, ready.Send) {
				l.messages++
				if l.said != nil {
					l.said(i, l.index[s.To], s.Message)
				}
				l.post = append(l.post, parcel{l.now.Mono + int64(time.Millisecond), l.index[s.To], &message.FromPeer{From: c.cfg.Self, Message: s.Message}})
			}
			for _, r := range ready.Replies {
				l.answered(i, r)
			}
		}
	}
}

// request asks one node for something.
func (l *large) request(i int, m gproto.Message) {
	l.requests++
	l.step(i, &message.Request{From: message.Origin{Conn: 1, Request: l.requests}, Body: m, Received: l.now.Mono})
}

// enqueue has tasks enqueued through one node.
func (l *large) enqueue(i, n int) {
	m := &nornv1.EnqueueRequest{}
	for range n {
		s, task := spec("q"), l.ids.Next(l.now.Wall)
		s.Id = task.Bytes()
		l.sent[task.String()] = l.now.Mono
		m.Tasks = append(m.Tasks, s)
	}
	l.request(i, m)
}

// claim has the worker of a node wait for its next task.
func (l *large) claim(i int) {
	l.request(i, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, Worker: "w", WaitSeconds: 300, Session: make([]byte, 16), RequestNo: l.requests + 1})
}

// answered is what a node answers a producer or its worker.
func (l *large) answered(i int, r message.Reply) {
	if r.Err != nil && r.Err.Kind == nornv1.ErrorKind_ERROR_KIND_CANCELLED {
		return
	}
	if r.Err != nil {
		l.b.Fatalf("node %d: %v", i, r.Err)
	}
	switch m := r.Message.(type) {
	case *nornv1.ClaimReply:
		var done []*nornv1.Completion
		for _, g := range m.Grants {
			l.longest = max(l.longest, time.Duration(l.now.Mono-l.sent[g.Task.Id]))
			task, err := id.Parse(g.Task.Id)
			if err != nil {
				l.b.Fatal(err)
			}
			done = append(done, &nornv1.Completion{Id: task.Bytes(), Token: g.Token})
		}
		if len(done) > 0 {
			l.request(i, &nornv1.CompleteRequest{Completions: done})
		}
		l.claim(i)
	case *nornv1.EnqueueReply:
		l.enqueued += len(m.Results)
	case *nornv1.WriteReply:
		l.completed += len(m.Results)
	}
}

// second has so many tasks enqueued through each node in a second.
func (l *large) second(rate int) {
	for range max(rate, 1) {
		for i := range l.cores {
			if rate > 0 {
				l.enqueue(i, 1)
			}
		}
		l.run(time.Second / time.Duration(max(rate, 1)))
	}
}

// settle lets trees be built and first comparisons end, and begins to count.
func (l *large) settle() {
	l.run(12 * time.Second)
	if l.works {
		for i := range l.cores {
			l.claim(i)
		}
	}
	l.second(0)
	l.messages, l.busy = 0, 0
}

// BenchmarkClusters counts what a node says and computes in a second: when
// nothing happens, with 20 tasks a second through each node, and with a worker at
// each that claims and completes as many.
func BenchmarkClusters(b *testing.B) {
	for _, size := range []struct{ nodes, partitions int }{{3, 64}, {10, 128}, {50, 512}, {200, 2048}} {
		for _, load := range []struct {
			name  string
			rate  int
			works bool
		}{{"idle", 0, false}, {"enqueue", 20, false}, {"work", 20, true}} {
			b.Run(fmt.Sprintf("nodes=%d/partitions=%d/%s", size.nodes, size.partitions, load.name), func(b *testing.B) {
				l := newLarge(b, size.nodes, size.partitions)
				l.works = load.works
				l.settle()
				b.ResetTimer()
				seconds := 0
				for b.Loop() {
					l.second(load.rate)
					seconds++
				}
				per := float64(seconds * size.nodes)
				b.ReportMetric(float64(l.messages)/per, "messages/node/s")
				b.ReportMetric(float64(l.busy.Microseconds())/per, "cpu-us/node/s")
				b.ReportMetric(float64(l.completed)/per, "tasks/node/s")
			})
		}
	}
}

// TestThroughputGrowsWithTheNodes: with four times the nodes, partitions, producers and
// workers four times as many tasks are enqueued, claimed and completed in the same time,
// each with about as many messages and looks at vnodes (requirement 179). What it costs in
// processor time is for [BenchmarkClusters].
func TestThroughputGrowsWithTheNodes(t *testing.T) {
	const batches, batch, workers = 20, 20, 4 // of each node
	type cost struct{ enqueue, work, messages, looks float64 }
	of := func(nodes int) cost {
		l := newLarge(t, nodes, 16*nodes)
		l.settle()
		looks := func() (n float64) {
			for _, c := range l.cores {
				n += float64(c.vnodes.Asked)
			}
			return n
		}
		before, began := looks(), l.now.Mono
		for range batches {
			for i := range l.cores {
				l.enqueue(i, batch)
			}
		}
		all := nodes * batches * batch
		for l.enqueued < all {
			l.run(time.Millisecond)
		}
		c := cost{enqueue: float64(l.now.Mono-began) / 1e9}
		began, l.works = l.now.Mono, true
		for i := range l.cores {
			for range workers {
				l.claim(i)
			}
		}
		for l.completed < all*9/10 { // in the end workers wait, and all hear of each task that is left
			l.run(time.Millisecond)
		}
		c.work = float64(l.now.Mono-began) / 1e9
		c.messages, c.looks = float64(l.messages)/float64(all), (looks()-before)/float64(all)
		t.Logf("%d nodes: enqueued after %.3f s, completed in %.3f s, %.1f messages and %.1f looks at vnodes for each task", nodes, c.enqueue, c.work, c.messages, c.looks)
		return c
	}
	small, large := of(12), of(48)
	for _, x := range []struct {
		what                string
		small, large, limit float64
	}{
		{"the time to enqueue", small.enqueue, large.enqueue, 1.1},
		{"the time to work", small.work, large.work, 1.1},
		{"messages", small.messages, large.messages, 1.35}, // a batch goes to more leaders, and a task less often stays where it was given
		{"looks", small.looks, large.looks, 1.1},
	} {
		if x.large > x.limit*x.small {
			t.Errorf("%s: %v in a small cluster, %v in a large one", x.what, x.small, x.large)
		}
	}
}

// TestATaskIsToldToAFew: where more workers wait than there are tasks, each task is told to
// a few nodes, and asked for by fewer; all nodes were told, and thirteen of 48 asked.
func TestATaskIsToldToAFew(t *testing.T) {
	const nodes, rate, seconds = 30, 20, 3
	l := newLarge(t, nodes, 8*nodes)
	l.works = true
	l.settle()
	forwards := 0 // claims and writes on their way to who leads
	l.said = func(_, _ int, m any) {
		if _, is := m.(*message.Forward); is {
			forwards++
		}
	}
	for range seconds {
		l.second(rate)
	}
	l.run(time.Second)
	tasks := nodes * rate * seconds
	if l.completed != tasks {
		t.Errorf("%d of %d tasks are completed", l.completed, tasks)
	}
	each := float64(forwards) / float64(tasks)
	t.Logf("%.1f forwards for each task, of which the enqueue is one, granted after %v at most", each, l.longest)
	if each > 4 || l.longest > 100*time.Millisecond {
		t.Errorf("%.1f forwards for each task, granted after %v at most", each, l.longest)
	}
}

// TestTheNextOnesHearWhenNobodyComes: who was told first of a task may have no use for it by
// now, or never hear of it.
func TestTheNextOnesHearWhenNobodyComes(t *testing.T) {
	const nodes = 12
	l := newLarge(t, nodes, nodes)
	l.settle()
	for i := 1; i < nodes; i++ { // each asks every leader, in vain
		l.claim(i)
		if l.run(50 * time.Millisecond); i < nodes-1 {
			l.step(i, message.Cancel{From: message.Origin{Conn: 1, Request: l.requests}})
		}
	}
	if got := l.cores[0].dispatch.Held().Subscribers; got != nodes-1 {
		t.Fatalf("there wait %d", got)
	}
	task := l.led(0)
	l.request(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Id: task.Bytes(), Queue: "q"}}})
	l.sent[task.String()] = l.now.Mono
	for l.longest == 0 && l.now.Mono < l.sent[task.String()]+int64(time.Second) {
		l.run(time.Millisecond)
	}
	if l.longest == 0 || l.longest > 30*time.Millisecond { // a millisecond for each message, and three meals
		t.Errorf("it is granted after %v", l.longest)
	}
}

// TestNewsGoToThoseWhoAsk: with workers at three of twenty nodes, a task that is enqueued now and
// then is told of to those three. Each leader told all nodes what it had, as soon as somebody asked
// anywhere: 24 messages for a task, two thirds of them to nodes that nobody asked.
func TestNewsGoToThoseWhoAsk(t *testing.T) {
	const nodes, asking, workers, rate, seconds = 20, 3, 4, 100, 3
	l := newLarge(t, nodes, 64)
	l.settle()
	l.works = true
	for range workers {
		for i := range asking {
			l.claim(i)
		}
	}
	l.second(0)
	news, stray, forwards := 0, 0, 0
	l.said = func(_, to int, m any) {
		switch m.(type) {
		case *message.QueueHeads:
			if news++; to >= asking {
				stray++
			}
		case *message.Forward:
			forwards++
		}
	}
	for n := range rate * seconds {
		l.enqueue(n%asking, 1)
		l.run(time.Second / rate)
	}
	const tasks = rate * seconds
	each := float64(news) / tasks
	t.Logf("%.1f news and %.1f forwards for each task, granted after %v at most; %d of %d news go to who does not ask", each, float64(forwards)/tasks, l.longest, stray, news)
	if l.completed < tasks-asking*workers || each > 8 || stray > news/3 || l.longest > 20*time.Millisecond {
		t.Errorf("%d of %d tasks are completed", l.completed, tasks)
	}
}

// led is a new task of a partition that a node leads.
func (l *large) led(i int) id.ID {
	for {
		task := l.ids.Next(l.now.Wall)
		if p := ring.Of(task, len(l.cores[i].view.Cells)); l.cores[i].vnodes.See(p).Leading() != 0 {
			return task
		}
	}
}

// TestVnodesAreOpenOfWhatIsKept: every node had a vnode of every partition of the cluster in memory,
// 28 MiB with 4,096, however few of them it kept. What passes through a node opens none.
func TestVnodesAreOpenOfWhatIsKept(t *testing.T) {
	const nodes, partitions = 10, 256
	l := newLarge(t, nodes, partitions)
	l.works = true
	l.settle()
	for range 2 {
		l.second(20)
	}
	for i, c := range l.cores {
		for p := range partitions {
			kept := slices.Contains(c.view.Cells[p].Cohort, c.cfg.Self)
			if open := c.vnodes.Opened(ring.Partition(p)); open != kept {
				t.Fatalf("node %d: partition %d is kept: %v, its vnode is open: %v", i, p, kept, open)
			}
		}
	}
	if l.enqueued != 2*20*nodes || l.completed < l.enqueued-nodes {
		t.Errorf("%d tasks are enqueued, %d completed", l.enqueued, l.completed)
	}
}

// TestMarksGoWhereTheyCount: of twenty nodes that share cohorts with most others, one that writes tells
// how far its disk is to those who keep with it what it writes, soon, and to the others with the beat of
// each second, in the same frame; and nobody says anything where nothing is written. All others were told ten times a second: 22.6
// messages for a task. What was seen of others was a write like any other, which all were told of,
// and wrote down.
func TestMarksGoWhereTheyCount(t *testing.T) {
	const nodes, through, rate, seconds = 20, 3, 100, 5
	l := newLarge(t, nodes, 64)
	l.settle()
	l.works = true
	for i := range through {
		for range 4 {
			l.claim(i)
		}
	}
	l.second(0)
	marks, all, also := 0, 0, map[[3]int]bool{} // from, to, at: something else goes with it
	var alone [][3]int
	l.said = func(from, to int, m any) {
		all++
		frame := [3]int{from, to, int(l.now.Mono)}
		if _, is := m.(*message.DurabilityEpoch); is {
			marks++
			alone = append(alone, frame)
		} else {
			also[frame] = true
		}
	}
	for n := range rate * seconds {
		l.enqueue(n%through, 1)
		l.run(time.Second / rate)
	}
	each := float64(marks) / (rate * seconds)
	frames := float64(len(slices.DeleteFunc(alone, func(f [3]int) bool { return also[f] }))) / (rate * seconds)
	t.Logf("%.1f of %.1f messages for a task say how far a disk is, %.1f travel alone", each, float64(all)/(rate*seconds), frames)
	if each > 8 || frames > 2 || l.completed == 0 {
		t.Errorf("%.1f messages for each of %d tasks say how far a disk is, %.1f travel alone", each, l.completed, frames)
	}
	l.run(10 * time.Second)
	marks = 0
	l.run(10 * time.Second)
	if marks > nodes {
		t.Errorf("%d messages of 10 s in which nothing is written say how far a disk is", marks)
	}
	for i, c := range l.cores { // they go by what they know
		for m, mark := range c.standing.Disk.HeardOf {
			if own := l.cores[l.index[m]].standing.Disk.Durable; mark != own {
				t.Errorf("node %d has seen mark %d of node %d, which is at %d", i, mark, l.index[m], own)
			}
		}
	}
}
