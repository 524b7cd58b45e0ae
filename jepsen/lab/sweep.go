package lab

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

// sweep removes what runs have left whose process has ended: processes in their
// namespaces, the namespaces, links, mounts and directories.
func sweep() error {
	var all []error
	spaces, err := os.ReadDir(netnsDir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	gone := map[string]bool{}
	for _, s := range spaces {
		pid, ok := ownerOf(s.Name(), prefix)
		if !ok || alive(pid) {
			continue
		}
		gone[fmt.Sprintf("%s%d", prefix, pid)] = true
		all = append(all, endAll(s.Name()))
	}
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, l := range links {
		if pid, ok := ownerOf(l.Name, prefix); ok && !alive(pid) {
			gone[fmt.Sprintf("%s%d", prefix, pid)] = true
		}
	}
	for name := range gone { // Any order: each is removed.
		all = append(all, removeNetwork(name))
	}
	return errors.Join(append(all, sweepMounts(), sweepDirs())...)
}

// endAll kills the processes in a namespace that nobody owns any more.
func endAll(space string) error {
	out, err := command("ip", "netns", "pids", space)
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

// makeDir makes the directory of this run.
func makeDir(parent string) (string, error) {
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
}

// sweepMounts unmounts what is mounted below directories of ended runs.
func sweepMounts() error {
	var all []error
	for _, at := range mounts() {
		for _, part := range strings.Split(at, string(filepath.Separator)) {
			if pid, ok := ownerOf(part, dirPrefix); ok && !alive(pid) {
				_, err := command("umount", "-l", at)
				all = append(all, err)
				break
			}
		}
	}
	return errors.Join(all...)
}

// mounts lists where something is mounted, the innermost first.
func mounts() (at []string) {
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
