package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Bugs found by reading, each with the test that showed it (track record).

// retry of a dead keyed task whose key was taken again: two unfinished tasks of one key.
func TestRetryDoesNotDoubleAKey(t *testing.T) {
	r := newRig(t)
	r.tryEnqueue(keyed("q", "k", 0))
	dead := r.die("q")
	second := r.tryEnqueue(keyed("q", "k", 0))
	if second.Error != nil || second.Receipt.Existed {
		t.Fatal(second)
	}
	res := r.retry(dead)[0]
	if g := r.claim("q", 10); len(g) > 1 {
		t.Fatalf("retry said %v; %d tasks of one unique key are claimed at the same time", res, len(g))
	}
}

// after the generation record was forgotten, an older generation that stayed (dead) swallows an enqueue.
func TestAForgottenGenerationSwallowsNothing(t *testing.T) {
	r := newCollecting(t)
	r.tryEnqueue(keyed("q", "k", 0)) // gen 0
	r.finish("q")
	r.tryEnqueue(keyed("q", "k", 0)) // gen 1
	r.die("q")                       // stays for ever
	r.tryEnqueue(keyed("q", "k", 0)) // gen 2
	r.finish("q")
	r.pass(20 * 24 * time.Hour)
	r.tryEnqueue(keyed("q", "k", 0)) // gen 0 again?
	r.finish("q")
	res := r.tryEnqueue(keyed("q", "k", 0))
	if g := r.claim("q", 1); len(g) != 1 {
		t.Fatalf("the enqueue was answered %v, and nothing will run", res)
	}
}

// 256 finished tasks that an unfinished one depends on stop the collector.
func TestHeldTasksDoNotStopTheCollector(t *testing.T) {
	r := newCollecting(t)
	var deps []id.ID
	var specs []*nornv1.TaskSpec
	for len(deps) < 300 { // all in one partition, as an SDK would draw them
		i := r.ids.Next(r.now.Wall)
		if ring.Of(i, testPartitions) != 0 {
			continue
		}
		s := spec("a")
		s.Id = i.Bytes()
		deps, specs = append(deps, i), append(specs, s)
	}
	r.enqueue(specs...)
	r.enqueue(after("b", onFailCancel, append(deps, r.ids.Next(r.now.Wall))...))
	for range deps {
		r.finish("a")
	}
	var others []*nornv1.TaskSpec
	for range 40 {
		others = append(others, spec("c"))
	}
	r.enqueue(others...)
	for range others {
		r.finish("c")
	}
	// pass looks at the core each time it wants to be: count how often
	steps := 0
	end := r.now.Add(2 * time.Hour)
	for r.now.Mono < end.Mono && steps < 20000 {
		next := r.now.Add(time.Duration(max(0, min(r.wakeMono, end.Mono)-r.now.Mono)))
		r.now = next
		r.step(message.Tick{})
		r.turn()
		steps++
	}
	if n := r.total(); n != 301 || steps > 10000 {
		t.Fatalf("%d tasks are left, want 301; %d looks until %v before the end", n, steps, time.Duration(end.Mono-r.now.Mono))
	}
}

// archived again and again while a dependent is unfinished.
func TestAHeldTaskIsNotArchived(t *testing.T) {
	r := newCollecting(t)
	r.set("a", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_ARCHIVE, RetentionSeconds: 60}, "retention", "retention_seconds")
	dep := r.enqueue(spec("a"))[0]
	r.enqueue(after("b", onFailCancel, dep))
	r.finish("a")
	r.pass(2 * time.Hour)
	if n := len(r.archives); n > 1 {
		t.Fatalf("one task was archived %d times in two hours", n)
	}
}

// a queue set to archive, a server started without an archive directory.
func TestAnArchiveQueueWithoutADirectoryIsKept(t *testing.T) {
	r := newCollecting(t)
	r.set("a", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_ARCHIVE, RetentionSeconds: 60}, "retention", "retention_seconds")
	r.enqueue(spec("a"))
	r.finish("a")
	r.core.retention.HasArchive = false // started again without --archive-dir
	r.pass(time.Hour)
	if len(r.archives) > 0 {
		t.Fatal("the core asks for an archive that the node does not have: n.archive is nil")
	}
}

