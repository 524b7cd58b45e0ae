package core

import (
	"math"
	"strings"
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/schedules"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
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

// TestARequestThatIsRefusedAsAWhole is answered by one error, whoever is asked and however
// many nodes have a part in it, and nothing of it is done. So are limits of a request:
// none of its parts may reach them, and all together must not.
func TestARequestThatIsRefusedAsAWhole(t *testing.T) {
	r := newCluster(t, 5, 0)
	var tasks, heavy, linked []*nornv1.TaskSpec
	payload := make([]byte, proto.MaxPayload)
	for range 20 {
		tasks = append(tasks, spec("q"))
		heavy = append(heavy, &nornv1.TaskSpec{Queue: "bad", Payload: payload})
		s := spec("bad")
		for range proto.MaxDependencies {
			s.Dependencies = append(s.Dependencies, r.ids.Next(r.now.Wall).Bytes())
		}
		linked = append(linked, s)
	}
	renew, fail := &nornv1.RenewRequest{LeaseSeconds: math.NaN()}, [][]byte(nil)
	for _, res := range ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: tasks}).Results {
		task := parse(t, res.Receipt.GetId()).Bytes()
		renew.Claims, fail = append(renew.Claims, &nornv1.ClaimRef{Id: task, Token: 1<<32 + 1}), append(fail, task)
	}
	none := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT}
	unknown := []nornv1.State{99}
	for i := range r.peers {
		for name, m := range map[string]gproto.Message{
			"no copies": &nornv1.EnqueueRequest{Tasks: tasks, Durability: none},
			"payloads":  &nornv1.EnqueueRequest{Tasks: heavy}, "dependencies": &nornv1.EnqueueRequest{Tasks: linked},
			"lease": renew, "cancel in a state": &nornv1.CancelRequest{Ids: fail, OnlyStates: unknown},
			"cancel without copies": &nornv1.CancelRequest{Ids: fail, Durability: none}, "retry in a state": &nornv1.RetryRequest{Ids: fail, OnlyStates: unknown},
			"reason":                     &nornv1.CancelRequest{Ids: fail, Reason: strings.Repeat("x", proto.MaxNoteBytes+1)},
			"endless":                    &nornv1.LogRequest{Id: fail[0], WaitSeconds: 1e300},
			"copies without their level": &nornv1.EnqueueRequest{Tasks: tasks, Durability: &nornv1.Durability{Copies: 3}},
			"copies with another one":    &nornv1.CancelRequest{Ids: fail, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE, Copies: 3}},
			"replicas without a level":   &nornv1.GetRequest{Id: fail[0], Consistency: &nornv1.Consistency{Replicas: 3}},
			"a token of no at_least":     &nornv1.GetRequest{Id: fail[0], Consistency: &nornv1.Consistency{AtLeastToken: 1<<32 + 1}},
			"a number of no at_least":    &nornv1.GetRequest{Id: fail[0], Consistency: &nornv1.Consistency{AtLeastSeq: 1}},
			"Infinity":                   &nornv1.LogRequest{Id: fail[1], WaitSeconds: math.Inf(1)}, "ever before": &nornv1.LogRequest{Id: fail[2], WaitSeconds: math.Inf(-1)},
		} {
			from := r.send(i, m)
			r.settle()
			if reply, ok := r.peers[i].replies[from]; !ok || reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT || reply.Err.Effect != nornv1.Effect_EFFECT_NONE {
				t.Errorf("%s through node %d: %v, %.300v", name, i+1, reply.Err, reply.Message)
			}
		}
	}
	if n := ask[*nornv1.CountReply](r, 2, &nornv1.CountRequest{}).Total; n.GetReady() != 20 || n.GetTotal() != 20 {
		t.Errorf("there are %v", n)
	}
}

// TestSettingsThatNobodyHasNamed are not kept: what a request has in the retry policy beyond
// what this build knows went into the register, or filled its log, where it was more than
// that takes and was asked for again and again.
func TestSettingsThatNobodyHasNamed(t *testing.T) {
	r := newRig(t)
	policy := &nornv1.RetryPolicy{MaxAttempts: 3}
	for _, bytes := range []int{1, 60_000, 80_000} {
		policy.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 500, protowire.BytesType), make([]byte, bytes)))
		m := &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{Retry: policy}, Fields: []string{"retry"}}
		if reply := r.ask(m); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%d bytes: %v, %.200v", bytes, reply.Err, reply.Message)
		}
		if n := len(r.core.view.State.Queues["q"].Settings); n > 0 {
			t.Errorf("%d bytes are kept", n)
		}
		m.Fields = []string{"retry.max_attempts"}
		if set := must[*nornv1.QueuesReply](r, m).Queues[0].GetSettings().GetRetry(); set.GetMaxAttempts() != 3 || len(set.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("by its name: %.200v", set)
		}
		m.Settings = &nornv1.QueueSettings{}
		must[*nornv1.QueuesReply](r, m)
	}
}

