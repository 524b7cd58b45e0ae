package core

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// newestField is the number of the field that newer builds have in these tests.
const newestField = 1500

// newer gives a message as a newer client sends it: with a field that no build knows yet.
func newer[M gproto.Message](m M, text string) M {
	raw := m.ProtoReflect().GetUnknown()
	m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(raw, newestField, protowire.BytesType), text))
	return m
}

// told is what the newer build that sent it makes of further fields: the text of its field.
// It has a descriptor of its own, in which each message has one more field.
func told(t testing.TB, kind gproto.Message, encoded []byte) string {
	t.Helper()
	file := protodesc.ToFileDescriptorProto(kind.ProtoReflect().Descriptor().ParentFile())
	for _, m := range file.MessageType {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: gproto.String("newest"), Number: gproto.Int32(newestField), JsonName: gproto.String("newest"),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		})
	}
	f, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(f.Messages().ByName(kind.ProtoReflect().Descriptor().Name()))
	if err := gproto.Unmarshal(encoded, m); err != nil {
		t.Fatalf("%x is no %s: %v", encoded, kind.ProtoReflect().Descriptor().Name(), err)
	}
	text := textOf(m)
	if policy := m.Descriptor().Fields().ByName("retry"); policy != nil && m.Has(policy) {
		text += ", retry: " + textOf(m.Get(policy).Message())
	}
	return text
}

func textOf(m protoreflect.Message) string {
	if len(m.GetUnknown()) > 0 {
		return fmt.Sprintf("unknown: %x", m.GetUnknown())
	}
	return m.Get(m.Descriptor().Fields().ByName("newest")).String()
}

// newerSpec is a task of a newer client, with a field of its own and one in its policy.
func newerSpec(queue string) *nornv1.TaskSpec {
	s := newer(spec(queue), "spec")
	s.Retry = newer(&nornv1.RetryPolicy{MaxAttempts: 5}, "policy")
	return s
}

// wantTold compares what a task says in further fields with what its clients have said.
func wantTold(t testing.TB, where string, task *nornv1.Task, completion, failure, cancelled, retried string) {
	t.Helper()
	for _, c := range []struct {
		kind gproto.Message
		got  []byte
		want string
	}{
		{&nornv1.TaskSpec{}, task.GetFurtherSpec(), "spec, retry: policy"},
		{&nornv1.Completion{}, task.GetFurtherCompletion(), completion},
		{&nornv1.Failure{}, task.GetFurtherFailure(), failure},
		{&nornv1.CancelRequest{}, task.GetFurtherCancel(), cancelled},
		{&nornv1.RetryRequest{}, task.GetFurtherRetry(), retried},
	} {
		if got := told(t, c.kind, c.got); got != c.want {
			t.Errorf("%s: the %T says %q, want %q", where, c.kind, got, c.want)
		}
	}
}

