package demo

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const queue = "demo"

// script does the work of one task: it notes that it runs, counts lines and
// bytes of the file named by the payload, and compresses it. Its line of output
// becomes the task's update.
const script = `IFS= read -r f || [ -n "$f" ] || exit 1
echo "$NORN_TASK_ID" >> "$DEMO_RUNS"
counts=$(wc -lc < "$f") && packed=$(gzip -c "$f" | wc -c) && echo $counts $packed`

func (t *tour) startServer() (err error) {
	t.server, err = spawn(t.log, t.failed, nil, t.Binary, "server", "--data", filepath.Join(t.dir, "data"), "--name", "demo",
		"--listen", t.addrs[0], "--peer-listen", t.addrs[1], "--http-listen", t.addrs[2])
	return err
}

// enqueue adds a task for each file and counts the receipts.
func (t *tour) enqueue(ctx context.Context, files []File) error {
	const batch = 500
	began := time.Now()
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
			t.verdict.Acknowledged++
		}
		t.Progress("enqueued", i+len(tasks), len(files))
	}
	t.verdict.Enqueueing = time.Since(began)
	return nil
}

// work runs the worker until every task is finished, and kills the server once
// half of them are: the worker is in the middle of several then.
func (t *tour) work(ctx context.Context, total int) (err error) {
	began := time.Now()
	t.worker, err = spawn(t.log, t.failed, []string{"DEMO_RUNS=" + t.runs()}, t.Binary, "work", "--addr", t.addrs[0], "-q", queue,
		"--slots", strconv.Itoa(t.Slots), "--name", "demo-worker", "--", "sh", "-c", script)
	if err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := t.done(ctx)
		if err != nil {
			return err
		}
		t.Progress("done", done, total)
		switch {
		case t.verdict.Kills == 0 && done*2 >= total:
			if err := t.restart(ctx, done); err != nil {
				return err
			}
			tick.Reset(100 * time.Millisecond)
		case done >= total:
			t.verdict.Took = time.Since(began)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("demo: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// done is how many tasks are finished, in whichever way.
func (t *tour) done(ctx context.Context) (int, error) {
	reply, err := t.client.Count(ctx, queue)
	if err != nil {
		return 0, fmt.Errorf("demo: count: %w", err)
	}
	n := reply.GetTotal()
	return int(n.GetCompleted() + n.GetDead() + n.GetCancelled()), nil
}

// restart kills the server and starts it again on the same directory.
func (t *tour) restart(ctx context.Context, done int) (err error) {
	t.server.kill()
	t.verdict.Kills++
	t.verdict.DoneAtKill = done
	if err := t.say("   kill -9 of the server after %d tasks; starting it again on the same directory", done); err != nil {
		return err
	}
	if err := t.startServer(); err != nil {
		return err
	}
	t.verdict.DoneAfterKill, err = t.done(ctx)
	return err
}

func (t *tour) runs() string { return filepath.Join(t.dir, "runs") }

// judge asks the server for all it has stored.
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
	t.verdict.Judge(files, tasks, runs)
	return nil
}

// countRuns counts the lines of the execution log per task.
func countRuns(path string) (map[string]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	runs := make(map[string]int)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		runs[lines.Text()]++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return runs, nil
}
