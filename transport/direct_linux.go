package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// writeNow writes to a socket that does not block, and tells how much it took;
// an error comes again when the rest is written.
func writeNow(fd uintptr, b []byte) int {
	n, _ := transfer(syscall.SYS_WRITE, fd, b)
	return n
}

// inputOf is what frames of a connection are read from: its socket, unless something around the
// socket may hold what was read from it before, as that of a connection through a proxy does.
func inputOf(nc net.Conn) io.Reader {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return nc
	}
	raw := socketOf(nc)
	if raw == nil {
		return nc
	}
	d := &directReader{nc: nc, raw: raw}
	d.try = d.read
	return d
}

// directReader reads from a socket as its connection does, with calls of [transfer].
type directReader struct {
	nc  net.Conn
	raw syscall.RawConn
	try func(fd uintptr) bool // read, bound once: reading allocates nothing

	// Of the read under way.
	b   []byte
	n   int
	err error
}

// Read blocks until something has come, the deadline for reads has passed, or the connection
// has ended.
func (d *directReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	d.b = b
	err := d.raw.Read(d.try)
	n, failed := d.n, d.err
	d.b, d.n, d.err = nil, 0, nil
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		at := d.nc.RemoteAddr()
		return 0, &net.OpError{Op: "read", Net: at.Network(), Source: d.nc.LocalAddr(), Addr: at, Err: os.NewSyscallError("read", failed)}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// read tells whether the socket had something to say.
func (d *directReader) read(fd uintptr) bool {
	d.n, d.err = transfer(syscall.SYS_READ, fd, d.b)
	return !errors.Is(d.err, syscall.EAGAIN)
}
