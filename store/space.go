package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FreeBytes is the number of bytes that this process may still write on the
// disk of a directory.
func FreeBytes(dir string) (uint64, error) {
	free, _, err := Volume(dir)
	return free, err
}

// Volume gives how many bytes the volume of a directory has, and how many of them
// this process may still write.
func Volume(dir string) (free, total uint64, err error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("store: free space of %s: %w", dir, err)
	}
	return usage.AvailBytes, usage.TotalBytes, nil
}
