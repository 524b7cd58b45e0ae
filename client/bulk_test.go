package client

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// serverTime is what the fake cluster's clock says: far from the client's.
var serverTime = time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)

// many lists tasks in pages of the given sizes, and cancels or retries what it
// is asked to by end.
func many(end fakenode.Script, pages ...int) fakenode.Script {
	return func(r fakenode.Request) fakenode.Answer {
		switch m := r.Message.(type) {
		case *nornv1.ListRequest:
			at := 0
			if len(m.GetCursor()) > 0 {
				at = int(m.GetCursor()[0])
			}
			before := 0
			for _, n := range pages[:at] {
				before += n
			}
			reply := &nornv1.ListReply{}
			for _, i := range numbered(before + pages[at])[before:] {
				reply.Tasks = append(reply.Tasks, &nornv1.Task{Id: i.String()})
			}
			if at++; at < len(pages) {
				reply.NextCursor = []byte{byte(at)}
			}
			return fakenode.Answer{Message: reply}
		case *nornv1.Ping:
			return fakenode.Answer{Message: &nornv1.PingReply{Placement: fakenode.Placement(), Now: timestamppb.New(serverTime)}}
		case *nornv1.Hello:
			return fakenode.Answer{}
		}
		return end(r)
	}
}

func TestFilterOnTheWire(t *testing.T) {
	n := fakenode.New(t, many(nil, 1))
	c := open(t, n)
	at := time.Now()
	f := Filter{
		Queue: "q", States: []nornv1.State{dead}, CreatedBefore: at, CreatedAfter: at.Add(1), FinishedBefore: at.Add(2), FinishedAfter: at.Add(3),
		ErrorContains: "time", Headers: map[string]string{"a": "b"}, MinAttempts: 3, Key: "k", Worker: "w", DependsOn: id.ID{7}, Kind: "kind", Tags: []string{"t"}, PayloadContains: "p", PayloadPaths: map[string]string{"a.b": "c"}, PageSize: 7, IDsOnly: true,
	}
	for _, f := range []Filter{f, {Queue: "q"}} {
		for _, err := range c.List(t.Context(), f) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, want := range []*nornv1.ListRequest{
		{Queue: "q", States: []nornv1.State{dead}, Limit: 7, IdsOnly: true, Filter: &nornv1.Filter{
			CreatedBefore: stampOf(at), CreatedAfter: stampOf(at.Add(1)), FinishedBefore: stampOf(at.Add(2)), FinishedAfter: stampOf(at.Add(3)),
			ErrorContains: "time", Headers: map[string]string{"a": "b"}, MinAttempts: 3, Key: "k", Worker: "w", DependsOn: id.ID{7}.Bytes(), Kind: "kind", Tags: []string{"t"}, PayloadContains: "p", PayloadPaths: map[string]string{"a.b": "c"},
		}},
		{Queue: "q"},
	} {
		if got := n.Seen(nornv1.Method_METHOD_LIST)[i].Message; !protobuf.Equal(got, want) {
			t.Errorf("asked %v, want %v", got, want)
		}
	}
}

func TestCancelWhere(t *testing.T) {
	missing := &nornv1.WriteResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "not known").Proto()}
	n := fakenode.New(t, many(ends(
		map[byte]*nornv1.WriteResult{1: conflict(completed), 2: missing}, &nornv1.WriteResult{Receipt: &nornv1.Receipt{}, State: cancelled}),
		900, 0, 700, 3))
	var seen []Bulk
	got, err := open(t, n).CancelWhere(t.Context(), Filter{Queue: "q", ErrorContains: "x"}, BulkOptions{
		Reason: "why", Durability: All, Progress: func(b Bulk) { seen = append(seen, b) },
	})
	// 7 IDs of 1,603 have 1 as their first byte, and 7 have 2.
	if want := (Bulk{Matched: 1603, Done: 1603 - 14, Skipped: 14}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if len(seen) != 2 || seen[0].Matched != 1000 || seen[0].Done+seen[0].Skipped != 1000 || seen[1] != got {
		t.Errorf("progress %+v", seen)
	}
	open4 := []nornv1.State{waiting, scheduled, ready, claimed}
	cancels := n.Seen(nornv1.Method_METHOD_CANCEL)
	for _, r := range cancels {
		if m := r.Message.(*nornv1.CancelRequest); !slices.Equal(m.GetOnlyStates(), open4) || m.GetReason() != "why" || m.GetDurability().GetLevel() != nornv1.WriteLevel_WRITE_LEVEL_ALL {
			t.Errorf("sent states %v, reason %q, durability %v", m.GetOnlyStates(), m.GetReason(), m.GetDurability())
		}
	}
	asked := n.Seen(nornv1.Method_METHOD_LIST)[0].Message.(*nornv1.ListRequest)
	want := &nornv1.ListRequest{Queue: "q", States: open4, IdsOnly: true, Limit: 1000, Filter: &nornv1.Filter{
		ErrorContains: "x", CreatedBefore: stampOf(serverTime.Add(2*5*time.Second + time.Millisecond)), // the fake's eta is 5 s
	}}
	if !protobuf.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

func TestRetryWhereAndDryRun(t *testing.T) {
	n := fakenode.New(t, many(ends(nil, &nornv1.WriteResult{Receipt: &nornv1.Receipt{}, State: ready}), 5))
	c := open(t, n)
	old := serverTime.Add(-time.Hour)
	got, err := c.RetryWhere(t.Context(), Filter{CreatedBefore: old}, BulkOptions{DryRun: true})
	if want := (Bulk{Matched: 5}); err != nil || got != want {
		t.Errorf("dry run: %+v, %v", got, err)
	}
	if sent := n.Seen(nornv1.Method_METHOD_RETRY); len(sent) != 0 {
		t.Fatalf("a dry run sends %v", sent)
	}
	if got, err = c.RetryWhere(t.Context(), Filter{CreatedBefore: old}, BulkOptions{}); err != nil || got != (Bulk{Matched: 5, Done: 5}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, r := range n.Seen(nornv1.Method_METHOD_LIST) {
		m := r.Message.(*nornv1.ListRequest)
		if !slices.Equal(m.GetStates(), []nornv1.State{dead}) || !m.GetFilter().GetCreatedBefore().AsTime().Equal(old) {
			t.Errorf("asked %v", m)
		}
	}
	if m := n.Seen(nornv1.Method_METHOD_RETRY)[0].Message.(*nornv1.RetryRequest); !slices.Equal(m.GetOnlyStates(), []nornv1.State{dead}) {
		t.Errorf("sent %v", m.GetOnlyStates())
	}
}

// What stands against the second attempt may be the first one.
func TestBulkCountsItsOwnDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			end  fakenode.Script
			want Bulk
		}{
			{steps(hangUp, ends(nil, conflict(cancelled))), Bulk{Matched: 1, Done: 1}},
			{steps(hangUp, ends(nil, conflict(completed))), Bulk{Matched: 1, Skipped: 1}},
			{ends(nil, conflict(cancelled)), Bulk{Matched: 1, Skipped: 1}},
		} {
			got, err := open(t, fakenode.New(t, many(tt.end, 1))).CancelWhere(t.Context(), Filter{}, BulkOptions{})
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		}
		got, err := open(t, fakenode.New(t, many(steps(hangUp, ends(nil, conflict(claimed))), 1))).RetryWhere(t.Context(), Filter{}, BulkOptions{})
		if err != nil || got != (Bulk{Matched: 1, Done: 1}) {
			t.Errorf("retry: %+v, %v", got, err)
		}
	})
}

// An error that is more than a state ends it, with the counts so far.
func TestBulkEndsWithAnError(t *testing.T) {
	internal := &nornv1.WriteResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "bug").Proto()}
	good := &nornv1.WriteResult{Receipt: &nornv1.Receipt{}}
	n := fakenode.New(t, many(ends(map[byte]*nornv1.WriteResult{9: internal}, good), 10, 990, 500))
	got, err := open(t, n).CancelWhere(t.Context(), Filter{}, BulkOptions{})
	wantIs(t, err, ErrInternal)
	if got.Matched != 1000 || got.Done != 996 || got.Skipped != 0 {
		t.Errorf("got %+v", got)
	}
	whole := refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, "no"))
	got, err = open(t, fakenode.New(t, many(whole, 10))).CancelWhere(t.Context(), Filter{}, BulkOptions{})
	wantIs(t, err, ErrPermissionDenied)
	if got != (Bulk{Matched: 10}) {
		t.Errorf("got %+v", got)
	}
	_, err = open(t, fakenode.New(t, only(nornv1.Method_METHOD_STATUS, nil))).CancelWhere(t.Context(), Filter{}, BulkOptions{})
	wantIs(t, err, ErrUnimplemented)
}