// queue names are never given back.
func TestQueueNamesAreGivenBack(t *testing.T) {
	r := newCollecting(t)
	for i := range 100 {
		name := fmt.Sprintf("user-%d", i)
		r.enqueue(spec(name))
		r.finish(name)
	}
	r.pass(10 * 24 * time.Hour)
	if r.total() != 0 {
		t.Fatal("not collected")
	}
	r.crash(time.Second)
	if res := r.tryEnqueue(spec("new")); res.Error != nil {
		t.Fatalf("nothing is stored, and: %v", res.Error)
	}
}

// waiters are granted past max-claims.
func TestWaitingRequestsRespectMaxClaims(t *testing.T) {
	r := newRig(t)
	r.core.dispatch.MaxClaims = 10
	for i := range 20 {
		r.send(uint64(i+2), &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 100, WaitSeconds: 60})
	}
	r.turn()
	var specs []*nornv1.TaskSpec
	for range 1000 {
		specs = append(specs, spec("q"))
	}
	r.enqueue(specs...)
	if n := r.core.vnodes.Claimed(); n > 10 {
		t.Fatalf("%d tasks are under a claim, the limit is 10", n)
	}
	answered := len(r.replies)
	for _, v := range r.core.vnodes.Each() { // each end makes room for one that waits
		v.Held(func(task id.ID, c *claim.Record) {
			r.send(1, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: c.Token}}})
		})
	}
	r.turn()
	if len(r.replies) <= answered+10 {
		t.Fatal("requests that wait were not served when claims had ended")
	}
}

// checkpoints are not weighed: an answer over a frame.
func TestAClaimAnswerFitsAFrame(t *testing.T) {
	r := newRig(t)
	var specs []*nornv1.TaskSpec
	for range 30 {
		specs = append(specs, spec("q"))
	}
	r.enqueue(specs...)
	for _, g := range r.claim("q", 30) {
		task, _ := id.Parse(g.Task.Id)
		must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: task.Bytes(), Token: g.Token, Data: make([]byte, 1<<20)})
		must[*nornv1.WriteReply](r, &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: g.Token}}})
	}
	reply := r.ask(&nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 100})
	if n := gproto.Size(reply.Message); n > proto.MaxFrame {
		t.Fatalf("a claim answer of %d bytes, a frame has at most %d", n, proto.MaxFrame)
	}
}

// a clock that was ahead for a moment: not_before and back-off count no more.
func TestAClockThatWasAheadForAMoment(t *testing.T) {
	r := newRig(t)
	var s *nornv1.TaskSpec
	for range 40 { // in every partition
		s = spec("other")
		s.NotBefore = timestamppb.New(time.Unix(0, r.now.Wall).Add(20 * time.Hour))
		r.enqueue(s)
	}
	r.now.Wall += int64(21 * time.Hour) // the clock is wrong for a moment
	r.step(message.Tick{})
	r.turn()
	r.now.Wall -= int64(21 * time.Hour)
	s = spec("q")
	s.NotBefore = timestamppb.New(time.Unix(0, r.now.Wall).Add(10 * time.Hour))
	task := r.enqueue(s)[0]
	if g := r.claim("q", 1); len(g) != 0 {
		t.Errorf("task %s is to start in 10 hours and was handed out now", task)
	}
	r.enqueue(spec("f"))
	n := 0
	for ; n < 10; n++ {
		g := r.claim("f", 1)
		if len(g) == 0 {
			break
		}
		i, _ := id.Parse(g[0].Task.Id)
		must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: i.Bytes(), Token: g[0].Token, Error: "e"}}})
	}
	if n > 1 {
		t.Errorf("%d attempts without any back-off, then dead", n)
	}
}

// a change of settings whose outcome is unknown is never looked up.
func TestSettingsOfUnknownOutcomeAreLookedUp(t *testing.T) {
	r := newRig(t)
	r.manual = true
	r.send(1, &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{Paused: true}, Fields: []string{"paused"}})
	r.turn()
	req := r.waiting[0]
	r.waiting = nil
	r.register.Do(req, func(res register.Result) { // it was written, and its answer got lost
		r.step(message.Registered{Result: register.Result{Tag: res.Tag, Err: fmt.Errorf("lost")}})
	})
	r.manual = false
	r.turn()
	r.enqueue(spec("q"))
	r.pass(time.Hour)
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatal("the register says paused, and an hour later the queue still hands out")
	}
}

