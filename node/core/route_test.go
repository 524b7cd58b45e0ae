package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/router"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// ask gives a request to a node, lets everything settle and gives the answer.
func ask[M gproto.Message](r *trio, i int, m gproto.Message) M {
	r.t.Helper()
	from := r.send(i, m)
	r.settle()
	reply, ok := r.peers[i].replies[from]
	if !ok {
		r.t.Fatalf("no answer to %T through node %d", m, i+1)
	}
	if reply.Err != nil {
		r.t.Fatalf("%T through node %d: %v", m, i+1, reply.Err)
	}
	return reply.Message.(M)
}

// TestAnyNodeServesAnyRequest: of five nodes none keeps everything, and each
// answers for all.
func TestAnyNodeServesAnyRequest(t *testing.T) {
	r := newCluster(t, 5, 0)
	var ids [][]byte
	for i := range 5 {
		var tasks []*nornv1.TaskSpec
		for range 40 {
			s := spec("q")
			if len(tasks)%2 == 0 {
				s.Id = r.ids.Next(r.now.Wall).Bytes()
			}
			tasks = append(tasks, s)
		}
		for _, res := range ask[*nornv1.EnqueueReply](r, i, &nornv1.EnqueueRequest{Tasks: tasks}).Results {
			if res.Error != nil || res.Receipt.GetDurableCopies() < 2 {
				t.Fatalf("through node %d: %v", i+1, res)
			}
			ids = append(ids, parse(t, res.Receipt.GetId()).Bytes())
		}
	}
	for i := range 5 {
		if n := ask[*nornv1.CountReply](r, i, &nornv1.CountRequest{}).Total.Total; n != 200 {
			t.Errorf("node %d counts %d tasks of 200", i+1, n)
		}
		seen := map[string]bool{}
		for req := (&nornv1.ListRequest{Limit: 7}); ; {
			page := ask[*nornv1.ListReply](r, i, req)
			last := ""
			for _, task := range page.Tasks {
				if seen[task.Id] || task.Id <= last {
					t.Fatalf("node %d lists %s twice or out of order", i+1, task.Id)
				}
				seen[task.Id], last = true, task.Id
			}
			if req.Cursor = page.NextCursor; len(req.Cursor) == 0 {
				break
			}
		}
		if len(seen) != 200 {
			t.Errorf("node %d lists %d tasks of 200", i+1, len(seen))
		}
		for _, task := range ids[:20] {
			if got := ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: task}).Task; got.State != nornv1.State_STATE_READY {
				t.Errorf("node %d reads %v", i+1, got)
			}
		}
		queues := ask[*nornv1.QueuesReply](r, i, &nornv1.QueuesRequest{Names: []string{"q"}}).Queues
		if len(queues) != 1 || queues[0].Count.Total != 200 {
			t.Errorf("node %d knows %v", i+1, queues)
		}
	}
}

// TestAWorkerGetsTheTasksOfAllLeaders: through one node everything is claimed,
// kept and finished, each task once.
func TestAWorkerGetsTheTasksOfAllLeaders(t *testing.T) {
	r := newCluster(t, 5, 0)
	var tasks []*nornv1.TaskSpec
	for range 60 {
		tasks = append(tasks, spec("q"))
	}
	ask[*nornv1.EnqueueReply](r, 1, &nornv1.EnqueueRequest{Tasks: tasks})
	claimed := map[string]uint64{}
	for n := 0; len(claimed) < 60; n++ {
		if n > 200 {
			t.Fatalf("%d tasks were claimed of 60", len(claimed))
		}
		reply := ask[*nornv1.ClaimReply](r, 3, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 5, LeaseSeconds: 30})
		for _, g := range reply.Grants {
			if claimed[g.Task.Id] != 0 {
				t.Fatalf("%s was claimed twice", g.Task.Id)
			}
			claimed[g.Task.Id] = g.Token
		}
	}
	if n := len(ask[*nornv1.ClaimReply](r, 3, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 5}).Grants); n != 0 {
		t.Fatalf("%d more tasks were claimed", n)
	}
	var refs []*nornv1.ClaimRef
	var done []*nornv1.Completion
	for task, token := range claimed {
		refs = append(refs, &nornv1.ClaimRef{Id: parse(t, task).Bytes(), Token: token})
		done = append(done, &nornv1.Completion{Id: parse(t, task).Bytes(), Token: token, AutoSeq: true})
	}
	for _, res := range ask[*nornv1.RenewReply](r, 0, &nornv1.RenewRequest{Claims: refs, LeaseSeconds: 60}).Results {
		if res.Error != nil {
			t.Fatal(res.Error)
		}
	}
	for _, res := range ask[*nornv1.WriteReply](r, 4, &nornv1.CompleteRequest{Completions: done}).Results {
		if res.Error != nil {
			t.Fatal(res.Error)
		}
	}
	for i := range 5 {
		if c := ask[*nornv1.CountReply](r, i, &nornv1.CountRequest{}).Total; c.Completed != 60 || c.Total != 60 {
			t.Errorf("node %d counts %v", i+1, c)
		}
	}
}

