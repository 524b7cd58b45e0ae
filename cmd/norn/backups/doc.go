// Package backups is the command norn backup: snapshots of the register, and backups of
// tasks (package backup/job).
package backups
