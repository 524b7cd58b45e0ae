package main

import "github.com/spf13/cobra"

// scheduleCommands are about schedules.
type scheduleCommands struct{ *app }

func (s scheduleCommands) commands() *cobra.Command {
	cmd := group(&cobra.Command{
		Use: "schedule", Short: "Show when schedules are due", Aliases: []string{"schedules"},
		Long: `Show when schedules are due. A specification has five fields, minute hour
day-of-month month day-of-week, or six with seconds first; or it is @daily,
@every 90s and the like. In it, ? is any value, chosen by the schedule's UUID, so
that schedules of many teams do not all run at the same minute. It does NOT mean
* as it does elsewhere. docs/schedules.md has all of it.`,
		Example: "  norn schedule next --cron '30 2 * * *' --tz America/New_York",
	})
	cmd.AddCommand(s.next())
	return cmd
}
