package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTasksTravelAsLines: what is exported is imported under a prefix, with its dependencies;
// what is finished stays behind, the same file again is nothing new, and a line that is none
// is named.
func TestTasksTravelAsLines(t *testing.T) {
	s := ownServer(t, filepath.Join(t.TempDir(), "data"), "--partitions", "4")
	at := []string{"NORN_ADDR=" + s.addr}
	run := func(code int, args ...string) string {
		t.Helper()
		r := nornWith(t, "", at, args...)
		if r.code != code {
			t.Fatalf("%v: %+v", args, r)
		}
		return r.out + r.err
	}
	one := strings.TrimSpace(run(0, "task", "enqueue", "-q", "mail", "--priority", "7", "--kind", "send", "--tag", "vip", "--tag", "eu", "one"))
	two := strings.TrimSpace(run(0, "task", "enqueue", "-q", "mail", "--key", "k", "--after", one, "two"))
	run(0, "task", "enqueue", "-q", "mail", "--after", two, "three")
	over := strings.TrimSpace(run(0, "task", "enqueue", "-q", "mail", "over"))
	run(0, "task", "cancel", over)

	file := filepath.Join(t.TempDir(), "tasks.jsonl")
	run(0, "task", "export", "-q", "mail", "--file", file)
	b, err := os.ReadFile(file)
	if err != nil || strings.Count(string(b), "\n") != 4 {
		t.Fatalf("exported %s: %v", b, err)
	}
	run(1, "task", "export", "--file", file)
	if out := run(0, "task", "import", file, "--dry-run"); !strings.Contains(out, "3 tasks would be enqueued, 1 are finished") {
		t.Errorf("dry run: %s", out)
	}
	if out := run(0, "task", "import", file); !strings.Contains(out, "0 tasks were enqueued, 3 were there, 1 are finished, 0 were refused") {
		t.Errorf("into where they are: %s", out)
	}
	if out := run(0, "task", "import", file, "--queue-prefix", "old/"); !strings.Contains(out, "3 tasks were enqueued") {
		t.Errorf("with a prefix: %s", out)
	}
	type listed struct {
		ID, Payload, State, Key, Kind string
		Priority                      int
		Dependencies, Tags            []string
	}
	all := map[string]listed{}
	for _, x := range jsonOf[[]listed](t, at, "task", "list", "-q", "old/mail") {
		all[x.Payload] = x
	}
	first, second, third := all["b25l"], all["dHdv"], all["dGhyZWU="]
	if first.ID == "" || first.ID == one || first.Priority != 7 || second.Key != "k" || len(second.Dependencies) != 1 || second.Dependencies[0] != first.ID || len(third.Dependencies) != 1 || third.Dependencies[0] != second.ID {
		t.Errorf("imported %+v", all)
	}
	if first.Kind != "send" || !slices.Equal(slices.Sorted(slices.Values(first.Tags)), []string{"eu", "vip"}) {
		t.Errorf("imported with kind %q and tags %q", first.Kind, first.Tags)
	}
	if err := os.WriteFile(file, append(b, []byte("{\"id\": 5}\n")...), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(1, "task", "import", file); !strings.Contains(out, file+":5:") {
		t.Errorf("of a line that is none: %s", out)
	}
}
