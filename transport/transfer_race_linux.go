//go:build race

package transport

import (
	"errors"
	"syscall"
)

// transfer is the other one with calls that the race detector knows: what is done before a
// write happens before what follows the read.
func transfer(call, fd uintptr, b []byte) (int, error) {
	use := syscall.Read
	if call == syscall.SYS_WRITE {
		use = syscall.Write
	}
	for {
		n, err := use(int(fd), b)
		if !errors.Is(err, syscall.EINTR) {
			return max(0, n), err
		}
	}
}
