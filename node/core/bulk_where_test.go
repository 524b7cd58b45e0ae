package core

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/query"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

func toCancel(m *nornv1.BulkRequest) *nornv1.BulkRequest {
	m.Action = nornv1.BulkAction_BULK_ACTION_CANCEL
	return m
}

// TestBulkByFilter: one request acts on the tasks of a filter, on whichever node they are, says
// how many, and goes on where it has ended. A dry run does nothing, and neither does one that
// finds another number than expected.
func TestBulkByFilter(t *testing.T) {
	r := newCluster(t, 5, 0)
	for i := range 5 {
		m := &nornv1.EnqueueRequest{}
		for range 20 {
			m.Tasks = append(m.Tasks, spec("q"), spec("other"))
		}
		ask[*nornv1.EnqueueReply](r, i, m)
	}
	few := ask[*nornv1.BulkReply](r, 2, toCancel(&nornv1.BulkRequest{Queue: "q", DryRun: true, Limit: 30}))
	if few.Matched != 30 || few.Done != 0 || len(few.NextCursor) == 0 {
		t.Errorf("a dry run of a part: %v", few)
	}
	all := ask[*nornv1.BulkReply](r, 2, toCancel(&nornv1.BulkRequest{Queue: "q", DryRun: true}))
	if all.Matched != 100 || all.Done != 0 || len(all.NextCursor) != 0 {
		t.Errorf("a dry run: %v", all)
	}
	from := r.send(3, toCancel(&nornv1.BulkRequest{Queue: "q", Expected: gproto.Uint32(99)}))
	r.settle()
	if got := r.peers[3].replies[from]; got.Err == nil || got.Err.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT || !strings.Contains(got.Err.Message, "100 tasks are found, not 99") {
		t.Errorf("another number than expected: %v", got)
	}
	if n := ask[*nornv1.CountReply](r, 0, &nornv1.CountRequest{Queue: "q"}).GetTotal().GetReady(); n != 100 {
		t.Fatalf("%d tasks are ready after dry runs", n)
	}
	done, calls := uint32(0), 0
	for m := toCancel(&nornv1.BulkRequest{Queue: "q", Limit: 30, Reason: "why"}); ; calls++ {
		got := ask[*nornv1.BulkReply](r, calls%5, m)
		if got.Error != nil || got.Skipped+got.Failed != 0 || got.Done != got.Matched || got.Matched > 30 {
			t.Fatalf("call %d: %v", calls, got)
		}
		if done += got.Done; len(got.NextCursor) == 0 {
			break
		}
		m.Cursor = got.NextCursor
	}
	if done != 100 || calls != 3 {
		t.Errorf("%d tasks are cancelled in %d calls", done, calls+1)
	}
	n := ask[*nornv1.CountReply](r, 0, &nornv1.CountRequest{}).GetTotal()
	if n.GetCancelled() != 100 || n.GetReady() != 100 {
		t.Errorf("counted %v", n)
	}
	why := ask[*nornv1.ListReply](r, 0, &nornv1.ListRequest{Queue: "q", Limit: 1}).Tasks[0]
	if why.GetError() != "why" {
		t.Errorf("cancelled with %q", why.GetError())
	}
}

// TestBulkRetriesTheDead: without states it is about dead tasks.
func TestBulkRetriesTheDead(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"), spec("q"), spec("q"))
	for _, g := range r.claim("q", 2) {
		must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: taskOf(t, g.GetTask().GetId()), Token: g.GetToken(), Error: "no", Discard: true}}})
	}
	got := must[*nornv1.BulkReply](r, &nornv1.BulkRequest{Action: nornv1.BulkAction_BULK_ACTION_RETRY, Queue: "q", Expected: gproto.Uint32(2)})
	if got.Matched != 2 || got.Done != 2 || len(got.NextCursor) != 0 {
		t.Errorf("got %v", got)
	}
	if n := must[*nornv1.CountReply](r, &nornv1.CountRequest{}).GetTotal(); n.GetReady() != 3 || n.GetDead() != 0 {
		t.Errorf("counted %v", n)
	}
}

// TestBulkLeavesTheFutureAlone: what is enqueued after the first call is not found by the next.
func TestBulkLeavesTheFutureAlone(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"), spec("q"))
	first := must[*nornv1.BulkReply](r, toCancel(&nornv1.BulkRequest{Queue: "q", Limit: 1}))
	r.pass(2*r.core.cfg.Eta + time.Second)
	r.enqueue(spec("q"), spec("q"))
	next := must[*nornv1.BulkReply](r, toCancel(&nornv1.BulkRequest{Queue: "q", Cursor: first.NextCursor}))
	if first.Done != 1 || next.Done != 1 || len(next.NextCursor) != 0 {
		t.Errorf("got %v, then %v", first, next)
	}
}

