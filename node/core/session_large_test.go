package core

import (
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
)

// Results that workers of a node report in one round go to another node in requests that
// this one takes: together they may be many times as large as what one worker sends.
func TestLargeResultsGoInSeveralRequests(t *testing.T) {
	r := newCluster(t, 5, 0)
	const workers, each, via = 6, 7, 0
	tasks := make(map[id.ID]bool)
	for w := range workers {
		var all []session.Message
		for range each {
			task := r.at(1) // of which node 0 keeps nothing
			tasks[task] = true
			all = append(all, session.Message{Body: &session.UpdateStatus{
				Claim: session.Claim{Task: task, Token: 1<<32 | 1},
				End:   session.End{Kind: session.EndCompleted, Result: make([]byte, proto.MaxUpdateBytes)},
			}})
		}
		r.next++
		from := message.Origin{Conn: 1000 + r.next, Request: r.next}
		body := session.Bundle(session.Instance{byte(w + 1)}, 1, r.now.Mono, all, 0)
		r.check(r.peers[via].core.Step(r.now, &message.Request{From: from, Body: body, Received: r.now.Mono}))
	}
	r.turn(via)
	for _, l := range r.post {
		f, ok := l.message.(*message.Forward)
		if !ok || l.from != via {
			continue
		}
		if size := gproto.Size(f.Body); size > proto.MaxFrame {
			t.Errorf("a request of %d bytes, the limit is %d", size, proto.MaxFrame)
		}
		for _, c := range f.Body.(*nornv1.CompleteRequest).GetCompletions() {
			delete(tasks, id.ID(c.GetId()))
		}
	}
	if len(tasks) > 0 {
		t.Errorf("%d completions were not passed on", len(tasks))
	}
}
