package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client/worker"
)

const (
	// DefaultGrace is the time between SIGTERM and SIGKILL.
	DefaultGrace = 2 * time.Second
	// exitTempfail is EX_TEMPFAIL of sysexits.h.
	exitTempfail = 75
	// maxLine is where lines are split, in bytes.
	maxLine = 64 << 10
	// maxTail is how much of standard error is kept, in bytes.
	maxTail = 4 << 10
	// pipeDelay is how long output is waited for that processes in the background
	// hold open when the command has ended.
	pipeDelay = time.Second
	// groupPoll is between two looks at whether the group of a command that has ended
	// still is there.
	groupPoll = 20 * time.Millisecond
	// never is when an update is given up whose claim holds.
	never = 30 * 24 * time.Hour
)

// Config configures [Handler].
type Config struct {
	// Args are the command and its arguments.
	Args []string
	// Dir is the working directory; "": that of this process.
	Dir string
	// Without says of a variable of this process that commands do not get it; nil: they get
	// all.
	Without func(name string) bool
	// Env is added to the environment, as KEY=value.
	Env []string
	// Grace is the time between SIGTERM and SIGKILL; 0: 2 s. It should be below the
	// worker's Grace: then the command is gone before the claim is.
	Grace time.Duration
	// TempDir is where checkpoint files are; "": the system's.
	TempDir string
	// Reaper is told of the commands, where there is one; nil: there is none.
	Reaper *Reaper
	// Stderr, if set, gets a copy of the commands' standard error. It must take
	// writes from several goroutines.
	Stderr io.Writer
}

// Check says whether the command can be found; the error is one line.
func (c Config) Check() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.New("no command to run")
	}
	if c.Dir != "" && !filepath.IsAbs(c.Args[0]) && strings.ContainsRune(c.Args[0], filepath.Separator) {
		return nil // relative to Dir: starting it will tell
	}
	_, err := exec.LookPath(c.Args[0])
	return err
}

// descriptors are how many files are open for a command that begins; perProcess how many
// this process needs beside those.
const (
	descriptors = 10
	perProcess  = 24
)

// CheckHost says whether commands can be started here, so many at a time; the error is one
// line, and a [worker.Unable] one. What changes later is found when a task comes.
func (c Config) CheckHost(slots int) error {
	if most := openFiles(); most > 0 && uint64(slots)*descriptors+perProcess > most {
		return worker.Unable(fmt.Errorf("%d slots may need %d open files, and this process may have %d (ulimit -n)", slots, slots*descriptors+perProcess, most))
	}
	dir, err := os.MkdirTemp(c.TempDir, tempPrefix)
	if err != nil {
		return worker.Unable(fmt.Errorf("no place for temporary files (TMPDIR): %w", err))
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "checkpoint"), []byte("x"), 0o600); err != nil {
		return worker.Unable(fmt.Errorf("no room for temporary files (TMPDIR): %w", err))
	}
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return nil // relative to Dir: starting it will tell
	}
	return interpreted(path)
}

