package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"google.golang.org/protobuf/types/known/timestamppb"
)

func (r *rig) set(queue string, s *nornv1.QueueSettings, fields ...string) *nornv1.Queue {
	r.t.Helper()
	return must[*nornv1.QueuesReply](r, &nornv1.SetQueueRequest{Name: queue, Settings: s, Fields: fields}).Queues[0]
}

func TestAPausedQueueHandsOutNothing(t *testing.T) {
	r := newRig(t)
	r.set("q", &nornv1.QueueSettings{Paused: true, Note: "deploy"}, "paused", "note")
	r.enqueue(spec("q"), spec("other"))
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatal("a paused queue handed out a task")
	}
	if g := must[*nornv1.ClaimReply](r, &nornv1.ClaimRequest{Queues: []string{"q", "other"}, MaxTasks: 5}).Grants; len(g) != 1 || g[0].Task.Queue != "other" {
		t.Fatalf("granted %v beside a paused queue", g)
	}
	r.crash(time.Second) // the pause stays
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatal("a paused queue handed out a task after a restart")
	}
	from := r.send(2, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60})
	r.turn()
	r.set("q", &nornv1.QueueSettings{}, "paused")
	if reply, ok := r.replies[from]; !ok || len(reply.Message.(*nornv1.ClaimReply).Grants) != 1 {
		t.Fatal("a waiting request was not served when the queue was resumed")
	}
	r.audit()
}

func TestADrainingQueueTakesNothing(t *testing.T) {
	r := newRig(t)
	s := spec("q")
	task := r.enqueue(s)[0]
	r.set("q", &nornv1.QueueSettings{Draining: true}, "draining")
	if e := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}}).Results[0].Error; e.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Fatalf("%v, want CONFLICT", e)
	}
	if res := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]; !res.Receipt.GetExisted() {
		t.Fatalf("a repeated send is refused: %v", res)
	}
	if r.finish("q") != task {
		t.Fatal("a draining queue hands out its tasks")
	}
}

func TestQueueSettings(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	before := r.claim("q", 1)[0]
	q := r.set("q", &nornv1.QueueSettings{LeaseSeconds: 7, MaxTasks: 2, Retry: &nornv1.RetryPolicy{MaxAttempts: 9}}, "lease_seconds", "max_tasks", "retry.max_attempts")
	if q.Version != 1 || q.Effective.GetRetry().GetMaxAttempts() != 9 || q.Effective.GetRetry().GetMultiplier() != 2 || q.Count.GetClaimed() != 1 {
		t.Fatalf("the queue is %v", q)
	}
	task := r.enqueue(spec("q"))[0]
	if got := r.get(task); got.MaxAttempts != 9 {
		t.Fatalf("max attempts %d", got.MaxAttempts)
	}
	if before.Task.MaxAttempts != 3 || before.LeaseSeconds != 30 {
		t.Fatalf("a task from before the change has %v", before)
	}
	e := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}}).Results[0].Error
	if e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || e.GetRetryAfterSeconds() == 0 {
		t.Fatalf("past max-tasks: %v", e)
	}
	if g := r.claim("q", 1)[0]; g.LeaseSeconds != 7 {
		t.Fatalf("a lease of %v s", g.LeaseSeconds)
	}
	for _, bad := range []*nornv1.SetQueueRequest{
		{Name: "q", Fields: []string{"nonsense"}},
		{Name: "q"},
		{Name: "-", Fields: []string{"paused"}},
		{Name: "q", Fields: []string{"lease_seconds"}, Settings: &nornv1.QueueSettings{LeaseSeconds: 0.1}},
		{Name: "q", Fields: []string{"retention_seconds"}, Settings: &nornv1.QueueSettings{RetentionSeconds: -1}},
	} {
		if reply := r.ask(bad); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%v: %v, want INVALID_ARGUMENT", bad, reply.Err)
		}
	}
	if reply := r.ask(&nornv1.SetQueueRequest{Name: "q", Fields: []string{"paused"}, IfVersion: 9}); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Fatalf("another version: %v, want CONFLICT", reply.Err)
	}
	if reply := r.ask(&nornv1.QueuesRequest{Names: []string{"nowhere"}}); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
		t.Fatalf("an unknown queue: %v, want NOT_FOUND", reply.Err)
	}
	if n := len(must[*nornv1.QueuesReply](r, &nornv1.QueuesRequest{}).Queues); n != 1 {
		t.Fatalf("%d queues", n)
	}
}

