package main

import (
	"slices"
	"strings"
	"testing"
)

func queueNames(t *testing.T, prefix string) (names []string) {
	t.Helper()
	for _, q := range decode[[]queueJSON](t, "queue", "list") {
		if strings.HasPrefix(q.Name, prefix) {
			names = append(names, q.Name)
		}
	}
	return names
}

// TestPurgeAndDeleteByPrefix: of all queues with a prefix, and of no others.
func TestPurgeAndDeleteByPrefix(t *testing.T) {
	for _, q := range []string{"pre-a", "pre-a", "pre-b", "pre-run", "pro-a"} {
		enqueue(t, "-q", q, "x")
	}
	ok(t, "queue", "set", "pre-set", "lease=1m")
	running, token := claim(t, "pre-run")
	for _, args := range [][]string{{"queue", "purge"}, {"queue", "delete"}} {
		refused(t, 2, "--yes", append(args, "--prefix", "pre-")...)
		refused(t, 2, "not both", append(args, "pre-a", "--prefix", "pre-", "--yes")...)
		refused(t, 2, "empty", append(args, "--prefix", "", "--yes")...)
		refused(t, 2, "--prefix", args...)
	}
	refused(t, 5, "norn queue purge pre-a", "queue", "delete", "pre-a")
	if out := ok(t, "queue", "purge", "--prefix", "pre-", "--dry-run"); !strings.HasSuffix(out, "would cancel 3 tasks of 2 queues (dry run)\n") || !strings.Contains(out, "\npre-b ") {
		t.Errorf("dry run: %s", out)
	}
	if got := decode[bulk](t, "queue", "purge", "--prefix", "pre-", "--yes"); got != (bulk{"3", "3", "0"}) {
		t.Errorf("purged: %+v", got)
	}
	if out := ok(t, "queue", "delete", "--prefix", "pre-", "--dry-run"); !strings.HasSuffix(out, "would delete 3 queues, not 1 queue with unfinished tasks; purge first, and wait for what is running (dry run)\n") {
		t.Errorf("dry run: %s", out)
	}
	if names := queueNames(t, "pr"); !slices.Equal(names, []string{"pre-a", "pre-b", "pre-run", "pre-set", "pro-a"}) {
		t.Errorf("a dry run leaves %v", names)
	}
	if r := norn(t, "queue", "delete", "--prefix", "pre-", "--yes"); r.code != 5 || r.out != "deleted 3 queues, not 1 queue with unfinished tasks; purge first, and wait for what is running\n" {
		t.Errorf("%+v", r)
	}
	if names := queueNames(t, "pr"); !slices.Equal(names, []string{"pre-run", "pro-a"}) {
		t.Errorf("left are %v", names)
	}
	refused(t, 3, "neither tasks nor settings", "queue", "get", "pre-a")
	ok(t, "task", "complete", running, token)
	if out := ok(t, "queue", "delete", "pre-run"); out != "deleted pre-run\n" {
		t.Errorf("got %q", out)
	}
	refused(t, 3, "neither tasks nor settings", "queue", "delete", "pre-run")
	refused(t, 2, "", "queue", "delete", "not a name")
}
