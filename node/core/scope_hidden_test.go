package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// asks is a request of somebody with a scope, and its answer as text.
func (r *rig) asks(m gproto.Message, s *guard.Scope) string {
	r.t.Helper()
	r.next++
	from := message.Origin{Conn: 1, Request: r.next, Method: requestMethod(m)}
	r.step(&message.Request{From: from, Body: m, Received: r.now.Mono, Scope: s})
	r.turn()
	reply, ok := r.replies[from]
	if !ok {
		r.t.Fatalf("no reply to %T", m)
	}
	return fmt.Sprintf("%v, %v", reply.Message, reply.Err)
}

// TestSchedulesBehindHiddenOnes: who may see those that come after hundreds of others sees all of them, page
// by page; and of a tenant those with its prefix alone, whatever their queue.
func TestSchedulesBehindHiddenOnes(t *testing.T) {
	r := newRig(t)
	m := &nornv1.ChangeSchedulesRequest{}
	for i := range 250 {
		m.Changes = append(m.Changes, put(fmt.Sprintf("acme2/%03d", i), everySecond("acme2/q")))
	}
	for i := range 30 {
		m.Changes = append(m.Changes, put(fmt.Sprintf("zeta/%03d", i), everySecond("zeta/q")))
	}
	m.Changes = append(m.Changes, put("nightly", everySecond("zeta/q")))
	for _, res := range must[*nornv1.ChangeSchedulesReply](r, m).GetResults() {
		if res.GetError() != nil {
			t.Fatal(res.GetError())
		}
	}
	see := []guard.Rule{{Verbs: guard.See, Pattern: "zeta/*"}}
	for name, c := range map[string]struct {
		scope *guard.Scope
		want  int
	}{"a tenant": {guard.NewPrincipal("a", guard.ByToken, nil, see, "zeta/").Scope(), 30}, "a role": {scopeOf(see...), 31}} {
		seen, after := 0, ""
		for {
			r.next++
			from := message.Origin{Conn: 1, Request: r.next, Method: uint16(nornv1.Method_METHOD_SCHEDULES)}
			r.step(&message.Request{From: from, Body: &nornv1.SchedulesRequest{Limit: 7, After: after}, Received: r.now.Mono, Scope: c.scope})
			r.turn()
			page := r.replies[from].Message.(*nornv1.SchedulesReply)
			for _, x := range page.GetSchedules() {
				seen, after = seen+1, x.GetName()
			}
			if !page.GetMore() {
				break
			}
		}
		if seen != c.want {
			t.Errorf("%s sees %d schedules of %d", name, seen, c.want)
		}
	}
	tenant := guard.NewPrincipal("a", guard.ByToken, nil, see, "zeta/").Scope()
	if got, none := r.asks(&nornv1.SchedulesRequest{Names: []string{"nightly"}}, tenant), r.asks(&nornv1.SchedulesRequest{Names: []string{"weekly1"}}, tenant); got != strings.ReplaceAll(none, "weekly1", "nightly") {
		t.Errorf("a schedule without the prefix is %s, one that is not there %s", got, none)
	}
}

// TestAStatusSaysNothingOfOthersTasks: how long the oldest ready one has waited is said of what may be seen.
func TestAStatusSaysNothingOfOthersTasks(t *testing.T) {
	r := newCluster(t, 4, 0)
	acme := scopeOf(guard.Rule{Verbs: guard.See, Pattern: "acme/*"})
	for p := range ring.Partition(testPartitions) {
		r.stored("acme2/mail", p)
	}
	r.pass(2 * time.Second)
	r.settle()
	for i := range r.peers {
		if got := r.scoped(i, &nornv1.StatusRequest{}, nil); !strings.Contains(got, "oldest_ready_seconds:") {
			t.Errorf("node %d tells who may see all of no age: %s", i+1, got)
		}
		if got := r.scoped(i, &nornv1.StatusRequest{}, acme); strings.Contains(got, "oldest_ready_seconds:") {
			t.Errorf("node %d tells of a task that may not be seen: %s", i+1, got)
		}
	}
	r.stored("acme/mail", 0)
	r.pass(2 * time.Second)
	r.settle()
	if got := r.scoped(0, &nornv1.StatusRequest{}, acme); strings.Count(got, "oldest_ready_seconds:") != 1 {
		t.Errorf("of its own task it is told %s", got)
	}
}