// TestAQueueWithoutTasksAndSettingsIsNotThere: a queue that is resumed under a name that
// nobody knows is told, and neither that nor settings that were taken back leave anything.
func TestAQueueWithoutTasksAndSettingsIsNotThere(t *testing.T) {
	r := newRig(t)
	resume := &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{}, Fields: []string{"paused", "draining", "note"}}
	listed := func() (names []string) {
		for _, q := range must[*nornv1.QueuesReply](r, &nornv1.QueuesRequest{}).Queues {
			names = append(names, q.Name)
		}
		return names
	}
	if reply := r.ask(resume); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
		t.Errorf("an unknown queue is resumed: %v", reply)
	}
	if got := r.set("q", &nornv1.QueueSettings{Paused: true, Retry: &nornv1.RetryPolicy{MaxAttempts: 3}}, "paused", "retry.max_attempts"); !got.Settings.GetPaused() {
		t.Errorf("paused: %v", got)
	}
	r.set("q", &nornv1.QueueSettings{}, "retry.max_attempts")
	if reply := r.ask(resume); reply.Err != nil {
		t.Errorf("resumed: %v", reply.Err)
	}
	for range 2 { // and after a restart
		if got := listed(); len(got) != 0 {
			t.Errorf("without tasks and settings there are %q", got)
		}
		if reply := r.ask(&nornv1.QueuesRequest{Names: []string{"q"}}); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			t.Errorf("found: %v", reply)
		}
		if reply := r.ask(resume); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			t.Errorf("resumed once more: %v", reply)
		}
		r.crash(time.Second)
	}
	r.enqueue(spec("q"))
	if reply := r.ask(resume); reply.Err != nil || len(listed()) != 1 {
		t.Errorf("with a task: %v, %q", reply.Err, listed())
	}
	if got := r.set("q", &nornv1.QueueSettings{Note: "again"}, "note"); got.Settings.GetNote() != "again" {
		t.Errorf("set again: %v", got)
	}
}

// TestAQueueIsResumedThroughANodeThatIsBehind: one that has not heard of the pause, nor of
// the queue, looks before it says that there is nothing to take back.
func TestAQueueIsResumedThroughANodeThatIsBehind(t *testing.T) {
	r := newTrio(t)
	send := func(i int, s *nornv1.QueueSettings) *message.Reply {
		t.Helper()
		from := r.send(i, &nornv1.SetQueueRequest{Name: "q", Settings: s, Fields: []string{"paused"}})
		r.settle()
		reply, ok := r.peers[i].replies[from]
		if !ok {
			t.Fatalf("node %d does not answer", i+1)
		}
		return &reply
	}
	if reply := send(0, &nornv1.QueueSettings{}); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
		t.Errorf("an unknown queue is resumed: %v", reply)
	}
	r.peers[1].deaf = true
	if reply := send(0, &nornv1.QueueSettings{Paused: true}); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	r.tell()
	if reply := send(1, &nornv1.QueueSettings{}); reply.Err != nil || reply.Message.(*nornv1.QueuesReply).Queues[0].GetSettings().GetPaused() {
		t.Errorf("resumed: %v", reply)
	}
}

func keyed(queue, key string, window time.Duration) *nornv1.TaskSpec {
	s := spec(queue)
	s.Key, s.KeyWindowSeconds = key, window.Seconds()
	return s
}

func (r *rig) key(queue, key string, window time.Duration) *nornv1.KeyReply {
	r.t.Helper()
	return must[*nornv1.KeyReply](r, &nornv1.KeyRequest{Queue: queue, Key: key, WindowSeconds: window.Seconds()})
}

func (r *rig) tryEnqueue(s *nornv1.TaskSpec) *nornv1.EnqueueResult {
	r.t.Helper()
	return must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]
}

