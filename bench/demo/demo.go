package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Options of a demo.
type Options struct {
	Binary string    // the norn program
	Source string    // tree with the .go files; "": the Go toolchain's src
	Slots  int       // commands at once
	Keep   bool      // leave the directory behind
	Out    io.Writer // where the story and the table go
	// Progress shows how far a stage is; nil: nothing is shown.
	Progress func(stage string, done, total int)
	// Patience bounds the whole demo; 0: ten minutes.
	Patience time.Duration
}

const queue = "demo"

// script does the work of one task: it notes that it runs, counts the lines of
// the file named by the payload and compresses it. Its output line becomes the
// task's update.
const script = `IFS= read -r f || [ -n "$f" ] || exit 1
echo "$NORN_TASK_ID" >> "$DEMO_RUNS"
lines=$(wc -l < "$f") && bytes=$(gzip -c "$f" | wc -c) && echo $lines $bytes`

// tour is a demo under way.
type tour struct {
	Options
	dir     string
	log     *os.File
	addrs   []string // client, peer, http
	server  *child
	worker  *child
	client  *client.Client
	verdict Verdict
}

// Run runs the demo. It returns ErrMismatch when a number does not match.
func Run(ctx context.Context, o Options) (err error) {
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	t := &tour{Options: o}
	if t.dir, err = os.MkdirTemp("", "norn-demo-"); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, t.cleanUp(err)) }()
	if t.log, err = os.Create(filepath.Join(t.dir, "log")); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return t.run(ctx)
}

func (t *tour) say(format string, args ...any) { _, _ = fmt.Fprintf(t.Out, format+"\n", args...) }

func (t *tour) run(ctx context.Context) error {
	source := t.Source
	var err error
	if source == "" {
		if source, err = GoSource(ctx); err != nil {
			return err
		}
	}
	t.say("1. Walking over %s", source)
	files, err := Walk(source)
	if err != nil {
		return err
	}
	t.say("   %d .go files", len(files))
	if t.addrs, err = freeAddresses(3); err != nil {
		return err
	}
	t.say("2. Starting a server on %s with an empty directory", t.addrs[0])
	if err := t.startServer(); err != nil {
		return err
	}
	if t.client, err = client.Dial(ctx, t.addrs[:1], client.WithAgent("norn demo"), client.WithTimeout(time.Minute)); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	began := time.Now()
	t.say("3. Enqueueing one task per file; an answer means on disk")
	if err := t.enqueue(ctx, files); err != nil {
		return err
	}
	t.say("   %d tasks in %v", len(files), time.Since(began).Round(time.Millisecond))
	began = time.Now()
	t.say("4. Running `norn work --slots %d -- sh -c 'wc -l; gzip'` on each, and killing the server in the middle", t.Slots)
	if err := t.work(ctx, len(files)); err != nil {
		return err
	}
	t.verdict.Took = time.Since(began)
	t.say("5. Checking every file against the direct walk")
	return t.judge(ctx, files)
}

func (t *tour) startServer() (err error) {
	t.server, err = spawn(t.log, nil, t.Binary, "server", "--data", filepath.Join(t.dir, "data"), "--name", "demo",
		"--listen", t.addrs[0], "--peer-listen", t.addrs[1], "--http-listen", t.addrs[2])
	return err
}

func (t *tour) enqueue(ctx context.Context, files []File) error {
	const batch = 500
	for i := 0; i < len(files); i += batch {
		var tasks []client.Task
		for _, f := range files[i:min(i+batch, len(files))] {
			tasks = append(tasks, client.Task{Queue: queue, Payload: []byte(f.Path)})
		}
		results, err := t.client.EnqueueMany(ctx, tasks)
		if err != nil {
			return fmt.Errorf("demo: enqueue: %w", err)
		}
		for _, r := range results {
			if r.Err != nil {
				return fmt.Errorf("demo: enqueue: %w", r.Err)
			}
		}
		t.Progress("enqueued", i+len(tasks), len(files))
	}
	return nil
}

// work runs the worker until every task is finished, and kills the server once
// half of them are.
func (t *tour) work(ctx context.Context, total int) (err error) {
	t.worker, err = spawn(t.log, []string{"DEMO_RUNS=" + t.runs()}, t.Binary, "work", "--addr", t.addrs[0], "-q", queue,
		"--slots", strconv.Itoa(t.Slots), "--name", "demo-worker", "--", "sh", "-c", script)
	if err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("demo: %w", context.Cause(ctx))
		case err := <-t.worker.done:
			t.worker.done <- err
			return fmt.Errorf("demo: the worker ended by itself: %w", err)
		case <-tick.C:
		}
		reply, err := t.client.Count(ctx, queue)
		if err != nil {
			return fmt.Errorf("demo: count: %w", err)
		}
		n := reply.GetTotal()
		done := int(n.GetCompleted() + n.GetDead() + n.GetCancelled())
		t.Progress("done", done, total)
		if done >= total {
			return nil
		}
		if done*2 >= total && t.verdict.Kills == 0 {
			t.server.kill()
			t.verdict.Kills++
			t.say("   kill -9 of the server after %d tasks; starting it again", done)
			if err := t.startServer(); err != nil {
				return err
			}
		}
	}
}

func (t *tour) runs() string { return filepath.Join(t.dir, "runs") }

func (t *tour) judge(ctx context.Context, files []File) error {
	var tasks []*nornv1.Task
	for task, err := range t.client.List(ctx, client.Filter{Queue: queue, PageSize: 500}) {
		if err != nil {
			return fmt.Errorf("demo: list: %w", err)
		}
		tasks = append(tasks, task)
	}
	runs, err := countRuns(t.runs())
	if err != nil {
		return err
	}
	kills, took := t.verdict.Kills, t.verdict.Took
	t.verdict = Judge(files, tasks, runs)
	t.verdict.Kills, t.verdict.Took = kills, took
	t.say("")
	t.verdict.Write(t.Out)
	if err := t.verdict.Check(); err != nil {
		return err
	}
	t.say("\nEvery file done, none lost.")
	return nil
}

// countRuns counts the lines of the execution log per task.
func countRuns(path string) (map[string]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	defer func() { _ = f.Close() }()
	runs := make(map[string]int)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		runs[strings.TrimSpace(lines.Text())]++
	}
	return runs, nil
}

// cleanUp ends the children and removes the directory. After a failure the log
// is what one wants to see.
func (t *tour) cleanUp(failed error) error {
	if t.client != nil {
		_ = t.client.Close()
	}
	if t.worker != nil {
		t.worker.stop(10 * time.Second)
	}
	if t.server != nil {
		t.server.stop(10 * time.Second)
	}
	if t.log != nil {
		_ = t.log.Close()
	}
	if t.Keep || failed != nil && !errors.Is(failed, context.Canceled) {
		t.say("Directory kept: %s", t.dir)
		return nil
	}
	return os.RemoveAll(t.dir)
}
