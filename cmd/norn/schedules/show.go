package schedules

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/terms"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

func (s commands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List schedules with their last and next launches", Args: cobra.NoArgs,
		Example: "  norn schedule list\n  norn schedule list -o json | jq -r '.[] | select(.overdue_seconds > 60) | .name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.With(cmd.Context(), func(c *client.Client) error {
				list, now := scheduleList(s.Writer()).None("no schedules yet: norn schedule set makes one"), time.Now()
				var failed error
				for found, err := range c.Schedules().List(cmd.Context()) {
					if err != nil {
						failed = err
						break
					}
					list.Add(row{found, now})
				}
				if err := list.Close(); failed == nil {
					failed = err
				}
				return failed
			})
		},
	}
}

// row is a schedule at a time.
type row struct {
	*nornv1.Schedule
	now time.Time
}

func scheduleList(w *render.Writer) *render.List[row] {
	type column = render.Column[row]
	return render.NewList(w, func(r row) jsonform.Value { return jsonform.Of(r.Schedule) },
		column{Head: "schedule", Cell: func(r row) string { return r.GetName() }},
		column{Head: "state", Cell: func(r row) string { return scheduleState(r.Schedule) }},
		column{Head: "cron", Cell: func(r row) string { return r.GetSpec().GetCron() }},
		column{Head: "zone", Cell: func(r row) string { return r.GetSpec().GetTimeZone() }},
		column{Head: "queue", Cell: func(r row) string { return r.GetSpec().GetTask().GetQueue() }},
		column{Head: "next", Cell: func(r row) string { return until(r.GetNextLaunch(), r.now) }},
		column{Head: "last", Cell: func(r row) string { return ago(r.GetLast().GetInstant(), r.now) }},
		column{Head: "outcome", Cell: func(r row) string { return outcomeOf(r.GetLast()) }},
		column{Head: "late", Cell: func(r row) string { return lateness(r.Schedule) }},
		column{Head: "launches", Cell: func(r row) string { return render.Number(r.GetLaunches()) }},
		column{Head: "skipped", Cell: func(r row) string { return render.Number(r.GetSkipped()) }},
		column{Head: "failed", Cell: func(r row) string { return render.Number(r.GetFailed()) }},
		column{Head: "note", Cell: func(r row) string { return render.Text([]byte(r.GetSpec().GetNote()+r.GetProblem()), 40) }},
	)
}

func until(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	return render.Until(t.AsTime(), now)
}

func ago(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	return render.Age(t.AsTime(), now)
}

// scheduleState says in a word what a schedule is up to.
func scheduleState(s *nornv1.Schedule) string {
	switch {
	case s.GetProblem() != "":
		return "broken"
	case s.GetSpec().GetPaused():
		return "paused"
	case s.GetEnded():
		return "ended"
	case s.GetAheadSeconds() > 2:
		return "waits for the clock"
	case s.GetRunning() > 0:
		return "running"
	}
	return "waiting"
}

func outcomeOf(l *nornv1.Launch) string {
	if l == nil {
		return ""
	}
	if l.GetKind() == nornv1.LaunchKind_LAUNCH_KIND_SKIP {
		return "skipped: " + enumWord("SKIP_REASON_", l.GetReason().String())
	}
	return enumWord("LAUNCH_STATUS_", l.GetStatus().String())
}

func enumWord(prefix, name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, prefix), "_", " "))
}

// lateness is how late the launch is that is due, or else was the last one.
func lateness(s *nornv1.Schedule) string {
	switch {
	case s.GetOverdueSeconds() > 0:
		return rounded(s.GetOverdueSeconds())
	case s.GetLast() != nil:
		return rounded(s.GetLast().GetLateSeconds())
	}
	return ""
}

func rounded(seconds float64) string {
	return render.Duration(proto.Seconds(seconds).Round(time.Millisecond))
}

