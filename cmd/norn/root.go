package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/cmd/norn/access"
	"github.com/norn-dev/norn/cmd/norn/backups"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/debug"
	"github.com/norn-dev/norn/cmd/norn/health"
	"github.com/norn-dev/norn/cmd/norn/outboxes"
	"github.com/norn-dev/norn/cmd/norn/schedules"
	"github.com/norn-dev/norn/cmd/norn/tasks"
	"github.com/norn-dev/norn/cmd/norn/top"
)

// app is the program with all of its commands.
type app struct{ *cli.App }

// run runs one command and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int { return a.Run(ctx, a.root(), args) }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "norn",
		Short: "A distributed task queue",
		Long: `Norn is a distributed task queue: many machines accept work, many machines do
it, and no single one of them matters.

Exit codes: 0 ok, 1 failed, 2 usage (64 of norn server), 3 not found, 4 unavailable
(no quorum, no leader, no server), 5 conflict (already exists, claim lost, not in
this state), 6 overloaded.

Every global flag is also an environment variable: NORN_ADDR, NORN_OUTPUT,
NORN_TIMEOUT, NORN_AUTH_TOKEN_FILE, NORN_TLS_CA, …`,
		Example: `  norn server
  norn task enqueue -q mail 'hello'
  norn work -q mail -- sh -c 'cat; sleep 1'`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) {
				return nil // the command line to be completed is not read yet
			}
			return a.Prepare(cmd)
		},
	}
	cli.Group(root)
	a.Flags(root)
	root.AddCommand(a.server(), devCommand{a}.command(), tasks.Commands(a.App), queueCommands{a}.commands(), archiveCommands{a}.commands(), schedules.Commands(a.App), workCommand{a}.command(), workerCommands{a}.commands(), clusterCommands{a}.commands(), access.Commands(access.Host{With: a.With, Dial: a.DialNodes, Writer: a.Writer, Out: a.Out, Note: a.Note, Timeout: &a.Timeout, Group: cli.Group, Usage: cli.Usage, Denied: cli.Reported{Code: cli.ExitFailed}}), top.Command(a.topHost()), backupCommands(a), outboxes.Commands(a.App), debug.Commands(debug.Host{Writer: a.Writer, Group: cli.Group, Usage: cli.Usage}), a.bench(), a.demo(), health.Command(health.Host{Out: a.Out, Environ: a.Environ, Timeout: &a.Timeout}), a.versionCommand())
	cli.FlagErrors(root)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	cli.AddExamples(root)
	cli.AddUsage(root)
	queueCommands{a}.completions(root)
	return root
}

func backupCommands(a *app) *cobra.Command {
	return backups.Commands(backups.Host{
		With: a.With, Writer: a.Writer, ErrOut: a.ErrOut, Note: a.Note, Progress: a.Progress, Timeout: &a.Timeout, Version: version, Group: cli.Group,
		Usage: func(err error) error { return cli.UsageError{Err: err} }, Existing: existing,
		Missing: func(text string) error {
			a.Complain(text)
			return cli.Reported{Code: cli.ExitNotFound}
		},
		Exit: func(err error) {
			fmt.Fprintln(a.ErrOut, "norn:", err)
			os.Exit(cli.ExitFailed)
		},
	})
}

// topHost is what live views need.
func (a *app) topHost() top.Host {
	return top.Host{With: a.With, Writer: a.Writer, In: a.In, Out: a.Out, Timeout: &a.Timeout, Usage: cli.Usage}
}
