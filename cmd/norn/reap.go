package main

import (
	"context"
	"os"
	"sync"

	"github.com/norn-dev/norn/client/worker/command"
)

// reapAsFirst takes note of the end of processes that nobody else waits for, where this one is
// the first of a container. It ends with the function that it returns. The commands of run
// (nil: there are none) are left to who waits for them.
func reapAsFirst(run *command.Config) (end func()) {
	if os.Getpid() != 1 {
		return func() {}
	}
	r := &command.Reaper{}
	if run != nil {
		run.Reaper = r
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
