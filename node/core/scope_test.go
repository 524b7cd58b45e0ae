package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
)

// scoped is a request of somebody with a scope, and its answer as text.
func (r *trio) scoped(i int, m gproto.Message, s *guard.Scope) string {
	r.next++
	from := message.Origin{Conn: 1, Request: r.next, Method: requestMethod(m)}
	r.check(r.peers[i].core.Step(r.clock(i), &message.Request{From: from, Body: m, Received: r.now.Mono, Scope: s}))
	r.turn(i)
	r.settle()
	reply, ok := r.peers[i].replies[from]
	if !ok {
		r.t.Fatalf("%T is not answered", m)
	}
	return fmt.Sprintf("%v, %v", reply.Message, reply.Err)
}

func scopeOf(rules ...guard.Rule) *guard.Scope {
	return guard.NewPrincipal("ci", guard.ByToken, nil, rules, "").Scope()
}

// byID are requests that name a task, one of each method.
func byID(task id.ID) map[string]gproto.Message {
	b, ref := task.Bytes(), []*nornv1.ClaimRef{{Id: task.Bytes(), Token: 1 << 32}}
	return map[string]gproto.Message{
		"get": &nornv1.GetRequest{Id: b}, "log": &nornv1.LogRequest{Id: b}, "explain": &nornv1.ExplainRequest{Id: b},
		"cancel": &nornv1.CancelRequest{Ids: [][]byte{b}}, "retry": &nornv1.RetryRequest{Ids: [][]byte{b}},
		"complete": &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: b, Token: 1 << 32}}},
		"fail":     &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: b, Token: 1 << 32}}},
		"release":  &nornv1.ReleaseRequest{Claims: ref}, "renew": &nornv1.RenewRequest{Claims: ref},
		"update": &nornv1.UpdateRequest{Id: b, Token: 1 << 32, Seq: 1},
	}
}

// stored enqueues a task to a queue, in a partition, through a node.
func (r *trio) stored(queue string, p ring.Partition) id.ID {
	task, s := r.at(p), spec(queue)
	s.Id, s.Payload = task.Bytes(), []byte("s3cret")
	r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settle()
	return task
}

// TestWhatMayNotBeSeenIsNotThere: each request that names a task of another queue is answered
// as for a task that there never was, word by word, whichever node is asked, and does nothing.
func TestWhatMayNotBeSeenIsNotThere(t *testing.T) {
	r := newCluster(t, 4, 0)
	acme := scopeOf(guard.Rule{Verbs: guard.All &^ (guard.Cluster | guard.Access), Pattern: "acme/*"})
	for p := range ring.Partition(4) {
		hidden, none := r.stored("acme2/mail", p), r.at(p)
		for i := range r.peers {
			was := byID(none)
			for name, m := range byID(hidden) {
				before := r.letters
				got := r.scoped(i, m, acme)
				asked := r.letters - before
				want := r.scoped(i, was[name], acme)
				if none := r.letters - before - asked; asked != none {
					t.Errorf("partition %d, node %d, %s: nodes say %d things to each other about what may not be seen, and %d about what is not there: the time tells which it is", p, i+1, name, asked, none)
				}
				if got = strings.ReplaceAll(got, hidden.String(), "ID"); got != strings.ReplaceAll(want, none.String(), "ID") || !strings.Contains(got, "NOT_FOUND") && !strings.Contains(got, "not known") {
					t.Errorf("partition %d, node %d, %s: what may not be seen is %s\nwhat is not there is %s", p, i+1, name, got, want)
				}
			}
		}
		if got := r.scoped(0, &nornv1.GetRequest{Id: hidden.Bytes()}, nil); !strings.Contains(got, "STATE_READY") || !strings.Contains(got, "s3cret") {
			t.Errorf("the task was touched: %s", got)
		}
	}
}

// TestAScopeGoesAlong: to whichever node decides; what is within it is done, also beside what is
// not in one request.
func TestAScopeGoesAlong(t *testing.T) {
	r := newCluster(t, 4, 0)
	acme := scopeOf(guard.Rule{Verbs: guard.See | guard.Operate, Pattern: "acme/*"})
	for i := range r.peers {
		for p := range ring.Partition(4) {
			own, other := r.stored("acme/mail", p), r.stored("acme2/mail", p)
			if got := r.scoped(i, &nornv1.GetRequest{Id: own.Bytes()}, acme); !strings.Contains(got, "STATE_READY") || strings.Contains(got, "s3cret") {
				t.Errorf("node %d: its task without its payload is %s", i+1, got)
			}
			r.scoped(i, &nornv1.CancelRequest{Ids: [][]byte{other.Bytes(), own.Bytes()}}, acme)
			for task, want := range map[id.ID]string{own: "STATE_CANCELLED", other: "STATE_READY"} {
				if got := r.scoped(0, &nornv1.GetRequest{Id: task.Bytes()}, nil); !strings.Contains(got, want) {
					t.Errorf("node %d, partition %d: the task is to be %s: %s", i+1, p, want, got)
				}
			}
		}
	}
}

