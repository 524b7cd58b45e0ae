package sheet

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// attemptTable shows the attempts of a task, those that run included. Of an error it shows
// the first line.
func attemptTable(w io.Writer, t *nornv1.Task, now time.Time) {
	g, rows, last := render.NewGrid(false, "attempt", "worker", "start", "waited", "ran for", "outcome", "error"), 0, uint64(0)
	for _, a := range t.GetAttemptLog() {
		if n := a.GetNumber() - last - 1; n > 0 {
			g.Row("…", fmt.Sprintf("%s more, not kept", render.Number(n)), "", "", "", "", "")
		}
		last = a.GetNumber()
		waited, ran := "", ""
		if a.GetStart() != nil {
			waited, ran = render.Duration(proto.Seconds(a.GetWaitSeconds())), render.Duration(proto.Seconds(a.GetDurationSeconds()))
		}
		outcome := jsonform.EnumName(a.GetOutcome())
		if !a.GetCounted() {
			outcome += ", not counted"
		}
		message, _, _ := strings.Cut(a.GetError(), "\n")
		g.Row(fmt.Sprint(a.GetNumber()), render.Worker(a.GetWorker(), a.GetPrincipal(), a.GetCompletedBy()), second(a.GetStart()), waited, ran, outcome, render.Text([]byte(message), 100))
		rows++
	}
	for _, c := range t.GetClaims() {
		if c.GetOutcome() == nornv1.ClaimOutcome_CLAIM_OUTCOME_ACTIVE {
			ran := render.Duration(max(now.Sub(c.GetStart().AsTime()), 0))
			g.Row("", render.Worker(c.GetWorker(), c.GetPrincipal(), ""), second(c.GetStart()), "", ran, "running", "")
			rows++
		}
	}
	if rows > 0 {
		fmt.Fprintln(w)
		g.Write(w)
	}
}

// second is a time as people read it; empty where there is none.
func second(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}
