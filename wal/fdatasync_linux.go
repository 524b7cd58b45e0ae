package wal

import (
	"os"

	"golang.org/x/sys/unix"
)

// fdatasync is a sync of what a read needs.
func fdatasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
