package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/terms"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/schedule"

	gproto "google.golang.org/protobuf/proto"
)

func (s scheduleCommands) set() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME --cron SPEC -q QUEUE [PAYLOAD]", Short: "Make a schedule, or change some of one", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: s.complete,
		Long: `Make a schedule, or change some of one: what is not said stays as it is, and
--FLAG='' goes back to the default. An edit takes effect from now on: it launches
nothing of the past, and nothing twice.`,
		Example: "  norn schedule set nightly --cron '30 2 * * *' --tz America/New_York -q reports '{\"day\":\"yesterday\"}'\n" +
			"  norn schedule set sync --cron '? * * * *' -q sync --overlap skip --catch-up none\n" +
			"  norn schedule set nightly --deadline 2h --pause-on-failure",
	}
	f, fields := cmd.Flags(), terms.ScheduleFields()
	for i := range fields {
		switch x := &fields[i]; {
		case x.Name == "payload":
		case x.Name == "queue":
			f.StringP(x.Name, "q", "", x.Help)
		case x.Bool:
			f.VarPF(new(yes), x.Name, "", x.Help).NoOptDefVal = "true"
		default:
			f.String(x.Name, "", x.Help)
		}
	}
	file := f.String("file", "", "payload from this `file` (-: standard input)")
	headers := f.StringArray("header", nil, "a header of the tasks, `name=value`; repeat it for more; '' takes away those that there are")
	create := f.Bool("create", false, "refuse if there is one of the name")
	dryRun := f.Bool("dry-run", false, "say what would change, and change nothing")
	_ = cmd.RegisterFlagCompletionFunc("overlap", completeWords("allow", "skip", "queue-one", "replace"))
	_ = cmd.RegisterFlagCompletionFunc("catch-up", completeWords("latest", "none", "all"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := notEmpty(cmd, "file"); err != nil { // else the schedule would be made without a payload
			return err
		}
		change := func(spec *nornv1.ScheduleSpec) error {
			for i := range fields {
				if flag := f.Lookup(fields[i].Name); flag != nil && flag.Changed {
					if err := fields[i].Set(spec, flag.Value.String()); err != nil {
						return usage("--%w", err)
					}
				}
			}
			for _, h := range *headers {
				if h == "" && spec.Task != nil {
					spec.Task.Headers = nil
				} else if err := terms.SetHeader(spec, h); err != nil {
					return usage("--%w", err)
				}
			}
			return s.payload(cmd.Context(), spec, args[1:], *file)
		}
		return s.about(cmd.Context(), args[0], func(c *client.Client) error {
			return s.put(cmd.Context(), c, args[0], change, client.PutOptions{Create: *create, DryRun: *dryRun})
		})
	}
	return cmd
}

// yes is a flag that says yes; =false and an empty value say no, which is the default.
type yes bool

func (y *yes) Set(text string) error {
	b, err := strconv.ParseBool(cmp.Or(text, "false"))
	*y = yes(b)
	return err
}

func (y *yes) String() string { return strconv.FormatBool(bool(*y)) }
func (y *yes) Type() string   { return "bool" }

// payload takes the payload from the command line or a file.
func (s scheduleCommands) payload(ctx context.Context, spec *nornv1.ScheduleSpec, args []string, file string) (err error) {
	if spec.Task == nil {
		spec.Task = &nornv1.TaskSpec{}
	}
	switch {
	case len(args) > 0 && file != "":
		return usage("give one of PAYLOAD and --file")
	case len(args) > 0:
		spec.Task.Payload = []byte(args[0])
	case file == "-":
		spec.Task.Payload, err = readAll(ctx, s.in, proto.MaxPayloadCeiling)
	case file != "":
		in, bad := openInput("file", file)
		if bad != nil {
			return bad
		}
		spec.Task.Payload, err = readAll(ctx, in, proto.MaxPayloadCeiling)
		_ = in.Close() // what was read counts
	}
	return err
}

// put changes a schedule, from what it is by then.
func (s scheduleCommands) put(ctx context.Context, c *client.Client, name string, change func(*nornv1.ScheduleSpec) error, o client.PutOptions) error {
	found, err := c.Schedules().Get(ctx, name)
	switch {
	case errors.Is(err, client.ErrNotFound):
		found = nil
	case err != nil:
		return err
	}
	spec := &nornv1.ScheduleSpec{Task: &nornv1.TaskSpec{}}
	if found != nil && !o.Create {
		spec, o.IfVersion = gproto.CloneOf(found.GetSpec()), found.GetVersion()
	}
	if err := change(spec); err != nil {
		return err
	}
	terms.TidySchedule(spec)
	if err := checkSpec(spec); err != nil {
		return err
	}
	res, err := c.Schedules().Put(ctx, name, spec, o)
	if err != nil {
		return err
	}
	if o.DryRun {
		return s.results([]terms.FileSchedule{{Name: name, Spec: spec}}, []*nornv1.ScheduleResult{res}, " (dry run)")
	}
	if resolved := res.GetSchedule().GetResolved(); resolved != "" {
		s.note("? is here: %s", resolved)
	}
	for _, w := range res.GetSchedule().GetWarnings() {
		s.note("%s", w)
	}
	return s.writer().Object(jsonform.Of(res.GetSchedule()), func(w io.Writer) { scheduleSheet(w, res.GetSchedule()) })
}

