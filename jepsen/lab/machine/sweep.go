package machine

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ownerOf reads the process out of a name that begins with prefix.
func ownerOf(name, prefix string) (int, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	pid, err := strconv.Atoi(rest[:end])
	return pid, err == nil && pid > 0
}

// alive tells whether a process exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// Sweep removes what runs have left whose process has ended: processes in their
// namespaces, the namespaces, links, mounts and directories.
func Sweep() error {
	var all []error
	spaces, err := os.ReadDir(NetnsDir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	gone := map[string]bool{}
	for _, s := range spaces {
		pid, ok := ownerOf(s.Name(), Prefix)
		if !ok || alive(pid) {
			continue
		}
		gone[fmt.Sprintf("%s%d", Prefix, pid)] = true
		all = append(all, endAll(s.Name()))
	}
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, l := range links {
		if pid, ok := ownerOf(l.Name, Prefix); ok && !alive(pid) {
			gone[fmt.Sprintf("%s%d", Prefix, pid)] = true
		}
	}
	for name := range gone { // Any order: each is removed.
		all = append(all, RemoveNetwork(name))
	}
	return errors.Join(append(all, sweepMounts(), sweepDirs())...)
}

// endAll kills the processes in a namespace that nobody owns any more.
func endAll(space string) error {
	out, err := Command("ip", "netns", "pids", space)
	if err != nil {
		return err
	}
	for _, field := range strings.Fields(out) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	return nil
}

// dirPrefix begins the names of the directories of runs.
const dirPrefix = "norn-lab-"

// MakeDir makes the directory of this run.
func MakeDir(parent string) (string, error) {
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
}

// sweepMounts unmounts what is mounted below directories of ended runs.
func sweepMounts() error {
	var all []error
	for _, at := range Mounts() {
		for _, part := range strings.Split(at, string(filepath.Separator)) {
			if pid, ok := ownerOf(part, dirPrefix); ok && !alive(pid) {
				_, err := Command("umount", "-l", at)
				all = append(all, err)
				break
			}
		}
	}
	return errors.Join(all...)
}

// Mounts lists where something is mounted, the innermost first.
func Mounts() (at []string) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 {
			at = append([]string{fields[1]}, at...)
		}
	}
	return at
}

// sweepDirs removes the directories of ended runs in the default place.
func sweepDirs() error {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return err
	}
	var all []error
	for _, d := range left {
		if pid, ok := ownerOf(filepath.Base(d), dirPrefix); ok && !alive(pid) {
			all = append(all, os.RemoveAll(d))
		}
	}
	return errors.Join(all...)
}

// Names of what outlives a process.
const (
	// Prefix begins the names of all that outlives a process: the process's ID
	// follows. Names of links have 15 bytes at most.
	Prefix   = "nl"
	NetnsDir = "/run/netns/"
)

// RemoveNetwork removes the namespaces and links whose names begin with a
// process's.
func RemoveNetwork(name string) error {
	var all []error
	spaces, err := os.ReadDir(NetnsDir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, s := range spaces {
		if owned(s.Name(), name) {
			_, err := Command("ip", "netns", "del", s.Name())
			all = append(all, err)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return errors.Join(append(all, err)...)
	}
	for _, l := range links {
		if owned(l.Name, name) {
			if _, err := Command("ip", "link", "del", l.Name); !absent(err) {
				all = append(all, err) // a veth's other end may have taken it along
			}
		}
	}
	return errors.Join(all...)
}

// absent tells whether a network device could not be deleted because it is gone: ip did not find
// it, or found it and the kernel did not any more.
func absent(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Cannot find device") || strings.Contains(err.Error(), "No such device"))
}

// owned tells whether a name is that of a process and a letter more.
func owned(name, owner string) bool {
	rest, ok := strings.CutPrefix(name, owner)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}
