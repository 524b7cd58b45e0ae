//go:build !linux

package lab

// powerOff is of Linux.
func powerOff(string) error { return notRun("needs Linux") }

// fill is of Linux.
func fill(string, string, int64) error { return notRun("needs Linux") }
