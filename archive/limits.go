package archive

import "errors"

// Limits. A reader refuses what is over them, so that a damaged or hostile file
// costs it no more than a few records of memory; a writer refuses the same, so
// that it writes nothing that cannot be read.
const (
	// MaxTasks bounds the tasks of one file: reading back failed, or a crash,
	// costs one file's work, and the caller holds all of them in memory.
	MaxTasks = 100_000
	// MaxRecord bounds one task in bytes. The largest that a server takes has a
	// payload and a result of 16 MiB each (proto.MaxPayloadCeiling), 4 MiB of
	// updates and its dependencies; this is room beyond that.
	MaxRecord = 64 << 20
	// MaxFields bounds the top-level fields of one record, of which each claim
	// and each update is one: an empty claim is two bytes in a file and hundreds
	// in memory, so a limit in bytes alone would bound nothing.
	MaxFields = 1 << 18
	// MaxBytes bounds the uncompressed bytes of one file: zstd can make a
	// gigabyte of a few kilobytes, and somebody has to wait for it.
	MaxBytes = 1 << 30

	// window is the zstd window of what is written: tasks are small and alike,
	// and archiving runs beside a server, so a few megabytes must do.
	window = 1 << 20
	// maxWindow is what a reader grants: RFC 8878 asks every decoder for 8 MiB.
	maxWindow = 8 << 20
	// maxManifest bounds a manifest: it has 14 members, the longest a node name.
	maxManifest = 64 << 10
)

var (
	// ErrInvalid is returned when a call cannot be carried out as it is: options
	// that name no cluster or node, no tasks or too many, a task that is not
	// finished.
	ErrInvalid = errors.New("archive: invalid")
	// ErrTooLarge is returned when a task, or all tasks of one Write together,
	// are over a limit; the message names the task.
	ErrTooLarge = errors.New("archive: too large")
	// ErrDamaged is returned when an archive does not hold what its manifest
	// says, or the manifest says what cannot be.
	ErrDamaged = errors.New("archive: damaged")
	// ErrVersion is returned when a manifest is of a format that this build does
	// not know.
	ErrVersion = errors.New("archive: written by a newer version")
)