// warned are warnings and the schedules that they are about.
type warned struct {
	texts []string
	names map[string][]string
}

func (w *warned) add(name string, warnings []string) {
	for _, text := range warnings {
		if w.names[text] == nil {
			w.texts = append(w.texts, text)
		}
		if w.names == nil {
			w.names = make(map[string][]string)
		}
		w.names[text] = append(w.names[text], name)
	}
}

// maxWarned is how many warnings are told about a file: one that has more is mostly wrong in
// the same way. -o json has all of them.
const maxWarned = 10

// tell says each warning once, with the first of the names.
func (w *warned) tell(note func(string, ...any)) {
	for _, text := range w.texts[:min(len(w.texts), maxWarned)] {
		names, more := w.names[text], ""
		if n := len(names); n > 3 {
			names, more = names[:3], fmt.Sprintf(" and %d more", n-3)
		}
		note("%s%s: %s", strings.Join(names, ", "), more, text)
	}
	if n := len(w.texts) - maxWarned; n > 0 {
		note("%d more warnings; -o json shows them", n)
	}
}

// checkSpec finds what is wrong with a specification before it is sent, to point
// at it.
func checkSpec(spec *nornv1.ScheduleSpec) error {
	if spec.GetTask().GetQueue() == "" {
		return usage("-q: a new schedule needs the queue of its tasks")
	}
	_, _, err := timetableOf(upcoming{cron: spec.GetCron(), zone: spec.GetTimeZone(), by: schedule.Current}, [16]byte{})
	return err
}

func (s scheduleCommands) apply() *cobra.Command {
	var files []string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Make schedules what a file says", Args: cobra.NoArgs,
		Long: `Make schedules what a file says, and print what has changed. The file is YAML or
JSON: schedules in a list, or one per document. What a schedule does not say is the
default; one that is paused stays so unless the file says paused. Schedules that
the file does not name are left alone. All of a file is checked before anything
is changed. Where schedules are refused, the exit code is the highest that any of
them asks for.

  schedules:
    - name: nightly
      cron: 30 2 * * *
      tz: America/New_York
      queue: reports
      payload: '{"day":"yesterday"}'
      headers: {team: finance}
      overlap: skip           # allow, skip, queue-one, replace
      catch-up: latest        # latest, none, all (with catch-up-count)
      catch-up-window: 6h

Other keys are the flags of ` + "`norn schedule set`.",
		Example: "  norn schedule apply -f schedules.yaml --dry-run\n  kustomize build . | norn schedule apply -f -",
	}
	f := cmd.Flags()
	f.StringSliceVarP(&files, "file", "f", nil, "the `file`s (-: standard input)")
	f.BoolVar(&dryRun, "dry-run", false, "say what would change, and change nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(files) == 0 {
			return usage("-f: the file is missing, such as -f schedules.yaml")
		}
		all, err := s.read(cmd.Context(), files)
		if err != nil {
			return err
		}
		return s.with(cmd.Context(), func(c *client.Client) error {
			var named []client.NamedSpec
			for _, x := range all {
				named = append(named, client.NamedSpec{Name: x.Name, Spec: x.Spec, Options: client.PutOptions{KeepPaused: !x.Paused, DryRun: true}})
			}
			undone := " (not done)"
			if dryRun {
				undone = " (dry run)"
			}
			results, err := c.Schedules().PutMany(cmd.Context(), named) // nothing is changed unless all of it is right
			if err == nil && !dryRun && !refusedOne(results) {
				for i := range named {
					named[i].Options.DryRun = false
				}
				undone = ""
				results, err = c.Schedules().PutMany(cmd.Context(), named)
			}
			if told := s.results(all, results, undone); err == nil {
				err = told // else what was refused is in the list
			}
			return err
		})
	}
	return cmd
}

func refusedOne(results []*nornv1.ScheduleResult) bool {
	for _, r := range results {
		if r.GetError() != nil {
			return true
		}
	}
	return false
}

// maxScheduleFile bounds what is read from standard input.
const maxScheduleFile = 64 << 20