// TestAWaitingClaimHearsOfWorkElsewhere: no wake-up is lost, and nobody asks
// without end.
func TestAWaitingClaimHearsOfWorkElsewhere(t *testing.T) {
	r := newCluster(t, 5, 0)
	from := map[int]message.Origin{}
	for i := range 5 {
		from[i] = r.send(i, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 20})
	}
	r.settle()
	if len(r.post) != 0 {
		t.Fatalf("%d messages without end", len(r.post))
	}
	for i := range 5 {
		if _, answered := r.peers[i].replies[from[i]]; answered {
			t.Fatalf("node %d answers without work", i+1)
		}
	}
	for range 5 {
		ask[*nornv1.EnqueueReply](r, 2, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})
	}
	for range 30 {
		r.pass(time.Millisecond)
		r.settle()
	}
	seen := map[string]bool{}
	for i := range 5 {
		reply, ok := r.peers[i].replies[from[i]]
		if !ok {
			t.Errorf("node %d still waits", i+1)
			continue
		}
		for _, g := range reply.Message.(*nornv1.ClaimReply).Grants {
			seen[g.Task.Id] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d tasks were claimed of 5", len(seen))
	}
}

// TestADeadNodeIsNotWaitedFor: what only it could answer is refused, the rest
// is answered, and its part of what is under way is unknown.
func TestADeadNodeIsNotWaitedFor(t *testing.T) {
	r := newCluster(t, 5, 0)
	ask[*nornv1.EnqueueReply](r, 1, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})
	r.kill(2)
	from := r.send(0, &nornv1.CountRequest{})
	r.settle()
	if _, ok := r.peers[0].replies[from]; ok {
		t.Fatal("counted without the node")
	}
	r.tell()
	if reply := r.peers[0].replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Fatalf("got %+v", reply)
	}
	if n := ask[*nornv1.CountReply](r, 0, &nornv1.CountRequest{}).Total.Total; n != 1 {
		t.Errorf("%d tasks", n)
	}
	var tasks []*nornv1.TaskSpec
	for range 50 {
		tasks = append(tasks, spec("q"))
	}
	for _, res := range ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: tasks}).Results {
		if res.Error != nil { // the IDs are drawn where a leader is
			t.Errorf("%v", res.Error)
		}
	}
	from = r.send(0, &nornv1.CountRequest{})
	r.post = nil // nobody hears of it
	r.pass(router.ForwardTimeout + time.Second)
	if reply, ok := r.peers[0].replies[from]; !ok || reply.Err == nil || reply.Err.Effect != nornv1.Effect_EFFECT_UNKNOWN {
		t.Errorf("got %+v", reply)
	}
}

// TestAReadSeesWhatAMajorityHas and repairs the replica that lacks it.
func TestAReadSeesWhatAMajorityHas(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	r.cut[[2]int{0, 2}], r.cut[[2]int{1, 2}] = true, true
	from := r.enqueue(0, task, nil)
	r.settle()
	if r.result(0, from).GetReceipt() == nil || r.copies(task) != 2 {
		t.Fatalf("%v on %d disks", r.result(0, from), r.copies(task))
	}
	clear(r.cut)
	r.now = r.now.Add(10 * time.Second) // nothing is sent again
	r.peers[0].core.replication.Writes.Open = nil
	for _, l := range []nornv1.ReadLevel{nornv1.ReadLevel_READ_LEVEL_ONE, nornv1.ReadLevel_READ_LEVEL_QUORUM, nornv1.ReadLevel_READ_LEVEL_ONE} {
		// Through itself: a cluster whose leader is the first would be asked else.
		r.next++
		o := message.Origin{Conn: 1, Request: r.next}
		r.check(r.peers[2].core.Step(r.now, &message.Request{From: o, Routed: true, Body: &nornv1.GetRequest{Id: task.Bytes(), Consistency: &nornv1.Consistency{Level: l}}}))
		r.turn(2)
		r.settle()
		reply, first := r.peers[2].replies[o], l == nornv1.ReadLevel_READ_LEVEL_ONE && r.next == 2
		if (reply.Err != nil) != first {
			t.Errorf("level %v: %+v", l, reply)
		}
	}
	if r.copies(task) != 3 {
		t.Errorf("%d copies after the read", r.copies(task))
	}
	r.kill(0)
	r.kill(1)
	r.tell()
	o := r.send(2, &nornv1.GetRequest{Id: task.Bytes()})
	r.pass(replication.ReadTimeout)
	if reply := r.peers[2].replies[o]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("a majority cannot be read: %+v", reply)
	}
}

