package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/terms"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (s commands) apply() *cobra.Command {
	var files []string
	var o applyOptions
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Make schedules what a file says", Args: cobra.NoArgs,
		Long: `Make schedules what a file says, and print what has changed. The file is YAML or
JSON: schedules in a list, or one per document. What a schedule does not say is the
default; one that is paused stays so unless the file says paused. Schedules that
the file does not name are left alone, but with --prune those of the --owner. All of
a file is checked before anything is changed. Where schedules are refused, the exit
code is the highest that any of them asks for.

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
		Example: "  norn schedule apply -f schedules.yaml --dry-run\n  norn schedule apply -f schedules.yaml --owner team-a --prune\n  kustomize build . | norn schedule apply -f -",
	}
	f := cmd.Flags()
	f.StringSliceVarP(&files, "file", "f", nil, "the `file`s (-: standard input)")
	o.flags(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(files) == 0 {
			return cli.Usage("-f: the file is missing, such as -f schedules.yaml")
		}
		if err := o.check(cmd); err != nil {
			return err
		}
		all, err := s.read(cmd.Context(), files)
		if err != nil {
			return err
		}
		return s.applyAll(cmd.Context(), all, o)
	}
	return cmd
}

// applyOptions are how schedules of files are applied.
type applyOptions struct {
	owner         string
	prune, dryRun bool
}

func (o *applyOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.owner, "owner", "", "`name` of whoever the schedules are from: they get it, and those of other owners are refused")
	f.BoolVar(&o.prune, "prune", false, "delete the schedules of --owner that are not there any more")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would change, and change nothing")
}

func (o *applyOptions) check(cmd *cobra.Command) error {
	switch {
	case cmd.Flags().Changed("owner") && proto.CheckQueue(o.owner) != nil:
		return cli.Usage("--owner: %q is not a name: [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}", o.owner)
	case o.prune && o.owner == "":
		return cli.Usage("--prune: give --owner, too: only schedules of an owner are deleted")
	}
	return nil
}

// applyAll makes schedules what was read, and deletes those of the owner that were not.
// Nothing is changed unless all of it is right.
func (s commands) applyAll(ctx context.Context, all []terms.FileSchedule, o applyOptions) error {
	var named []client.NamedSpec
	names := make(map[string]bool, len(all))
	for _, x := range all {
		if own := x.Spec.GetOwner(); o.owner != "" && own != "" && own != o.owner {
			return cli.Usage("schedule %s: its owner is %s and not that of --owner, %s", x.Name, own, o.owner)
		}
		x.Spec.Owner, names[x.Name] = cmp.Or(x.Spec.GetOwner(), o.owner), true
		named = append(named, client.NamedSpec{Name: x.Name, Spec: x.Spec, Options: client.PutOptions{KeepPaused: !x.Paused, DryRun: true}})
	}
	return s.With(ctx, func(c *client.Client) error {
		undone := " (not done)"
		if o.dryRun {
			undone = " (dry run)"
		}
		results, err := c.Schedules().PutMany(ctx, named)
		if o.owner != "" {
			refuseOthers(named, results, o.owner)
		}
		done := err == nil && !o.dryRun && !refusedOne(results)
		if done {
			for i := range named {
				named[i].Options.DryRun = false
			}
			undone = ""
			results, err = c.Schedules().PutMany(ctx, named)
		}
		var gone []applied
		if err == nil && o.prune && (o.dryRun || done && !refusedOne(results)) {
			gone, err = s.pruned(ctx, c, names, o, undone)
		}
		if told := s.results(all, results, undone, gone...); err == nil {
			err = told // else what was refused is in the list
		}
		return err
	})
}

// refuseOthers refuses schedules that are another owner's already.
func refuseOthers(named []client.NamedSpec, results []*nornv1.ScheduleResult, owner string) {
	for i, r := range results {
		if own := r.GetBefore().GetOwner(); own != "" && own != owner && r.GetError() == nil {
			r.Error = proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT,
				"it is of the owner %s; `norn schedule set %s --owner=` takes that away", own, named[i].Name).Proto()
		}
	}
}

// pruned deletes the schedules of the owner that have none of the names. One that somebody
// changes meanwhile is refused.
func (s commands) pruned(ctx context.Context, c *client.Client, names map[string]bool, o applyOptions, undone string) (gone []applied, err error) {
	var left []*nornv1.Schedule
	for found, err := range c.Schedules().List(ctx) {
		if err != nil {
			return nil, err
		}
		if found.GetSpec().GetOwner() == o.owner && !names[found.GetName()] {
			left = append(left, found)
		}
	}
	for _, found := range left {
		if !o.dryRun {
			err = c.Schedules().DeleteAsRead(ctx, found)
		}
		l := applied{name: found.GetName(), what: "deleted" + undone, res: &nornv1.ScheduleResult{Schedule: found}}
		var refused *client.Error
		switch {
		case errors.As(err, &refused) && cli.ExitCode(err) != cli.ExitUnavailable && ctx.Err() == nil:
			l.what, l.diff, l.code = "refused", []string{cli.Message(err)}, cli.ExitCode(err)
			err = nil
		case err != nil:
			return gone, err
		}
		gone = append(gone, l)
	}
	return gone, nil
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
func (s commands) read(ctx context.Context, files []string) (all []terms.FileSchedule, err error) {
	var problems []error
	where := make(map[string]string)
	for _, file := range files {
		b, err := s.content(ctx, "-f: ", file)
		if err != nil {
			return nil, err
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
		}
		problems = append(problems, specProblems(file, found)...)
		all = append(all, found...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, cli.UsageError{Err: err}
	}
	return all, nil
}

// content is what is in a file, or comes from standard input.
func (s commands) content(ctx context.Context, what, file string) (b []byte, err error) {
	if file == "-" {
		b, err = cli.ReadAll(ctx, s.In, maxScheduleFile)
	} else {
		b, err = os.ReadFile(file)
	}
	if err != nil && ctx.Err() == nil {
		return nil, cli.Usage("%s%w", what, err)
	}
	return b, err
}

// specProblems are specifications of a file that are wrong.
func specProblems(file string, found []terms.FileSchedule) (problems []error) {
	for _, x := range found {
		if err := checkSpec(x.Spec); err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n") // the rest points at it, which takes a line of its own
			problems = append(problems, fmt.Errorf("%s:%d: schedule %s: %s", file, x.Line, x.Name, strings.TrimPrefix(first, "--")))
		}
	}
	return problems
}

// applied is what became of a schedule of a file, or would.
type applied struct {
	name, what string
	diff       []string
	resolved   string // "" without ?, and while no UUID has chosen
	code       int    // exit code where it was refused
	res        *nornv1.ScheduleResult
}

// appliedOf is what became of one; undone says why it did not really, "" if it did.
func appliedOf(name string, r *nornv1.ScheduleResult, undone string) applied {
	l := applied{name: name, res: r}
	switch {
	case r.GetError() != nil:
		l.what, l.diff = "refused", []string{r.GetError().GetMessage()}
		l.code = cli.ExitCode(&client.Error{Op: "put schedules", Err: proto.FromProto(r.GetError())})
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

// results says what has changed, or would, see [appliedOf], and what else was done.
func (s commands) results(all []terms.FileSchedule, results []*nornv1.ScheduleResult, undone string, more ...applied) error {
	list := render.NewList(s.Writer(), applied.form, render.Column[applied]{Head: "schedule", Cell: func(l applied) string { return l.name }},
		render.Column[applied]{Head: "result", Cell: func(l applied) string { return l.what }},
		render.Column[applied]{Head: "difference", Cell: applied.changes})
	var rows []applied
	var warnings warned
	for i, r := range results {
		rows = append(rows, appliedOf(all[i].Name, r, undone))
		if r.GetChanged() && r.GetError() == nil { // who applies it again has been warned
			warnings.add(all[i].Name, r.GetSchedule().GetWarnings())
		}
	}
	rows = append(rows, more...)
	bad, worst := 0, 0
	for _, l := range rows {
		if list.Add(l); l.code != 0 {
			bad, worst = bad+1, max(worst, l.code)
		}
	}
	if err := list.Close(); err != nil {
		return err
	}
	warnings.tell(s.Note)
	if bad > 0 {
		what := "nothing was changed"
		if undone == "" {
			what += " of them"
		}
		s.Note("%d of %d schedules were refused; %s", bad, len(rows), what)
		return cli.Reported{Code: worst}
	}
	return nil
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
