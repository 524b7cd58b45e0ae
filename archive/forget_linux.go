package archive

import (
	"os"

	"golang.org/x/sys/unix"
)

// forget asks the kernel to drop its copy of a file that was fsynced, so that
// reading it back reads the disk. It is advice: nothing depends on it.
func forget(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
