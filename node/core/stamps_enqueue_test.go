package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestANodeWhoseClockIsOffTakesTasks: facts are taken in whatever a clock says, with
// IDs of clients and without, and IDs that it draws are of the present.
func TestANodeWhoseClockIsOffTakesTasks(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour, -365 * 24 * time.Hour, 365 * 24 * time.Hour} {
		r := newTrio(t)
		r.wrong = map[int]time.Duration{}
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		r.wrong[0] = off
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		byID, without := spec("q"), spec("q")
		byID.Id = r.ids.Next(r.now.Wall).Bytes()
		for _, s := range []*nornv1.TaskSpec{byID, without} {
			from := r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
			r.live(time.Second, 100*time.Millisecond, nothing)
			reply, ok := r.peers[0].replies[from]
			if !ok || reply.Err != nil || reply.Message.(*nornv1.EnqueueReply).Results[0].GetError() != nil {
				t.Fatalf("off by %v: %v", off, reply)
			}
			task, err := id.Parse(reply.Message.(*nornv1.EnqueueReply).Results[0].GetReceipt().GetId())
			if apart := time.Duration(r.now.Wall - task.Nanos()); err != nil || apart.Abs() > 2*eta {
				t.Errorf("off by %v: an ID is %v old, %v", off, apart, err)
			}
		}
	}
}
