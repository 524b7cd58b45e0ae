package schedules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// commands are about schedules.
type commands struct{ *cli.App }

// Commands gives norn schedule.
func Commands(app *cli.App) *cobra.Command {
	s := commands{app}
	cmd := cli.Group(&cobra.Command{
		Use: "schedule", Short: "Launch tasks at instants", Aliases: []string{"schedules"},
		Long: `Launch tasks at instants. A specification has five fields, minute hour
day-of-month month day-of-week, or six with seconds first; or it is @daily,
@every 90s and the like. In it, ? is any value, chosen by the schedule's UUID, so
that schedules of many teams do not all run at the same minute. It does NOT mean
* as it does elsewhere. L is the last day of a month, LW its last workday, 15W the
workday nearest to the 15th, FRI#2 its second Friday and FRI#L the last one. Where a
day field begins with *, both must match, else either. docs/reference/schedule-syntax.md has all of it.`,
		Example: "  norn schedule set nightly --cron '30 2 * * *' --tz America/New_York -q reports\n  norn schedule apply -f schedules.yaml --dry-run\n  crontab -l | norn schedule import - --tz Europe/Berlin --dry-run\n  norn schedule history nightly",
	})
	cmd.AddCommand(s.apply(), s.set(), s.crontab(), s.list(), s.get(), s.next(), s.history(), s.trigger(), s.pause(), s.resume(), s.deletion(), s.backfill())
	return cmd
}

// about checks the name of a schedule and dials.
func (s commands) about(ctx context.Context, name string, do func(*client.Client) error) error {
	if err := checkSchedule(name); err != nil {
		return err
	}
	return s.With(ctx, do)
}

func checkSchedule(name string) error {
	if proto.CheckQueue(name) != nil {
		return cli.Usage("schedule: %q is not a name: [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}", name)
	}
	return nil
}

// complete offers the names of schedules.
func (s commands) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || s.Prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompletionTime)
	defer cancel()
	var names []string
	_ = s.With(ctx, func(c *client.Client) error { // names are a help, nothing depends on them
		for found, err := range c.Schedules().List(ctx) {
			if err != nil {
				return err
			}
			names = append(names, found.GetName())
		}
		return nil
	})
	return cli.LastOf(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// one completes a command about one schedule, which it shows in the end.
func (s commands) one(cmd *cobra.Command, do func(context.Context, *client.Client, string) (*nornv1.Schedule, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), s.complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.about(cmd.Context(), args[0], func(c *client.Client) error {
			found, err := do(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return s.Writer().Object(jsonform.Of(found), func(w io.Writer) { scheduleSheet(w, found) })
		})
	}
	return cmd
}

func (s commands) get() *cobra.Command {
	return s.one(&cobra.Command{
		Use: "get NAME", Short: "Show a schedule with its last launches", Aliases: []string{"show"},
		Example: "  norn schedule get nightly\n  norn schedule get nightly -o json | jq '{last, next, overdue_seconds}'",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Schedule, error) {
		return c.Schedules().Get(ctx, name)
	})
}

func (s commands) pause() *cobra.Command {
	var note string
	cmd := s.one(&cobra.Command{
		Use: "pause NAME", Short: "Launch nothing until it is resumed",
		Long:    "Launch nothing until it is resumed. What comes due meanwhile is skipped; what runs\ngoes on.",
		Example: "  norn schedule pause nightly --note 'the warehouse moves, see incident 12'",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Schedule, error) {
		return c.Schedules().Pause(ctx, name, note)
	})
	cmd.Flags().StringVar(&note, "note", "", "why, for other people; without it the note stays that there is")
	return cmd
}

func (s commands) resume() *cobra.Command {
	var reset bool
	cmd := s.one(&cobra.Command{
		Use: "resume NAME", Short: "End the pause of a schedule",
		Long: `End the pause of a schedule, and take the note away. What came due meanwhile is
skipped; ` + "`norn schedule backfill`" + ` launches it.

A schedule that "waits for the clock" was launched while the clock was ahead. With
--reset it launches from now on, also instants that may have had their launch then.`,
		Example: "  norn schedule resume nightly",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Schedule, error) {
		if reset {
			return c.Schedules().Reset(ctx, name)
		}
		return c.Schedules().Resume(ctx, name)
	})
	cmd.Flags().BoolVar(&reset, "reset", false, "do not wait for the clock: it was ahead, and is right now")
	return cmd
}

func (s commands) deletion() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME…", Short: "Forget schedules and their histories", Aliases: []string{"rm"}, Args: cobra.MinimumNArgs(1), ValidArgsFunction: s.complete,
		Long: `Forget schedules and their histories, and list those that were deleted. Tasks that
were launched stay. What is refused is told on standard error, and the others are
deleted all the same; the exit code is the highest that any of them asks for.`,
		Example: "  norn schedule delete nightly",
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if err := checkSchedule(name); err != nil {
					return err
				}
			}
			return s.With(cmd.Context(), func(c *client.Client) error { return s.deleteAll(cmd.Context(), c, args) })
		},
	}
}

