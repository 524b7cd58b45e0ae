package config

import (
	"fmt"
	"math"
	"testing"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestCountersOfAllQueuesFitAFrame: with more queues `norn task count` would get no answer.
func TestCountersOfAllQueuesFitAFrame(t *testing.T) {
	const n = math.MaxUint32
	m := &nornv1.CountReply{}
	for i := range MostQueues {
		m.Queues = append(m.Queues, &nornv1.Count{Queue: fmt.Sprintf("%0128d", i), Waiting: n, Scheduled: n, Ready: n, Claimed: n, Completed: n, Dead: n, Cancelled: n, Total: n})
	}
	if size := gproto.Size(m); size > proto.MaxFrame-64<<10 {
		t.Errorf("they take %d bytes of %d", size, proto.MaxFrame)
	}
	c := Default()
	c.MaxQueues = MostQueues + 1
	if err := c.Validate(); err == nil {
		t.Error("more are allowed")
	}
	if c.MaxQueues = MostQueues; c.Validate() != nil {
		t.Error(c.Validate())
	}
}
