package core

import (
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/audit"

	gproto "google.golang.org/protobuf/proto"
)

// signEvery is how often a node that has nothing else to say to another one says that it lives.
const signEvery = time.Second

// says counts what one node says to another one, and the signs of life that it need not.
func (g *forming) says(from, to int, m any, after time.Duration) {
	if g.said == nil {
		return
	}
	g.said(from, to, m)
	k, at := [2]int{from, to}, g.now.Mono+int64(after)
	if g.spoke[k] != at {
		signs := int(max(0, at-g.spoke[k]) / int64(signEvery))
		g.frames++
		g.signs += signs
		g.by[from] += 1 + signs
		g.spoke[k] = at
	}
}

// count begins to count what is said, and gives the means of a node and second since: frames of
// messages, signs of life, and the messages of the busiest node. kinds are the messages by kind.
func (g *forming) count() (end func() (frames, signs, busiest float64, kinds map[string]int)) {
	sent, kinds, began := make([]int, len(g.cores)), map[string]int{}, g.now.Mono
	clear(g.spoke)
	g.signs, g.frames, g.by = 0, 0, make([]int, len(g.cores))
	for i := range g.cores {
		for j := range g.cores {
			if i != j && !g.down[i] && !g.down[j] {
				g.spoke[[2]int{i, j}] = g.now.Mono
			}
		}
	}
	g.said = func(from, _ int, m any) {
		sent[from]++
		kinds[reflect.TypeOf(m).Elem().Name()]++
	}
	return func() (frames, signs, busiest float64, _ map[string]int) {
		for k, last := range g.spoke { // Any order: they are counted.
			signs := int((g.now.Mono - last) / int64(signEvery))
			g.signs += signs
			g.by[k[0]] += signs
		}
		g.said = nil
		most := 0
		for _, n := range sent {
			most = max(most, n)
		}
		seconds := float64(g.now.Mono-began) / 1e9
		per := seconds * float64(len(sent))
		return float64(g.frames) / per, float64(g.signs) / per, float64(most) / seconds, kinds
	}
}

// request asks a node for something.
func (g *forming) request(i int, m gproto.Message) message.Origin {
	g.requests++
	from := message.Origin{Conn: 1, Request: g.requests}
	g.step(i, &message.Request{From: from, Body: m, Received: g.now.Mono})
	return from
}

// enqueue has a task enqueued through a node.
func (g *forming) enqueue(i int) {
	s, task := spec("q"), g.ids.Next(g.now.Wall)
	s.Id = task.Bytes()
	g.asked[g.request(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})] = task
}

// claim has the worker of a node wait for its next task.
func (g *forming) claim(i int) {
	g.request(i, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, Worker: "w", WaitSeconds: 300, Session: make([]byte, 16), RequestNo: g.requests + 1})
}

// answered is what a node answers a producer or its worker.
func (g *forming) answered(i int, r message.Reply) {
	task, enqueued := g.asked[r.To]
	done, completed := g.completing[r.To]
	delete(g.asked, r.To)
	delete(g.completing, r.To)
	if r.Err != nil {
		g.refused++
		if !enqueued && !completed { // a worker asks again, as clients do
			g.later(100*time.Millisecond, func() {
				if !g.down[i] {
					g.claim(i)
				}
			})
		}
		return
	}
	switch m := r.Message.(type) {
	case *nornv1.EnqueueReply:
		if m.Results[0].GetReceipt() != nil {
			g.acked[task] = false
		}
	case *nornv1.ClaimReply:
		for n, granted := range m.Grants {
			g.granted(i, granted, g.looks && n == 0)
		}
		if !g.looks || len(m.Grants) == 0 {
			g.claim(i)
		}
	case *nornv1.WorkReply:
		if m.Completions[0].GetReceipt() != nil {
			g.acked[done] = true
		}
		for n, granted := range m.Claim.GetGrants() {
			g.granted(i, granted, n == 0)
		}
		if len(m.Claim.GetGrants()) == 0 {
			g.claim(i)
		}
	case *nornv1.WriteReply:
		if m.Results[0].GetReceipt() != nil {
			g.acked[done] = true
		}
	}
}

// granted has a task completed, which nobody may have been granted with the same token before; looks
// that the worker asks for the next one with that.
func (g *forming) granted(i int, granted *nornv1.Grant, looks bool) {
	task, err := id.Parse(granted.Task.Id)
	if err != nil {
		g.t.Fatal(err)
	}
	if g.tokens[task] == nil {
		g.tokens[task] = map[uint64]bool{}
	}
	if g.tokens[task][granted.Token] {
		g.t.Fatalf("task %v is granted twice with token %d", task, granted.Token)
	}
	g.tokens[task][granted.Token] = true
	done := []*nornv1.Completion{{Id: task.Bytes(), Token: granted.Token}}
	if looks {
		g.completing[g.request(i, &nornv1.WorkRequest{Completions: done, Claim: &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, Worker: "w", Session: make([]byte, 16), RequestNo: g.requests + 1}})] = task
		return
	}
	g.completing[g.request(i, &nornv1.CompleteRequest{Completions: done})] = task
}

