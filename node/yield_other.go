//go:build !linux

package node

import "runtime"

// yield lets the other goroutines of this process run.
func yield() { runtime.Gosched() }
