package core

import (
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestAFilterWithTimesFarAway: those before the year 1678 or after 2262 are compared as what
// they are. Bulk actions go by filters: nothing may fit one that nothing should.
func TestAFilterWithTimesFarAway(t *testing.T) {
	r := newRig(t)
	done := r.enqueue(spec("q"))[0]
	r.complete(done, r.claim("q", 1)[0].Token)
	for _, year := range []int64{-62135596800, -9300000000, 9300000000, 30000000000, 253402300799} {
		at := &timestamppb.Timestamp{Seconds: year}
		for name, f := range map[string]*nornv1.Filter{
			"created before": {CreatedBefore: at}, "created after": {CreatedAfter: at},
			"finished before": {FinishedBefore: at}, "finished after": {FinishedAfter: at},
		} {
			before := f.GetCreatedBefore() != nil || f.GetFinishedBefore() != nil
			if n, want := len(must[*nornv1.ListReply](r, &nornv1.ListRequest{Filter: f}).Tasks), before == (year > 0); (n == 1) != want {
				t.Errorf("%s %v: %d tasks", name, at.AsTime(), n)
			}
		}
	}
}

// TestAQueueThatIsNamedTwice has no more tasks than one that is named once.
func TestAQueueThatIsNamedTwice(t *testing.T) {
	r := newCluster(t, 5, 0)
	ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q"), spec("q"), spec("q"), spec("q"), spec("q")}})
	all := ask[*nornv1.QueuesReply](r, 1, &nornv1.QueuesRequest{Names: []string{"q", "q", "q"}}).Queues
	if len(all) != 3 {
		t.Fatalf("%d queues", len(all))
	}
	for _, q := range all {
		if n := q.GetCount().GetReady(); n != 5 {
			t.Errorf("%d tasks of 5", n)
		}
	}
}
