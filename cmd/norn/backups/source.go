package backups

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/internal/objects"
)

// source is a backup of tasks and where it is.
type source struct {
	objects.Store
	m *backup.Manifest
}

// withBackup finds the backup of a name in a place, or the newest one.
func (b commands) withBackup(cmd *cobra.Command, place, name string, do func(source) error) error {
	return b.withBackupAsOf(cmd, place, name, time.Time{}, do)
}

// withBackupAsOf is withBackup among those that began no later than a time.
func (b commands) withBackupAsOf(cmd *cobra.Command, place, name string, asOf time.Time, do func(source) error) error {
	from, err := b.open(place)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // what was read counts
	if err := b.Existing(place); err != nil {
		return err
	}
	m, err := job.FindAsOf(cmd.Context(), from, name, asOf)
	if err != nil {
		return b.missing(err, name)
	}
	return do(source{from, m})
}
