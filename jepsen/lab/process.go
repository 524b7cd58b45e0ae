package lab

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
)

// process is a node: its program, where it runs and what it keeps.
type process struct {
	*place
	name string
	n    int
	norn string // the program it runs now
	own  string // the one it is back to after an upgrade
	data string
	log  string // file
	args []string
	kept string // where data really is, when a mood is between; else ""
	mood *mood
	// clock is the file that says how wrong its clock is; "": it has none.
	clock string

	mu      sync.Mutex // guards what follows
	cmd     *exec.Cmd  // the latest; nil before the first
	done    chan struct{}
	paused  bool
	lives   int              // how often it was started
	since   time.Time        // of the latest start, end, stop or continuation
	gone    bool             // it is not to run any more
	hurt    bool             // it need not serve
	mayEnd  bool             // nobody wonders when it ends
	doubted bool             // it may run with damage that nobody has read; the nemesis's alone
	ended   func(status int) // hears of an end that nobody has asked for
}

// start starts the program; it does not wait until it serves.
func (p *process) start(more ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	line := slices.Concat(p.host, []string{
		p.norn, "server", "--data", p.data, "--name", p.name, "--listen", p.listen, "--peer-listen", p.peer,
		"--peer-advertise", p.advertise, "--http-listen", p.http, "--log-format", "json", "--insecure-peers",
	}, p.args, more)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	attach(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in its ProcessState
		p.mu.Lock()
		wonder := !p.mayEnd && p.ended != nil
		p.mu.Unlock()
		if wonder {
			p.ended(cmd.ProcessState.ExitCode())
		}
		close(done)
	}()
	p.cmd, p.done, p.paused, p.since, p.gone = cmd, done, false, time.Now(), false
	p.lives++
	if p.started != nil {
		p.started(cmd.Process.Pid)
	}
	return nil
}

// running tells whether the program runs, and is not stopped, for so long.
func (p *process) running(lately time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && !p.paused && !p.hurt && !ended(p.done) && time.Since(p.since) >= lately
}

// life names the program that runs, or ran last.
func (p *process) life() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%s, started for the %d. time,", p.name, p.lives)
}

func ended(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// patience is how long a program may take to end, or to serve.
const patience = 30 * time.Second

// end sends a signal and waits until the program has ended. The status is -1
// when a signal has ended it.
func (p *process) end(sig syscall.Signal) (status int, err error) {
	p.mu.Lock()
	cmd, done := p.cmd, p.done
	p.paused, p.since, p.mayEnd = false, time.Now(), true
	p.mu.Unlock()
	if cmd == nil {
		return 0, nil
	}
	if !ended(done) {
		if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return 0, err
		}
		if sig == syscall.SIGTERM {
			_ = cmd.Process.Signal(syscall.SIGCONT) // or it would not hear
		}
	}
	select {
	case <-done:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-done
		err = fmt.Errorf("%s has not ended %v after %v", p.name, patience, sig)
	}
	if p.ending != nil {
		p.ending(cmd.Process.Pid)
	}
	return cmd.ProcessState.ExitCode(), err
}

// kill ends the program as a power cut would, but for the page cache.
func (p *process) kill() error {
	_, err := p.end(syscall.SIGKILL)
	return err
}

// stop ends the program in order.
func (p *process) stop() error {
	status, err := p.end(syscall.SIGTERM)
	if err == nil && status != 0 {
		err = fmt.Errorf("%s ended with status %d", p.name, status)
	}
	return err
}

// pause stops the program where it is, or lets it go on.
func (p *process) pause(stop bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	sig := syscall.SIGCONT
	if stop {
		sig = syscall.SIGSTOP
	}
	if p.cmd == nil || ended(p.done) {
		return fmt.Errorf("%s does not run", p.name)
	}
	p.paused, p.since = stop, time.Now()
	return p.cmd.Process.Signal(sig)
}

// wipe removes all that the node keeps; it must not run.
func (p *process) wipe() error {
	inside, err := os.ReadDir(p.data)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var all []error
	for _, f := range inside { // the directory itself may be a mount
		all = append(all, os.RemoveAll(filepath.Join(p.data, f.Name())))
	}
	return errors.Join(all...)
}

// hurt notes that a node need not serve, or has to again.
func (l *lab) hurt(p *process, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurt, p.since = is, time.Now()
}

// may says whether the program may end by itself.
func (p *process) may(end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mayEnd = end
}

// disk is where the node's files can be read without a mood.
func (p *process) disk() string {
	if p.kept != "" {
		return p.kept
	}
	return p.data
}