func TestAKeyIsFreeAgainWhenItsTaskIsFinished(t *testing.T) {
	r := newRig(t)
	first := r.tryEnqueue(keyed("q", "k", 0))
	if first.Error != nil || first.Receipt.Existed {
		t.Fatal(first)
	}
	if again := r.tryEnqueue(keyed("q", "k", 0)); again.Error != nil || !again.Receipt.Existed || again.Receipt.Id != first.Receipt.Id {
		t.Fatalf("the same again: %v", again)
	}
	other := keyed("q", "k", 0)
	other.Payload = []byte("other")
	if res := r.tryEnqueue(other); res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS {
		t.Fatalf("another spec under the key: %v", res)
	}
	if res := r.tryEnqueue(keyed("p", "k", 0)); res.Error != nil || res.Receipt.Existed {
		t.Fatalf("the key in another queue: %v", res)
	}
	sent := keyed("q", "k", 0) // a client that repeats: it has asked for the ID
	sent.Id = r.key("q", "k", 0).Id
	r.finish("q")
	if res := r.tryEnqueue(sent); res.Error != nil || !res.Receipt.Existed {
		t.Fatalf("a repeated send after the task was finished: %v", res)
	}
	free := r.key("q", "k", 0)
	if free.State != nornv1.State_STATE_UNSPECIFIED || id.ID(free.Id).String() == first.Receipt.Id {
		t.Fatalf("the key is not free: %v", free)
	}
	other.Id = free.Id
	if res := r.tryEnqueue(other); res.Error != nil || res.Receipt.Existed {
		t.Fatalf("under the free ID: %v", res)
	}
	stranger := keyed("q", "k", 0)
	stranger.Id = id.UniqueKey([16]byte{9}, "q", "k", 0, 17).Bytes()
	if res := r.tryEnqueue(stranger); res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW {
		t.Fatalf("an ID of a generation to come: %v", res)
	}
	r.audit()
}

func TestAKeyWithAWindowIsTakenOncePerWindow(t *testing.T) {
	r := newRig(t)
	first := r.tryEnqueue(keyed("q", "k", time.Hour))
	r.finish("q")
	if again := r.tryEnqueue(keyed("q", "k", time.Hour)); again.Error != nil || !again.Receipt.Existed {
		t.Fatalf("within the window, after it was finished: %v", again)
	}
	r.pass(time.Hour)
	if next := r.tryEnqueue(keyed("q", "k", time.Hour)); next.Error != nil || next.Receipt.Existed || next.Receipt.Id == first.Receipt.Id {
		t.Fatalf("in the next window: %v", next)
	}
	forged := keyed("q", "k", time.Hour)
	forged.Id = id.UniqueKey([16]byte{9}, "q", "other", r.now.Wall-r.now.Wall%int64(time.Hour), 0).Bytes()
	if res := r.tryEnqueue(forged); res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Fatalf("the ID of another key: %v", res)
	}
	plain := keyed("q", "k2", 0)
	plain.Id = r.ids.Next(r.now.Wall).Bytes()
	if res := r.tryEnqueue(plain); res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Fatalf("an ID of kind 0 with a key: %v", res)
	}
	r.audit()
}

