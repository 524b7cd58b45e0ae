package attention

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestQueuesAreRankedOverAllPages: ten thousand queues come in pages; what is best stands on the
// last of them, a part of a name finds what any page has, and an answer has its limit.
func TestQueuesAreRankedOverAllPages(t *testing.T) {
	const n, page = 10_000, 777
	pages := 0
	ask := func(_ context.Context, method nornv1.Method, m gproto.Message) (gproto.Message, *proto.Error) {
		if method != nornv1.Method_METHOD_QUEUES {
			t.Fatalf("asked for %v", method)
		}
		pages++
		from, reply := 0, &nornv1.QueuesReply{}
		if _, err := fmt.Sscan(string(m.(*nornv1.QueuesRequest).GetCursor()), &from); err != nil {
			from = 0
		}
		for i := from; i < min(n, from+page); i++ {
			reply.Queues = append(reply.Queues, &nornv1.Queue{
				Name: fmt.Sprintf("Team-%d/q%05d", i%7, i), OldestReadySeconds: float64(n - i),
				Count: &nornv1.Count{Total: 2, Ready: uint64(i / 2), Dead: 1},
			})
		}
		if from+page < n {
			reply.NextCursor = []byte(fmt.Sprint(from + page))
		}
		return reply, nil
	}
	names := func(m *nornv1.RankQueuesRequest) (all []string, r *nornv1.RankQueuesReply) {
		t.Helper()
		r, err := Rank(t.Context(), ask, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range r.GetQueues() {
			_, name, _ := strings.Cut(q.GetName(), "/")
			all = append(all, name)
		}
		return all, r
	}
	got, r := names(&nornv1.RankQueuesRequest{By: nornv1.QueueOrder_QUEUE_ORDER_READY, Descending: true, Limit: 3})
	if want := []string{"q09999", "q09998", "q09997"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) && got[0][:5] != "q0999" || r.Found != n || r.Total.Dead != n || r.Total.Total != 2*n {
		t.Errorf("%v, found %d, %v", got, r.Found, r.Total)
	}
	if pages != 13 {
		t.Errorf("%d pages were read", pages)
	}
	got, _ = names(&nornv1.RankQueuesRequest{By: nornv1.QueueOrder_QUEUE_ORDER_OLDEST_READY, Descending: true, Limit: 2, Offset: 1})
	if !slices.Equal(got, []string{"q00001", "q00002"}) {
		t.Errorf("the oldest but one: %v", got)
	}
	got, r = names(&nornv1.RankQueuesRequest{Contains: "tEAM-3/Q0999"})
	if !slices.Equal(got, []string{"q09992", "q09999"}) || r.Found != 2 || r.Total.Total != 4 {
		t.Errorf("by part: %v, %v", got, r)
	}
	if got, _ = names(&nornv1.RankQueuesRequest{Offset: 3 * n}); len(got) != 0 {
		t.Errorf("past the end: %v", got)
	}
	if got, _ = names(&nornv1.RankQueuesRequest{Descending: true}); len(got) != usualRanked {
		t.Errorf("%d are usual", len(got))
	}
	for _, bad := range []*nornv1.RankQueuesRequest{{Limit: largeRanked + 1}, {Contains: strings.Repeat("x", maxPart+1)}, {By: 99}} {
		if _, err := Rank(t.Context(), ask, bad); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
