package store

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// background is the nice value of the threads that flush and compact.
const background = 10

// yieldThread lets the calling goroutine run after others where processors are
// short, until it ends: answers wait for what it takes from them, nobody waits
// for it. The goroutine keeps its thread, and the thread ends with it, because
// only a privileged process may raise a priority again.
func yieldThread() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), background) // where it is not allowed, all are equal
}
