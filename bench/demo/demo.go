package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/norn-dev/norn/client"
)

// Options of a demo.
type Options struct {
	Binary string    // the norn program
	Source string    // tree with the .go files; "": the Go toolchain's src
	Slots  int       // commands at once
	Keep   bool      // leave the directory behind
	Out    io.Writer // where the story and the table go
	// Progress shows how far a stage is; nil: nothing is shown. An empty stage
	// takes away what is shown: something else is about to be written.
	Progress func(stage string, done, total int)
	// Patience bounds the whole demo; 0: ten minutes.
	Patience time.Duration
}

// ErrEnded is returned when a process of the demo ends that should not.
var ErrEnded = errors.New("demo: a process ended by itself")

// ErrTooLong is returned when the demo takes longer than Patience.
var ErrTooLong = errors.New("demo: it takes too long")

// tour is a demo under way.
type tour struct {
	Options
	failed  context.CancelCauseFunc
	dir     string
	log     *os.File
	nodes   []*server
	workers []*child
	client  *client.Client
	verdict Verdict
}

// Run runs the demo and returns what it found. It returns ErrMismatch when a
// number does not match, ErrEnded when a process does not hold out, ErrTooLong,
// ErrSource or ErrNoFiles; the verdict is nil unless it was reached.
func Run(outer context.Context, o Options) (v *Verdict, err error) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	ctx, failed := context.WithCancelCause(outer)
	defer failed(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Patience, fmt.Errorf("%w: over %v", ErrTooLong, o.Patience))
	defer cancel()
	t := &tour{Options: o, failed: failed}
	if err := t.say("1. Walking over every .go file of %s", t.sourceName()); err != nil {
		return nil, err
	}
	// What ended the context says more than what noticed.
	cause := func(err error) error {
		if outer.Err() != nil {
			return fmt.Errorf("demo: %w", outer.Err())
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	files, err := t.files(ctx)
	if err != nil {
		return nil, cause(err)
	}
	if t.dir, err = os.MkdirTemp("", "norn-demo-"); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, t.cleanUp(err)) }()
	if err := t.run(ctx, files); err != nil {
		return nil, cause(err)
	}
	return &t.verdict, t.verdict.Check()
}

// say tells the story. Nobody listening any more is a reason to stop.
func (t *tour) say(format string, args ...any) error {
	t.Progress("", 0, 0)
	if _, err := fmt.Fprintf(t.Out, format+"\n", args...); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

func (t *tour) sourceName() string {
	if t.Source == "" {
		return "the installed Go toolchain"
	}
	return t.Source
}

func (t *tour) files(ctx context.Context) ([]File, error) {
	source := t.Source
	if source == "" {
		var err error
		if source, err = GoSource(ctx); err != nil {
			return nil, err
		}
	}
	files, err := Walk(ctx, source)
	if err != nil {
		return nil, err
	}
	return files, t.say("   %d files below %s", len(files), source)
}

// run goes through the stages up to the verdict.
func (t *tour) run(ctx context.Context, files []File) error {
	var err error
	if t.log, err = os.Create(filepath.Join(t.dir, "log")); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := t.form(ctx); err != nil {
		return err
	}
	if err := t.say("3. Enqueueing a task for each file: an acknowledged one is on two disks at least"); err != nil {
		return err
	}
	if err := t.enqueue(ctx, files); err != nil {
		return err
	}
	if err := t.say("   %d tasks in %v\n4. Running `norn work` with gzip and wc on each, two workers with %d commands at once between them;\n"+
		"   a third of the way a worker gets a kill -9, half way a node",
		len(files), t.verdict.Enqueueing.Round(time.Millisecond), t.Slots); err != nil {
		return err
	}
	if err := t.work(ctx, len(files)); err != nil {
		return err
	}
	if err := t.say("5. Checking what the nodes have stored against the walk\n"); err != nil {
		return err
	}
	if err := t.judge(ctx, files); err != nil {
		return err
	}
	t.verdict.Write(t.Out)
	if t.verdict.Check() != nil {
		return nil // Run says so
	}
	return t.say("\nEvery file is done and none is lost.")
}

// cleanUp ends the processes and removes the directory. After a failure the log
// is what one wants to see.
func (t *tour) cleanUp(failed error) error {
	if t.client != nil {
		_ = t.client.Close() // never an error
	}
	stop(10*time.Second, t.workers...)
	var servers []*child
	for _, n := range t.nodes {
		if n.child != nil {
			servers = append(servers, n.child)
		}
	}
	stop(15*time.Second, servers...) // a server needs ten at most
	if t.log != nil {
		_ = t.log.Close() // children wrote to it, we did not
	}
	if failed != nil && !errors.Is(failed, context.Canceled) {
		return t.say("\nThe end of the log of nodes and workers:\n%s\nEverything else is in %s", t.logEnd(), t.dir)
	}
	if t.Keep {
		return t.say("Directory kept: %s", t.dir)
	}
	if err := os.RemoveAll(t.dir); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// logEnd is the last ten lines of the log.
func (t *tour) logEnd() string {
	b, err := os.ReadFile(filepath.Join(t.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-10):], "\n  ")
}