// check holds what was acknowledged against the disks: each task is on a majority of its cohort,
// what a node counts is what it has, and a task that is completed was granted.
func (g *forming) check() {
	g.t.Helper()
	for task, completed := range g.acked { // Any order: all of them.
		p, n := ring.Of(task, len(g.state.Cells)), 0
		cohort := g.state.Cells[p].Cohort
		for _, m := range cohort {
			if vnode.Known(g.stores[g.index[m]], p, task) {
				n++
			}
		}
		if n < quorum.Majority(len(cohort)) {
			g.t.Errorf("task %v was acknowledged, and is on %d disks of %d", task, n, len(cohort))
		}
		if completed && g.tokens[task] == nil {
			g.t.Errorf("task %v is completed, and nobody was granted it", task)
		}
	}
	for i, c := range g.cores {
		if g.down[i] {
			continue
		}
		if err := c.Audit(); err != nil {
			g.t.Errorf("node %d: %v", i, err)
		}
	}
	g.audit(17) // all of them take minutes
}

// audit holds what nodes have on their disks of one in so many partitions against the facts.
func (g *forming) audit(one int) {
	g.t.Helper()
	for i, c := range g.cores {
		for p := range g.state.Cells {
			if !g.down[i] && p%one == i%one && slices.Contains(g.state.Cells[p].Cohort, c.cfg.Self) {
				if err := audit.Partition(g.stores[i], ring.Partition(p)); err != nil {
					g.t.Errorf("node %d, partition %d: %v", i, p, err)
				}
			}
		}
	}
}

// newFormed is a cluster of so many nodes whose cells stand as planned.
func newFormed(t testing.TB, nodes, partitions int) *forming {
	g := newForming(t, partitions)
	for i := 1; i < nodes; i++ {
		g.enter(i)
	}
	var planned []ring.Node
	for i := range nodes {
		m := formingMember(i)
		planned = append(planned, ring.Node{Member: ring.Member{Name: m.Node, Key: m.Incarnation}, Weight: 100})
	}
	plan, err := ring.Place(ring.Plan{}, planned, partitions, 3)
	if err != nil {
		t.Fatal(err)
	}
	g.state.Plan = register.Value{Version: g.state.Plan.Version + 1, Data: plan.AppendTo(nil)}
	g.state.Cells = slices.Clone(g.state.Cells)
	for p := range partitions {
		cell := register.Cell{Epoch: 1, Nonce: uint64(p)}
		for _, m := range plan.Cohort(ring.Partition(p)) {
			cell.Cohort = append(cell.Cohort, register.Member{Node: m.Name, Incarnation: m.Key})
		}
		cell.Leader = cell.Cohort[0]
		g.state.Cells[p] = cell
	}
	g.state.Revision++
	g.alive()
	g.tell()
	return g
}

// served lets time pass until each partition is led by a node that is up.
func (g *forming) served(most time.Duration) time.Duration {
	g.t.Helper()
	began := g.now.Mono
	for {
		g.run(time.Millisecond)
		if g.led >= len(g.good)-len(g.hopeless) {
			return time.Duration(g.now.Mono - began)
		}
		if g.now.Mono-began > int64(most) {
			g.t.Fatalf("%d of %d partitions are led after %v, %d have no majority", g.led, len(g.good), most, len(g.hopeless))
		}
	}
}

// load has tasks enqueued through each node for so many seconds, while a worker at each claims
// and completes them.
func (g *forming) load(seconds, rate int) {
	if !g.works {
		g.works = true
		for i := range g.cores {
			g.claim(i)
		}
	}
	for range seconds * rate {
		for i := range g.cores {
			if !g.down[i] {
				g.enqueue(i)
			}
		}
		g.run(time.Second / time.Duration(rate))
	}
}