// self-dependency through a key.
func TestATaskDoesNotDependOnItselfByItsKey(t *testing.T) {
	r := newRig(t)
	k := r.key("q", "k", 0)
	s := keyed("q", "k", 0)
	s.Id = nil
	s.Dependencies = [][]byte{k.Id}
	if res := r.tryEnqueue(s); res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Fatalf("a task that depends on itself: %v", res)
	}
}

// completions of tasks that nobody knows stay for ever.
func TestOrphansBelowTheHorizonGo(t *testing.T) {
	r := newCollecting(t)
	old := r.ids.Next(r.now.Wall - int64(60*24*time.Hour))
	res := r.complete(old, 1<<32|1)
	r.pass(60 * 24 * time.Hour)
	if reply := r.ask(&nornv1.GetRequest{Id: old.Bytes()}); reply.Err == nil {
		t.Fatalf("a completion of a task from two months ago (%v) is still there another two months later", res)
	}
}

// Answers of the register may come out of order (track record, simulator B6).
func TestAnOlderAnswerOfTheRegisterUndoesNothing(t *testing.T) {
	r := newRig(t)
	var old register.Result
	r.register.Do(register.Request{Tag: 1 << 40}, func(res register.Result) { old = res })
	r.set("q", &nornv1.QueueSettings{Paused: true}, "paused")
	r.core.register.Ask(nil)
	old.Tag = lastAsked(r.core)
	r.step(message.Registered{Result: old})
	r.turn()
	r.enqueue(spec("q"))
	if g := r.claim("q", 1); len(g) != 0 {
		t.Fatal("an older answer has resumed the queue")
	}
}

// What waits and leaves costs the same however many wait (track record).
func TestManyLogReadersComeAndGo(t *testing.T) {
	r := newRig(t)
	r.core.dispatch.MaxWaiters = 3000
	task := r.enqueue(spec("q"))[0]
	for i := range 3000 {
		r.send(uint64(2+i/1000), &nornv1.LogRequest{Id: task.Bytes(), WaitSeconds: 60})
	}
	r.turn()
	last := r.send(4, &nornv1.ClaimRequest{Queues: []string{"none"}, WaitSeconds: 1})
	r.turn()
	if reply := r.replies[last]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Fatalf("past max-waiters: %v", reply.Err)
	}
	r.step(message.Gone{Conn: 2})
	before := len(r.replies)
	must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: task.Bytes(), Token: 1<<32 + 1, Data: []byte("news")})
	if n := len(r.replies) - before; n != 1+2000 {
		t.Fatalf("%d answers to an update with 2000 readers", n)
	}
	if r.core.logs.Count() != 0 {
		t.Fatalf("%d readers are left", r.core.logs.Count())
	}
}

// A retry does not wait for a dependency that was completed and forgotten.
func TestARetryDoesNotWaitForWhatIsForgotten(t *testing.T) {
	r := newCollecting(t)
	a, c := r.enqueue(spec("a"))[0], r.enqueue(spec("c"))[0]
	b := r.enqueue(after("b", onFailCancel, a, c))[0]
	r.finish("a")
	r.set("b", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_KEEP}, "retention")
	r.die("c")
	r.want(b, "cancelled")
	r.pass(9 * 24 * time.Hour)
	r.retry(c)
	if res := r.retry(b)[0]; res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Fatalf("retried: %v", res)
	}
	r.want(b, "cancelled")
	r.audit()
}

// An archive that fails holds up nothing but what is to be archived.
func TestAFailingArchiveStopsNoDeletion(t *testing.T) {
	r := newCollecting(t)
	r.broken = true
	r.set("a", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_ARCHIVE, RetentionSeconds: 60}, "retention", "retention_seconds")
	for _, queue := range []string{"a", "b"} {
		var specs []*nornv1.TaskSpec
		for range 300 {
			specs = append(specs, spec(queue))
		}
		r.enqueue(specs...)
		for _, g := range r.claim(queue, 300) {
			task, _ := id.Parse(g.Task.Id)
			r.complete(task, g.Token)
		}
	}
	r.pass(65 * time.Minute)
	if n := r.total(); n != 300 {
		t.Fatalf("%d tasks left, want the 300 that cannot be archived", n)
	}
	r.broken = false
	r.pass(10 * time.Minute)
	if n := r.total(); n != 0 || len(r.archives) != 300 {
		t.Fatalf("%d tasks left, %d archived", n, len(r.archives))
	}
}