// deleteAll deletes schedules and lists those that it has deleted. Without a server
// that can do it, it does not ask for the others.
func (s commands) deleteAll(ctx context.Context, c *client.Client, names []string) error {
	list := render.NewList(s.Writer(), func(name string) jsonform.Value {
		return jsonform.Object(jsonform.Field{Name: "name", Value: jsonform.String(name)})
	}, render.Column[string]{Head: "deleted", Cell: func(name string) string { return name }})
	worst := 0
	for _, name := range names {
		err := c.Schedules().Delete(ctx, name)
		if err == nil {
			list.Add(name)
			continue
		}
		if !errors.Is(err, client.ErrNotFound) { // which names it
			err = fmt.Errorf("schedule %s: %w", name, err)
		}
		s.Complain(cli.Message(err))
		worst = max(worst, cli.ExitCode(err))
		if ctx.Err() != nil || cli.ExitCode(err) == cli.ExitUnavailable {
			break
		}
	}
	err := list.Close()
	if err == nil && worst > 0 {
		err = cli.Reported{Code: worst}
	}
	return err
}

func (s commands) trigger() *cobra.Command {
	return &cobra.Command{
		Use: "trigger NAME", Short: "Launch a task now", Args: cobra.ExactArgs(1), ValidArgsFunction: s.complete,
		Long:    "Launch a task of a schedule now, whatever its policies say, and print its ID. The\ninstants of the schedule stay as they are.",
		Example: "  norn task wait $(norn schedule trigger nightly)",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.about(cmd.Context(), args[0], func(c *client.Client) error {
				res, err := c.Schedules().Trigger(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return s.printTasks(res.GetTaskIds())
			})
		},
	}
}

func (s commands) backfill() *cobra.Command {
	var from, to string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "backfill NAME --from TIME --to TIME", Short: "Launch a task for each instant of the past", Args: cobra.ExactArgs(1), ValidArgsFunction: s.complete,
		Long: `Launch a task for each instant of a schedule from one time up to another, not
included, whatever its policies say, and print their IDs: at most 1,000, none of
them in the future, which the schedule launches by itself. Each task has its instant
in the header norn-instant. Times are RFC 3339, or local ones of the schedule's
zone. With --dry-run, -o json prints {instants}, how many there are.`,
		Example: "  norn schedule backfill nightly --from 2026-06-01 --to 2026-07-01 --dry-run\n  norn schedule backfill hourly --from 2026-06-01T00:00:00Z --to 2026-06-01T06:00:00Z",
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "first `time`")
	f.StringVar(&to, "to", "", "first `time` that no longer counts")
	f.BoolVar(&dryRun, "dry-run", false, "say how many there are, and launch nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from == "" || to == "" {
			return cli.Usage("--from and --to are needed, such as --from 2026-06-01 --to 2026-07-01")
		}
		return s.about(cmd.Context(), args[0], func(c *client.Client) error {
			found, err := c.Schedules().Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, table, err := timetableOf(upcomingOf(found))
			if err != nil {
				return err
			}
			first, last, err := span(from, to, table.Zone().Location())
			if err != nil {
				return err
			}
			if ahead, ok := table.Next(max(first.UnixNano()-1, time.Now().UnixNano())); ok && ahead < last.UnixNano() {
				return cli.Usage("--to: the instant %s is in the future, and the schedule launches it by itself", table.Describe(ahead).Time().Format(time.RFC3339))
			}
			res, err := c.Schedules().Backfill(cmd.Context(), args[0], first, last, dryRun)
			if err != nil {
				return err
			}
			if dryRun {
				if s.Format == render.Table {
					s.Note("%d instants; nothing is launched", len(res.GetTaskIds()))
					return nil
				}
				n := jsonform.Field{Name: "instants", Value: jsonform.Number(float64(len(res.GetTaskIds())))}
				return s.Writer().Object(jsonform.Object(n), nil)
			}
			return s.printTasks(res.GetTaskIds())
		})
	}
	return cmd
}
