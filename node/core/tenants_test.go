package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// tenant sets a tenant in the register.
func (r *rig) tenant(name string, limits *nornv1.TenantLimits) {
	r.t.Helper()
	data, err := gproto.Marshal(&nornv1.StoredTenant{Prefix: name + "/", Limits: limits})
	if err != nil {
		r.t.Fatal(err)
	}
	change := register.AccessChange{Key: quota.Key + name, Data: data}
	r.register.Do(register.Request{}, func(res register.Result) { change.Old = res.State.Access[change.Key].Version })
	r.register.Do(register.Request{Access: []register.AccessChange{change}}, func(res register.Result) { r.step(message.Changed{State: res.State, Leads: true, Majority: true}) })
	r.turn()
}

// done completes what was granted.
func (r *rig) done(g *nornv1.Grant) {
	r.t.Helper()
	task, err := id.Parse(g.GetTask().GetId())
	if err != nil {
		r.t.Fatal(err)
	}
	if res := r.complete(task, g.GetToken()); res.GetError() != nil {
		r.t.Fatal(res.GetError())
	}
}

// full tells whether an error says that a tenant has reached a limit.
func full(e *proto.Error, setting string) bool {
	return e != nil && e.Kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED && strings.Contains(e.Message, "tenant acme has") && strings.Contains(e.Message, setting)
}

// itemError is an error of an item; nil: there is none.
func itemError(e *nornv1.Error) *proto.Error {
	if e == nil {
		return nil
	}
	return proto.FromProto(e)
}

func (r *rig) try(queue string) *proto.Error {
	r.t.Helper()
	s := spec(queue)
	s.Id = r.ids.Next(r.now.Wall).Bytes()
	return itemError(must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0].GetError())
}

// TestATenantHasAsManyTasksAsItMay, and acme2 and others have nothing to do with that; the same
// task again is no other one, and one that is finished makes room at once.
func TestATenantHasAsManyTasksAsItMay(t *testing.T) {
	r := newRig(t)
	r.tenant("acme", &nornv1.TenantLimits{Tasks: 3})
	ids := r.enqueue(spec("acme/a"), spec("acme/b"), spec("acme/a"))
	if e := r.try("acme/c"); !full(e, "3 tasks that are not finished, its limit (max-tasks) is 3") {
		t.Errorf("one more: %v", e)
	}
	again := spec("acme/a")
	again.Id = ids[0].Bytes()
	r.enqueue(again)
	r.enqueue(spec("acme2/a"), spec("acme"), spec("mail"))
	g := r.claim("acme/b", 1)
	if len(g) != 1 {
		t.Fatal("nothing to claim")
	}
	if e := r.try("acme/c"); !full(e, "max-tasks") {
		t.Errorf("with one under a claim: %v", e)
	}
	r.complete(ids[1], g[0].Token)
	if e := r.try("acme/c"); e != nil {
		t.Errorf("with one finished: %v", e)
	}
	r.crash(time.Second)
	r.tenant("acme", &nornv1.TenantLimits{Tasks: 3})
	if e := r.try("acme/c"); !full(e, "max-tasks") {
		t.Errorf("after a crash: %v", e)
	}
	r.tenant("acme", nil)
	if e := r.try("acme/c"); e != nil {
		t.Errorf("without a limit: %v", e)
	}
}

// TestATenantHasAsManyBytesAsItMay: those of tasks that are finished count until they are collected, and those of
// others do not.
func TestATenantHasAsManyBytesAsItMay(t *testing.T) {
	r := newRig(t)
	r.collect = time.Minute
	r.crash(time.Second)
	limits := &nornv1.TenantLimits{Bytes: 3 * uint64(len("payload"))}
	r.tenant("acme", limits)
	ids := r.enqueue(spec("acme/a"), spec("acme/b"), spec("acme/a"))
	const text = "the tasks of tenant acme have 21 bytes, finished ones too, this one has 7, and its limit (max-bytes) is 21"
	over := func(e *proto.Error) bool {
		return e != nil && e.Kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED && e.Message == text
	}
	if e := r.try("acme/c"); !over(e) {
		t.Errorf("one more: %v", e)
	}
	again, empty := spec("acme/a"), spec("acme/a")
	again.Id, empty.Payload = ids[0].Bytes(), nil
	r.enqueue(again, empty, spec("acme2/a"), spec("mail"))
	r.done(r.claim("acme/b", 1)[0])
	must[*nornv1.WriteReply](r, &nornv1.CancelRequest{Ids: [][]byte{ids[0].Bytes()}})
	if e := r.try("acme/c"); !over(e) {
		t.Errorf("with two finished: %v", e)
	}
	r.crash(time.Second)
	r.tenant("acme", limits)
	if e := r.try("acme/c"); !over(e) {
		t.Errorf("after a crash: %v", e)
	}
	for _, q := range must[*nornv1.QueuesReply](r, &nornv1.QueuesRequest{Names: []string{"acme/a", "acme/b", "mail"}}).GetQueues() {
		if want := map[string]uint64{"acme/a": 14, "acme/b": 7, "mail": 0}[q.GetName()]; q.GetBytes() != want {
			t.Errorf("queue %s has %d bytes, not %d", q.GetName(), q.GetBytes(), want)
		}
	}
	r.pass(3 * time.Hour)
	if e := r.try("acme/c"); e != nil {
		t.Errorf("with two collected: %v", e)
	}
	r.audit()
}

