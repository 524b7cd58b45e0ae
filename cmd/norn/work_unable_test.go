package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkThatCannotStartCommands charges nothing to the tasks, says why in the list of
// workers and where one asks for a task, and ends with an exit code of its own.
func TestWorkThatCannotStartCommands(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := startWith(t, "unable", []string{"--name", "unable", "--give-up", "4s"}, script)
	eventually(t, "it waits for tasks", func() bool { return listed(t, "unable").State == "healthy" })
	if err := os.Remove(script); err != nil {
		t.Fatal(err)
	}
	id := enqueue(t, "-q", "unable", "x")
	eventually(t, "it says why", func() bool { return strings.Contains(listed(t, "unable").Trouble, "no such file") })
	if out := ok(t, "worker", "list", "unable"); !strings.Contains(out, "cannot begin tasks: ") {
		t.Errorf("listed as\n%s", out)
	}
	eventually(t, "the task tells", func() bool {
		out := ok(t, "task", "explain", id)
		return strings.Contains(out, "worker unable serves queue unable, and cannot begin tasks: ")
	})
	if code := w.exits(t); code != 71 {
		t.Errorf("it exits with %d: %s", code, w.out.String())
	}
	if n := strings.Count(w.out.String(), "tasks cannot be begun here"); n != 1 {
		t.Errorf("it says so %d times: %s", n, w.out.String())
	}
	got := decode[taskJSON](t, "task", "get", id)
	if got.State != "ready" || got.Attempts != 0 {
		t.Errorf("the task is %+v", got)
	}
	for _, c := range got.Claims {
		if c.Outcome != "released" {
			t.Errorf("a claim has ended: %+v", c)
		}
	}
}

// TestWorkFindsAtTheStart what would give every task back.
func TestWorkFindsAtTheStart(t *testing.T) {
	r := nornWith(t, "", []string{"TMPDIR=" + filepath.Join(t.TempDir(), "gone")}, "work", "-q", "start", "--", "true")
	if r.code != 71 || !strings.Contains(r.err, "TMPDIR") {
		t.Errorf("got %+v", r)
	}
	refused(t, 2, "--give-up: -1s is below zero", "work", "-q", "q", "--give-up", "-1s", "--", "true")
}
