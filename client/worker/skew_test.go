package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestExitWhenEmptyGoesByTheServersTime: whether a retry is due soon is for their clocks to
// say, the one here may be minutes off.
func TestExitWhenEmptyGoesByTheServersTime(t *testing.T) {
	for ahead, waits := range map[time.Duration]bool{10 * time.Minute: true, -10 * time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			q.add(30, 1)
			there := func() time.Time { return time.Now().Add(ahead) }
			due := 30 * time.Second
			if !waits { // by the clock here it is over
				due = 5 * time.Minute
			}
			q.set(func(q *queue) {
				q.state, q.retry = nornv1.State_STATE_SCHEDULED, timestamppb.New(there().Add(due))
				q.override = func(r fakenode.Request) *fakenode.Answer {
					switch r.Message.(type) {
					case *nornv1.Hello:
						return &fakenode.Answer{Message: &nornv1.HelloReply{
							Version: proto.MaxVersion, Limits: &nornv1.Limits{MaxBatchTasks: 100}, Placement: fakenode.Placement(), Now: timestamppb.New(there()),
						}}
					case *nornv1.Ping:
						return &fakenode.Answer{Message: &nornv1.PingReply{Placement: fakenode.Placement(), Now: timestamppb.New(there())}}
					}
					return nil
				}
			})
			time.AfterFunc(due, func() { q.add(30, 1); q.set(func(q *queue) { q.state = nornv1.State_STATE_COMPLETED }) })
			snoozed := false
			r := start(t, q, Config{ExitWhenEmpty: true}, func(context.Context, *Task) error {
				if snoozed {
					return nil
				}
				snoozed = true
				return Snooze(due)
			})
			began := time.Now()
			if err := <-r.ran; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); (took >= due) != waits || (len(q.done) == 1) != waits {
				t.Errorf("with servers that are %v ahead: after %v %d tasks are done", ahead, took, len(q.done))
			}
		})
	}
}
