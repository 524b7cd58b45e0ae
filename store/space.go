package store

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Volume gives how many bytes the volume of a directory has, and how many of them
// this process may still write.
func Volume(dir string) (free, total uint64, err error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("store: free space of %s: %w", dir, err)
	}
	return usage.AvailBytes, usage.TotalBytes, nil
}
