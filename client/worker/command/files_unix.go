//go:build unix

package command

import "syscall"

// openFiles is how many files this process may have open; 0: nobody can tell.
func openFiles() uint64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return uint64(r.Cur)
}