// TestWhatANewerClientSaysIsKept: three nodes that do not know a field that a newer client has
// added keep it with the fact, in all copies, and give it to whoever reads or claims the task,
// also after a crash; a newer worker reads it as a field that it knows.
func TestWhatANewerClientSaysIsKept(t *testing.T) {
	r := newTrio(t)
	var tasks []id.ID
	enqueue := func() id.ID {
		s := newerSpec("q")
		s.Id = r.ids.Next(r.now.Wall).Bytes()
		if res := ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]; res.Error != nil {
			t.Fatal(res.Error)
		}
		tasks = append(tasks, id.ID(s.Id))
		return id.ID(s.Id)
	}
	claim := func() *nornv1.Grant {
		t.Helper()
		grants := ask[*nornv1.ClaimReply](r, 1, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60}).Grants
		if len(grants) != 1 {
			t.Fatalf("%d grants", len(grants))
		}
		return grants[0]
	}
	written := func(m gproto.Message) {
		t.Helper()
		if res := ask[*nornv1.WriteReply](r, 2, m).Results[0]; res.Error != nil {
			t.Fatalf("%T: %v", m, res.Error)
		}
	}
	done := enqueue()
	g := claim()
	wantTold(t, "the first grant", g.Task, "", "", "", "")
	written(newer(&nornv1.UpdateRequest{Id: done.Bytes(), Token: g.Token, Data: []byte("d")}, "update"))
	written(&nornv1.FailRequest{Failures: []*nornv1.Failure{newer(&nornv1.Failure{Id: done.Bytes(), Token: g.Token, Error: "e"}, "failure")}})
	written(newer(&nornv1.RetryRequest{Ids: [][]byte{done.Bytes()}}, "retry"))
	g = claim()
	wantTold(t, "the second grant", g.Task, "", "failure", "", "retry")
	written(&nornv1.CompleteRequest{Completions: []*nornv1.Completion{newer(&nornv1.Completion{Id: done.Bytes(), Token: g.Token}, "completion")}})
	gone := enqueue()
	written(newer(&nornv1.CancelRequest{Ids: [][]byte{gone.Bytes()}, Reason: "no"}, "cancel"))
	for i := range r.peers {
		r.kill(i)
		r.open(i)
	}
	r.elect()
	for i := range r.peers {
		where := fmt.Sprintf("node %d", i)
		for _, level := range []nornv1.ReadLevel{nornv1.ReadLevel_READ_LEVEL_ONE, nornv1.ReadLevel_READ_LEVEL_QUORUM} {
			asked := &nornv1.Consistency{Level: level}
			wantTold(t, where, ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: done.Bytes(), Consistency: asked}).Task, "completion", "failure", "", "retry")
			wantTold(t, where, ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: gone.Bytes(), Consistency: asked}).Task, "", "", "cancel", "")
		}
		list := ask[*nornv1.ListReply](r, i, &nornv1.ListRequest{}).Tasks
		if len(list) != len(tasks) {
			t.Fatalf("%s lists %d tasks", where, len(list))
		}
		wantTold(t, where+", listed", list[slices.IndexFunc(list, func(l *nornv1.Task) bool { return l.Id == done.String() })], "completion", "failure", "", "retry")
		log := ask[*nornv1.LogReply](r, i, &nornv1.LogRequest{Id: done.Bytes()}).Updates
		shown := ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: done.Bytes()}).Task.Updates
		for _, updates := range [][]*nornv1.Update{log, shown} {
			if len(updates) != 1 || told(t, &nornv1.UpdateRequest{}, updates[0].Further) != "update" {
				t.Errorf("%s: the log is %v", where, updates)
			}
		}
	}
	if diff := r.differs(); diff != "" {
		t.Error(diff)
	}
}

// TestFurtherFieldsOfALongRequest: a request about tasks of several leaders is sent to each in
// part, with what it has for all of them.
func TestFurtherFieldsOfALongRequest(t *testing.T) {
	r := newCluster(t, 5, 0)
	var tasks []*nornv1.TaskSpec
	var ids [][]byte
	for range 16 {
		s := spec("q")
		s.Id = r.ids.Next(r.now.Wall).Bytes()
		tasks, ids = append(tasks, s), append(ids, s.Id)
	}
	ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: tasks})
	for claimed := 0; claimed < len(tasks); {
		fail := &nornv1.FailRequest{}
		for _, g := range ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 16, WaitSeconds: 60}).Grants {
			fail.Failures = append(fail.Failures, &nornv1.Failure{Id: parse(t, g.Task.Id).Bytes(), Token: g.Token, Discard: true})
		}
		ask[*nornv1.WriteReply](r, 0, fail)
		claimed += len(fail.Failures)
	}
	ask[*nornv1.WriteReply](r, 1, newer(&nornv1.RetryRequest{Ids: ids}, "retry"))
	ask[*nornv1.WriteReply](r, 2, newer(&nornv1.CancelRequest{Ids: ids}, "cancel"))
	for _, task := range ids {
		got := ask[*nornv1.GetReply](r, 3, &nornv1.GetRequest{Id: task}).Task
		if c, a := told(t, &nornv1.CancelRequest{}, got.FurtherCancel), told(t, &nornv1.RetryRequest{}, got.FurtherRetry); c != "cancel" || a != "retry" {
			t.Errorf("%s: the cancellation says %q, the retry %q", got.Id, c, a)
		}
	}
}

// TestFurtherFieldsArePartOfTheSpec: the same task again is the same, in whatever order its
// fields come; with other fields, or without, it is another one.
func TestFurtherFieldsArePartOfTheSpec(t *testing.T) {
	r := newRig(t)
	first := newerSpec("q")
	first.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(first.ProtoReflect().GetUnknown(), newestField-1, protowire.VarintType), 7))
	task := r.enqueue(first)[0]
	again := func(raw []byte, policy string) *nornv1.EnqueueResult {
		s := spec("q")
		s.Id, s.Retry = task.Bytes(), &nornv1.RetryPolicy{MaxAttempts: 5}
		s.ProtoReflect().SetUnknown(raw)
		if policy != "" {
			newer(s.Retry, policy)
		}
		return must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]
	}
	text := protowire.AppendString(protowire.AppendTag(nil, newestField, protowire.BytesType), "spec")
	number := protowire.AppendVarint(protowire.AppendTag(nil, newestField-1, protowire.VarintType), 7)
	if res := again(append(slices.Clone(number), text...), "policy"); !res.Receipt.GetExisted() {
		t.Errorf("the same in another order: %v", res)
	}
	for name, res := range map[string]*nornv1.EnqueueResult{
		"without them": again(nil, ""), "without one": again(text, "policy"), "with another policy": again(append(slices.Clone(number), text...), "other"),
	} {
		if res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS || len(res.StoredDigest) == 0 {
			t.Errorf("%s: %v", name, res)
		}
	}
}