// read reads files of schedules, and finds what is wrong with them.
func (s scheduleCommands) read(ctx context.Context, files []string) (all []terms.FileSchedule, err error) {
	var problems []error
	where := make(map[string]string)
	for _, file := range files {
		var b []byte
		if file == "-" {
			b, err = readAll(ctx, s.in, maxScheduleFile)
		} else {
			b, err = os.ReadFile(file)
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			return nil, usage("-f: %w", err)
		}
		found, err := terms.ScheduleFile(file, b)
		if err != nil {
			problems = append(problems, err)
		}
		for _, x := range found {
			at := fmt.Sprintf("%s:%d", file, x.Line)
			if other := where[x.Name]; other != "" {
				problems = append(problems, fmt.Errorf("%s: schedule %s is in %s already", at, x.Name, other))
			}
			where[x.Name] = at
			if err := checkSpec(x.Spec); err != nil {
				first, _, _ := strings.Cut(err.Error(), "\n") // the rest points at it, which takes a line of its own
				problems = append(problems, fmt.Errorf("%s: schedule %s: %s", at, x.Name, strings.TrimPrefix(first, "--")))
			}
		}
		all = append(all, found...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, usageError{err}
	}
	return all, nil
}

// applied is what became of a schedule of a file, or would.
type applied struct {
	name, what string
	diff       []string
	resolved   string // "" without ?, and while no UUID has chosen
	res        *nornv1.ScheduleResult
}

// appliedOf is what became of one; undone says why it did not really, "" if it did.
func appliedOf(name string, r *nornv1.ScheduleResult, undone string) applied {
	l := applied{name: name, res: r}
	switch {
	case r.GetError() != nil:
		l.what, l.diff = "refused", []string{r.GetError().GetMessage()}
		return l
	case r.GetCreated():
		l.what = "created"
	case r.GetChanged():
		l.what = "changed"
	default:
		l.what = "unchanged"
		undone = ""
	}
	if r.GetChanged() {
		l.diff = terms.ScheduleDiff(r.GetBefore(), r.GetSchedule().GetSpec())
	}
	l.resolved = r.GetSchedule().GetResolved()
	if undone != "" {
		l.what += undone
		if r.GetCreated() { // it gets another UUID when it is made
			l.resolved = ""
		}
	}
	return l
}

// changes are the differences in a line, and what ? has become where something
// differs.
func (l applied) changes() string {
	text := strings.Join(l.diff, "; ")
	if l.resolved != "" && text != "" {
		text += "; ? is here: " + l.resolved
	}
	return text
}

func (l applied) form() jsonform.Value {
	var diff []jsonform.Value
	for _, d := range l.diff {
		diff = append(diff, jsonform.String(d))
	}
	return jsonform.Object(jsonform.Field{Name: "name", Value: jsonform.String(l.name)}, jsonform.Field{Name: "result", Value: jsonform.String(l.what)},
		jsonform.Field{Name: "diff", Value: jsonform.List(diff...)}, jsonform.Field{Name: "resolved", Value: jsonform.String(l.resolved)},
		jsonform.Field{Name: "schedule", Value: jsonform.Of(l.res.GetSchedule())})
}

// results says what has changed, or would; see [appliedOf].
func (s scheduleCommands) results(all []terms.FileSchedule, results []*nornv1.ScheduleResult, undone string) error {
	list := render.NewList(s.writer(), applied.form, render.Column[applied]{Head: "schedule", Cell: func(l applied) string { return l.name }},
		render.Column[applied]{Head: "result", Cell: func(l applied) string { return l.what }},
		render.Column[applied]{Head: "difference", Cell: applied.changes})
	bad, worst := 0, 0
	var warnings warned
	for i, r := range results {
		l := appliedOf(all[i].Name, r, undone)
		if e := r.GetError(); e != nil {
			bad++
			worst = max(worst, exitCode(&client.Error{Op: "put schedules", Err: proto.FromProto(e)}))
		}
		if r.GetChanged() { // who applies it again has been warned
			warnings.add(l.name, r.GetSchedule().GetWarnings())
		}
		list.Add(l)
	}
	if err := list.Close(); err != nil {
		return err
	}
	warnings.tell(s.note)
	if bad > 0 {
		what := "nothing was changed"
		if undone == "" {
			what += " of them"
		}
		s.note("%d of %d schedules were refused; %s", bad, len(results), what)
		return reported{worst}
	}
	return nil
}

// upcomingOf is what `next` shows of a schedule.
func upcomingOf(s *nornv1.Schedule) (upcoming, [16]byte) {
	uuid, _ := uuidOf(s.GetUuid())
	return upcoming{cron: s.GetSpec().GetCron(), zone: s.GetSpec().GetTimeZone(), uuid: s.GetUuid(), by: schedule.Reading(min(s.GetReading(), math.MaxUint8))}, uuid
}

// span reads the ends of a stretch of time.
func span(from, to string, loc *time.Location) (a, b time.Time, err error) {
	first, err := startOf("from", from, loc)
	if err != nil {
		return a, b, err
	}
	last, err := startOf("to", to, loc)
	if err != nil {
		return a, b, err
	}
	return time.Unix(0, first), time.Unix(0, last), nil
}