// TestATenantHasAsManyQueuesAsItMay: by tasks and by settings; one whose tasks are all finished for
// a while counts no more.
func TestATenantHasAsManyQueuesAsItMay(t *testing.T) {
	r := newRig(t)
	r.tenant("acme", &nornv1.TenantLimits{Queues: 2})
	r.enqueue(spec("acme/a"))
	set := func(name string) *proto.Error {
		return r.ask(&nornv1.SetQueueRequest{Name: name, Settings: &nornv1.QueueSettings{MaxTasks: 9}, Fields: []string{"max_tasks"}}).Err
	}
	if e := set("acme/b"); e != nil {
		t.Fatal(e)
	}
	for _, e := range []*proto.Error{r.try("acme/c"), set("acme/c")} {
		if !full(e, "2 queues with settings or tasks, its limit (max-queues) is 2") {
			t.Errorf("one more: %v", e)
		}
	}
	r.enqueue(spec("acme/a"), spec("acme2/c"), spec("c"))
	for _, g := range r.claim("acme/a", 2) {
		r.done(g)
	}
	r.pass(2 * queues.UnusedFor)
	if e := r.try("acme/c"); e != nil {
		t.Errorf("with one that is not used any more: %v", e)
	}
}

// TestATenantHasAsManyClaimsAsItMay: those who wait get what others have given back, and queues of
// others are handed out meanwhile.
func TestATenantHasAsManyClaimsAsItMay(t *testing.T) {
	r := newRig(t)
	r.tenant("acme", &nornv1.TenantLimits{Claims: 2})
	r.enqueue(spec("acme/a"), spec("acme/a"), spec("acme/b"), spec("mail"))
	held := r.claim("acme/a", 2)
	if len(held) != 2 {
		t.Fatalf("%d grants", len(held))
	}
	if e := r.ask(&nornv1.ClaimRequest{Queues: []string{"acme/b"}, MaxTasks: 1, Worker: "w"}).Err; !full(e, "2 tasks under a claim on this node, its limit (max-claims) is 2") {
		t.Errorf("one more: %v", e)
	}
	if got := r.claim("mail", 1); len(got) != 1 {
		t.Error("a queue of nobody is not handed out")
	}
	r.done(held[0])
	waits := r.send(2, &nornv1.ClaimRequest{Queues: []string{"acme/a"}, MaxTasks: 1, Worker: "w", WaitSeconds: 60})
	r.turn()
	if got := r.claim("acme/b", 1); len(got) != 1 {
		t.Fatal("with one given back nothing is handed out")
	}
	r.enqueue(spec("acme/a"))
	if _, came := r.replies[waits]; came {
		t.Error("who waits is granted more than there may be")
	}
	r.done(held[1])
	r.turn()
	if reply := r.replies[waits]; len(reply.Grants) != 1 {
		t.Errorf("who waits is not granted what there is: %+v", reply)
	}
}

