package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Verdict compares what Norn did with what a direct walk finds.
type Verdict struct {
	Files         int           // found by the walk
	Acknowledged  int           // enqueues with a receipt
	Stored        int           // tasks that the nodes list
	Completed     int           // of those
	Lost          int           // files without a completed task
	Wrong         int           // files whose task found other lines or bytes than the walk
	Lines         int           // counted by the tasks
	WantLines     int           // counted by the walk
	Bytes         int64         // counted by the tasks
	WantBytes     int64         // counted by the walk
	Compressed    int64         // bytes that gzip made of them
	Runs          int           // executions of the command
	Ran           int           // tasks whose command ran
	Again         int           // tasks whose command ran more than once
	Kills         int           // times a node was killed
	WorkerKills   int           // times a worker was killed
	DoneAtKill    int           // finished tasks just before
	DoneAfterKill int           // the most finished tasks that were seen afterwards
	Enqueueing    time.Duration // how long that took
	Took          time.Duration // from the start of the worker to the last task
}

// Judge fills in what follows from the files, the tasks that Norn lists and the
// executions per task ID.
func (v *Verdict) Judge(files []File, tasks []*nornv1.Task, runs map[string]int) {
	v.Files, v.Stored = len(files), len(tasks)
	byPath := make(map[string]*nornv1.Task, len(tasks))
	for _, t := range tasks {
		if t.GetState() == nornv1.State_STATE_COMPLETED {
			v.Completed++
			byPath[string(t.GetPayload())] = t
		}
	}
	for _, f := range files {
		v.WantLines += f.Lines
		v.WantBytes += f.Bytes
		t := byPath[f.Path]
		if t == nil {
			v.Lost++
			continue
		}
		lines, size, compressed, err := result(t)
		if err != nil || lines != f.Lines || size != f.Bytes || compressed <= 0 {
			v.Wrong++
		}
		v.Lines += lines
		v.Bytes += size
		v.Compressed += compressed
	}
	for _, n := range runs {
		v.Runs += n
		if v.Ran++; n > 1 {
			v.Again++
		}
	}
}

// result reads the task's last update, the output of the run that completed it.
func result(t *nornv1.Task) (lines int, size, compressed int64, err error) {
	var last []byte
	if u := t.GetUpdates(); len(u) > 0 {
		last = u[len(u)-1].GetData()
	}
	_, err = fmt.Sscan(string(last), &lines, &size, &compressed)
	return lines, size, compressed, err
}

// ErrMismatch is returned when a number of the verdict is not as it must be.
var ErrMismatch = errors.New("demo: the numbers do not match")

// Check returns ErrMismatch with every number that is wrong.
func (v *Verdict) Check() error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	must(v.Acknowledged == v.Files, "%d enqueues acknowledged for %d files", v.Acknowledged, v.Files)
	must(v.Stored == v.Files, "%d tasks stored for %d files", v.Stored, v.Files)
	must(v.Completed == v.Files, "%d of %d tasks completed", v.Completed, v.Files)
	must(v.Lost == 0, "%d files lost", v.Lost)
	must(v.Wrong == 0, "%d files with a wrong count", v.Wrong)
	must(v.Lines == v.WantLines, "%d lines counted, %d there", v.Lines, v.WantLines)
	must(v.Bytes == v.WantBytes, "%d bytes counted, %d there", v.Bytes, v.WantBytes)
	must(v.Ran == v.Files, "%d tasks ran, for %d files", v.Ran, v.Files)
	must(v.Kills > 0, "no node was ever killed")
	must(v.WorkerKills > 0, "no worker was ever killed")
	must(v.DoneAfterKill >= v.DoneAtKill, "%d tasks were done before the kill, %d after it", v.DoneAtKill, v.DoneAfterKill)
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s", ErrMismatch, strings.Join(wrong, "; "))
	}
	return nil
}

// Write prints the verdict as a table.
func (v *Verdict) Write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what string, norn, direct any, note string, args ...any) {
		_, _ = fmt.Fprintf(t, "%s\t%v\t%v\t%s\n", what, norn, direct, fmt.Sprintf(note, args...))
	}
	row("", "norn", "direct walk", "")
	row("enqueued", v.Acknowledged, v.Files, "one task for each file, in %v", v.Enqueueing.Round(time.Millisecond))
	row("completed", v.Completed, v.Files, "")
	row("lost", v.Lost, 0, "")
	row("lines", v.Lines, v.WantLines, "")
	row("bytes", v.Bytes, v.WantBytes, "compressed to %d", v.Compressed)
	row("ran twice", v.Again, "-", "%d runs; at least one for each task is the promise", v.Runs)
	row("workers killed", v.WorkerKills, "-", "")
	row("nodes killed", v.Kills, "-", "kill -9 after %d tasks were done; %d were done in the end", v.DoneAtKill, v.DoneAfterKill)
	row("time", v.Took.Round(100*time.Millisecond), "-", "%.0f tasks/s", v.Rate())
	_ = t.Flush() // to a terminal or a pipe: who is gone needs no table
}

// Rate is tasks completed per second of work.
func (v *Verdict) Rate() float64 { return float64(v.Completed) / max(v.Took.Seconds(), 1e-9) }