// TestFurtherFieldsOfAWorker: a worker with a session gets them with its tasks, and what it
// says of their ends in further fields is kept. What this build knows cannot be said there.
func TestFurtherFieldsOfAWorker(t *testing.T) {
	r := newTrio(t)
	other := r.ids.Next(r.now.Wall)
	for range 2 {
		s := newerSpec("q")
		s.Id = r.ids.Next(r.now.Wall).Bytes()
		ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	}
	h := r.newHand("w", 1, 2)
	r.days(time.Minute, 100*time.Millisecond, func() bool { return len(h.running) == 2 }, h)
	for _, g := range h.running { // Any order: all are the same.
		wantTold(t, "a pushed task", g.Task, "", "", "", "")
	}
	completion, _ := gproto.Marshal(newer(&nornv1.Completion{Id: other.Bytes(), Result: []byte("not so")}, "completion"))
	failure, _ := gproto.Marshal(newer(&nornv1.Failure{Id: other.Bytes()}, "failure"))
	completed, failed := h.starts[0], h.starts[1]
	h.m.Ended(r.now, completed, session.End{Kind: session.EndCompleted, AutoSeq: true, Result: []byte("r"), Further: completion})
	h.m.Ended(r.now, failed, session.End{Kind: session.EndFailed, Error: "e", Discard: true, Further: failure})
	r.days(time.Minute, 100*time.Millisecond, func() bool { return len(h.acks) == 2 }, h)
	got := ask[*nornv1.GetReply](r, 2, &nornv1.GetRequest{Id: completed.Task.Bytes()}).Task
	wantTold(t, "completed", got, "completion", "", "", "")
	if alone, _ := gproto.Marshal(newer(&nornv1.Completion{}, "completion")); !bytes.Equal(got.FurtherCompletion, alone) {
		t.Errorf("the completion has kept %x beside its further fields %x", got.FurtherCompletion, alone)
	}
	if string(got.Result) != "r" || got.State != nornv1.State_STATE_COMPLETED {
		t.Errorf("the completed task is %v", got)
	}
	got = ask[*nornv1.GetReply](r, 2, &nornv1.GetRequest{Id: failed.Task.Bytes()}).Task
	wantTold(t, "failed", got, "", "failure", "", "")
	if got.State != nornv1.State_STATE_DEAD {
		t.Errorf("the failed task is %v", got)
	}
}

// TestFurtherFieldsOfSchedules: a schedule of a newer client keeps its fields, through edits by
// nodes that do not know them too, and its tasks have those of its template.
func TestFurtherFieldsOfSchedules(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := newer(everySecond("c"), "schedule")
	newer(s.Task, "spec")
	s.Task.Retry = newer(&nornv1.RetryPolicy{}, "policy")
	if res := r.change(put("s", s)); res.Error != nil {
		t.Fatal(res.Error)
	}
	r.change(&nornv1.ScheduleChange{Name: "s", Action: &nornv1.ScheduleChange_Pause{Pause: &nornv1.PauseSchedule{Paused: true}}})
	r.change(&nornv1.ScheduleChange{Name: "s", Action: &nornv1.ScheduleChange_Pause{Pause: &nornv1.PauseSchedule{}}})
	encoded, err := gproto.Marshal(r.schedule("s").Spec)
	if err != nil || told(t, &nornv1.ScheduleSpec{}, encoded) != "schedule" {
		t.Errorf("the schedule is %x, %v", encoded, err)
	}
	r.pass(3 * time.Second)
	all := r.tasks("c")
	if len(all) == 0 {
		t.Fatal("nothing was launched")
	}
	for _, task := range all {
		wantTold(t, "launched", task, "", "", "", "")
	}
}

