package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/internal/objects"
)

// Host is what the commands need of the program that they are part of.
type Host struct {
	// With calls with a client of the addresses that were given.
	With func(context.Context, func(*client.Client) error) error
	// Writer writes what was asked for, Note tells people more on standard error.
	Writer func() *render.Writer
	ErrOut io.Writer
	Note   func(format string, args ...any)
	// Progress shows how far something is; nil where there is nobody to see it.
	Progress func(what string) *render.Progress
	// Timeout is for one call.
	Timeout *time.Duration
	// Version is that of the program.
	Version string
	// Group completes a command that has others, Usage makes the error of a wrong command
	// line, of what is wrong with it, and Missing tells that something is not there.
	Group   func(*cobra.Command) *cobra.Command
	Usage   func(error) error
	Missing func(text string) error
	// Existing checks a place that is to be read, Exit ends the program when a disk fails.
	Existing func(place string) error
	Exit     func(error)
}

// commands are those of norn backup.
type commands struct{ Host }

// Commands gives norn backup.
func Commands(h Host) *cobra.Command {
	b := commands{h}
	cmd := b.Group(&cobra.Command{
		Use: "backup", Short: "Backups of tasks, and snapshots of settings, schedules and members",
		Long: `Make backups, look into them, and restore them. A snapshot has the register: settings
of queues, schedules, members. A backup of tasks (--tasks) has the tasks of a running
cluster too, with all that happened to them. Servers write snapshots by themselves
with --snapshot-to.

A place is a directory, or s3://BUCKET/PREFIX[?endpoint=URL&region=NAME].`,
		Example: "  norn backup create --tasks /mnt/backup/norn\n  norn backup inspect s3://backups/norn",
	})
	cmd.AddCommand(b.create(), b.verify(), b.inspect(), b.restore(), b.drill(), b.keygen())
	return cmd
}

func (b commands) usage(format string, args ...any) error {
	return b.Usage(fmt.Errorf(format, args...))
}

// open opens a place.
func (b commands) open(place string) (objects.Store, error) {
	s, err := objects.Open(place)
	if err != nil {
		return nil, b.Usage(err)
	}
	return s, nil
}

// missing says that a place does not have what was named.
func (b commands) missing(err error, name string) error {
	if name != "" && errors.Is(err, objects.ErrNotFound) {
		return b.Missing("there is no backup " + name + " in that place; norn backup inspect --tasks lists those that there are")
	}
	return err
}
