package machine

import (
	"os/exec"
	"syscall"
)

// Attach puts the program into a group of its own, so that a Ctrl-C at our
// terminal is ours alone, and has the kernel kill it when the thread that
// starts it ends.
func Attach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