// TestWorkersOfNoneOfMyQueues: a tenant is shown workers with its prefix that take its queues alone.
func TestWorkersOfNoneOfMyQueues(t *testing.T) {
	tenant := guard.NewPrincipal("a", guard.ByToken, nil, []guard.Rule{{Verbs: guard.See, Pattern: guard.Everything}}, "acme/").Scope()
	some, all := scopeOf(guard.Rule{Verbs: guard.See, Pattern: "acme/*"}), scopeOf(guard.Rule{Verbs: guard.See, Pattern: guard.Everything})
	worker := func(name string, queues ...string) *nornv1.Worker {
		w := &nornv1.Worker{Name: name}
		for _, q := range queues {
			w.Queues = append(w.Queues, &nornv1.SessionQueue{Queue: q})
		}
		return w
	}
	for _, c := range []struct {
		w    *nornv1.Worker
		want [3]bool // tenant, some, all
	}{
		{worker("acme/w", "acme/mail"), [3]bool{true, true, true}}, {worker("w", "acme/mail"), [3]bool{false, true, true}}, {worker("acme/w", "acme/mail", "mail"), [3]bool{false, false, true}},
		{worker("acme2/w", "acme2/mail"), [3]bool{false, false, true}}, {worker("acme/w"), [3]bool{true, false, true}}, {worker("w"), [3]bool{false, false, true}},
	} {
		for i, s := range []*guard.Scope{tenant, some, all} {
			if got := scope.Shows(s, c.w); got != c.want[i] {
				t.Errorf("%v to %v: %v", c.w, s, got)
			}
		}
		if !scope.Shows(nil, c.w) {
			t.Errorf("%v is hidden from who may see all", c.w)
		}
	}
}

// TestATriggerDoesNotTellWhatIsHidden: under the ID of a task of another queue it is refused, and nothing is
// told of that task.
func TestATriggerDoesNotTellWhatIsHidden(t *testing.T) {
	r := newRig(t)
	hidden := r.enqueue(spec("acme2/mail"))[0]
	must[*nornv1.ChangeSchedulesReply](r, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{put("s", everySecond("acme/mail"))}})
	acme := scopeOf(guard.Rule{Verbs: guard.Schedule | guard.See, Pattern: "acme/*"})
	got := r.asks(&nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{Name: "s", Action: &nornv1.ScheduleChange_Trigger{Trigger: &nornv1.TriggerSchedule{TaskId: hidden.Bytes()}}}}}, acme)
	if !strings.Contains(got, "cannot be used") || strings.Contains(got, "digest") || strings.Contains(got, "another spec") {
		t.Errorf("it is told %s", got)
	}
}

// TestAListDoesNotCountWhatIsGone: of a task that was collected nobody knows whose it was.
func TestAListDoesNotCountWhatIsGone(t *testing.T) {
	r := newRig(t)
	r.collect = time.Minute
	r.crash(time.Second)
	r.enqueue(spec("acme2/mail"), spec("acme2/mail"), spec("acme/mail"))
	for _, g := range r.claim("acme2/mail", 2) {
		r.done(g)
	}
	r.pass(3 * time.Hour)
	acme := scopeOf(guard.Rule{Verbs: guard.See, Pattern: "acme/*"})
	if got := r.asks(&nornv1.ListRequest{}, acme); !strings.Contains(got, "looked_at:1") {
		t.Errorf("the list is %s", got)
	}
	if got := r.asks(&nornv1.ListRequest{}, nil); !strings.Contains(got, "looked_at:3") {
		t.Errorf("the list of who may see all is %s", got)
	}
}
