//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
)

// attach puts the process into a group of its own, so that a Ctrl-C at our
// terminal is ours alone. Nodes outlive a parent that is killed here.
func attach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
