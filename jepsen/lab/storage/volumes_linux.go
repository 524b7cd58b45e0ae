package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Of ext4's ioctl to shut a file system down: what was not synced is lost, as
// when the power fails (fs/ext4/ioctl.c).
const (
	shutdownFS = 0x8004587d
	noLogFlush = 2
)

// PowerOff shuts a file system down without flushing anything.
func PowerOff(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.IoctlSetPointerInt(int(d.Fd()), shutdownFS, noLogFlush), d.Close())
}

// Fill makes a file that leaves so many bytes free.
func Fill(dir, file string, left int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	size := int64(s.Bavail)*s.Bsize - left
	err = unix.Fallocate(int(f.Fd()), 0, 0, max(size, 1))
	if errors.Is(err, unix.ENOSPC) {
		err = nil // others write too: it is full
	}
	return errors.Join(err, f.Close())
}
