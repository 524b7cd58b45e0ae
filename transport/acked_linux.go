package transport

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// acknowledged is how many bytes of a TCP connection the other side has acknowledged, and how
// many it has not that were given to the system; 0, 0: that is not known.
func acknowledged(nc net.Conn) (acked, left int64) {
	s, ok := nc.(syscall.Conn)
	if !ok {
		return 0, 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, 0
	}
	_ = raw.Control(func(fd uintptr) { // an error means that the connection is gone
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		acked = int64(info.Bytes_acked)
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			left = int64(n)
		}
	})
	return acked, left
}