// TestBulkRefusesWhatCannotBeMeant before anything is done.
func TestBulkRefusesWhatCannotBeMeant(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"))
	retry := nornv1.BulkAction_BULK_ACTION_RETRY
	for want, m := range map[string]*nornv1.BulkRequest{
		"neither cancel nor retry":  {Queue: "q"},
		"set all":                   toCancel(&nornv1.BulkRequest{}),
		"over the limit of 10000":   toCancel(&nornv1.BulkRequest{Queue: "q", Limit: 10_001}),
		"the reason has 1025 bytes": toCancel(&nornv1.BulkRequest{Queue: "q", Reason: strings.Repeat("x", 1025)}),
		"are for cancel":            {Action: retry, Queue: "q", Reason: "x"},
		"queue name":                toCancel(&nornv1.BulkRequest{Queue: "no good"}),
		"unknown state":             toCancel(&nornv1.BulkRequest{States: []nornv1.State{99}}),
		"the cursor is none":        toCancel(&nornv1.BulkRequest{Queue: "q", Cursor: query.TaskCursor.Seal(make([]byte, 20))}),
		"the cursor has":            toCancel(&nornv1.BulkRequest{Queue: "q", Cursor: query.BulkCursor.Seal(make([]byte, 20))}),
		"copies":                    toCancel(&nornv1.BulkRequest{Queue: "q", Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 99}}),
	} {
		if got := r.ask(m); got.Err == nil || !strings.Contains(got.Err.Message, want) {
			t.Errorf("%s: %v", want, got)
		}
	}
	if n := must[*nornv1.CountReply](r, &nornv1.CountRequest{}).GetTotal(); n.GetReady() != 1 {
		t.Errorf("counted %v", n)
	}
	if got := must[*nornv1.BulkReply](r, toCancel(&nornv1.BulkRequest{All: true})); got.Done != 1 {
		t.Errorf("all: %v", got)
	}
}

// TestADelayIsThatOfTheRequest: it runs from the time in the ID, and with a key from when the
// task was let in, so that the same request is the same task, whenever and to whomever it comes.
func TestADelayIsThatOfTheRequest(t *testing.T) {
	r := newTrio(t)
	own := spec("q")
	own.Id, own.DelaySeconds = r.peers[0].core.routes.IDs.Next(r.now.Wall).Bytes(), 60.5
	keyed := spec("q")
	keyed.Key, keyed.DelaySeconds = "k", 60
	window := spec("q")
	window.Key, window.KeyWindowSeconds, window.DelaySeconds = "w", 3600, 60
	for i := range 6 {
		for _, s := range []*nornv1.TaskSpec{own, keyed, window} {
			send := func() *nornv1.EnqueueResult {
				return ask[*nornv1.EnqueueReply](r, i%3, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{gproto.CloneOf(s)}}).Results[0]
			}
			got := send()
			for range 20 { // a leader hears from the others first
				if got.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
					break
				}
				r.live(50*time.Millisecond, 10*time.Millisecond, nothing)
				got = send()
			}
			if got.Error != nil || got.Receipt.GetExisted() != (i > 0) {
				t.Fatalf("%v, send %d: %v", s, i+1, got)
			}
			task := ask[*nornv1.GetReply](r, (i+1)%3, &nornv1.GetRequest{Id: taskOf(t, got.Receipt.GetId())}).Task
			if by := task.GetNotBefore().AsTime().Sub(task.GetCreatedAt().AsTime()).Seconds(); by != s.GetDelaySeconds() {
				t.Errorf("%v: not before %v s after it was made", s, by)
			}
		}
		r.live(time.Second, 50*time.Millisecond, nothing)
	}
	other := gproto.CloneOf(keyed)
	other.DelaySeconds = 61
	if got := ask[*nornv1.EnqueueReply](r, 1, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{other}}).Results[0]; got.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS {
		t.Errorf("another delay is another task: %v", got)
	}
	for want, s := range map[string]*nornv1.TaskSpec{
		"outside 0": {Queue: "q", DelaySeconds: -1},
		"give one":  {Queue: "q", DelaySeconds: 1, NotBefore: convert.Timestamp(1)},
	} {
		if got := ask[*nornv1.EnqueueReply](r, 1, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]; !strings.Contains(got.GetError().GetMessage(), want) {
			t.Errorf("%v: %v", s, got)
		}
	}
}

// taskOf reads an ID.
func taskOf(t *testing.T, text string) []byte {
	t.Helper()
	task, err := id.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return task.Bytes()
}