// TestFurtherFieldsAreArchived: an archive has them, and gives them back.
func TestFurtherFieldsAreArchived(t *testing.T) {
	r := newCollecting(t)
	r.set("a", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_ARCHIVE, RetentionSeconds: 60}, "retention", "retention_seconds")
	task := r.enqueue(newerSpec("a"))[0]
	g := r.claim("a", 1)[0]
	must[*nornv1.WriteReply](r, newer(&nornv1.UpdateRequest{Id: task.Bytes(), Token: g.Token}, "update"))
	must[*nornv1.WriteReply](r, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{newer(&nornv1.Completion{Id: task.Bytes(), Token: g.Token, AutoSeq: true}, "completion")}})
	r.pass(time.Hour)
	if len(r.archives) != 1 {
		t.Fatalf("archived: %v", r.archives)
	}
	wantTold(t, "archived", r.archives[0], "completion", "", "", "")
	if u := r.archives[0].Updates; len(u) != 1 || told(t, &nornv1.UpdateRequest{}, u[0].Further) != "update" {
		t.Errorf("its log is %v", u)
	}
}

// TestFurtherFieldsHaveLimits: they count towards the limit of what they are part of, and past
// it nothing happens.
func TestFurtherFieldsHaveLimits(t *testing.T) {
	r := newRig(t)
	fields := func(m gproto.Message, n int) gproto.Message { return furtherOf(t, m, n) }
	in := func(policy int) *nornv1.TaskSpec {
		s := &nornv1.TaskSpec{Queue: "q", Payload: make([]byte, 1000)}
		if policy > 0 {
			s.Retry = fields(&nornv1.RetryPolicy{}, policy).(*nornv1.RetryPolicy)
		}
		return s
	}
	task := r.enqueue(spec("w"))[0]
	token := r.claim("w", 1)[0].Token
	group := append(protowire.AppendTag(nil, newestField, protowire.StartGroupType), protowire.AppendTag(nil, newestField, protowire.EndGroupType)...)
	with := func(m gproto.Message, raw []byte) gproto.Message {
		m.ProtoReflect().SetUnknown(raw)
		return m
	}
	many := func(n int) []byte {
		return bytes.Repeat(protowire.AppendVarint(protowire.AppendTag(nil, newestField, protowire.VarintType), 1), n)
	}
	update := func() *nornv1.UpdateRequest {
		return &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Data: make([]byte, 1000)}
	}
	for _, c := range []struct {
		name string
		m    gproto.Message
		want string // in the error; empty: it is taken
	}{
		{"a task at the limit", fields(in(1000), proto.MaxPayload-2000), ""},
		{"a task past it", fields(in(1000), proto.MaxPayload-1999), "with 1047577 bytes of fields that this server does not know, is over the limit"},
		{"a group in a task", with(in(0), group), "is a group"},
		{"a group in a policy", &nornv1.TaskSpec{Queue: "q", Retry: with(&nornv1.RetryPolicy{}, group).(*nornv1.RetryPolicy)}, "is a group"},
		{"as many fields as may be", with(&nornv1.TaskSpec{Queue: "q", Retry: with(&nornv1.RetryPolicy{}, many(proto.MaxFurther)).(*nornv1.RetryPolicy)}, many(proto.MaxFurther)), ""},
		{"too many fields", with(in(0), many(proto.MaxFurther+1)), "over 128 fields"},
		{"an update at the limit", fields(update(), proto.MaxUpdateBytes-1000), ""},
		{"an update past it", fields(update(), proto.MaxUpdateBytes-999), "left to it"},
		{"a result past it", fields(&nornv1.Completion{Id: task.Bytes(), Token: token, Result: make([]byte, 1000)}, proto.MaxUpdateBytes-999), "left to it"},
		{"a failure past it", fields(&nornv1.Failure{Id: task.Bytes(), Token: token}, proto.MaxErrorBytes+1), "left to it"},
		{"a cancellation past it", fields(&nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}, Reason: "no"}, proto.MaxNoteBytes-1), "left to it"},
		{"a retry past it", fields(&nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}}, proto.MaxNoteBytes+1), "left to it"},
		{"a failure at the limit", fields(&nornv1.Failure{Id: task.Bytes(), Token: token, Error: "cut away"}, proto.MaxErrorBytes), ""},
		{"a result at the limit", fields(&nornv1.Completion{Id: task.Bytes(), Token: token, Result: make([]byte, 1000)}, proto.MaxUpdateBytes-1000), ""},
	} {
		if got := r.refusal(c.m); !strings.Contains(got, c.want) || got != "" && c.want == "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if proto.MaxFurther+1 > crdt.MaxFurther {
		t.Errorf("%d fields may come in, of a task one more, and %d are kept", proto.MaxFurther, crdt.MaxFurther)
	}
	if got := r.get(task); got.Error != "" || len(got.FurtherFailure) != proto.MaxErrorBytes || len(got.FurtherCompletion) != proto.MaxUpdateBytes-1000 {
		t.Errorf("the error is %q, with %d and %d bytes of further fields", got.Error, len(got.FurtherFailure), len(got.FurtherCompletion))
	}
	batch := &nornv1.EnqueueRequest{}
	for range 17 {
		batch.Tasks = append(batch.Tasks, fields(&nornv1.TaskSpec{Queue: "q"}, proto.MaxPayload).(*nornv1.TaskSpec))
	}
	if got := r.refusal(batch); !strings.Contains(got, "payload bytes") {
		t.Errorf("a batch past its limit: %q", got)
	}
}

