package bench

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm sleeps to within some 50 µs. The runtime's timers are rounded to a
// millisecond while nothing else happens, which is as long as what is measured;
// a timer of the kernel's wakes it in time.
type alarm struct {
	fd   int
	file *os.File // owns fd
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	return &alarm{fd, os.NewFile(uintptr(fd), "timer")}, nil
}

// sleep returns after d, which is over 0.
func (a *alarm) sleep(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	err := unix.TimerfdSettime(a.fd, 0, &spec, nil)
	if err == nil {
		_, err = a.file.Read(make([]byte, 8))
	}
	if err != nil {
		time.Sleep(d)
	}
}

func (a *alarm) stop() { _ = a.file.Close() }
