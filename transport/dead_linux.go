package transport

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// endDead has a connection end when what was sent on it is not acknowledged for so long:
// keep-alive sends nothing while a byte is on its way, and the system alone would go on for
// a quarter of an hour.
func endDead(tcp *net.TCPConn, after time.Duration) {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // it is gone
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(after.Milliseconds()))
	})
}