// TestNoFurtherFieldsCostNothing: of a message that has none, as nearly all, nothing is
// allocated to find that out, and nothing is shown.
func TestNoFurtherFieldsCostNothing(t *testing.T) {
	s, u, d := spec("q"), &nornv1.UpdateRequest{}, &nornv1.Completion{}
	s.Retry = &nornv1.RetryPolicy{MaxAttempts: 5}
	if n := testing.AllocsPerRun(100, func() {
		if f, bad := convert.UnknownOfSpec(s); f != nil || bad != nil || proto.SpecBytes(s) != len(s.Payload) || proto.CheckSpec(s, 100) != nil {
			t.Fatal("there are none", f, bad)
		}
		_, _ = convert.UnknownUpTo(u, 0, "")
		_, _ = convert.UnknownUpTo(d, 0, "")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	r := newRig(t)
	wantNone := r.get(r.enqueue(spec("q"))[0])
	if n := len(wantNone.FurtherSpec) + len(wantNone.FurtherCompletion) + len(wantNone.FurtherFailure) + len(wantNone.FurtherCancel) + len(wantNone.FurtherRetry); n != 0 {
		t.Errorf("%d bytes of further fields of a task that has none", n)
	}
}

// TestFurtherFieldsFillPages: a log whose updates have nothing but them is read in pages that
// fit a frame, and of it the newest are shown with the task.
func TestFurtherFieldsFillPages(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("w"))[0]
	token := r.claim("w", 1)[0].Token
	const updates = 10
	for n := range uint64(updates) {
		r.refusal(furtherOf(t, &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Seq: n}, proto.MaxUpdateBytes))
	}
	if got := r.get(task); len(got.Updates) != 3 || gproto.Size(got) > proto.MaxUpdatesInTask+4096 {
		t.Errorf("%d updates are shown, in %d bytes", len(got.Updates), gproto.Size(got))
	}
	seen := 0
	for more := true; more; {
		page := must[*nornv1.LogReply](r, &nornv1.LogRequest{Id: task.Bytes(), After: seen > 0, AfterToken: token, AfterSeq: uint64(max(0, seen-1))})
		if gproto.Size(page) > proto.MaxPageBytes+proto.MaxUpdateBytes || len(page.Updates) == 0 {
			t.Fatalf("a page of %d updates has %d bytes", len(page.Updates), gproto.Size(page))
		}
		seen, more = seen+len(page.Updates), page.More
	}
	if seen != updates {
		t.Errorf("%d updates of %d", seen, updates)
	}
}

// furtherOf gives a message with so many bytes of further fields.
func furtherOf(t testing.TB, m gproto.Message, n int) gproto.Message {
	t.Helper()
	for size := n - 8; len(m.ProtoReflect().GetUnknown()) < n; size++ {
		m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, newestField, protowire.BytesType), make([]byte, size)))
	}
	if got := len(m.ProtoReflect().GetUnknown()); got != n {
		t.Fatalf("%d bytes of further fields, want %d", got, n)
	}
	return m
}

// refusal sends a message in its request and gives the text of the error, if there is one.
func (r *rig) refusal(m gproto.Message) string {
	r.t.Helper()
	switch one := m.(type) {
	case *nornv1.TaskSpec:
		m = &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{one}}
	case *nornv1.Completion:
		m = &nornv1.CompleteRequest{Completions: []*nornv1.Completion{one}}
	case *nornv1.Failure:
		m = &nornv1.FailRequest{Failures: []*nornv1.Failure{one}}
	}
	reply := r.ask(m)
	switch {
	case reply.Err != nil:
		return reply.Err.Message
	case len(reply.Message.ProtoReflect().GetUnknown()) > 0:
		return "the answer has further fields"
	}
	switch reply := reply.Message.(type) {
	case *nornv1.EnqueueReply:
		return reply.Results[0].GetError().GetMessage()
	case *nornv1.WriteReply:
		return reply.Results[0].GetError().GetMessage()
	}
	return "no answer to it"
}