// A read that is to show at least what its client has seen does not say that there is no
// such task while a replica that may have it has not answered: of that the client has to
// ask another node. It says so when all of them have answered.
func TestAtLeastIsNotAnsweredWithNothing(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	for _, link := range [][2]int{{0, 2}, {1, 2}, {2, 0}, {2, 1}} {
		r.cut[link] = true
	}
	from := r.enqueue(0, task, nil)
	r.settle()
	if r.result(0, from).GetReceipt() == nil || r.copies(task) != 2 {
		t.Fatalf("%v on %d disks", r.result(0, from), r.copies(task))
	}
	read := func(task id.ID) *message.Reply {
		r.next++
		o := message.Origin{Conn: 1, Request: r.next}
		c := &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ONE, AtLeast: true, AtLeastToken: 1 << 32}
		r.check(r.peers[2].core.Step(r.now, &message.Request{From: o, Routed: true, Body: &nornv1.GetRequest{Id: task.Bytes(), Consistency: c}}))
		r.turn(2)
		r.settle()
		if _, ok := r.peers[2].replies[o]; !ok {
			r.pass(replication.ReadTimeout)
		}
		reply := r.peers[2].replies[o]
		if reply.Err == nil {
			t.Fatalf("a task without the update is shown: %+v", reply)
		}
		return &reply
	}
	if e := read(task).Err; e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.Guarantee != "monotonic read" {
		t.Errorf("only a replica that has never heard of the task answers: %v", e)
	}
	clear(r.cut)
	if e := read(task).Err; e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("nobody has the update: %v", e)
	}
	if e := read(r.ids.Next(r.now.Wall)).Err; e.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
		t.Errorf("nobody knows the task: %v", e)
	}
}

// TestNoWakeUpIsLost: whatever the order in which the nodes' messages come, as
// long as none is lost no task stays ready while somebody waits for it. Time
// hardly passes, so that nobody asks again just to be sure.
func TestNoWakeUpIsLost(t *testing.T) {
	for seed := range uint64(40) {
		dice := rand.New(rand.NewPCG(seed, 1))
		r := newTrio(t).spread()
		waiting := map[message.Origin]int{}
		enqueued, claimed := 0, 0
		look := func() {
			for from, i := range waiting { // Any order: they are counted.
				if reply, ok := r.peers[i].replies[from]; ok {
					delete(waiting, from)
					claimed += len(reply.Message.(*nornv1.ClaimReply).GetGrants())
				}
			}
		}
		for range 40 {
			for range 1 + dice.IntN(12) {
				switch n := dice.IntN(10); {
				case n < 2 && len(waiting) < 8:
					i := dice.IntN(3)
					waiting[r.send(i, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 30, LeaseSeconds: 300})] = i
				case n < 4:
					r.send(dice.IntN(3), &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})
					enqueued++
				case n < 9 && len(r.post) > 0: // in order between each two nodes
					k := dice.IntN(len(r.post))
					first := slices.IndexFunc(r.post, func(l letter) bool { return l.from == r.post[k].from && l.to == r.post[k].to })
					r.deliver(first)
				default:
					r.pass(time.Millisecond)
				}
			}
			look()
			if dice.IntN(3) > 0 {
				continue
			}
			for range 30 {
				r.pass(time.Millisecond)
				r.settle()
			}
			look()
			if len(waiting) > 0 && claimed < enqueued {
				t.Fatalf("seed %d: %d requests wait while %d tasks are ready", seed, len(waiting), enqueued-claimed)
			}
			r.now = r.now.Add(time.Duration(dice.IntN(3)) * time.Second / 2)
		}
	}
}

// TestOneTaskIsAskedForOnce: however many wait on a node, no more requests go to
// another one than there are tasks.
func TestOneTaskIsAskedForOnce(t *testing.T) {
	r := newTrio(t).spread()
	for range 8 {
		r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 30, LeaseSeconds: 300})
	}
	r.settle()
	asked, granted := 0, 0
	for range 60 {
		r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})
		for range 10 {
			r.pass(time.Millisecond)
			for len(r.post) > 0 {
				if f, ok := r.post[0].message.(*message.Forward); ok && r.post[0].from == 0 {
					if _, ok := f.Body.(*nornv1.ClaimRequest); ok {
						asked++
					}
				}
				r.deliver(0)
			}
		}
		for from, reply := range r.peers[0].replies { // Any order: each is answered the same way.
			if m, ok := reply.Message.(*nornv1.ClaimReply); ok && len(m.Grants) > 0 {
				granted++
				delete(r.peers[0].replies, from)
				r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 30, LeaseSeconds: 300})
			}
		}
	}
	if granted != 60 || asked > 45 { // a third of the tasks are its own
		t.Fatalf("%d of 60 tasks were handed out, with %d requests to other nodes", granted, asked)
	}
}

