package core

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestKindAndTagsAreKept: a task is read, listed and granted with them, also after a crash, and
// the same request again is the same task, with others another one.
func TestKindAndTagsAreKept(t *testing.T) {
	r := newRig(t)
	s := spec("q")
	s.Id = r.ids.Next(r.now.Wall).Bytes()
	s.Kind, s.Tags = `App\<b>`, []string{"vip", "a,b"}
	task := r.enqueue(gproto.CloneOf(s))[0]
	r.crash(0)
	want := func(where string, got *nornv1.Task) {
		t.Helper()
		if got.GetKind() != s.Kind || !slices.Equal(got.GetTags(), s.Tags) {
			t.Errorf("%s: kind %q, tags %q", where, got.GetKind(), got.GetTags())
		}
	}
	want("get", r.get(task))
	want("list", must[*nornv1.ListReply](r, &nornv1.ListRequest{}).Tasks[0])
	for _, c := range []struct {
		change func(*nornv1.TaskSpec)
		same   bool
	}{
		{func(*nornv1.TaskSpec) {}, true},
		{func(s *nornv1.TaskSpec) { s.Kind = "other" }, false},
		{func(s *nornv1.TaskSpec) { s.Tags = nil }, false},
		{func(s *nornv1.TaskSpec) { s.Tags = []string{"a,b", "vip"} }, false},
	} {
		again := gproto.CloneOf(s)
		c.change(again)
		res := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{again}}).Results[0]
		if (res.Error == nil) != c.same || c.same && !res.Receipt.GetExisted() {
			t.Errorf("%v: %v", again, res)
		}
	}
	want("grant", r.claim("q", 1)[0].Task)
}

// TestAKindMakesNoOtherTask: builds that know kind and tags and those that do not, which keep
// them among the fields that they do not know, make the same fact of one request.
func TestAKindMakesNoOtherTask(t *testing.T) {
	s := &nornv1.TaskSpec{Queue: "q", Kind: "send", Tags: []string{"z", "a"}, Retry: &nornv1.RetryPolicy{MaxAttempts: 3}}
	s.Retry.ProtoReflect().SetUnknown([]byte{0xa0, 0x06, 1})
	s.ProtoReflect().SetUnknown([]byte{0xa0, 0x06, 1})
	wire, err := gproto.Marshal(&nornv1.TaskSpec{Kind: s.Kind, Tags: s.Tags})
	if err != nil {
		t.Fatal(err)
	}
	// Retry is field 8, its field 100 is what nobody knows yet.
	unknown := slices.Concat([]byte{0xa0, 0x06, 1}, wire, []byte{8<<3 | 2, 3, 0xa0, 0x06, 1})
	want, err := crdt.Further(unknown)
	if err != nil {
		t.Fatal(err)
	}
	e, bad := convert.Enqueued(s, crdt.Retry{})
	if bad != nil || !slices.Equal(e.Further, want) {
		t.Errorf("% x, want % x (%v)", e.Further, want, bad)
	}
	if proto.KindOf(e.Further) != "send" || !slices.Equal(proto.TagsOf(e.Further), s.Tags) {
		t.Errorf("kind %q, tags %q", proto.KindOf(e.Further), proto.TagsOf(e.Further))
	}
}

// TestAFilterOnPayloadsGoesOn: a page ends once so many bytes were searched, says how far it has
// come, and the pages together find all.
func TestAFilterOnPayloadsGoesOn(t *testing.T) {
	r := newRig(t)
	const n, each = 40, 1 << 20 // more than a page searches
	var want string
	for i := range n {
		s := spec("q")
		s.Payload = append([]byte(`{"user": {"id": 1}, "pad": "`), bytes.Repeat([]byte{'x'}, each-100)...)
		s.Payload = append(s.Payload, `"}`...)
		if i == n-1 {
			s.Payload = []byte(`{"user": {"id": 7}}`)
		}
		want = r.enqueue(s)[0].String()
		r.pass(time.Second)
	}
	pages, looked := 0, uint64(0)
	var found []string
	ask := &nornv1.ListRequest{Queue: "q", IdsOnly: true, Filter: &nornv1.Filter{PayloadPaths: map[string]string{"user.id": "7"}}}
	for {
		reply := must[*nornv1.ListReply](r, ask)
		pages++
		looked += reply.LookedAt
		for _, task := range reply.Tasks {
			found = append(found, task.Id)
		}
		if len(reply.NextCursor) == 0 {
			break
		}
		if !reply.Reached.IsValid() || reply.LookedAt == 0 || reply.LookedAt >= n {
			t.Fatalf("page %d looked at %d tasks, up to %v", pages, reply.LookedAt, reply.Reached)
		}
		ask.Cursor = reply.NextCursor
	}
	if pages < 2 || looked != n || len(found) != 1 || found[0] != want {
		t.Errorf("%d pages looked at %d tasks and found %v, not %s", pages, looked, found, want)
	}
}

// TestExplainTellsNoErrorToWhoMayNotRead: errors are contents, wherever they are told.
func TestExplainTellsNoErrorToWhoMayNotRead(t *testing.T) {
	r := newTrio(t)
	task := r.stored("q", 0)
	g := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60}).Grants[0]
	for _, discard := range []bool{false, true} {
		if discard {
			ask[*nornv1.WriteReply](r, 0, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}})
			g = ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60}).Grants[0]
		}
		ask[*nornv1.WriteReply](r, 0, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Error: "s3cret", Discard: discard}}})
		for i := range r.peers {
			m := &nornv1.ExplainRequest{Id: task.Bytes()}
			if got := r.scoped(i, m, scopeOf(guard.Rule{Verbs: guard.See, Pattern: "*"})); strings.Contains(got, "s3cret") || !strings.Contains(got, "for those who may read") {
				t.Errorf("node %d tells %s", i+1, got)
			}
			if got := r.scoped(i, m, scopeOf(guard.Rule{Verbs: guard.See | guard.Read, Pattern: "*"})); !strings.Contains(got, "s3cret") {
				t.Errorf("node %d tells who may read %s", i+1, got)
			}
		}
	}
}
