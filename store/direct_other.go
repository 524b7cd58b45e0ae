//go:build !linux

package store

import "github.com/cockroachdb/pebble/v2/vfs"

// setDirect turns direct writes of a file on or off, and tells whether it could.
func setDirect(vfs.File, bool) bool { return false }
