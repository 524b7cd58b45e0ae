package network

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// stranger is nobody among the ends of links.
const stranger = -2

// owners says why the owner of a connection cannot be found; nil when it can.
func owners() error {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		return machine.Unable("needs /proc/net/tcp to tell whose a connection is")
	}
	return nil
}

// who finds the node that has dialled: the system knows which process has the
// other end of a loopback connection.
func (x *proxied) who(c net.Conn) int {
	far, ok := c.RemoteAddr().(*net.TCPAddr)
	near, good := c.LocalAddr().(*net.TCPAddr)
	if !ok || !good {
		return stranger
	}
	inode := inodeOf(far, near)
	if inode == "" {
		return stranger
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for pid, node := range x.pids { // Any order: a connection has one owner.
		if has(pid, "socket:["+inode+"]") {
			return node
		}
	}
	return stranger
}

// inodeOf finds the socket that is bound to one address and connected to
// another, in the form of proc(5).
func inodeOf(local, remote *net.TCPAddr) string {
	all, err := os.ReadFile("/proc/net/tcp") // thousands of lines, most of them of connections that are over
	if err != nil {
		return ""
	}
	_, line, found := bytes.Cut(all, []byte(": "+procForm(local)+" "+procForm(remote)+" "))
	if !found {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if fields := bytes.Fields(line); len(fields) > 6 {
		return string(fields[6])
	}
	return ""
}

// procForm is an IPv4 address as /proc/net/tcp has it: the bytes of the address
// as a number of the machine's own order.
func procForm(a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return ""
	}
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip), a.Port)
}

// has tells whether a process has a file open.
func has(pid int, target string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	all, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, f := range all {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && to == target {
			return true
		}
	}
	return false
}
