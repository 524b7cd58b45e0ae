package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/storage"
)

// Process is a node: its program, where it runs and what it keeps.
type Process struct {
	*network.Place
	Name string
	N    int
	Norn string // the program it runs now
	Own  string // the one it is back to after an upgrade
	Data string
	Log  string // file
	Args []string
	Kept string // where data really is, when a mood is between; else ""
	Mood *storage.Mood
	// clock is the file that says how wrong its clock is; "": it has none.
	Clock string

	Mu      sync.Mutex // guards what follows
	Cmd     *exec.Cmd  // the latest; nil before the first
	Done    chan struct{}
	paused  bool
	Lives   int              // how often it was started
	since   time.Time        // of the latest start, end, stop or continuation
	Gone    bool             // it is not to run any more
	hurt    bool             // it need not serve
	mayEnd  bool             // nobody wonders when it ends
	Doubted bool             // it may run with damage that nobody has read; the nemesis's alone
	ended   func(status int) // hears of an end that nobody has asked for
}

// start starts the program; it does not wait until it serves.
func (p *Process) start(more ...string) error {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	line := slices.Concat(p.Host, []string{
		p.Norn, "server", "--data", p.Data, "--name", p.Name, "--listen", p.Listen, "--peer-listen", p.Peer,
		"--peer-advertise", p.Advertise, "--http-listen", p.Http, "--log-format", "json", "--insecure-peers",
	}, p.Args, more)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	machine.Attach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its ProcessState
		p.Mu.Lock()
		wonder := !p.mayEnd && p.ended != nil
		p.Mu.Unlock()
		if wonder {
			p.ended(cmd.ProcessState.ExitCode())
		}
		close(done)
	}()
	p.Cmd, p.Done, p.paused, p.since, p.Gone = cmd, done, false, time.Now(), false
	p.Lives++
	if p.Started != nil {
		p.Started(cmd.Process.Pid)
	}
	return nil
}

// Running tells whether the program runs, and is not stopped, for so long.
func (p *Process) Running(lately time.Duration) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return p.Cmd != nil && !p.paused && !p.hurt && !Ended(p.Done) && time.Since(p.since) >= lately
}

// Life names the program that runs, or ran last.
func (p *Process) Life() string {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return fmt.Sprintf("%s, started for the %d. time,", p.Name, p.Lives)
}

// Ended tells whether a channel is closed.
func Ended(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// end sends a signal and waits until the program has ended. The status is -1
// when a signal has ended it.
func (p *Process) end(sig syscall.Signal) (status int, err error) {
	p.Mu.Lock()
	cmd, done := p.Cmd, p.Done
	p.paused, p.since, p.mayEnd = false, time.Now(), true
	p.Mu.Unlock()
	if cmd == nil {
		return 0, nil
	}
	if !Ended(done) {
		if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return 0, err
		}
		if sig == syscall.SIGTERM {
			_ = cmd.Process.Signal(syscall.SIGCONT) // or it would not hear
		}
	}
	select {
	case <-done:
	case <-time.After(machine.Patience):
		_ = cmd.Process.Kill()
		<-done
		err = fmt.Errorf("%s has not ended %v after %v", p.Name, machine.Patience, sig)
	}
	if p.Ending != nil {
		p.Ending(cmd.Process.Pid)
	}
	return cmd.ProcessState.ExitCode(), err
}

// Kill ends the program as a power cut would, but for the page cache.
func (p *Process) Kill() error {
	_, err := p.end(syscall.SIGKILL)
	return err
}

// Stop ends the program in order.
func (p *Process) Stop() error {
	status, err := p.end(syscall.SIGTERM)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s ended with status %d", p.Name, status)
	}
	return err
}

// Pause stops the program where it is, or lets it go on.
func (p *Process) Pause(stop bool) error {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	sig := syscall.SIGCONT
	if stop {
		sig = syscall.SIGSTOP
	}
	if p.Cmd == nil || Ended(p.Done) {
		return fmt.Errorf("%s does not run", p.Name)
	}
	p.paused, p.since = stop, time.Now()
	return p.Cmd.Process.Signal(sig)
}

// Wipe removes all that the node keeps; it must not run.
func (p *Process) Wipe() error {
	inside, err := os.ReadDir(p.Data)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var all []error
	for _, f := range inside { // the directory itself may be a mount
		all = append(all, os.RemoveAll(filepath.Join(p.Data, f.Name())))
	}
	return errors.Join(all...)
}

// Hurt notes that a node need not serve, or has to again.
func (l *Lab) Hurt(p *Process, is bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.hurt, p.since = is, time.Now()
}

// May says whether the program may end by itself.
func (p *Process) May(end bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.mayEnd = end
}

// Disk is where the node's files can be read without a mood.
func (p *Process) Disk() string {
	if p.Kept != "" {
		return p.Kept
	}
	return p.Data
}

// Ends waits until the program ends by itself.
func (p *Process) Ends(limit time.Duration) bool {
	p.Mu.Lock()
	done := p.Done
	p.Mu.Unlock()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}
