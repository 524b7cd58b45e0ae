//go:build unix

package node

import "syscall"

// openFiles is how many files this process may have open. The runtime has raised that
// as far as it goes.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return unbounded
	}
	return int(min(uint64(limit.Cur), unbounded))
}
