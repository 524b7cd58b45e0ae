package core

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

func setReplicas(n uint32) *nornv1.ClusterRequest {
	return &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_SetReplicas{SetReplicas: &nornv1.SetReplicas{Replicas: n}}}
}

// TestReplicasAreSet: through any node, from what they are, to what there may be; asked
// again it changes nothing. What a write may wait for is what the register says.
func TestReplicasAreSet(t *testing.T) {
	r := newAdmins(t, 4)
	for _, n := range []uint32{0, 10, 1 << 31} {
		r.refuses(0, isInvalid, "1 to 9 replicas", setReplicas(n))
	}
	if same, err := r.admin(1, setReplicas(3)); err != nil || same.Changed || !strings.Contains(same.Notes[0], "is to have 3 copies already") {
		t.Errorf("the same: %v, %v", same, err)
	}
	four := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 4}
	if got, err := r.put4(0, four); err == nil || err.Kind != isInvalid || !strings.Contains(err.Message, "keeps 3 of each") {
		t.Errorf("4 copies of 3: %v, %v", got, err)
	}
	would := r.does(0, dry(setReplicas(4)))
	if would.Copies != testPartitions || r.state().Cluster.Replicas != 3 {
		t.Fatalf("would: %v", would)
	}
	did := r.does(1, setReplicas(4))
	if did.Copies != testPartitions || len(did.Notes) != 1 || r.state().Cluster.Replicas != 4 {
		t.Fatalf("did: %v", did)
	}
	if s := r.status(3); s.Replicas != 4 {
		t.Errorf("shown: %v", s)
	}
	if got, err := r.put4(0, four); err != nil && err.Kind == isInvalid {
		t.Errorf("4 copies of 4 that come: %v, %v", got, err)
	}
	r.run(4)
	if got, err := r.put4(0, four); got.GetDurableCopies() != 4 {
		t.Errorf("4 copies of 4: %v, %v", got, err)
	}
	if more := r.does(2, setReplicas(9)); more.Copies != 0 || len(more.Notes) != 2 || !strings.Contains(more.Notes[1], "it has 4 copies until more nodes join") {
		t.Errorf("more than there are nodes: %v", more)
	}
	r.join()
	r.run(5)
	fewer := r.does(2, setReplicas(1))
	if fewer.Copies != 0 || !strings.Contains(fewer.Notes[1], "while 1 of its 1 copy can be reached") {
		t.Errorf("fewer: %v", fewer)
	}
	r.steps(5)
	if s := r.status(0); s.Replicas != 1 || s.Movement.HandoversLeft != 4*testPartitions || !s.Partitions[0].Moving {
		t.Errorf("shown: %v", s)
	}
}

// steps has everybody hear what has come of what the one before has asked for.
func (r *trio) steps(n int) {
	for range n {
		r.pass(time.Millisecond)
		r.settle()
		r.tell()
	}
	r.settle()
}

// put4 enqueues one task.
func (r *trio) put4(i int, need *nornv1.Durability) (*nornv1.Receipt, *proto.Error) {
	r.t.Helper()
	from := r.enqueue(i, r.ids.Next(r.now.Wall), need)
	for range 80 { // one that waits for a copy that nobody keeps yet is refused in the end
		r.settle()
		if reply, ok := r.peers[i].replies[from]; ok && reply.Err != nil {
			return nil, reply.Err
		} else if ok {
			return r.result(i, from).GetReceipt(), nil
		}
		r.pass(100 * time.Millisecond)
	}
	r.t.Fatal("no answer")
	return nil, nil
}

// busy is a cluster with workers, which is held to what it has said.
type busy struct {
	*trio
	asked []underway
	acked map[id.ID]bool   // enqueues
	done  map[id.ID]bool   // completions
	held  map[id.ID]int64  // until when a claim holds, mono ns
	token map[id.ID]uint64 // of the newest grant
	lost  func(letter) bool
}

// underway is a request that waits for its answer.
type underway struct {
	node int
	from message.Origin
	body gproto.Message
	done map[id.ID]bool // what was completed before it was sent
}

func newBusy(r *trio) *busy {
	return &busy{trio: r, acked: map[id.ID]bool{}, done: map[id.ID]bool{}, held: map[id.ID]int64{}, token: map[id.ID]uint64{}, lost: nothing}
}

func (b *busy) asks(node int, m gproto.Message) {
	done := make(map[id.ID]bool, len(b.done))
	for task := range b.done {
		done[task] = true
	}
	b.asked = append(b.asked, underway{node, b.send(node, m), m, done})
}

// heard takes the answers that have come.
func (b *busy) heard() {
	b.t.Helper()
	all := b.asked
	b.asked = nil // an answer may be followed by another question
	for _, a := range all {
		reply, ok := b.peers[a.node].replies[a.from]
		switch m := reply.Message.(type) {
		case *nornv1.EnqueueReply:
			if m.Results[0].GetReceipt() != nil {
				b.acked[id.ID((a.body.(*nornv1.EnqueueRequest).Tasks[0].Id))] = true
			}
		case *nornv1.ClaimReply:
			for _, g := range m.Grants {
				b.granted(&a, parse(b.t, g.Task.Id), g.Token)
			}
		case *nornv1.WriteReply:
			for i, c := range a.body.(*nornv1.CompleteRequest).Completions {
				if m.Results[i].Error == nil {
					b.done[id.ID((c.Id))] = true
				}
			}
		}
		if !ok {
			b.asked = append(b.asked, a)
		}
	}
}