// TestListsHaveWhatMayBeSeen: pages, counts and queues, of all nodes.
func TestListsHaveWhatMayBeSeen(t *testing.T) {
	r := newCluster(t, 4, 0)
	for p := range ring.Partition(4) {
		r.stored("acme/mail", p)
		r.stored("acme2/mail", p)
	}
	acme := scopeOf(guard.Rule{Verbs: guard.See, Pattern: "acme/*"})
	for i := range r.peers {
		for name, m := range map[string]gproto.Message{"list": &nornv1.ListRequest{}, "count": &nornv1.CountRequest{}, "queues": &nornv1.QueuesRequest{}} {
			if got := r.scoped(i, m, acme); !strings.Contains(got, "acme/mail") || strings.Contains(got, "acme2") || strings.Contains(got, "s3cret") {
				t.Errorf("node %d, %s: %s", i+1, name, got)
			}
		}
		if got := r.scoped(i, &nornv1.CountRequest{}, acme); strings.Contains(got, "8") {
			t.Errorf("node %d counts %s", i+1, got)
		}
		one, none := r.scoped(i, &nornv1.QueuesRequest{Names: []string{"acme2/mail"}}, acme), r.scoped(i, &nornv1.QueuesRequest{Names: []string{"acme3/mail"}}, acme)
		if strings.ReplaceAll(one, "acme2", "acme3") != none {
			t.Errorf("a queue that may not be seen is %s, one that is not there %s", one, none)
		}
	}
}

// TestAnEnqueueDoesNotTellWhatIsHidden: under the ID of a task of another queue it is refused in
// the same words whatever the task is and has come to, through each node.
func TestAnEnqueueDoesNotTellWhatIsHidden(t *testing.T) {
	r := newCluster(t, 4, 0)
	acme := scopeOf(guard.Rule{Verbs: guard.All &^ (guard.Cluster | guard.Access), Pattern: "acme/*"})
	for p := range ring.Partition(4) {
		ready, cancelled := r.stored("acme2/mail", p), r.stored("other", p)
		r.scoped(0, &nornv1.CancelRequest{Ids: [][]byte{cancelled.Bytes()}}, nil)
		for i := range r.peers {
			var said []string
			for _, task := range []id.ID{ready, cancelled} {
				mine := spec("acme/mail")
				mine.Id = task.Bytes()
				got := r.scoped(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{mine}}, acme)
				said = append(said, strings.ReplaceAll(got, task.String(), "ID"))
			}
			if said[0] != said[1] || !strings.Contains(said[0], "ALREADY_EXISTS") || strings.Contains(said[0], "digest") || strings.Contains(said[0], "spec") {
				t.Errorf("partition %d, node %d: one is told\n%s\nthe other\n%s", p, i+1, said[0], said[1])
			}
		}
	}
}

// TestAnExplanationOfAllNodesIsHeldToAScope: workers that serve queues that somebody may not see
// too are named to nobody but who may see those, and that there are none is not said either.
func TestAnExplanationOfAllNodesIsHeldToAScope(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("nightly", 1, 1, func(c *session.WorkerConfig) {
		c.Capacity.Queues = append(c.Capacity.Queues, session.QueueSlots{Queue: "secret"})
	})
	r.stored("q", 0)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	task := r.stored("q", 1)
	some := scopeOf(guard.Rule{Verbs: guard.See, Pattern: "q"})
	for i := range r.peers {
		if got := r.scoped(i, &nornv1.ExplainRequest{Id: task.Bytes()}, nil); !strings.Contains(got, "nightly 1 of 1") {
			t.Errorf("node %d explains to who may see all: %s", i+1, got)
		}
		got := r.scoped(i, &nornv1.ExplainRequest{Id: task.Bytes()}, some)
		if strings.Contains(got, "nightly") || strings.Contains(got, "secret") || strings.Contains(got, "none is connected") || !strings.Contains(got, "no worker asks for tasks of this queue, or those that do cannot begin them") {
			t.Errorf("node %d explains to who may see queue q: %s", i+1, got)
		}
	}
}
