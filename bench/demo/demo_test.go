package demo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.go": "package a\n", "sub/b.go": "package b\n\n// x\n", "c.txt": "no\n"} {
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
	files, err := Walk(tree(t))
	if err != nil || len(files) != 2 || files[0].Lines != 1 || files[1].Lines != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	if _, err := Walk(t.TempDir()); !errors.Is(err, ErrNoFiles) {
		t.Fatalf("an empty tree: %v, want ErrNoFiles", err)
	}
}

func task(path, update string, s nornv1.State) *nornv1.Task {
	return &nornv1.Task{Payload: []byte(path), State: s, Updates: []*nornv1.Update{{Data: []byte(update)}}}
}

func TestVerdictFailsOnEveryMismatch(t *testing.T) {
	files := []File{{"a", 1, 10}, {"b", 3, 30}}
	good := func() ([]*nornv1.Task, map[string]int) {
		return []*nornv1.Task{
			task("a", "1 5", nornv1.State_STATE_COMPLETED), task("b", "3 9", nornv1.State_STATE_COMPLETED),
		}, map[string]int{"x": 1, "y": 2}
	}
	judge := func(tasks []*nornv1.Task, runs map[string]int, kills int) Verdict {
		v := Judge(files, tasks, runs)
		v.Kills, v.Took = kills, time.Second
		return v
	}
	tasks, runs := good()
	v := judge(tasks, runs, 1)
	if err := v.Check(); err != nil || v.Again != 1 || v.Compressed != 14 {
		t.Fatalf("a good run: %v, %+v", err, v)
	}
	var out strings.Builder
	if v.Write(&out); !strings.Contains(out.String(), "ran twice") {
		t.Fatalf("table: %s", out.String())
	}
	for name, spoil := range map[string]func(tasks []*nornv1.Task, runs map[string]int) ([]*nornv1.Task, int){
		"a task is missing": func(tasks []*nornv1.Task, _ map[string]int) ([]*nornv1.Task, int) { return tasks[:1], 1 },
		"a task is not done": func(tasks []*nornv1.Task, _ map[string]int) ([]*nornv1.Task, int) {
			tasks[0].State = 3
			return tasks, 1
		},
		"a task too many": func(tasks []*nornv1.Task, _ map[string]int) ([]*nornv1.Task, int) { return append(tasks, tasks[0]), 1 },
		"a wrong count": func(tasks []*nornv1.Task, _ map[string]int) ([]*nornv1.Task, int) {
			tasks[1].Updates[0].Data = []byte("4 9")
			return tasks, 1
		},
		"no result": func(tasks []*nornv1.Task, _ map[string]int) ([]*nornv1.Task, int) {
			tasks[1].Updates = nil
			return tasks, 1
		},
		"too few runs":         func(tasks []*nornv1.Task, runs map[string]int) ([]*nornv1.Task, int) { clear(runs); return tasks, 1 },
		"the kill was skipped": func(tasks []*nornv1.Task, _ map[string]int) ([]*nornv1.Task, int) { return tasks, 0 },
	} {
		tasks, runs := good()
		tasks, kills := spoil(tasks, runs)
		v := judge(tasks, runs, kills)
		if err := v.Check(); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v, want ErrMismatch", name, err)
		}
	}
}