// granted: nothing that was completed before it was asked for, and nothing that
// somebody else holds.
func (b *busy) granted(a *underway, task id.ID, token uint64) {
	b.t.Helper()
	switch {
	case a.done[task]:
		b.t.Errorf("%s was completed, and is granted", task)
	case b.now.Mono < b.held[task]:
		b.t.Errorf("%s is held, and is granted", task)
	case token <= b.token[task]:
		b.t.Errorf("%s: token %x after %x", task, token, b.token[task])
	}
	b.held[task], b.token[task] = b.now.Mono+int64(leaseTime), token
	if b.rand.IntN(3) > 0 { // else its claim runs out
		b.asks(b.rand.IntN(len(b.peers)), &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: token, AutoSeq: true}}})
	}
}

// work lets time pass with requests to any node: a second, with a request of each kind
// in each tenth. One node misses what is written meanwhile, so that a majority is all
// that has it.
func (b *busy) work() {
	b.t.Helper()
	behind := b.rand.IntN(len(b.peers))
	b.lost = func(l letter) bool { _, is := l.message.(*message.Facts); return is && l.to == behind }
	defer func() { b.lost = nothing }()
	for range 10 {
		task := spec("q")
		task.Id, task.Retry = b.ids.Next(b.now.Wall).Bytes(), &nornv1.RetryPolicy{MaxAttempts: 100}
		b.asks(b.rand.IntN(len(b.peers)), &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{task}})
		b.asks(b.rand.IntN(len(b.peers)), claimUpTo(1))
		b.time(100 * time.Millisecond)
	}
}

func (b *busy) time(d time.Duration) {
	b.t.Helper()
	b.pass(d)
	b.settleBut(b.lost)
	b.tell()
	b.settleBut(b.lost)
	b.heard()
}

// becomes has the cluster come to rest with so many replicas of everything, with
// everything that it has said on every one of them.
func (b *busy) becomes(replicas int) {
	b.t.Helper()
	b.run(replicas)
	b.heard()
	b.audit()
	for i := range b.peers {
		if n := ask[*nornv1.CountReply](b.trio, i, &nornv1.CountRequest{}).Total; n.Total < uint64(len(b.acked)) || n.Completed < uint64(len(b.done)) {
			b.t.Fatalf("node %d counts %d tasks of %d, %d completed of %d", i+1, n.Total, len(b.acked), n.Completed, len(b.done))
		}
	}
	for task := range b.acked {
		if n := b.copies(task); n != replicas {
			b.t.Errorf("%d copies of %s, not %d", n, task, replicas)
		}
	}
}

// TestReplicasChangeUnderLoad: 1, 3, 5, 3, 1, with requests before, between and after;
// some steps begin before the one before is done, while a node joins, and while one
// leaves. Nothing acknowledged is lost, nothing is granted twice or after its end, and
// in the end every task was done.
func TestReplicasChangeUnderLoad(t *testing.T) {
	r := newGrowing(t)
	r.leads = 0
	b := newBusy(r)
	for range 5 { // in every partition is something
		b.work()
	}
	for range 4 {
		r.join()
	}
	r.tell()
	r.does(0, setReplicas(1))
	b.becomes(1)
	replicas := func(n uint32) {
		t.Helper()
		b.work()
		r.does(int(n)%len(r.peers), setReplicas(n))
		b.work()
	}
	for _, n := range []uint32{3, 5, 3, 1} {
		replicas(n)
		b.becomes(int(n))
	}
	replicas(5)
	r.join()
	replicas(3) // before that is done, and while a node joins
	b.becomes(3)
	r.does(0, leave("n6"))
	replicas(2)
	replicas(4) // while a node leaves
	b.becomes(4)
	if got := r.status1(5); got != register.Removed {
		for range 12 {
			b.time(time.Second)
		}
		if got = r.status1(5); got != register.Removed {
			t.Errorf("the node that leaves is %v", got)
		}
	}
	replicas(1)
	b.becomes(1)
	for range 400 { // each claim runs out with a chance of a third
		b.asks(b.rand.IntN(len(b.peers)), claimUpTo(10))
		b.time(time.Second)
	}
	n := ask[*nornv1.CountReply](r, 2, &nornv1.CountRequest{}).Total
	if len(b.acked) < 150 || n.Completed != n.Total || n.Total != uint64(len(b.acked)) {
		t.Errorf("%d tasks were acknowledged, there are %d, %d of them completed", len(b.acked), n.Total, n.Completed)
	}
	b.becomes(1)
}

// TestSomebodyElseSetsReplicasFirst: it is worked out anew from what there is then, and
// what was asked for last is so.
func TestSomebodyElseSetsReplicasFirst(t *testing.T) {
	r := newAdmins(t, 3)
	p, touched := r.peers[0].core, false
	r.check(p.Step(r.now, &message.Request{From: message.Origin{Conn: 1, Request: 1 << 20}, Body: setReplicas(5), Received: r.now.Mono}))
	for range 100 {
		ready, err := p.Ready(r.now)
		r.check(err)
		if len(ready.Replies) > 0 {
			reply := ready.Replies[0].Message.(*nornv1.ClusterReply)
			if !touched || !reply.Changed || !strings.Contains(reply.Notes[0], "5 copies, not 2") || r.state().Cluster.Replicas != 5 {
				t.Errorf("%v, and there are to be %d", reply, r.state().Cluster.Replicas)
			}
			return
		}
		for _, req := range ready.Register {
			if req.Replicas != nil && !touched {
				touched = true
				r.register.Do(register.Request{Replicas: &register.ReplicasChange{Old: 3, New: 2}}, func(register.Result) {})
			}
			r.register.Do(req, func(res register.Result) { r.check(p.Step(r.now, message.Registered{Result: res})) })
		}
	}
	t.Error("no answer")
}
