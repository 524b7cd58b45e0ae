//go:build !unix

package command

import "os/exec"

func separate(*exec.Cmd) {}

func terminate(cmd *exec.Cmd) bool { return cmd.Process.Kill() == nil }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func anybody(*exec.Cmd) bool { return false }