// scheduleSheet shows one schedule to people.
func scheduleSheet(w io.Writer, s *nornv1.Schedule) {
	now := time.Now()
	pairs := [][2]string{
		{"schedule", s.GetName()}, {"uuid", s.GetUuid()}, {"state", scheduleState(s)}, {"version", fmt.Sprint(s.GetVersion())},
	}
	add := func(name, value string) {
		if value != "" {
			pairs = append(pairs, [2]string{name, value})
		}
	}
	add("problem", s.GetProblem())
	add("next", stamp(s.GetNext(), until(s.GetNextLaunch(), now)))
	add("waits for the task before", stamp(s.GetQueued(), ""))
	if s.GetOverdueSeconds() > 0 {
		add("overdue", rounded(s.GetOverdueSeconds()))
	}
	if s.GetAheadSeconds() > 0 {
		add("waits for the clock", render.Duration(proto.Seconds(s.GetAheadSeconds()).Round(time.Second)))
	}
	if l := s.GetLast(); l != nil {
		add("last", stamp(l.GetInstant(), outcomeOf(l)+", "+rounded(l.GetLateSeconds())+" late"))
	}
	add("launches", fmt.Sprintf("%s, %s of them failed; %s instants skipped", render.Number(s.GetLaunches()), render.Number(s.GetFailed()), render.Number(s.GetSkipped())))
	names, values := terms.ScheduleLines(s.GetSpec())
	for _, name := range names {
		add(name, render.Text([]byte(values[name]), 100))
	}
	add("? is here", s.GetResolved())
	for _, w := range s.GetWarnings() {
		add("warning", w)
	}
	render.Pairs(w, pairs...)
	if len(s.GetHistory()) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := render.NewGrid(false, historyHeads()...)
	for _, l := range s.GetHistory() {
		g.Row(historyCells(l)...)
	}
	g.Write(w)
}

func stamp(t *timestamppb.Timestamp, more string) string {
	if t == nil {
		return ""
	}
	if more != "" {
		more = " (" + more + ")"
	}
	return t.AsTime().UTC().Format(time.RFC3339) + more
}

func historyHeads() []string {
	return []string{"instant", "what", "outcome", "late", "enqueued", "finished", "task", "note"}
}

func historyCells(l *nornv1.Launch) []string {
	what := enumWord("LAUNCH_KIND_", l.GetKind().String())
	instant, late := stamp(l.GetInstant(), ""), ""
	switch {
	case l.GetKind() != nornv1.LaunchKind_LAUNCH_KIND_SKIP:
		late = rounded(l.GetLateSeconds())
	case l.GetCount() > 1:
		what = fmt.Sprintf("%s of %s to %s", what, render.Number(uint64(l.GetCount())), stamp(l.GetTo(), ""))
	}
	return []string{instant, what, outcomeOf(l), late, clockOf(l.GetEnqueued()), clockOf(l.GetFinished()), l.GetTaskId(), render.Text([]byte(l.GetNote()), 60)}
}

func clockOf(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format("15:04:05.000")
}

func (s commands) history() *cobra.Command {
	return &cobra.Command{
		Use: "history NAME", Short: "List launches and skipped instants, newest first", Args: cobra.ExactArgs(1), ValidArgsFunction: s.complete,
		Long: `List what became of a schedule's instants, newest first: launches with the outcome
of their tasks, instants that were skipped and why, and what was launched by hand.
The newest 20 entries are kept, unless the schedule says how many (history).`,
		Example: "  norn schedule history nightly\n  norn schedule history nightly -o json | jq '.[] | select(.kind == \"skip\") | .reason'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.about(cmd.Context(), args[0], func(c *client.Client) error {
				found, err := c.Schedules().Get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				var columns []render.Column[*nornv1.Launch]
				for i, head := range historyHeads() {
					columns = append(columns, render.Column[*nornv1.Launch]{Head: head, Cell: func(l *nornv1.Launch) string { return historyCells(l)[i] }})
				}
				list := render.NewList(s.Writer(), func(l *nornv1.Launch) jsonform.Value { return jsonform.Of(l) }, columns...).None("no launches yet")
				for _, l := range found.GetHistory() {
					list.Add(l)
				}
				return list.Close()
			})
		},
	}
}

// printTasks prints the IDs of tasks, one per line.
func (s commands) printTasks(ids []string) error {
	list := render.NewList(s.Writer(), func(task string) jsonform.Value {
		return jsonform.Object(jsonform.Field{Name: "id", Value: jsonform.String(task)})
	}, render.Column[string]{Cell: func(task string) string { return task }})
	for _, task := range ids {
		list.Add(task)
	}
	return list.Close()
}
