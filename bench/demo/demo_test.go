package demo

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "package a\n", "sub/b.go": "package b\n\n// x", "c.txt": "no\n", "e.go": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWalkFindsGoFilesOnly(t *testing.T) {
	dir := tree(t)
	link := filepath.Join(t.TempDir(), "src") // as Debian installs Go
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{dir, link} {
		files, err := Walk(t.Context(), from)
		want := []File{{"a.go", 1, 10}, {"e.go", 0, 0}, {"sub/b.go", 2, 15}}
		for i := range files {
			real, _ := filepath.EvalSymlinks(dir)
			files[i].Path, _ = filepath.Rel(real, files[i].Path)
		}
		if err != nil || !slices.Equal(files, want) {
			t.Fatalf("%v, %v, want %v", files, err, want)
		}
	}
	if _, err := Walk(t.Context(), t.TempDir()); !errors.Is(err, ErrNoFiles) {
		t.Fatalf("an empty tree: %v, want ErrNoFiles", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "two\nlines.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Walk(t.Context(), dir); err == nil {
		t.Fatal("a path that the command cannot read passes")
	}
}

func task(path, update string) *nornv1.Task {
	return &nornv1.Task{
		Payload: []byte(path), State: nornv1.State_STATE_COMPLETED,
		Updates: []*nornv1.Update{{Data: []byte("0 0 0")}, {Data: []byte(update)}}, // the first run was cut short
	}
}

func TestVerdictFailsOnEveryMismatch(t *testing.T) {
	files := []File{{"a", 1, 10}, {"b", 3, 30}}
	good := func() ([]*nornv1.Task, map[string]int, *Verdict) {
		return []*nornv1.Task{task("a", "1 10 5"), task("b", "3 30 9")}, map[string]int{"x": 1, "y": 2},
			&Verdict{Acknowledged: 2, Kills: 1, WorkerKills: 1, DoneAtKill: 1, DoneAfterKill: 1, Took: time.Second}
	}
	tasks, runs, v := good()
	v.Judge(files, tasks, runs)
	if err := v.Check(); err != nil || v.Again != 1 || v.Runs != 3 || v.Compressed != 14 || v.Lines != 4 || v.Bytes != 40 {
		t.Fatalf("a good run: %v, %+v", err, v)
	}
	var out strings.Builder
	if v.Write(&out); !strings.Contains(out.String(), "ran twice") {
		t.Fatalf("table: %s", out.String())
	}
	for name, bad := range map[string]struct {
		spoil func(tasks *[]*nornv1.Task, runs map[string]int, v *Verdict)
		says  string
	}{
		"a task is missing":      {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) { *ts = (*ts)[:1] }, "1 files lost"},
		"a task is not done":     {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) { (*ts)[0].State = nornv1.State_STATE_READY }, "1 of 2 tasks completed"},
		"a task too many":        {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) { *ts = append(*ts, (*ts)[0]) }, "3 tasks stored"},
		"one twice, one never":   {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) { (*ts)[1] = (*ts)[0] }, "1 files lost"},
		"a wrong count of lines": {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) { (*ts)[1] = task("b", "4 30 9") }, "5 lines counted, 4 there"},
		"a wrong count of bytes": {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) { (*ts)[1] = task("b", "3 31 9") }, "41 bytes counted, 40 there"},
		"nothing was compressed": {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) { (*ts)[1] = task("b", "3 30 0") }, "1 files with a wrong count"},
		"errors that cancel out": {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) {
			*ts = []*nornv1.Task{task("a", "3 30 9"), task("b", "1 10 5")}
		}, "2 files with a wrong count"},
		"no result":               {func(ts *[]*nornv1.Task, _ map[string]int, _ *Verdict) { (*ts)[1].Updates = nil }, "1 files with a wrong count"},
		"a task never ran":        {func(_ *[]*nornv1.Task, runs map[string]int, _ *Verdict) { delete(runs, "x") }, "1 tasks ran, for 2 files"},
		"a receipt is missing":    {func(_ *[]*nornv1.Task, _ map[string]int, v *Verdict) { v.Acknowledged = 1 }, "1 enqueues acknowledged"},
		"the kill was skipped":    {func(_ *[]*nornv1.Task, _ map[string]int, v *Verdict) { v.Kills = 0 }, "no node was ever killed"},
		"no worker was killed":    {func(_ *[]*nornv1.Task, _ map[string]int, v *Verdict) { v.WorkerKills = 0 }, "no worker was ever killed"},
		"a completion comes back": {func(_ *[]*nornv1.Task, _ map[string]int, v *Verdict) { v.DoneAfterKill = 0 }, "1 tasks were done before the kill, 0 after"},
	} {
		tasks, runs, v := good()
		runs = maps.Clone(runs)
		bad.spoil(&tasks, runs, v)
		v.Judge(files, tasks, runs)
		if err := v.Check(); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: %v, want ErrMismatch with %q", name, err, bad.says)
		}
	}
}

// A program that is no norn: the demo must notice, say what it printed, and
// leave nothing behind but the log it speaks of.
func TestAServerThatEndsEndsTheDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	program := filepath.Join(t.TempDir(), "norn")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho cannot go on; exit 3\n"), 0o700); err != nil { //nolint:gosec // it is to run
		t.Fatal(err)
	}
	var out strings.Builder
	v, err := Run(t.Context(), Options{Binary: program, Source: tree(t), Slots: 2, Out: &out})
	if v != nil || !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("%v, %v, want ErrEnded with its status", v, err)
	}
	if !strings.Contains(out.String(), "cannot go on") {
		t.Fatalf("the log is not shown: %s", out.String())
	}
}

// A server that hangs must be ended with the demo.
func TestStoppingLeavesNothingBehind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	program := filepath.Join(t.TempDir(), "norn")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil { //nolint:gosec // it is to run
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := stopAfter{2, cancel}
	_, err := Run(ctx, Options{Binary: program, Source: tree(t), Slots: 2, Out: &stop})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want context.Canceled", err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
	if _, err := Run(t.Context(), Options{Binary: program, Source: tree(t), Out: io.Discard, Patience: time.Millisecond}); !errors.Is(err, ErrTooLong) {
		t.Fatalf("%v, want ErrTooLong", err)
	}
}

// stopAfter cancels after so many writes.
type stopAfter struct {
	left   int
	cancel context.CancelCauseFunc
}

func (s *stopAfter) Write(b []byte) (int, error) {
	if s.left--; s.left == 0 {
		s.cancel(context.Canceled)
	}
	return len(b), nil
}
