package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/norn-dev/norn/cmd/norn/cli"
)

// begun is a command whose standard input stays open.
type begun struct {
	cmd  *exec.Cmd
	log  *buffer
	done chan struct{}
}

// begin starts a command, and waits until it reads what in gives it.
func begin(t *testing.T, in func(*exec.Cmd) error, feed func() error, args ...string) *begun {
	t.Helper()
	b := &begun{cmd: exec.CommandContext(t.Context(), the.norn, args...), log: &buffer{}, done: make(chan struct{})}
	b.cmd.Env, b.cmd.Stderr = environment("NORN_ADDR="+the.server.addr), b.log
	if err := in(b.cmd); err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := feed(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.done)
		_ = b.cmd.Wait() // it is judged by its exit code
	}()
	return b
}

// ends says whether it has ended.
func (b *begun) ends() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// TestCtrlCEndsReading: who has nothing to type after all presses Ctrl-C, and need not
// end the input too.
func TestCtrlCEndsReading(t *testing.T) {
	ok(t, "task", "enqueue", "-q", "interrupted-update", "x")
	task := decode[[]grantJSON](t, "task", "claim", "-q", "interrupted-update", "--wait", "20s")[0]
	for _, args := range [][]string{
		{"task", "enqueue", "-q", "interrupt", "-"},
		{"task", "enqueue", "-q", "interrupt", "--jsonl", "-"},
		{"task", "update", task.Task.ID, task.Token, "0", "-"},
		{"schedule", "set", "interrupt", "--cron", "@daily", "-q", "interrupt", "--file", "-"},
		{"schedule", "apply", "-f", "-"},
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		b := begin(t, func(cmd *exec.Cmd) error {
			cmd.Stdin = read
			return nil
		}, func() error {
			_ = read.Close()                             // it has its own
			_, err := write.Write(make([]byte, 128<<10)) // over what a pipe holds: somebody reads
			return err
		}, args...)
		if err := b.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it ends: "+args[1], b.ends)
		if code := b.cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("norn %q ends with %d: %s", args, code, b.log)
		}
		_ = write.Close() // nobody reads it any more
	}
}

// TestCtrlCTwice ends what does not heed the first one: a file that gives nothing.
func TestCtrlCTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	var write *os.File
	b := begin(t, func(*exec.Cmd) error { return nil }, func() (err error) {
		write, err = os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
		return err
	}, "schedule", "apply", "-f", path)
	defer func() { _ = write.Close() }()
	eventually(t, "it ends", func() bool {
		_ = b.cmd.Process.Signal(os.Interrupt) // it may have ended
		return b.ends()
	})
}

// TestTwoSignalsHearsOfTheOneBefore: a server that is told to stop while it starts stops.
func TestTwoSignalsHearsOfTheOneBefore(t *testing.T) {
	early, signal := context.WithCancel(t.Context())
	signal()
	ctx, now, done := cli.TwoSignals(early)
	defer done()
	select {
	case <-ctx.Done():
	default:
		t.Error("it goes on")
	}
	select {
	case <-now:
		t.Error("it was told once")
	default:
	}
}
