package schedules

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestLatenessIsOfItsLaunch: that the next launch is overdue says nothing of the last one.
func TestLatenessIsOfItsLaunch(t *testing.T) {
	s := &nornv1.Schedule{Name: "a", OverdueSeconds: 90, Last: &nornv1.Launch{
		Kind: nornv1.LaunchKind_LAUNCH_KIND_LAUNCH, Status: nornv1.LaunchStatus_LAUNCH_STATUS_COMPLETED, Instant: timestamppb.New(time.Unix(1e9, 0)), LateSeconds: 2,
	}}
	var b bytes.Buffer
	scheduleSheet(&b, s)
	if out := regexp.MustCompile(` +`).ReplaceAllString(b.String(), " "); !strings.Contains(out, "(completed, 2s late)") || !strings.Contains(out, "\noverdue 1m30s\n") {
		t.Errorf("got %s", out)
	}
	if s.Last.LateSeconds = 200; lateness(s) != rounded(90) {
		t.Errorf("of the one that is due: %s", lateness(s))
	}
	if s.OverdueSeconds = 0; lateness(s) != rounded(200) {
		t.Errorf("of the last one: %s", lateness(s))
	}
	if s.Last = nil; lateness(s) != "" {
		t.Errorf("without a launch: %s", lateness(s))
	}
}