// TestATenantHasAsManyWaitsAsItMay: by who waits, not by what for.
func TestATenantHasAsManyWaitsAsItMay(t *testing.T) {
	r := newRig(t)
	r.tenant("acme", &nornv1.TenantLimits{Waits: 2})
	scope := guard.NewPrincipal("w", guard.ByToken, nil, []guard.Rule{{Verbs: guard.Work | guard.See, Pattern: guard.Everything}}, "acme/").Scope()
	wait := func(conn uint64, s *guard.Scope) message.Origin {
		r.next++
		from := message.Origin{Conn: conn, Request: r.next}
		r.step(&message.Request{From: from, Body: &nornv1.ClaimRequest{Queues: []string{"acme/a"}, MaxTasks: 1, Worker: "acme/w", WaitSeconds: 60}, Received: r.now.Mono, Scope: s})
		r.turn()
		return from
	}
	first, second := wait(1, scope), wait(2, scope)
	if e := r.replies[wait(3, scope)].Err; !full(e, "2 requests that wait on this node, its limit (max-waits) is 2") {
		t.Errorf("one more: %v", e)
	}
	if reply, came := r.replies[wait(4, nil)]; came {
		t.Errorf("who is of no tenant: %+v", reply)
	}
	r.step(message.Cancel{From: first})
	r.turn()
	if reply, came := r.replies[wait(5, scope)]; came {
		t.Errorf("with one gone: %+v", reply)
	}
	r.step(message.Gone{Conn: second.Conn})
	r.step(message.Gone{Conn: 4})
	r.step(message.Gone{Conn: 5})
	r.turn()
	if _, _, n := r.core.ground.Tenants.Use("acme/"); n != 0 {
		t.Errorf("%d waits are counted, there are none", n)
	}
}

// TestATenantHasAsManySchedulesAsItMay, also in one request; what there is may be changed.
func TestATenantHasAsManySchedulesAsItMay(t *testing.T) {
	r := newRig(t)
	r.tenant("acme", &nornv1.TenantLimits{Schedules: 2})
	all := func(names ...string) (errs []*proto.Error) {
		m := &nornv1.ChangeSchedulesRequest{}
		for _, name := range names {
			m.Changes = append(m.Changes, put(name, everySecond("acme/a")))
		}
		for _, res := range must[*nornv1.ChangeSchedulesReply](r, m).GetResults() {
			errs = append(errs, itemError(res.GetError()))
		}
		return errs
	}
	if errs := all("acme/1", "acme/2", "acme/3", "acme2/1", "mail"); errs[0] != nil || errs[1] != nil || !full(errs[2], "2 schedules, its limit (max-schedules) is 2") || errs[3] != nil || errs[4] != nil {
		t.Errorf("%v", errs)
	}
	if errs := all("acme/1", "acme/4"); errs[0] != nil || !full(errs[1], "max-schedules") {
		t.Errorf("later: %v", errs)
	}
	must[*nornv1.ChangeSchedulesReply](r, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{Name: "acme/1", Action: &nornv1.ScheduleChange_Delete{Delete: &nornv1.DeleteSchedule{}}}}})
	if errs := all("acme/4"); errs[0] != nil {
		t.Errorf("with one deleted: %v", errs)
	}
}

// TestManyTenantsAreCountedApart, through crashes: [Core.Audit] compares with adding up after each turn.
func TestManyTenantsAreCountedApart(t *testing.T) {
	r := newRig(t)
	for i := range 60 {
		name := fmt.Sprintf("t%d/q%d", i%4, i%3)
		r.enqueue(spec(name))
		for _, g := range r.claim(name, uint32(1+i%2)) {
			if i%3 != 0 {
				r.done(g)
			}
		}
		if i%20 == 7 {
			r.crash(time.Second)
		}
		if i%20 == 13 {
			r.pass(2 * time.Hour)
		}
	}
	r.audit()
}

// TestATenantsLimitOfClaimsIsExplained: a task that waits for it is said to, by name and number.
func TestATenantsLimitOfClaimsIsExplained(t *testing.T) {
	r := newRig(t)
	r.tenant("acme", &nornv1.TenantLimits{Claims: 2})
	r.enqueue(spec("acme/a"), spec("acme/b"), spec("acme2/a"))
	next := r.enqueue(spec("acme/a"), spec("acme2/a"))
	limit := func(task id.ID) (text string) {
		for _, x := range must[*nornv1.ExplainReply](r, &nornv1.ExplainRequest{Id: task.Bytes()}).GetReasons() {
			if x.GetKind() == nornv1.ReasonKind_REASON_KIND_CLAIM_LIMIT {
				text = fmt.Sprintf("%d %s", x.GetCount(), x.GetText())
			}
		}
		return text
	}
	g := append(r.claim("acme/a", 1), r.claim("acme2/a", 1)...)
	if text := limit(next[0]); text != "" {
		t.Errorf("with one claim of two: %q", text)
	}
	r.claim("acme/b", 1)
	if text := limit(next[0]); !strings.HasPrefix(text, "2 tenant acme has 2 tasks under a claim") || !strings.Contains(text, "max-claims") {
		t.Errorf("at the limit: %q", text)
	}
	if text := limit(next[1]); text != "" {
		t.Errorf("of another tenant: %q", text)
	}
	r.done(g[0])
	if text := limit(next[0]); text != "" {
		t.Errorf("once one has ended: %q", text)
	}
}
