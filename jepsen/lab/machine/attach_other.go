//go:build !linux

package machine

import "os/exec"

// Attach does nothing: other systems do not end a program with its parent.
func Attach(*exec.Cmd) {}
