//go:build !linux

package store

// yieldThread does nothing: priorities are of processes here.
func yieldThread() {}
