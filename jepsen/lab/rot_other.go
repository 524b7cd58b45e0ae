//go:build !linux

package lab

// fuse is of Linux.
func fuse() error { return notRun("needs Linux") }

// mountRot is of Linux.
func mountRot(string, string, *mood) error { return notRun("needs Linux") }
