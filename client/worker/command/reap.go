package command

import (
	"context"
	"os/exec"
	"sync"
)

// Reaper takes note of the end of processes that this one has not started, and that were left
// to it because it is the first one of a container: without that each of them stays in the
// table of processes. It never takes the status of a command: [Config.Reaper] tells it which
// those are. The zero value is ready to use; nil reaps nothing.
type Reaper struct {
	mu  sync.Mutex // guards own; held while a command is started, which may end at once
	own map[int]bool
}

// Run reaps until ctx ends. Outside of Linux it does nothing.
func (r *Reaper) Run(ctx context.Context) { r.run(ctx) }

// start starts a command.
func (r *Reaper) start(cmd *exec.Cmd) error {
	if r == nil {
		return cmd.Start()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if r.own == nil {
		r.own = make(map[int]bool)
	}
	r.own[cmd.Process.Pid] = true
	return nil
}

// waited forgets a command whose status was taken.
func (r *Reaper) waited(cmd *exec.Cmd) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.own, cmd.Process.Pid)
}
