//go:build !linux

package transport

import (
	"io"
	"net"
)

// inputOf is what frames of a connection are read from.
func inputOf(nc net.Conn) io.Reader { return nc }
