package demo

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// child is a process that the demo has started.
type child struct {
	cmd  *exec.Cmd
	done chan error
}

// spawn starts a process whose output goes to a file.
func spawn(log *os.File, env []string, name string, args ...string) (*child, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("demo: start %s: %w", name, err)
	}
	c := &child{cmd, make(chan error, 1)}
	go func() { c.done <- cmd.Wait() }()
	return c, nil
}

// kill ends the process with SIGKILL and waits for it.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
	c.done <- nil // later waits find it ended
}

// stop asks the process to end, and kills it when it does not.
func (c *child) stop(patience time.Duration) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-c.done:
		c.done <- err
	case <-time.After(patience):
		c.kill()
	}
}

// freeAddresses finds n free ports on loopback.
func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("demo: no free port: %w", err)
		}
		defer func() { _ = l.Close() }()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
