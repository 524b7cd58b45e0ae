//go:build !unix || solaris || aix

package worker

import (
	"errors"
	"os"
)

// lockExclusive: here no lock is known that ends with its process.
func lockExclusive(*os.File) error {
	return errors.New("worker: lock files are not supported on this system")
}
