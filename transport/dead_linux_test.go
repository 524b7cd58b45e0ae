package transport

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestADeadPeerEndsTheConnection: what an accepted socket has sent may be unacknowledged for
// half a minute, not for a quarter of an hour.
func TestADeadPeerEndsTheConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	KeepAlive(nc)
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if e := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	if time.Duration(got)*time.Millisecond != unheardFor {
		t.Errorf("unacknowledged bytes may wait %d ms, want %s", got, unheardFor)
	}
}
