package demo

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// child is a process that the demo has started.
type child struct {
	name     string
	cmd      *exec.Cmd
	expected atomic.Bool   // we end it
	ended    chan struct{} // closed when it has been waited for
	err      error         // how it ended; read after ended
}

// spawn starts a process whose output goes to a file. When it ends by itself,
// failed hears of it.
func spawn(log *os.File, failed context.CancelCauseFunc, env []string, path string, args ...string) (*child, error) {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(environment(), env...)
	attach(cmd)
	c := &child{name: args[0], cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// On Linux the child ends with the thread that started it: see attach.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		if !c.expected.Load() {
			failed(fmt.Errorf("%w: norn %s: %v", ErrEnded, c.name, cmd.ProcessState))
		}
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("demo: start norn %s: %w", c.name, err)
	}
	return c, nil
}

// environment is ours without the settings of norn: the demo's server and
// worker are to be found where the demo says, not where they may point.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NORN_") {
			env = append(env, v)
		}
	}
	return env
}

// kill ends the process with SIGKILL and waits for it.
func (c *child) kill() {
	c.expected.Store(true)
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

// stop asks processes to end, all at once, and kills those that do not.
func stop(patience time.Duration, all ...*child) {
	for _, c := range all {
		c.expected.Store(true)
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for _, c := range all {
		select {
		case <-c.ended:
		case <-late.C:
			late.Reset(0) // for those behind it
			c.kill()
		}
	}
}

// freeAddresses finds n ports on loopback that are free for TCP and UDP. They
// stay the same over a restart, so the servers cannot choose them by themselves.
func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for tries := 0; len(addresses) < n; tries++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("demo: no free port: %w", err)
		}
		defer func() { _ = l.Close() }() // all at once in the end, so that they differ
		u, err := net.ListenPacket("udp", l.Addr().String())
		if err == nil {
			_ = u.Close() // it was only there to find out
			addresses = append(addresses, l.Addr().String())
		} else if tries > 100+n {
			return nil, fmt.Errorf("demo: no free port: %w", err)
		}
	}
	return addresses, nil
}
