package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FreeBytes is the number of bytes that this process may still write on the
// disk of a directory.
func FreeBytes(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		return 0, fmt.Errorf("store: free space of %s: %w", dir, err)
	}
	return usage.AvailBytes, nil
}