// TestScale runs large clusters of whole cores with their register in virtual time: NORN_SCALE is
// the number of partitions (`make scale`: 4096), NORN_SCALE_NODES the sizes ("50 200"), and
// NORN_SCALE_SECONDS for how long each is idle. Without them a small cluster is run, so that it works.
// Then a twentieth of the nodes is lost at once, under load, and twice as many join.
func TestScale(t *testing.T) {
	partitions, sizes, seconds, flat := 64, []int{8, 16}, 20, 2.5
	if n, err := strconv.Atoi(os.Getenv("NORN_SCALE")); err == nil {
		partitions, sizes, seconds, flat = n, []int{50, 100, 200}, 60, 1.2
		if n, err := strconv.Atoi(os.Getenv("NORN_SCALE_SECONDS")); err == nil {
			seconds = n
		}
		if all := strings.Fields(os.Getenv("NORN_SCALE_NODES")); len(all) > 0 {
			sizes = nil
			for _, one := range all {
				if n, err := strconv.Atoi(one); err == nil {
					sizes = append(sizes, n)
				}
			}
		}
	}
	var first, light float64
	for _, nodes := range sizes {
		began := time.Now()
		g := newFormed(t, nodes, partitions)
		g.served(30 * time.Second)
		g.run(30 * time.Second)
		t.Logf("%d nodes are formed after %v of real time", nodes, time.Since(began).Round(time.Second))
		each, idle := g.rests(seconds)
		if first == 0 {
			first = each
		}
		if each > flat*first {
			t.Errorf("target: %d nodes: %.2f frames a second for each other node that a node shares cohorts with, %.2f in the smallest cluster", nodes, each, first)
		}
		g.registers(10)
		g.load(10, 2) // who asks for a queue for the first time asks all who lead
		end := g.count()
		g.load(seconds/4, 2)
		frames, _, _, kinds := end()
		task := (frames - idle) / 2
		t.Logf("  2 tasks a second through each: %.1f frames for a task beyond those of idle nodes", task)
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			t.Logf("    %-16s %.2f messages for a task", name, float64(kinds[name])/float64(nodes*(seconds/4)*2))
		}
		if light == 0 {
			light = task
		}
		if task > flat*light {
			t.Errorf("target: %d nodes: %.1f frames for a task, %.1f in the smallest cluster", nodes, task, light)
		}
		g.changes(max(1, nodes/20))
		g.check()
		done := 0
		for _, completed := range g.acked { // Any order: they are counted.
			if completed {
				done++
			}
		}
		t.Logf("  %d tasks were acknowledged, %d completed, %d requests refused", len(g.acked), done, g.refused)
		if done < len(g.acked)*9/10 {
			t.Errorf("%d of %d tasks are completed", done, len(g.acked))
		}
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		t.Logf("  %v of real time, %d MiB, %.1f of them for each node", time.Since(began).Round(time.Second), memory.Sys>>20, float64(memory.HeapAlloc)/float64(len(g.cores))/(1<<20))
	}
}

// rests says what nodes say to each other while nothing is done, and gives the frames of a node and
// second, and those for each other node that it shares cohorts with.
func (g *forming) rests(seconds int) (each, all float64) {
	end, nodes := g.count(), len(g.cores)
	g.run(time.Duration(seconds) * time.Second)
	frames, signs, busiest, kinds := end()
	neighbours := 0
	for _, c := range g.cores {
		neighbours += len(c.standing.Company())
	}
	near := float64(neighbours) / float64(nodes)
	g.t.Logf("%d nodes, %d partitions, idle: a node sends %.1f frames a second, the busiest %.1f messages, and %.1f signs of life over %d connections; it shares cohorts with %.1f others",
		nodes, len(g.state.Cells), frames, busiest, signs, nodes-1, near)
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		g.t.Logf("  %-16s %.2f", name, float64(kinds[name])/float64(nodes*seconds))
	}
	if frames+signs > 400 {
		g.t.Errorf("target: %d nodes: a node sends %.1f frames a second, at most 400", nodes, frames+signs)
	}
	return frames / near, frames
}

// heartbeat is what the leader of the register's group says, and what is answered.
type heartbeat struct{}

// registers counts for so many seconds what the leader of the register says beside all else, and what the
// other nodes say: four that vote hear it ten times a second, and the others each 0.8 s
// (register/group, TestLearnersHearSeldom).
func (g *forming) registers(seconds int) {
	end, nodes := g.count(), len(g.cores)
	for beat := range 10 * seconds {
		for i := 1; i < nodes; i++ {
			if i <= 4 || beat%8 == i%8 {
				g.says(0, i, &heartbeat{}, 0)
				g.says(i, 0, &heartbeat{}, time.Millisecond)
			}
		}
		g.run(100 * time.Millisecond)
	}
	end()
	others := 0
	for _, n := range g.by[1:] {
		others += n
	}
	leader, other := float64(g.by[0])/float64(seconds), float64(others)/float64((nodes-1)*seconds)
	g.t.Logf("%d nodes, with the register: its leader sends %.1f frames and signs of life a second, another node %.1f", nodes, leader, other)
	if leader > 2*other && nodes >= 50 {
		g.t.Errorf("target: %d nodes: the leader of the register sends %.1f times what the others do", nodes, leader/other)
	}
}

// changes loses so many nodes at once, under load, and lets in twice as many.
func (g *forming) changes(lost int) {
	nodes := len(g.cores)
	for i := nodes - lost; i < nodes; i++ {
		g.lose(i)
	}
	g.alive()
	took := g.served(10 * time.Second)
	g.t.Logf("  %d are lost at once: all partitions are led after %v", lost, took)
	if took > time.Second {
		g.t.Errorf("target: %d nodes lost: all partitions are led after %v", lost, took)
	}
	g.load(5, 2)
	g.longest, g.least = 0, len(g.good)
	g.join(2 * lost)
	g.load(20, 2)
	g.t.Logf("  %d join: at least %d partitions are led, the longest without a leader for %v", 2*lost, g.least, g.longest)
	if g.longest > 200*time.Millisecond {
		g.t.Errorf("target: %d nodes join: a partition was without a leader for %v", 2*lost, g.longest)
	}
	g.run(15 * time.Second)
}
