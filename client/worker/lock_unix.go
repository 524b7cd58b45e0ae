//go:build unix && !solaris && !aix

package worker

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockExclusive locks a file until it is closed, by this process or its end.
func lockExclusive(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return fmt.Errorf("worker: lock file: %w", err)
	}
	return nil
}
