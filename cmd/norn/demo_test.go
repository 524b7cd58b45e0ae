package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDemo takes the tour over a small tree: nodes and workers are processes, and
// one of each is killed.
func TestDemo(t *testing.T) {
	beside(t)
	source, tmp := t.TempDir(), t.TempDir()
	lines, size := 0, 0
	const files = 60
	for i := range files {
		text := strings.Repeat(fmt.Sprintf("// line %d\n", i), i*i%500)
		lines, size = lines+strings.Count(text, "\n"), size+len(text)
		path := filepath.Join(source, fmt.Sprintf("dir %d", i%7), fmt.Sprintf("file %d.go", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What the caller's settings point at is none of the demo's business.
	env := []string{"TMPDIR=" + tmp, "NORN_AUTH_TOKEN=secret", "NORN_TLS_CA=/nowhere"}
	r := nornWith(t, "", env, "demo", "--source", source, "--slots", "3", "-o", "json")
	if r.code != 0 {
		t.Fatalf("exits with %d: %s%s", r.code, r.out, r.err)
	}
	var v struct {
		OK                                                      bool
		Files, Acknowledged, Stored, Completed, Lost, Lines     string
		Bytes, Runs, NodesKilled, WorkersKilled                 string
		LinesWalked, BytesWalked                                string
		RanTwice, DoneAtKill, DoneAfterKill                     string
		Seconds, EnqueueSeconds, TasksPerSecond, BytesPerSecond float64
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(r.out, "_", "")), &v); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	n := fmt.Sprint(files)
	if !v.OK || v.Files != n || v.Acknowledged != n || v.Stored != n || v.Completed != n || v.Lost != "0" || v.NodesKilled != "1" || v.WorkersKilled != "1" {
		t.Errorf("got %s", r.out)
	}
	if v.Lines != fmt.Sprint(lines) || v.LinesWalked != v.Lines || v.Bytes != fmt.Sprint(size) || v.BytesWalked != v.Bytes || v.Seconds <= 0 {
		t.Errorf("%d lines, %d bytes are there: %s", lines, size, r.out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoRefusesWhatItCannotDo(t *testing.T) {
	beside(t)
	refused(t, 2, "over zero", "demo", "--slots", "0")
	refused(t, 1, "demo", "demo", "--quiet", "--source", filepath.Join(t.TempDir(), "nowhere"))
	refused(t, 1, "no .go files", "demo", "--quiet", "--source", t.TempDir())
	// Without wc and gzip nothing can be counted: the tasks fail, and are retried
	// until patience ends.
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "a.go"), []byte("package a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := t.TempDir()
	if err := os.Symlink("/bin/sh", filepath.Join(sh, "sh")); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + sh, "TMPDIR=" + t.TempDir()}
	if r := nornWith(t, "", env, "demo", "--source", source, "--patience", "3s"); r.code != 1 || !strings.Contains(r.err, "too long") {
		t.Errorf("exits with %d: %s", r.code, r.err)
	}
}
