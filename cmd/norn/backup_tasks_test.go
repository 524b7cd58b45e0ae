package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

type tasksJSON struct {
	Backup, Snapshot, Tasks, Root, Scope string
	Held                                 string `json:"held_claims"`
	Queues                               []map[string]string
}

type restoredJSON struct {
	Tasks, Written, Fresh string
	Freed                 string `json:"freed_claims"`
	LeftOut               string `json:"left_out"`
}

// lines enqueues so many tasks and gives their IDs.
func lines(t *testing.T, at []string, queue string, n int) []string {
	t.Helper()
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "payload %d\n", i)
	}
	r := nornWith(t, in.String(), at, "task", "enqueue", "-q", queue, "--lines", "-")
	if r.code != 0 {
		t.Fatalf("%+v", r)
	}
	return strings.Fields(r.out)
}

func jsonOf[T any](t *testing.T, at []string, args ...string) (v T) {
	t.Helper()
	r := nornWith(t, "", at, append(args, "-o", "json")...)
	if r.code != 0 {
		t.Fatalf("%v: %+v", args, r)
	}
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("%v: %v: %s", args, err, r.out)
	}
	return v
}

// TestTasksSurviveTheCluster: of the tasks of a cluster some are claimed, some completed, one
// waits for another one; the cluster is backed up and destroyed, begins anew with other
// partitions, and is given its tasks: each that was not completed is done there, once, and
// tokens have risen.
//
// Long because: it is one story.
func TestTasksSurviveTheCluster(t *testing.T) {
	beside(t)
	place := filepath.Join(t.TempDir(), "place")
	lost := filepath.Join(t.TempDir(), "lost")
	s := ownServer(t, lost, "--partitions", "8")
	at := []string{"NORN_ADDR=" + s.addr}
	ids := lines(t, at, "mail", 200)
	first := nornWith(t, "", at, "task", "enqueue", "-q", "later", "--after", ids[0], "last")
	if first.code != 0 {
		t.Fatalf("%+v", first)
	}
	claimed := jsonOf[[]struct {
		Task  struct{ ID string }
		Token string
	}](t, at, "task", "claim", "-q", "mail", "-n", "50", "--lease", "5s")
	if len(claimed) != 50 {
		t.Fatalf("claimed %+v", claimed)
	}
	highest := map[string]string{}
	for i, c := range claimed {
		highest[c.Task.ID] = c.Token
		if i%2 == 0 {
			if r := nornWith(t, "", at, "task", "complete", c.Task.ID, c.Token); r.code != 0 {
				t.Fatalf("%+v", r)
			}
		}
	}
	made := jsonOf[tasksJSON](t, at, "backup", "create", "--tasks", place)
	if made.Tasks != "201" || made.Held != "25" {
		t.Fatalf("made %+v", made)
	}
	if r := nornWith(t, "", nil, "backup", "verify", place); r.code != 0 || !strings.Contains(r.out, made.Root) {
		t.Fatalf("verified: %+v", r)
	}
	if _, err := s.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}

	anew := filepath.Join(t.TempDir(), "anew")
	if r := nornWith(t, "", nil, "backup", "restore", place, "--data", anew, "--name", "n1", "--partitions", "5"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	s = ownServer(t, anew)
	at = []string{"NORN_ADDR=" + s.addr}
	dry := jsonOf[restoredJSON](t, at, "backup", "restore", "--tasks", place, "--dry-run")
	if dry.Tasks != "201" || dry.Written != "0" || dry.Freed != "25" {
		t.Errorf("dry run: %+v", dry)
	}
	for i, want := range []string{"201", "0"} {
		got := jsonOf[restoredJSON](t, at, "backup", "restore", "--tasks", place, "--buffer", "1s")
		if got.Written != "201" || got.Fresh != want || got.LeftOut != "0" {
			t.Fatalf("restored the %d. time: %+v", i+1, got)
		}
	}
	done := map[string]int{}
	eventually(t, "every task is done", func() bool {
		for _, queue := range []string{"mail", "later"} {
			for _, c := range jsonOf[[]struct {
				Task  struct{ ID string }
				Token string
			}](t, at, "task", "claim", "-q", queue, "-n", "100", "--wait", "100ms") {
				done[c.Task.ID]++
				if was := highest[c.Task.ID]; len(c.Token) < len(was) || len(c.Token) == len(was) && c.Token <= was {
					t.Errorf("task %s has token %s after %s", c.Task.ID, c.Token, was)
				}
				if r := nornWith(t, "", at, "task", "complete", c.Task.ID, c.Token); r.code != 0 {
					t.Fatalf("%+v", r)
				}
			}
		}
		return len(done) >= 176
	})
	for i, c := range claimed {
		if done[c.Task.ID] != i%2 {
			t.Errorf("task %d, claimed before, was done %d times", i, done[c.Task.ID])
		}
	}
	for _, task := range append(slices.Clone(ids), strings.TrimSpace(first.out)) {
		if done[task] > 1 {
			t.Errorf("task %s was done %d times", task, done[task])
		}
	}
	if len(done) != 176 {
		t.Errorf("%d tasks were done", len(done))
	}
}

