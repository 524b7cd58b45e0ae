package demo

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const queue = "demo"

// catchUp is how long a node that was away may need for what it has missed.
const catchUp = time.Minute

// script does the work of one task: it notes that it runs, counts lines and
// bytes of the file named by the payload, and compresses it. Its line of output
// becomes the task's update.
const script = `IFS= read -r f || [ -n "$f" ] || exit 1
echo "$NORN_TASK_ID" >> "$DEMO_RUNS"
counts=$(wc -lc < "$f") && packed=$(gzip -c "$f" | wc -c) && echo $counts $packed`

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

// work runs two workers until every task is finished. One is killed when a third
// of them are, a node when half of them are, and that node comes back when three
// quarters are: all are in the middle of several tasks.
func (t *tour) work(ctx context.Context, total int) (err error) {
	began := time.Now()
	for _, slots := range []int{(t.Slots + 1) / 2, max(t.Slots/2, 1)} {
		if err := t.startWorker(slots); err != nil {
			return err
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	back := false
	for {
		done, err := t.done(ctx)
		if err != nil {
			return err
		}
		t.Progress("done", done, total)
		v := &t.verdict
		if v.Kills > 0 {
			v.DoneAfterKill = max(v.DoneAfterKill, done)
		}
		switch {
		case v.WorkerKills == 0 && done*3 >= total:
			err = t.killWorker(done)
		case v.Kills == 0 && done*2 >= total:
			err = t.killNode(done)
			tick.Reset(100 * time.Millisecond)
		case v.Kills > 0 && !back && done*4 >= total*3:
			back = true
			err = t.returnNode()
		case done >= total:
			v.Took = time.Since(began)
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("demo: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// startWorker starts a worker that may use all nodes. Its lease is short: what it
// had when it was killed is to run again soon; what it leaves behind goes with the
// demo's directory.
func (t *tour) startWorker(slots int) error {
	name := fmt.Sprintf("worker-%d", len(t.workers)+1)
	w, err := spawn(t.log, t.failed, []string{"DEMO_RUNS=" + t.runs(), "TMPDIR=" + t.dir}, t.Binary, "work", "--addr", strings.Join(t.clientAddresses(), ","), "-q", queue,
		"--slots", strconv.Itoa(slots), "--lease", "5s", "--name", name, "--", "sh", "-c", script)
	if err == nil {
		t.workers = append(t.workers, w)
	}
	return err
}

// killWorker kills the second worker; the other one has all the work then.
func (t *tour) killWorker(done int) error {
	last := len(t.workers) - 1
	t.workers[last].kill()
	t.workers = t.workers[:last]
	t.verdict.WorkerKills++
	return t.say("   kill -9 of a worker after %d tasks: what it had runs again when its claims have lapsed", done)
}

// done is how many tasks are finished, in whichever way.
func (t *tour) done(ctx context.Context) (int, error) {
	reply, err := t.client.Count(ctx, queue)
	if err != nil {
		return 0, fmt.Errorf("demo: %w", err)
	}
	n := reply.GetTotal()
	return int(n.GetCompleted() + n.GetDead() + n.GetCancelled()), nil
}

func (t *tour) runs() string { return filepath.Join(t.dir, "runs") }

// judge asks for all that is stored. A list comes from one replica of each
// partition, and that of the node that was away may have to catch up first.
func (t *tour) judge(ctx context.Context, files []File) error {
	var tasks []*nornv1.Task
	for end := time.Now().Add(catchUp); ; {
		completed := 0
		tasks = nil
		for task, err := range t.client.List(ctx, client.Filter{Queue: queue, PageSize: 500}) {
			if err != nil {
				return fmt.Errorf("demo: list: %w", err)
			}
			if task.GetState() == nornv1.State_STATE_COMPLETED {
				completed++
			}
			tasks = append(tasks, task)
		}
		if completed >= len(files) || time.Now().After(end) {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("demo: %w", context.Cause(ctx))
		case <-time.After(time.Second):
		}
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