// interpreted says whether the program is there that a script names in its first line: that
// it is not, the kernel would say of the script.
func interpreted(script string) error {
	f, err := os.Open(script)
	if err != nil {
		return nil // what may only be executed is no script
	}
	defer f.Close()
	line := make([]byte, 256) // the kernel reads no more of it
	n, _ := io.ReadFull(f, line)
	first, _, _ := strings.Cut(string(line[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	if !strings.HasPrefix(first, "#!") || len(words) == 0 || !filepath.IsAbs(words[0]) {
		return nil
	}
	if strings.HasSuffix(first, "\r") {
		return worker.Unable(fmt.Errorf("%s: its first line ends in a carriage return, so that its interpreter is not found: save it with line feeds alone", script))
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return worker.Unable(fmt.Errorf("%s: its interpreter: %w", script, err))
	}
	return nil
}

// Handler makes a handler that runs the command once per task. What earlier processes
// that were killed have left in TempDir is removed.
func Handler(cfg Config) worker.Handler {
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	sweep(cfg.TempDir, time.Now())
	return func(ctx context.Context, t *worker.Task) error { return run(ctx, cfg, t) }
}

// run runs the command for one task.
func run(ctx context.Context, cfg Config, t *worker.Task) error {
	if len(cfg.Args) == 0 {
		return worker.Unable(cfg.Check())
	}
	dir, err := os.MkdirTemp(cfg.TempDir, tempPrefix)
	if err != nil {
		return worker.Unable(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer occupy(dir)()
	checkpoint := filepath.Join(dir, "checkpoint")
	if err := os.WriteFile(checkpoint, t.Checkpoint(), 0o600); err != nil {
		return worker.Unable(err)
	}

	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	saving, saved := lasting(ctx, cfg.Grace)
	defer saved()
	kept := keep(saving, t, cfg.Stderr, lost)
	defer kept.end()
	out := &lines{take: kept.take}
	end, logged := &tail{}, &lines{take: func(line []byte) { t.Log(string(line)) }}
	cmd := exec.Command(cfg.Args[0], cfg.Args[1:]...)
	cmd.Dir = cfg.Dir
	cmd.Env = append(append(inherited(cfg.Without), cfg.Env...),
		"NORN_TASK_ID="+t.ID().String(),
		"NORN_TOKEN="+strconv.FormatUint(t.Token(), 10),
		"NORN_QUEUE="+t.Queue(),
		"NORN_KIND="+t.Kind(),
		"NORN_TAGS="+strings.Join(t.Tags(), "\n"),
		"NORN_ATTEMPT="+strconv.Itoa(t.Attempt()),
		"NORN_CHECKPOINT_FILE="+checkpoint)
	cmd.Stdin = bytes.NewReader(t.Payload())
	errOut := io.MultiWriter(end, logged)
	if cfg.Stderr != nil {
		errOut = io.MultiWriter(end, logged, cfg.Stderr)
	}
	said, err := hear(cmd, out, errOut)
	if err != nil {
		return worker.Unable(err)
	}
	cmd.WaitDelay = pipeDelay // of standard input that nobody reads
	separate(cmd)
	defer tie(cmd)()
	err = cfg.Reaper.start(cmd)
	said.begin()
	if err != nil {
		said.end()
		return worker.Unable(err)
	}
	t.Begun()
	stopped := watch(ctx, cmd, cfg.Grace)
	err = cmd.Wait()
	cfg.Reaper.waited(cmd)
	ended := stopped()
	said.end()
	out.flush()
	logged.flush()
	kept.end()
	if ended {
		return context.Cause(ctx)
	}
	return outcome(err, end.String())
}

// lasting is a context for the updates of a command: it outlasts ctx by the
// grace, so that what a command says in answer to SIGTERM can be kept. That a
// claim is lost ends updates by itself, and nothing else does: without a deadline the
// client would have one, and a line be left out for an outage.
func lasting(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	long, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(context.Cause(ctx))
		case <-long.Done():
		}
	})
	far, ended := context.WithTimeout(long, never)
	return far, func() {
		unlink()
		cancel(nil)
		ended()
	}
}

// inherited is the environment of this process without what commands are not to have, and
// what a service manager says to this process alone (sd_notify(3)).
func inherited(without func(name string) bool) []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "NOTIFY_SOCKET" || name == "WATCHDOG_USEC" || name == "WATCHDOG_PID" || without != nil && without(name)
	})
}

// watch ends the command when ctx does. The function it returns stops watching,
// cleans up behind a command that was ended, and says whether it was.
func watch(ctx context.Context, cmd *exec.Cmd, grace time.Duration) func() bool {
	var told atomic.Bool
	exited, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
		case <-exited:
			return
		}
		told.Store(terminate(cmd))
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
		case <-exited:
			if !outlasts(cmd, t.C) {
				return // its number may be another group's by now
			}
		}
		kill(cmd)
	}()
	return func() bool {
		close(exited)
		<-done
		return told.Load()
	}
}

// outlasts waits until nobody of the command's group is left, or the grace is over, and
// tells whether somebody is: a shell ends by SIGTERM at once, and what it has started may
// need the grace.
func outlasts(cmd *exec.Cmd, over <-chan time.Time) bool {
	t := time.NewTicker(groupPoll)
	defer t.Stop()
	for anybody(cmd) {
		select {
		case <-t.C:
		case <-over:
			return true
		}
	}
	return false
}

// outcome turns what Wait returned into what the worker understands.
func outcome(err error, end string) error {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return nil // the command succeeded, whatever still holds its output
	case errors.As(err, &exit) && exit.ExitCode() == exitTempfail:
		return worker.Snooze(0)
	case end != "":
		return fmt.Errorf("%w: %s", err, end)
	}
	return err
}
