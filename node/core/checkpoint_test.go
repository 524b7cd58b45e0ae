package core

import (
	"testing"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestTheCheckpointThatTheLeaderMissed is in the next grant: a majority has acknowledged it. The
// leader would not show it even then, as it has missed the update before it, too.
func TestTheCheckpointThatTheLeaderMissed(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	behind := r.leader(1)
	a, b := (behind+1)%3, (behind+2)%3
	from := r.send(behind, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(behind, from)
	r.note(a, b, task, grants[0].Token, 0)
	r.note(a, b, task, grants[0].Token, 1)
	for _, o := range r.peers { // nothing is sent again
		o.core.replication.Writes.Open = nil
	}
	ask[*nornv1.WriteReply](r, behind, &nornv1.ReleaseRequest{Claims: refOf(task, grants[0].Token)})
	again := ask[*nornv1.ClaimReply](r, behind, claimUpTo(1)).Grants
	if len(again) != 1 || string(again[0].Checkpoint) != "\x01" {
		t.Errorf("granted %v", again)
	}
}

// TestCheckpointsThatTheLeaderMissedFitAnAnswer: of those that do not, the tasks are given back.
func TestCheckpointsThatTheLeaderMissedFitAnAnswer(t *testing.T) {
	r := newTrio(t)
	behind := r.leader(1)
	a, b := (behind+1)%3, (behind+2)%3
	const tasks = 7
	for range tasks {
		r.put(0, 1)
	}
	for _, g := range ask[*nornv1.ClaimReply](r, behind, claimUpTo(tasks)).Grants {
		r.send(a, &nornv1.UpdateRequest{Id: parse(t, g.Task.Id).Bytes(), Token: g.Token, Data: make([]byte, 1<<20)})
		r.settleBut(r.between(a, b))
		ask[*nornv1.WriteReply](r, behind, &nornv1.ReleaseRequest{Claims: refOf(parse(t, g.Task.Id), g.Token)})
	}
	for _, o := range r.peers { // nothing is sent again
		o.core.replication.Writes.Open = nil
	}
	got := 0
	for range tasks {
		reply := ask[*nornv1.ClaimReply](r, behind, claimUpTo(tasks))
		if n := gproto.Size(reply); n > proto.MaxGrantBytes+2<<20 {
			t.Fatalf("an answer has %d bytes", n)
		}
		for _, g := range reply.Grants {
			if got++; len(g.Checkpoint) != 1<<20 {
				t.Errorf("grant %d has a checkpoint of %d bytes", got, len(g.Checkpoint))
			}
		}
	}
	if got != tasks {
		t.Errorf("%d of %d tasks were granted", got, tasks)
	}
}
