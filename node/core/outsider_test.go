package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// TestACopyOutsideOfTheCohortDoesNotCount: a node outside of a partition's cohort writes what
// another one hands on to it. Its own copy is a hint; the answer waits for two of the three
// that keep the partition.
func TestACopyOutsideOfTheCohortDoesNotCount(t *testing.T) {
	const p, outside = ring.Partition(0), 3 // the cohort are nodes 0 to 2
	r := newCluster(t, 5, 0)
	task := r.at(p)
	s := spec("q")
	s.Id = task.Bytes()
	enqueue := &message.Forward{Number: 77, Wait: time.Minute, Partitions: []ring.Partition{p}, Body: &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}}
	r.check(r.peers[outside].core.Step(r.now, &message.FromPeer{From: r.peers[4].self, Message: enqueue}))
	r.turn(outside)

	answered := false
	only := func(member int) func(letter) bool {
		return func(l letter) bool {
			if f, is := l.message.(*message.Forwarded); is && f.Number == enqueue.Number {
				answered = answered || f.Err == nil && f.Message.(*nornv1.EnqueueReply).Results[0].GetReceipt() != nil
			}
			return l.from != member && l.to != member
		}
	}
	r.settleBut(only(1))
	if answered {
		t.Fatal("acknowledged with the copy of one member of the cohort")
	}
	r.live(4*time.Second, 100*time.Millisecond, only(2)) // it is asked again
	if !answered {
		t.Fatal("not acknowledged with the copies of two members of the cohort")
	}
}