// TestAReadThatCameTooLate: who does not keep a partition any longer, and is sent
// a read of it by somebody who has not heard of that, does not answer by itself:
// that it knows a task, or does not, says nothing.
func TestAReadThatCameTooLate(t *testing.T) {
	r := newCluster(t, 5, 0)
	var outside, at int
	var task id.ID
	for task = r.stock(0, 1)[0]; ; at++ {
		if cohort := r.state().Cells[ring.Of(task, testPartitions)].Cohort; slices.Contains(cohort, r.peers[at].self) {
			break
		}
	}
	cohort := r.state().Cells[ring.Of(task, testPartitions)].Cohort
	for outside = range r.peers {
		if !slices.Contains(cohort, r.peers[outside].self) {
			break
		}
	}
	p := []ring.Partition{ring.Of(task, testPartitions)}
	for _, m := range []gproto.Message{
		&nornv1.GetRequest{Id: task.Bytes()},
		&nornv1.GetRequest{Id: task.Bytes(), Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ONE}},
		&nornv1.ExplainRequest{Id: task.Bytes()}, &nornv1.LogRequest{Id: task.Bytes()},
		&nornv1.ListRequest{}, &nornv1.CountRequest{}, &nornv1.QueuesRequest{}, &nornv1.QueuesRequest{Names: []string{"q"}},
	} {
		for to, want := range map[int]bool{outside: false, at: true} {
			from := (to + 1) % len(r.peers)
			var answer *message.Forwarded
			r.check(r.peers[to].core.Step(r.now, &message.FromPeer{From: r.peers[from].self, Message: &message.Forward{Number: 77, Wait: time.Minute, Partitions: p, Body: m}}))
			r.post = nil
			r.turn(to)
			for range 10 { // a quorum is asked
				for _, l := range r.post {
					if f, ok := l.message.(*message.Forwarded); ok && f.Number == 77 {
						answer = f
					}
				}
				if answer != nil || len(r.post) == 0 {
					break
				}
				r.deliver(0)
			}
			switch {
			case answer == nil:
				t.Fatalf("%T: no answer", m)
			case (answer.Err == nil) != want:
				t.Errorf("%T, a member: %v: %v", m, want, answer.Err)
			case !want && (answer.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || answer.Err.RetryAfter == 0 || answer.Err.Lasting):
				t.Errorf("%T: %+v", m, answer.Err)
			}
		}
	}
}

// TestAChangedQueueIsShownWithAllItsTasks: whichever node was asked to change it, and
// whatever the others keep. Those that the node does not keep itself were not counted.
func TestAChangedQueueIsShownWithAllItsTasks(t *testing.T) {
	r := newCluster(t, 5, 0)
	tasks := r.stock(0, 60)
	queue := ask[*nornv1.GetReply](r, 0, &nornv1.GetRequest{Id: tasks[0].Bytes()}).Task.Queue
	set := func(i int, note string) *nornv1.Queue {
		t.Helper()
		m := &nornv1.SetQueueRequest{Name: queue, Settings: &nornv1.QueueSettings{Note: note}, Fields: []string{"note"}}
		return ask[*nornv1.QueuesReply](r, i, m).Queues[0]
	}
	for i := range 5 {
		if q := set(i, fmt.Sprint(i)); q.Count.Ready != 60 || q.Count.Total != 60 || q.Settings.Note != fmt.Sprint(i) || q.Version != uint64(i+1) {
			t.Errorf("changed through node %d it is %v", i+1, q)
		}
	}
	for i := 1; i < 5; i++ { // and the change is made, whether the others tell or not
		r.cut[[2]int{i, 0}], r.cut[[2]int{0, i}] = true, true
	}
	from := r.send(0, &nornv1.SetQueueRequest{Name: queue, Settings: &nornv1.QueueSettings{Note: "cut off"}, Fields: []string{"note"}})
	r.pass(router.StatusTimeout)
	reply := r.peers[0].replies[from]
	if m, _ := reply.Message.(*nornv1.QueuesReply); reply.Err != nil || len(m.GetQueues()) != 1 || m.Queues[0].Settings.GetNote() != "cut off" {
		t.Errorf("answered %+v", reply)
	}
}
