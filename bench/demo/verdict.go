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
	Files      int // found by the walk
	Enqueued   int // tasks in the queue
	Completed  int
	Lost       int // files without a completed task
	WrongLines int // files whose task counted other lines than the walk
	Lines      int // counted by the tasks
	WantLines  int // counted by the walk
	Bytes      int64
	Compressed int64
	Runs       int // executions of the command
	Again      int // tasks whose command ran more than once
	Kills      int // times the server was killed
	Took       time.Duration
}

// Judge builds the verdict from the files, the tasks that Norn lists and the
// executions per task ID.
func Judge(files []File, tasks []*nornv1.Task, runs map[string]int) Verdict {
	v := Verdict{Files: len(files), Enqueued: len(tasks)}
	byPath := make(map[string]*nornv1.Task, len(tasks))
	for _, t := range tasks {
		if t.GetState() == nornv1.State_STATE_COMPLETED {
			v.Completed++
			byPath[string(t.GetPayload())] = t
		}
	}
	for _, f := range files {
		v.WantLines += f.Lines
		v.Bytes += f.Bytes
		t := byPath[f.Path]
		if t == nil {
			v.Lost++
			continue
		}
		var lines int
		var compressed int64
		if u := t.GetUpdates(); len(u) == 0 {
			v.WrongLines++
			continue
		} else if _, err := fmt.Sscan(string(u[len(u)-1].GetData()), &lines, &compressed); err != nil || lines != f.Lines || compressed <= 0 {
			v.WrongLines++
		}
		v.Lines += lines
		v.Compressed += compressed
	}
	for _, n := range runs {
		v.Runs += n
		if n > 1 {
			v.Again++
		}
	}
	return v
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
	must(v.Enqueued == v.Files, "%d tasks for %d files", v.Enqueued, v.Files)
	must(v.Completed == v.Files, "%d of %d tasks completed", v.Completed, v.Files)
	must(v.Lost == 0, "%d files lost", v.Lost)
	must(v.WrongLines == 0, "%d files with a wrong count", v.WrongLines)
	must(v.Lines == v.WantLines, "%d lines counted, %d there", v.Lines, v.WantLines)
	must(v.Runs >= v.Files, "%d runs for %d files", v.Runs, v.Files)
	must(v.Kills > 0, "the server was never killed")
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s", ErrMismatch, strings.Join(wrong, "; "))
	}
	return nil
}

// Write prints the verdict as a table.
func (v *Verdict) Write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what string, norn, direct any, note string) {
		_, _ = fmt.Fprintf(t, "%s\t%v\t%v\t%s\n", what, norn, direct, note)
	}
	row("", "NORN", "DIRECT WALK", "")
	row("files", v.Completed, v.Files, "one task each")
	row("lines", v.Lines, v.WantLines, "")
	row("bytes", v.Compressed, v.Bytes, "compressed, plain")
	row("lost", v.Lost, 0, "")
	row("ran twice", v.Again, "-", "at least once is the promise")
	row("server killed", v.Kills, "-", "with SIGKILL, at work")
	row("time", v.Took.Round(100*time.Millisecond), "-", fmt.Sprintf("%.0f tasks/s", float64(v.Completed)/v.Took.Seconds()))
	_ = t.Flush()
}