func TestFilter(t *testing.T) {
	r := newRig(t)
	old := r.enqueue(spec("q"))[0]
	r.pass(time.Hour)
	team := spec("q")
	team.Headers = map[string]string{"team": "x", "a": "b"}
	team.Payload = []byte(`{"user": {"id": 7}, "text": "a needle"}`)
	team.Kind, team.Tags = "send-welcome", []string{"vip", "eu"}
	mine := r.enqueue(team)[0]
	dead := r.enqueue(spec("d"))[0]
	r.die("d")
	list := func(f *nornv1.Filter) (ids []string) {
		for _, task := range must[*nornv1.ListReply](r, &nornv1.ListRequest{Filter: f, IdsOnly: true}).Tasks {
			ids = append(ids, task.Id)
		}
		return ids
	}
	cut := timestamppb.New(time.Unix(0, r.now.Wall).Add(-time.Minute))
	for _, c := range []struct {
		name string
		f    *nornv1.Filter
		want id.ID
	}{
		{"created before", &nornv1.Filter{CreatedBefore: cut}, old},
		{"kind", &nornv1.Filter{Kind: "send-welcome"}, mine},
		{"a tag", &nornv1.Filter{Tags: []string{"eu"}}, mine},
		{"tags", &nornv1.Filter{Tags: []string{"eu", "vip"}}, mine},
		{"payload", &nornv1.Filter{PayloadContains: "needle"}, mine},
		{"value of a payload", &nornv1.Filter{PayloadPaths: map[string]string{"user.id": "7"}}, mine},
		{"header", &nornv1.Filter{Headers: map[string]string{"team": "x"}}, mine},
		{"error", &nornv1.Filter{ErrorContains: "oo"}, dead},
		{"finished", &nornv1.Filter{FinishedAfter: cut}, dead},
		{"attempts", &nornv1.Filter{MinAttempts: 1}, dead},
	} {
		if got := list(c.f); len(got) != 1 || got[0] != c.want.String() {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
	for _, none := range []*nornv1.Filter{{Kind: "send"}, {Tags: []string{"eu", "us"}}, {Tags: []string{"vi"}}} {
		if got := list(none); len(got) != 0 {
			t.Errorf("%v: %v", none, got)
		}
	}
	for _, bad := range []*nornv1.Filter{{Kind: strings.Repeat("k", 129)}, {Kind: "a\x1b[2J"}, {Tags: []string{""}}, {Tags: []string{"a", "a"}}} {
		if reply := r.ask(&nornv1.ListRequest{Filter: bad}); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%v: %+v", bad, reply)
		}
	}
	r.claim("q", 1)
	if got := list(&nornv1.Filter{Worker: "w"}); len(got) != 1 || got[0] != old.String() {
		t.Errorf("worker: %v", got)
	}
}

// TestANodeThatIsBehindKnowsNoVersion: settings that are bound to a version are
// held against the register, not against what this node has heard of it.
func TestANodeThatIsBehindKnowsNoVersion(t *testing.T) {
	r := newTrio(t)
	set := func(i int, note string, version uint64) (*nornv1.Queue, *nornv1.ErrorKind) {
		t.Helper()
		from := r.send(i, &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{Note: note}, Fields: []string{"note"}, IfVersion: version})
		r.settle()
		reply, ok := r.peers[i].replies[from]
		if !ok {
			t.Fatalf("node %d does not answer", i+1)
		}
		if reply.Err != nil {
			return nil, &reply.Err.Kind
		}
		return reply.Message.(*nornv1.QueuesReply).Queues[0], nil
	}
	r.peers[1].deaf = true
	if q, bad := set(0, "one", 0); bad != nil || q.Version != 1 {
		t.Fatalf("set as %v, %v", q, bad)
	}
	r.tell()
	if q, bad := set(1, "two", 1); bad != nil || q.Version != 2 {
		t.Errorf("a change of version 1 through a node that is behind: %v, %v", q, bad)
	}
	if _, bad := set(0, "three", 1); bad == nil || *bad != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Errorf("a change of version 1, which is over: %v, want CONFLICT", bad)
	}
}

// TestSettingsThatTheRegisterDoesNotTake are refused: it has room for so many names.
func TestSettingsThatTheRegisterDoesNotTake(t *testing.T) {
	r := newRig(t)
	r.core.queues.MaxQueues = register.MaxNamed + 10
	for n := 0; n < register.MaxNamed; {
		var q register.Request
		for ; len(q.Queues) < 8192 && n < register.MaxNamed; n++ {
			q.Queues = append(q.Queues, register.QueueChange{Name: fmt.Sprint("q", n), Settings: []byte{72, 1}})
		}
		r.register.Do(q, func(res register.Result) { r.step(message.Changed{State: res.State, Leads: true, Majority: true}) })
	}
	if reply := r.ask(&nornv1.SetQueueRequest{Name: "one-more", Settings: &nornv1.QueueSettings{Paused: true}, Fields: []string{"paused"}}); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || !reply.Err.Lasting {
		t.Errorf("%v", reply)
	}
	r.set("q1", &nornv1.QueueSettings{Paused: true}, "paused")
}

// TestARepetitionOutlivesAChangeOfTheQueue: what a client left open of the retry policy was
// filled in by other settings the second time, and counted as another task.
func TestARepetitionOutlivesAChangeOfTheQueue(t *testing.T) {
	r := newRig(t)
	send := func(attempts uint32, task id.ID) *nornv1.EnqueueResult {
		s := spec("q")
		s.Id, s.Retry = task.Bytes(), &nornv1.RetryPolicy{MaxAttempts: attempts}
		return must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]
	}
	task := r.ids.Next(r.now.Wall)
	send(5, task)
	r.set("q", &nornv1.QueueSettings{Retry: &nornv1.RetryPolicy{InitialSeconds: 7}}, "retry.initial_seconds")
	if res := send(5, task); res.Error != nil || !res.Receipt.GetExisted() {
		t.Errorf("the same again: %v", res)
	}
	if res := send(6, task); res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS {
		t.Errorf("with more attempts: %v", res)
	}
}
