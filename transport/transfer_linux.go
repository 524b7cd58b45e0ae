//go:build linux && !race

package transport

import (
	"syscall"
	"unsafe"
)

// transfer reads from or writes to a socket that does not block, and tells how many bytes.
//
// Go's scheduler does not hear of the call. One that it hears of wakes the runtime's monitor
// thread whenever the process was idle before, and that thread then looks every 20 µs until
// the process is idle again. A frame at a time, that costs more than the frame
// (docs/archive/performance.md). This is safe because the call takes no longer than copying
// b: the monitor is there for calls that block. Until it wakes, which the next timer or any
// other system call has it do, nobody interrupts a goroutine that computes.
func transfer(call, fd uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