// TestAnEncryptedChainIsRestored: a full and an incremental backup, encrypted; a drill with the
// key finds that they are whole, with schedules and claims; then the cluster begins anew from
// them, and has its tasks.
//
// Long because: it is one story.
func TestAnEncryptedChainIsRestored(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	place, key, lost := filepath.Join(dir, "place"), filepath.Join(dir, "key"), filepath.Join(dir, "lost")
	s := ownServer(t, lost, "--partitions", "8")
	at := []string{"NORN_ADDR=" + s.addr}
	must := func(at []string, args ...string) string {
		t.Helper()
		r := nornWith(t, "", at, args...)
		if r.code != 0 {
			t.Fatalf("%v: %+v", args, r)
		}
		return r.out
	}
	ids := lines(t, at, "mail", 50)
	must(at, "task", "enqueue", "-q", "later", "--after", ids[0], "last")
	must(nil, "backup", "keygen", key)
	full := jsonOf[tasksJSON](t, at, "backup", "create", "--tasks", "--key-file", key, place)
	lines(t, at, "more", 10)
	must(at, "task", "claim", "-q", "mail", "-n", "3")
	since := jsonOf[tasksJSON](t, at, "backup", "create", "--tasks", "--key-file", key, "--since", "last", place)
	if since.Backup == full.Backup || since.Held != "3" {
		t.Fatalf("incremental %+v to %+v", since, full)
	}
	if r := nornWith(t, "", nil, "backup", "verify", place); r.code == 0 || !strings.Contains(r.err, "--key-file") {
		t.Errorf("without the key: %+v", r)
	}
	if out := must(nil, "backup", "inspect", "--tasks", place); !strings.Contains(out, "incremental 1, encrypted") || !strings.Contains(out, "full, encrypted") {
		t.Errorf("inspected: %s", out)
	}
	if whole := jsonOf[tasksJSON](t, nil, "backup", "verify", "--key-file", key, place); whole.Tasks != "61" || whole.Held != "3" {
		t.Errorf("verified: %+v", whole)
	}
	if out := must(nil, "backup", "drill", "--key-file", key, place); !strings.Contains(out, "61 tasks") || !strings.Contains(out, "are the same there") {
		t.Errorf("drill: %s", out)
	}
	if _, err := s.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	anew := filepath.Join(dir, "anew")
	must(nil, "backup", "restore", place, "--key-file", key, "--data", anew, "--name", "n1", "--partitions", "5")
	s = ownServer(t, anew)
	at = []string{"NORN_ADDR=" + s.addr}
	if got := jsonOf[restoredJSON](t, at, "backup", "restore", "--tasks", "--key-file", key, place); got.Written != "61" || got.Fresh != "61" || got.Freed != "3" {
		t.Errorf("restored: %+v", got)
	}
	other := ownServer(t, filepath.Join(dir, "other"))
	report := filepath.Join(dir, "report")
	must([]string{"NORN_ADDR=" + other.addr}, "backup", "restore", "--tasks", "--key-file", key, "--prefix", "old/", "--report", report, place)
	if b, err := os.ReadFile(report); err != nil || strings.Count(string(b), "\n") != 61 || !strings.Contains(string(b), `"new"`) {
		t.Errorf("the report: %s, %v", b, err)
	}
	// A part that is gone is named by all of them.
	parts, err := filepath.Glob(filepath.Join(place, full.Backup+"*.part"))
	if err != nil || len(parts) == 0 {
		t.Fatal(err)
	}
	if err := os.Remove(parts[0]); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"verify", "drill"} {
		if r := nornWith(t, "", nil, "backup", what, "--key-file", key, place); r.code == 0 || !strings.Contains(r.err, filepath.Base(parts[0])) {
			t.Errorf("%s without a part: %+v", what, r)
		}
	}
}

// TestJobsOfSidekiq from a file: those that are to be done are enqueued, once.
func TestJobsOfSidekiq(t *testing.T) {
	s := ownServer(t, filepath.Join(t.TempDir(), "data"))
	at := []string{"NORN_ADDR=" + s.addr}
	file := filepath.Join(t.TempDir(), "jobs")
	text := `{"class":"Mail","args":[1,"two"],"jid":"a1","queue":"my queue","retry":true,"created_at":1.7e9}
{"class":"Later","args":[],"jid":"a2","at":4102444800.5}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 tasks were enqueued, 0 were there", "0 tasks were enqueued, 2 were there"} {
		if r := nornWith(t, "", at, "task", "import", "--from", "sidekiq", file); r.code != 0 || !strings.Contains(r.out, want) {
			t.Fatalf("not %q: %+v", want, r)
		}
	}
	got := jsonOf[[]struct {
		Task struct{ Kind, Queue string }
	}](t, at, "task", "claim", "-q", "my-queue", "-n", "5")
	if len(got) != 1 || got[0].Task.Kind != "Mail" {
		t.Errorf("claimed %+v", got)
	}
	if err := os.WriteFile(file, []byte(text+"{\"class\":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := nornWith(t, "", at, "task", "import", "--from", "sidekiq", "--dry-run", file); r.code == 0 || !strings.Contains(r.err, "jobs:3: ") {
		t.Errorf("a line that is none: %+v", r)
	}
}