// TestWhatAnErrorQuotesIsBounded: the answer fits a frame, whatever the names in the request
// are. Where it did not its client heard nothing, or the node that was asked for it.
func TestWhatAnErrorQuotesIsBounded(t *testing.T) {
	r := newRig(t)
	noise := strings.Repeat("\x01", 7<<20)
	batch := &nornv1.EnqueueRequest{}
	for range proto.MaxBatchTasks {
		task, order := r.ids.Next(r.now.Wall), id.OrderOf(0, id.KindKey)
		copy(task[:], order[:])
		batch.Tasks = append(batch.Tasks, &nornv1.TaskSpec{Id: task.Bytes(), Queue: "q", Key: noise[:proto.MaxKeyBytes]})
	}
	for name, m := range map[string]gproto.Message{
		"keys":    batch,
		"setting": &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{}, Fields: []string{noise}},
		"cluster": &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Destroy{Destroy: &nornv1.DestroyCluster{ClusterId: noise}}},
	} {
		reply := r.ask(m)
		size := gproto.Size(reply.Message)
		if reply.Err != nil {
			size = gproto.Size(reply.Err.Proto())
		}
		if size > proto.MaxFrame || size == 0 {
			t.Errorf("%s: the answer has %d bytes", name, size)
		}
	}
}

// TestChangesOfLargeSchedulesAreTold: of as many as fit one answer; the others are not made.
// All were made, and the answer fitted no frame.
func TestChangesOfLargeSchedulesAreTold(t *testing.T) {
	r := newRig(t)
	r.change(put("large", &nornv1.ScheduleSpec{Cron: "@yearly", Task: &nornv1.TaskSpec{Queue: "q", Payload: make([]byte, 120<<10)}}))
	r.change(put("last", everySecond("q")))
	all := &nornv1.ChangeSchedulesRequest{}
	for range 240 { // each is told with what it was before
		dry := put("large", everySecond("q"))
		dry.GetPut().DryRun = true
		all.Changes = append(all.Changes, dry)
	}
	all.Changes = append(all.Changes, &nornv1.ScheduleChange{Name: "last", Action: &nornv1.ScheduleChange_Delete{Delete: &nornv1.DeleteSchedule{}}})
	reply := must[*nornv1.ChangeSchedulesReply](r, all)
	if n := gproto.Size(reply); n > proto.MaxFrame || n < schedules.MaxAnswer {
		t.Errorf("the answer has %d bytes", n)
	}
	last := reply.GetResults()[240]
	if e := last.GetError(); e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || e.GetEffect() != nornv1.Effect_EFFECT_NONE || r.schedule("last") == nil {
		t.Errorf("the last one: %v", last)
	}
	all.Changes = all.Changes[240:]
	if last = must[*nornv1.ChangeSchedulesReply](r, all).GetResults()[0]; last.GetError() != nil || !last.GetChanged() {
		t.Errorf("in a request of its own: %v", last)
	}
}

// TestWhatIsNoNumberIsNoTime: NaN was taken for 0 where a claim or a reader of a log waits,
// and where a failed task is not to be back before some time, so that it was back at once.
func TestWhatIsNoNumberIsNoTime(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	for name, m := range map[string]gproto.Message{
		"claim": &nornv1.ClaimRequest{Queues: []string{"empty"}, WaitSeconds: math.NaN()},
		"log":   &nornv1.LogRequest{Id: task.Bytes(), WaitSeconds: math.NaN()},
	} {
		if reply := r.ask(m); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%s: %v, %.200v", name, reply.Err, reply.Message)
		}
	}
	bad := &nornv1.Failure{Id: task.Bytes(), Token: r.claim("q", 1)[0].Token, AtLeastSeconds: math.NaN()}
	if res := must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{bad}}).Results[0]; res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("at least NaN: %v", res)
	}
}
