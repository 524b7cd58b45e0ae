package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestRankErrorsCountWhatWasPassedOver, whatever the order in which clients heard.
func TestRankErrorsCountWhatWasPassedOver(t *testing.T) {
	r := &ranks{}
	for _, g := range []struct{ task, at int }{{4, 40}, {0, 30}, {2, 10}, {1, 20}, {3, 10}} {
		r.note([]*client.Claim{{ID: id.ID{byte(g.task)}, Grant: &nornv1.Grant{Start: timestamppb.New(time.Unix(0, int64(g.at)))}}})
	}
	if got, want := r.errors(), []int{2, 2, 1, 0, 0}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	report := &Report{}
	report.ranks(r.errors())
	if p50, _ := report.Get("rank_error_p50"); p50 != 1 {
		t.Fatalf("p50 is %v", p50)
	}
	if most, _ := report.Get("rank_error_max"); most != 2 {
		t.Fatalf("max is %v", most)
	}
}
