// Package taskfile is norn task export and norn task import: tasks as lines of JSON, for
// people and other systems. What survives a cluster whole is a backup (package backup/job).
package taskfile
