package command

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A look that finds a command of our own first, whose status is about to be taken, is
// repeated soon; and now and then there is one without a signal, as signals are not counted.
const (
	reapAgain = 20 * time.Millisecond
	reapEvery = 5 * time.Second
)

func (r *Reaper) run(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		next := reapEvery
		if !r.reap() {
			next = reapAgain
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-ended:
			t.Stop()
		case <-t.C:
		}
	}
}

// reap takes note of all that have ended. It is false when one of our own stands before
// others: who waits for that one takes its status.
func (r *Reaper) reap() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		pid := endedChild()
		switch {
		case pid <= 0:
			return true
		case r.own[pid]:
			return false
		}
		if _, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err != nil {
			return true
		}
	}
}

// endedChild is the number of a child that has ended, and leaves its status where it is; 0:
// there is none.
func endedChild() int {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil || info.Signo == 0 {
		return 0
	}
	// siginfo_t has three numbers, then a union that begins with the pid, aligned as pointers are.
	at := (3*4 + unsafe.Sizeof(uintptr(0)) - 1) / unsafe.Sizeof(uintptr(0)) * unsafe.Sizeof(uintptr(0))
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at)))
}
