package command

import (
	"os/exec"
	"runtime"
	"syscall"
)

// tie has the kernel kill the command when this process dies. It goes by the
// thread that starts the command, so that is this goroutine's until the function
// it returns is called.
func tie(cmd *exec.Cmd) func() {
	runtime.LockOSThread()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return runtime.UnlockOSThread
}
