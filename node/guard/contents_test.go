package guard

import (
	"slices"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// fill sets each field of a message, those of what is in it, too.
func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("k").MapKey(), protoreflect.ValueOfString("secret"))
		case f.IsList() && f.Message() != nil:
			fill(m.Mutable(f).List().AppendMutable().Message())
		case f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString("s"))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("secret"))
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes([]byte("secret")))
		}
	}
}

// texts names the fields of a message that have text or bytes.
func texts(m protoreflect.Message, path string) (all []string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path + string(f.Name())
		switch {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				all = append(all, texts(v.List().Get(i).Message(), at+".")...)
			}
		case f.Message() == nil || f.IsMap():
			all = append(all, at)
		}
		return true
	})
	slices.Sort(all)
	return all
}

// TestWhoMayNotReadSeesNoContents: of a task stays what this table has, so that a field that is
// added is content until somebody says otherwise. Kind and tags are none, as the queue is none,
// nor is who had the task.
func TestWhoMayNotReadSeesNoContents(t *testing.T) {
	task := &nornv1.Task{}
	fill(task.ProtoReflect())
	task.Queue = "q"
	(&Scope{Rules: []Rule{{See, "*"}}}).Show(&nornv1.GetReply{Task: task})
	want := []string{"attempt_log.completed_by", "attempt_log.principal", "attempt_log.worker", "claims.principal", "claims.worker", "dependencies", "id", "key", "kind", "queue", "tags"}
	if got := texts(task.ProtoReflect(), ""); !slices.Equal(got, want) {
		t.Errorf("there is %v, not %v", got, want)
	}
}

// TestFiltersOnContentsTakeTheRightToReadThem: what is looked for could be guessed.
func TestFiltersOnContentsTakeTheRightToReadThem(t *testing.T) {
	contents := map[string]bool{"error_contains": true, "headers": true, "payload_contains": true, "payload_paths": true}
	fields := (&nornv1.Filter{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		f := &nornv1.Filter{}
		whole := &nornv1.Filter{}
		fill(whole.ProtoReflect())
		if !whole.ProtoReflect().Has(fields.Get(i)) { // times and numbers
			continue
		}
		f.ProtoReflect().Set(fields.Get(i), whole.ProtoReflect().Get(fields.Get(i)))
		if Contents(f) != contents[name] {
			t.Errorf("%s: %v", name, Contents(f))
		}
		p := NewPrincipal("p", ByToken, nil, []Rule{{See | Operate, "q"}}, "")
		_, err := Check(p, nornv1.Method_METHOD_BULK, &nornv1.BulkRequest{Queue: "q", Filter: f})
		if (err != nil) != contents[name] {
			t.Errorf("a bulk action by %s: %v", name, err)
		}
	}
}

// TestReasonsNameNoWorkers to who may see some queues only: those may serve others. A kind of reason that is added is
// one that names them until it is in this list.
func TestReasonsNameNoWorkers(t *testing.T) {
	own := []nornv1.ReasonKind{ // of the task, its queue and its partition
		nornv1.ReasonKind_REASON_KIND_UNSPECIFIED, nornv1.ReasonKind_REASON_KIND_NOT_BEFORE, nornv1.ReasonKind_REASON_KIND_BACK_OFF, nornv1.ReasonKind_REASON_KIND_QUEUE_PAUSED,
		nornv1.ReasonKind_REASON_KIND_BEHIND, nornv1.ReasonKind_REASON_KIND_CLAIMED, nornv1.ReasonKind_REASON_KIND_NO_LEADER, nornv1.ReasonKind_REASON_KIND_FINISHED,
		nornv1.ReasonKind_REASON_KIND_ALL_BUSY, nornv1.ReasonKind_REASON_KIND_NO_MAJORITY,
	}
	for n, name := range nornv1.ReasonKind_name {
		kind := nornv1.ReasonKind(n)
		m := &nornv1.ExplainReply{Reasons: []*nornv1.Reason{{Kind: kind, Text: "secret-worker", Worker: "secret-worker"}}}
		(&Scope{Rules: []Rule{{See, "q"}}}).Show(m)
		r := m.GetReasons()[0]
		if r.GetWorker() != "" || (r.GetText() == "secret-worker") != slices.Contains(own, kind) {
			t.Errorf("%s is shown as %v", name, r)
		}
	}
}
