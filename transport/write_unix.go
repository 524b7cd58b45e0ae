//go:build unix && !linux

package transport

import (
	"errors"
	"syscall"
)

// writeNow writes to a socket that does not block, and tells how much it took;
// an error comes again when the rest is written.
func writeNow(fd uintptr, b []byte) int {
	for {
		n, err := syscall.Write(int(fd), b)
		if !errors.Is(err, syscall.EINTR) {
			return max(0, n)
		}
	}
}
