//go:build unix && !solaris && !aix

package command

import (
	"os"
	"syscall"
)

// occupy keeps a directory from being swept until it is called back, or the process
// has ended: it holds a lock on it, which commands do not inherit.
func occupy(dir string) (leave func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // nobody else knows it yet
	return func() { _ = f.Close() }
}

// abandoned tells whether nobody occupies a directory.
func abandoned(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false // another user's, perhaps
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
