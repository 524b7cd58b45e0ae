//go:build !linux

package storage

import "github.com/norn-dev/norn/jepsen/lab/machine"

// PowerOff is of Linux.
func PowerOff(string) error { return machine.Unable("needs Linux") }

// Fill is of Linux.
func Fill(string, string, int64) error { return machine.Unable("needs Linux") }
