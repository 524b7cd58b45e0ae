//go:build unix

package command

import (
	"os/exec"
	"syscall"
)

// separate puts the command into a process group of its own, so that a Ctrl-C
// at our terminal is ours alone, and the whole group can be ended.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the group to end. It is false when there is none any more.
func terminate(cmd *exec.Cmd) bool { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) == nil }

// kill ends the group. That nobody is left is no error.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// anybody tells whether there is somebody in the group who can be ended, once the command
// itself has. Orphans are ours where this process is the first one of a container: what
// has ended of them is there until we take note of it.
func anybody(cmd *exec.Cmd) bool {
	for {
		if orphan, err := syscall.Wait4(-cmd.Process.Pid, nil, syscall.WNOHANG, nil); orphan <= 0 || err != nil {
			return syscall.Kill(-cmd.Process.Pid, 0) == nil
		}
	}
}
