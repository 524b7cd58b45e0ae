package lab

import (
	"os/exec"
	"syscall"
)

// attach puts the program into a group of its own, so that a Ctrl-C at our
// terminal is ours alone, and has the kernel kill it when the thread that
// starts it ends.
func attach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
