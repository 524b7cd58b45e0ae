package schedules

import (
	"errors"
	"os/user"
	"slices"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/terms"
	"github.com/norn-dev/norn/proto"
)

const importHelp = `Make schedules of the lines of a crontab, and print what has changed; the same file
again changes nothing. A task has the command of its line as a script, so a worker is

  norn work -q cron -- sh

Times mean what they mean in cron(5), in the zone of CRON_TZ=, of a zone behind the
times (0 9 * * * Europe/Berlin command) or of --tz. What follows % is the input of a
command. Variables are set for the commands after them, RANDOM_DELAY is jitter, MAILTO
and @reboot are left out and named. In files of the system (/etc/crontab, /etc/cron.d,
or with a line of root) the sixth word is the user, which is in the header crontab-user
of the tasks: they run as the user of the worker. --user-field says so for others.

A task is tried once, as in cron, unless --max-attempts says more. The name of a
schedule is made of its command: new times change it, and a new command is a new
schedule. With --owner and --prune the schedule of a line that has gone is deleted.
All lines are checked before anything is changed.`

// onLines are the flags of `norn schedule set` that are about all lines of a crontab.
func onLines() []string {
	return []string{"priority", "max-attempts", "retry-initial", "retry-max", "overlap", "catch-up", "catch-up-window", "deadline", "history", "pause-on-failure", "paused"}
}

func (s commands) crontab() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import CRONTAB", Short: "Make schedules of the lines of a crontab", Args: cobra.ExactArgs(1), Long: importHelp,
		Example: "  crontab -l | norn schedule import - --tz Europe/Berlin --dry-run\n  norn schedule import /etc/crontab -q cron --owner host-1 --prune",
	}
	c := terms.Crontab{IsUser: func(name string) bool {
		_, err := user.Lookup(name)
		return err == nil
	}}
	var o applyOptions
	f := cmd.Flags()
	f.StringVarP(&c.Queue, "queue", "q", "cron", "`queue` of the tasks")
	f.StringVar(&c.Prefix, "prefix", "cron/", "what the `names` of the schedules begin with")
	f.StringVar(&c.Zone, "tz", "", "time `zone` of lines without one (UTC)")
	users := f.Bool("user-field", false, "the sixth word of a line is its user (found out unless said)")
	o.flags(f)
	var fields []terms.ScheduleField
	for _, x := range terms.ScheduleFields() {
		switch {
		case !slices.Contains(onLines(), x.Name):
			continue
		case x.Bool:
			f.VarPF(new(yes), x.Name, "", x.Help).NoOptDefVal = "true"
		case x.Name == "max-attempts":
			f.String(x.Name, "1", "`attempts` before a task is dead")
		default:
			f.String(x.Name, "", x.Help)
		}
		fields = append(fields, x)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(cmd); err != nil {
			return err
		}
		if proto.CheckQueue(c.Prefix+"a") != nil {
			return cli.Usage("--prefix: %q cannot begin a name: [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}", c.Prefix)
		}
		if f.Changed("user-field") {
			c.Users = users
		}
		b, err := s.content(cmd.Context(), "", args[0])
		if err != nil {
			return err
		}
		all, err := c.Read(args[0], b)
		for _, n := range c.Notes {
			s.Note("%s", n)
		}
		if err != nil {
			return cli.UsageError{Err: err}
		}
		for i := range all {
			for _, x := range fields {
				if flag := f.Lookup(x.Name); flag.Changed || x.Name == "max-attempts" {
					if err := x.Set(all[i].Spec, flag.Value.String()); err != nil {
						return cli.Usage("--%w", err)
					}
				}
			}
			all[i].Paused = f.Changed("paused")
			terms.TidySchedule(all[i].Spec)
		}
		if err := errors.Join(specProblems(args[0], all)...); err != nil {
			return cli.UsageError{Err: err}
		}
		return s.applyAll(cmd.Context(), all, o)
	}
	return cmd
}
