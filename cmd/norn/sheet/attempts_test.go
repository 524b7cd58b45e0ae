package sheet

import (
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestAttemptTable: each attempt with the first line of its error, those that are not kept as
// a number, what runs with its time so far, and nothing where nobody has tried.
func TestAttemptTable(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var out strings.Builder
	attemptTable(&out, &nornv1.Task{Claims: []*nornv1.Claim{{Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_RELEASED}}}, at)
	if out.Len() > 0 {
		t.Errorf("nobody has tried, and it shows %s", out.String())
	}
	task := &nornv1.Task{
		AttemptLog: []*nornv1.Attempt{
			{Number: 1, Worker: "first", Principal: "ci", CompletedBy: "ann", Start: timestamppb.New(at), WaitSeconds: 0.5, DurationSeconds: 1.5, Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_FAILED, Error: "no luck\nat all", Counted: true},
			{Number: 9, Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_FAILED, Error: "snoozed"},
		},
		Claims: []*nornv1.Claim{{Worker: "runs", Start: timestamppb.New(at), Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_ACTIVE}},
	}
	attemptTable(&out, task, at.Add(3*time.Second))
	for _, want := range []string{"first (ci, completed by ann)", "500ms", "1.5s", "no luck", "7 more, not kept", "failed, not counted", "runs", "3s", "running"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "at all") {
		t.Errorf("more than the first line of an error in\n%s", out.String())
	}
}
