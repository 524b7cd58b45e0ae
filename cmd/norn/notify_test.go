package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// manager is the socket of a service manager.
type manager struct {
	path string
	said chan string // assignments
}

func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &manager{path: filepath.Join(dir, "s"), said: make(chan string, 1000)}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-ended })
	go func() {
		defer close(ended)
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			for line := range strings.SplitSeq(string(b[:n]), "\n") {
				m.said <- line
			}
		}
	}()
	return m
}

// hear waits for an assignment, and gives those before it.
func (m *manager) hear(t *testing.T, want string) (before []string) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case got := <-m.said:
			if got == want {
				return before
			}
			before = append(before, got)
		case <-late:
			t.Fatalf("%s was not said, only %q", want, before)
		}
	}
}

// TestWorkUnderAServiceManager: it says when it is ready, that it lives, and that
// it stops; its commands hear nothing of the manager.
func TestWorkUnderAServiceManager(t *testing.T) {
	m, out := newManager(t), &buffer{}
	id := enqueue(t, "-q", "managed", "x")
	cmd := exec.Command(the.norn, "work", "-q", "managed", "--", "sh", "-c", `test -z "$NOTIFY_SOCKET$WATCHDOG_USEC"`)
	cmd.Env = environment("NORN_ADDR="+the.server.addr, "NOTIFY_SOCKET="+m.path, "WATCHDOG_USEC=200000")
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	m.hear(t, "READY=1")
	for range 3 {
		m.hear(t, "WATCHDOG=1")
	}
	eventually(t, "the task is completed", func() bool { return decode[taskJSON](t, "task", "get", id).State == "completed" })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if before := m.hear(t, "STOPPING=1"); slices.Contains(before, "READY=1") {
		t.Errorf("said %q", before)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestServerUnderAServiceManager: a node says when its ports are open, that it lives, and
// that it stops.
func TestServerUnderAServiceManager(t *testing.T) {
	m := newManager(t)
	cmd := exec.Command(the.norn, "server", "--data", t.TempDir(), "--name", "n1", "--eta", "100ms", "--log-format", "json",
		"--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	cmd.Env = []string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=200000"}
	s, err := launchAs(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	m.hear(t, "READY=1")
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	m.hear(t, "STATUS=taking requests at "+s.addr)
	for range 3 {
		m.hear(t, "WATCHDOG=1")
	}
	if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit %d, %v:\n%s", code, err, s.log.String())
	}
	if before := m.hear(t, "STOPPING=1"); slices.Contains(before, "READY=1") {
		t.Errorf("said %q", before)
	}
}

// Nobody to be told, or nonsense, harms nothing.
func TestNotifierWithoutManager(t *testing.T) {
	m := newManager(t)
	for _, env := range [][]string{
		nil, {"NOTIFY_SOCKET=/no/such/socket"}, {"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=soon"},
		{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=1000", "WATCHDOG_PID=1"},
	} {
		n := newNotifier(env)
		if n.every != 0 {
			t.Errorf("%q: signs of life every %v", env, n.every)
		}
		n.tell("READY=1")
		n.close()
	}
	n := newNotifier([]string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=2000000", "WATCHDOG_PID=" + itoa(os.Getpid())})
	defer n.close()
	if n.every != time.Second {
		t.Errorf("signs of life every %v", n.every)
	}
}
