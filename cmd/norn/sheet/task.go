package sheet

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// some is a number over 0.
func some(n uint64) string {
	if n == 0 {
		return ""
	}
	return render.Number(n)
}

// Task shows one task to people.
func Task(w io.Writer, t *nornv1.Task, colored bool) {
	now := time.Now()
	state := jsonform.EnumName(t.GetState())
	if colored {
		state = render.StateColor(state)
	}
	when := func(at time.Time, ok bool) string {
		if !ok {
			return ""
		}
		if ahead := render.Until(at, now); ahead != "" {
			return at.UTC().Format(time.RFC3339) + " (in " + ahead + ")"
		}
		return at.UTC().Format(time.RFC3339) + " (" + render.Age(at, now) + " ago)"
	}
	if t.GetQueue() == "" { // collected: its ID is all that is kept of it
		render.Pairs(w, [2]string{"id", t.GetId()}, [2]string{"state", state},
			[2]string{"finished", when(t.GetFinishedAt().AsTime(), t.GetFinishedAt() != nil)}, [2]string{"note", "the rest was deleted or archived after its retention"})
		return
	}
	var headers, tags []string
	for _, tag := range t.GetTags() {
		tags = append(tags, render.Text([]byte(tag), 0))
	}
	for k, v := range t.GetHeaders() {
		headers = append(headers, render.Text([]byte(k+"="+v), 0))
	}
	finished := t.GetFinishedAt()
	if finished == nil {
		finished = t.GetCompletedAt()
	}
	onFailure, key := "", render.Text([]byte(t.GetKey()), 200)
	if len(t.GetDependencies()) > 0 {
		onFailure = jsonform.EnumName(t.GetOnDependencyFailure())
	}
	if t.GetKeyWindowSeconds() > 0 {
		key += " (once per " + render.Duration(proto.Seconds(t.GetKeyWindowSeconds())) + ")"
	}
	message, stack := proto.SplitError(t.GetError())
	render.Pairs(w,
		[2]string{"id", t.GetId()}, [2]string{"queue", t.GetQueue()}, [2]string{"kind", render.Text([]byte(t.GetKind()), 0)}, [2]string{"state", state},
		[2]string{"priority", fmt.Sprint(t.GetPriority())},
		[2]string{"attempts", fmt.Sprintf("%d of %d", t.GetAttempts(), t.GetMaxAttempts())},
		[2]string{"created", when(t.GetCreatedAt().AsTime(), t.GetCreatedAt() != nil)},
		[2]string{"not before", when(t.GetNotBefore().AsTime(), t.GetNotBefore() != nil)},
		[2]string{"finished", when(finished.AsTime(), finished != nil)},
		[2]string{"retried by hand", some(t.GetRetries())},
		[2]string{"dependencies", strings.Join(t.GetDependencies(), "\n")}, [2]string{"if one dies", onFailure}, [2]string{"unique key", key},
		[2]string{"tags", sortedLines(tags)}, [2]string{"headers", sortedLines(headers)},
		[2]string{"payload", fmt.Sprintf("%s (%d bytes)", render.Text(t.GetPayload(), 200), len(t.GetPayload()))},
		[2]string{"result", render.Text(t.GetResult(), 200)},
		[2]string{"error", render.Lines(message)}, [2]string{"stack", render.Lines(stack)},
	)
	attemptTable(w, t, now)
	claimsAndUpdates(w, t)
}

// claimsAndUpdates are the tables of a task's claims and of its log.
func claimsAndUpdates(w io.Writer, t *nornv1.Task) {
	if len(t.GetClaims()) > 0 {
		fmt.Fprintln(w)
		g := render.NewGrid(false, "token", "worker", "start", "end", "outcome")
		for _, c := range t.GetClaims() {
			g.Row(fmt.Sprint(c.GetToken()), render.Text([]byte(c.GetWorker()), 40), c.GetStart().AsTime().Format(time.RFC3339), c.GetEnd().AsTime().Format(time.RFC3339), jsonform.EnumName(c.GetOutcome()))
		}
		g.Write(w)
	}
	if len(t.GetUpdates()) > 0 {
		fmt.Fprintln(w)
		g := render.NewGrid(false, "token", "seq", "at", "data")
		for _, u := range t.GetUpdates() {
			g.Row(fmt.Sprint(u.GetToken()), fmt.Sprint(u.GetSeq()), u.GetAt().AsTime().Format(time.RFC3339), render.Text(u.GetData(), 100))
		}
		g.Write(w)
	}
}

func sortedLines(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
