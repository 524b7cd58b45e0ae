package backups

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/internal/objects"
)

// sealed decrypts the snapshot of the register of an encrypted backup of tasks into a directory
// of its own, has it used, and deletes that. The notes by which no two lives of a cluster
// have the same generation go there and come back.
func (b commands) sealed(cmd *cobra.Command, address string, keys *job.Keys, do func(from string) error) error {
	place, name := job.Split(address)
	return b.withBackup(cmd, place, name, func(from source) error {
		ctx := cmd.Context()
		if !strings.HasSuffix(from.m.Snapshot, job.SealedEnd) {
			return b.usage("backup %s is not encrypted: restore it without --key-file", from.m.Name)
		}
		data, err := from.Get(ctx, from.m.Snapshot)
		if err == nil {
			data, err = keys.Open(data)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", from.m.Snapshot, err)
		}
		dir, err := os.MkdirTemp("", "norn-restore-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // what is left there is decrypted, and says so by its name
		plain := strings.TrimSuffix(from.m.Snapshot, job.SealedEnd)
		if err := os.WriteFile(filepath.Join(dir, plain), data, 0o600); err != nil {
			return err
		}
		notes, err := from.List(ctx, "norn-"+from.m.Cluster+"-g")
		if err != nil {
			return err
		}
		for _, o := range notes {
			if !strings.HasSuffix(o.Name, restoredEnd) {
				continue
			}
			note, err := from.Get(ctx, o.Name)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, o.Name), note, 0o600)
			}
			if err != nil {
				return err
			}
		}
		if err := do(filepath.Join(dir, plain)); err != nil {
			return err
		}
		return b.noteBack(cmd, from, dir)
	})
}

// restoredEnd ends the names of notes that a generation was begun.
const restoredEnd = ".restored"

// noteBack leaves the note of the generation in the place of the backup.
func (b commands) noteBack(cmd *cobra.Command, from source, dir string) error {
	made, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range made {
		if !strings.HasSuffix(e.Name(), restoredEnd) {
			continue
		}
		note, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		err = from.Create(cmd.Context(), e.Name(), note)
		if errors.Is(err, objects.ErrExists) {
			if there, bad := from.Get(cmd.Context(), e.Name()); bad == nil && string(there) == string(note) {
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("the note that this generation has begun could not be left beside the backup: %w; delete the data directory that was made, and restore again", err)
		}
	}
	return nil
}
