//go:build !linux

package storage

import "github.com/norn-dev/norn/jepsen/lab/machine"

// Fuse is of Linux.
func Fuse() error { return machine.Unable("needs Linux") }

// MountRot is of Linux.
func MountRot(string, string, *Mood) error { return machine.Unable("needs Linux") }
