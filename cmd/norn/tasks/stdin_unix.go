//go:build unix

package tasks

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pipePatience is how long a pipe is waited for: who writes into it was started at the
// same time as this program.
const pipePatience = 50 * time.Millisecond

// readable tells whether a pipe or socket has bytes, or gets some soon.
func readable(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	for end := time.Now().Add(pipePatience); ; {
		_, err := unix.Poll(fds, int(max(0, time.Until(end)).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && fds[0].Revents&unix.POLLIN != 0
		}
	}
}
