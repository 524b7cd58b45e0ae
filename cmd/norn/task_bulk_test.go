package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

// outcome is what cancel and retry print per task.
type outcome struct {
	ID, State string
	Existed   bool
}

// bulk is what they print with a filter.
type bulk struct{ Matched, Done, Skipped string }

const unknownID = "3ZyfAz4TTlNLdMEJYWbpzCDKw1p"

// died makes a dead task.
func died(t *testing.T, queue, why string) string {
	t.Helper()
	enqueue(t, "-q", queue, "x")
	i, token := claim(t, queue)
	ok(t, "task", "fail", i, token, "--error", why, "--discard")
	return i
}

// finished makes a completed task.
func finished(t *testing.T, queue string) string {
	t.Helper()
	enqueue(t, "-q", queue, "x")
	i, token := claim(t, queue)
	ok(t, "task", "complete", i, token)
	return i
}

func state(t *testing.T, i string) string {
	t.Helper()
	return decode[taskJSON](t, "task", "get", i).State
}

func TestCancelByID(t *testing.T) {
	done := finished(t, "cancels")
	i := enqueue(t, "-q", "cancels", "x")
	if out := ok(t, "task", "cancel", i, "--reason", "not needed", "-o", "json"); out != fmt.Sprintf("[\n  {\n    \"id\": %q,\n    \"state\": \"cancelled\",\n    \"existed\": false\n  }\n]\n", i) {
		t.Errorf("cancel prints %s", out)
	}
	if got := decode[taskJSON](t, "task", "get", i); got.State != "cancelled" || got.Error != "not needed" {
		t.Errorf("afterwards: %+v", got)
	}
	if got := decode[[]outcome](t, "task", "cancel", i); !slices.Equal(got, []outcome{{i, "cancelled", true}}) {
		t.Errorf("again: %+v", got)
	}
	refused(t, 5, "is completed already", "task", "cancel", done)
	refused(t, 3, "is not known", "task", "cancel", unknownID)
	refused(t, 2, "5 characters, not 27", "task", "cancel", "short", i)

	other := enqueue(t, "-q", "cancels", "y")
	r := norn(t, "task", "cancel", unknownID, other, done, "-o", "json")
	var got []outcome
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 5 || !slices.Equal(got, []outcome{{other, "cancelled", false}}) {
		t.Errorf("some refused: %v, %+v", err, r)
	}
	if lines := strings.Split(strings.TrimSpace(r.err), "\n"); len(lines) != 2 || !strings.Contains(lines[0], unknownID) || !strings.Contains(lines[1], done) {
		t.Errorf("says %q", r.err)
	}
	if out := ok(t, "task", "cancel", i); !strings.HasPrefix(out, "ID  ") || !strings.Contains(out, i+"  cancelled  it was before\n") {
		t.Errorf("a table: %q", out)
	}
}

// A worker loses its claim by a cancellation, and its completion counts all the
// same.
func TestCancelWhileItRuns(t *testing.T) {
	enqueue(t, "-q", "cancels-running", "x")
	i, token := claim(t, "cancels-running")
	ok(t, "task", "cancel", i)
	refused(t, 5, "", "task", "renew", i, token)
	if got := state(t, i); got != "cancelled" {
		t.Errorf("it is %s", got)
	}
	ok(t, "task", "complete", i, token)
	if got := state(t, i); got != "completed" {
		t.Errorf("after the completion it is %s", got)
	}
}

func TestRetryByID(t *testing.T) {
	dead := died(t, "retries", "no luck")
	if got := decode[[]outcome](t, "task", "retry", dead); !slices.Equal(got, []outcome{{dead, "ready", false}}) {
		t.Errorf("a dead one: %+v", got)
	}
	again := decode[struct {
		State, Retries string
		Attempts       int
	}](t, "task", "get", dead)
	if again.State != "ready" || again.Retries != "1" || again.Attempts != 0 {
		t.Errorf("afterwards: %+v", again)
	}
	if got := decode[[]outcome](t, "task", "retry", dead); !slices.Equal(got, []outcome{{dead, "ready", true}}) {
		t.Errorf("again: %+v", got)
	}
	i, token := claim(t, "retries")
	ok(t, "task", "fail", i, token, "--error", "e", "--retry-in", "1h")
	if got := decode[[]outcome](t, "task", "retry", i); !slices.Equal(got, []outcome{{i, "ready", false}}) {
		t.Errorf("one that waits for its next attempt: %+v", got)
	}
	refused(t, 5, "is completed", "task", "retry", finished(t, "retries-done"))
	cancelled, later := enqueue(t, "-q", "retries-no", "x"), enqueue(t, "-q", "retries-no", "x", "--delay", "1h")
	ok(t, "task", "cancel", cancelled)
	refused(t, 5, "on purpose", "task", "retry", cancelled)
	refused(t, 5, "has not been tried", "task", "retry", later)
	refused(t, 3, "is not known", "task", "retry", unknownID)
}

func TestFilters(t *testing.T) {
	for _, why := range []string{"connection timeout", "timeout", "no route"} {
		died(t, "filters", why)
	}
	ready := enqueue(t, "-q", "filters", "x", "--header", "campaign=a,b")
	list := func(filter string) int {
		t.Helper()
		return len(decode[[]taskJSON](t, "task", "list", "--filter", filter))
	}
	for filter, want := range map[string]int{
		"queue=filters": 4, "queue=filters,state=dead": 3, "queue=filters,state=dead,state=ready": 4, "queue=filters,error=timeout": 2,
		"queue=filters,older-than=1h": 0, "queue=filters,created-after=2020-01-01": 4, "queue=filters,finished-after=2020-01-01": 3,
		"queue=filters,finished-before=2020-01-01": 0, `queue=filters,header.campaign=a\,b`: 1, "queue=filters,attempts=1": 3,
		"queue=filters,worker=nobody": 0, "queue=filters,key=k": 0,
	} {
		if got := list(filter); got != want {
			t.Errorf("%s finds %d, want %d", filter, got, want)
		}
	}
	if n := len(decode[[]taskJSON](t, "task", "list", "-q", "filters", "--state", "dead", "--filter", "error=route")); n != 1 {
		t.Errorf("with the other flags: %d", n)
	}

	retry := []string{"task", "retry", "--filter", "queue=filters,error=timeout"}
	if got := decode[bulk](t, append(retry, "--dry-run")...); got != (bulk{"2", "0", "0"}) {
		t.Errorf("dry run: %+v", got)
	}
	out := ok(t, append(retry, "--dry-run")...)
	if !strings.Contains(out, "connection timeout") || !strings.HasSuffix(out, "would retry 2 tasks (dry run)\n") || list("queue=filters,state=dead") != 3 {
		t.Errorf("dry run: %s", out)
	}
	if out := ok(t, retry...); out != "retried 2 tasks\n" || list("queue=filters,state=dead") != 1 {
		t.Errorf("retry prints %q", out)
	}
	if got := decode[bulk](t, "task", "cancel", "--filter", "queue=filters", "--filter", `header.campaign=a\,b`); got != (bulk{"1", "1", "0"}) || state(t, ready) != "cancelled" {
		t.Errorf("cancel: %+v", got)
	}
	refused(t, 2, "99 durable copies were asked for", "task", "cancel", "--filter", "queue=filters", "-w", "99")
	refused(t, 2, "99 replicas were to be asked", "task", "get", ready, "-r", "99")
	// Without a state those that are not finished, so not the dead one.
	if got := decode[bulk](t, "task", "cancel", "--filter", "queue=filters"); got != (bulk{"2", "2", "0"}) {
		t.Errorf("cancel: %+v", got)
	}
	if got := decode[bulk](t, "task", "retry", "--filter", "queue=filters,state=cancelled"); got != (bulk{"3", "0", "3"}) {
		t.Errorf("cancelled on purpose: %+v", got)
	}
	if out := ok(t, "task", "retry", "--filter", "queue=filters,state=cancelled"); out != "retried 0 tasks, skipped 3 tasks whose state had changed or does not allow it\n" {
		t.Errorf("skipped: %q", out)
	}
	if out := ok(t, "task", "cancel", "--filter", "queue=none-such"); out != "cancelled 0 tasks\n" {
		t.Errorf("nothing found: %q", out)
	}
}

func TestBadFilters(t *testing.T) {
	for want, args := range map[string][]string{
		"no task; give IDs, or --filter":     {"task", "cancel"},
		"give IDs or --filter, not both":     {"task", "retry", unknownID, "--filter", "queue=a"},
		"--dry-run: it needs --filter":       {"task", "cancel", unknownID, "--dry-run"},
		"add --yes if that is meant":         {"task", "cancel", "--filter", ""},
		`the nearest is "queue"`:             {"task", "cancel", "--filter", "queu=a"},
		"is not a duration such as":          {"task", "list", "--filter", "older-than=long"},
		"name two queues":                    {"task", "list", "-q", "a", "--filter", "queue=b"},
		"--state: \"gone\" is not waiting":   {"task", "list", "--state", "gone"},
		"is not one, quorum, all or a numbe": {"task", "cancel", unknownID, "-w", "none"},
	} {
		refused(t, 2, want, args...)
	}
}

func TestPurgeOfMany(t *testing.T) {
	const n = 2_500 // more than two pages
	r := nornWith(t, strings.Repeat("x\n", n), nil, "task", "enqueue", "-q", "purged", "--lines", "-")
	if r.code != 0 {
		t.Fatal(r.err)
	}
	running, _ := claim(t, "purged")
	later := enqueue(t, "-q", "purged", "x", "--delay", "1h")
	waits := enqueue(t, "-q", "purged", "x", "--after", later, "--on-dep-failure", "wait")
	refused(t, 2, "add --yes", "queue", "purge", "purged")
	if out := ok(t, "queue", "purge", "purged", "--dry-run"); !strings.HasSuffix(out, "would cancel 2,501 tasks (dry run)\n") {
		t.Errorf("dry run: %s", out[max(0, len(out)-200):])
	}
	if got := decode[bulk](t, "queue", "purge", "purged", "--yes"); got != (bulk{"2501", "2501", "0"}) {
		t.Errorf("purge: %+v", got)
	}
	if state(t, running) != "claimed" || state(t, later) != "cancelled" || state(t, waits) != "cancelled" {
		t.Error("afterwards one is in a wrong state")
	}
	if got := decode[taskJSON](t, "task", "get", waits); got.Error != "purged" {
		t.Errorf("its error is %q", got.Error)
	}
}

// reasons are the kinds that explain gives.
func reasons(t *testing.T, i string) (kinds []string) {
	t.Helper()
	m := decode[struct {
		ID, Queue, State string
		Reasons          []struct{ Kind, Text string }
	}](t, "task", "explain", i)
	if m.ID != i || m.Queue == "" || m.State != state(t, i) {
		t.Errorf("explained: %+v", m)
	}
	for _, r := range m.Reasons {
		kinds = append(kinds, r.Kind)
		if r.Text == "" {
			t.Errorf("no text: %+v", m)
		}
	}
	return kinds
}

func TestDependencies(t *testing.T) {
	first, second := enqueue(t, "-q", "deps", "1"), enqueue(t, "-q", "deps", "2")
	after := enqueue(t, "-q", "deps-after", "x", "--after", first+","+second)
	if got := reasons(t, after); !slices.Equal(got, []string{"dependency", "dependency"}) || state(t, after) != "waiting" {
		t.Errorf("explained by %v", got)
	}
	out := ok(t, "task", "explain", after)
	if !strings.HasPrefix(out, after+" in queue deps-after is waiting\n  dependency  dependency "+first) {
		t.Errorf("got %s", out)
	}
	for range 2 {
		i, token := claim(t, "deps")
		ok(t, "task", "complete", i, token)
	}
	eventually(t, "the task is ready", func() bool { return state(t, after) == "ready" })

	doomed := enqueue(t, "-q", "deps", "3")
	falls, runs := enqueue(t, "-q", "deps-after", "x", "--after", doomed), enqueue(t, "-q", "deps-after", "x", "--after", doomed, "--on-dep-failure", "run")
	waits := enqueue(t, "-q", "deps-after", "x", "--after", doomed, "--on-dep-failure", "wait")
	ok(t, "task", "cancel", doomed)
	eventually(t, "the policies take effect", func() bool { return state(t, falls) == "cancelled" && state(t, runs) == "ready" })
	if got := decode[taskJSON](t, "task", "get", falls); state(t, waits) != "waiting" || !strings.Contains(got.Error, doomed) {
		t.Errorf("got %+v", got)
	}
	refused(t, 5, doomed, "task", "retry", falls)
	if got := reasons(t, falls); !slices.Equal(got, []string{"finished"}) {
		t.Errorf("explained by %v", got)
	}

	dead := died(t, "deps", "e")
	fell := enqueue(t, "-q", "deps-after", "x", "--after", dead)
	eventually(t, "a dead dependency counts", func() bool { return state(t, fell) == "cancelled" })
	ok(t, "task", "retry", dead)
	if got := decode[[]outcome](t, "task", "retry", fell); !slices.Equal(got, []outcome{{fell, "waiting", false}}) {
		t.Errorf("retried after its dependency: %+v", got)
	}
}

func TestExplain(t *testing.T) {
	c, err := client.Dial(t.Context(), []string{the.server.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ids := c.NewIDs(3)
	text := func(i id.ID) string { return i.String() }
	enqueue(t, "-q", "circle", "a", "--id", text(ids[0]), "--after", text(ids[1]))
	if got := reasons(t, text(ids[0])); !slices.Equal(got, []string{"unknown_dependency"}) {
		t.Errorf("explained by %v", got)
	}
	enqueue(t, "-q", "circle", "b", "--id", text(ids[1]), "--after", text(ids[0]))
	if got := reasons(t, text(ids[1])); len(got) == 0 || got[0] != "cycle" {
		t.Errorf("explained by %v", got)
	}
	refused(t, 2, "depends on itself", "task", "enqueue", "-q", "circle", "c", "--id", text(ids[2]), "--after", text(ids[2]))

	ready := enqueue(t, "-q", "explained", "x")
	if got := reasons(t, ready); !slices.Equal(got, []string{"no_worker"}) {
		t.Errorf("explained by %v", got)
	}
	if got := reasons(t, enqueue(t, "-q", "explained", "x")); !slices.Contains(got, "behind") {
		t.Errorf("explained by %v", got)
	}
	if got := reasons(t, enqueue(t, "-q", "explained", "x", "--delay", "1h")); !slices.Contains(got, "not_before") {
		t.Errorf("explained by %v", got)
	}
	i, token := claim(t, "explained")
	if got := reasons(t, i); !slices.Equal(got, []string{"claimed"}) {
		t.Errorf("explained by %v", got)
	}
	ok(t, "task", "fail", i, token, "--error", "two\nlines", "--retry-in", "1h")
	if got := reasons(t, i); !slices.Contains(got, "back_off") {
		t.Errorf("explained by %v", got)
	}
	refused(t, 3, "is not known", "task", "explain", unknownID)
}

func TestUniqueKeys(t *testing.T) {
	i := enqueue(t, "-q", "keys", "--key", "a", "x")
	receipts := decode[[]struct {
		ID      string
		Existed bool
	}](t, "task", "enqueue", "-q", "keys", "--key", "a", "x")
	if len(receipts) != 1 || receipts[0].ID != i || !receipts[0].Existed {
		t.Errorf("again: %+v", receipts)
	}
	refused(t, 5, i, "task", "enqueue", "-q", "keys", "--key", "a", "y")
	if other := enqueue(t, "-q", "keys-other", "--key", "a", "x"); other == i {
		t.Error("a key is one of its queue")
	}
	claimed, token := claim(t, "keys")
	ok(t, "task", "complete", claimed, token)
	next := enqueue(t, "-q", "keys", "--key", "a", "y")
	if next == i {
		t.Error("the key is free once the task is finished")
	}

	windowed := enqueue(t, "-q", "keys-window", "--key", "w", "--key-window", "8760h", "x")
	claimed, token = claim(t, "keys-window")
	ok(t, "task", "complete", claimed, token)
	if again := enqueue(t, "-q", "keys-window", "--key", "w", "--key-window", "8760h", "x"); again != windowed {
		t.Errorf("in the same window %s, then %s", windowed, again)
	}

	in := `{"payload_text":"x","key":"j"}
{"payload_text":"x","key":"j","key_window":"8760h"}
{"payload_text":"x","key":"j"}
{"payload_text":"other","key":"j"}
{"payload_text":"x","key_window":"1h"}
{"payload_text":"after","after":["` + next + `"],"on_dep_failure":"run"}
`
	r := nornWith(t, in, nil, "task", "enqueue", "-q", "keys-jsonl", "--jsonl", "-")
	ids := strings.Fields(r.out)
	if r.code != 5 || len(ids) != 4 || ids[0] != ids[2] || ids[0] == ids[1] || strings.Count(r.err, "\n") != 2 ||
		!strings.Contains(r.err, "norn: line 4: enqueue: ") || !strings.Contains(r.err, "norn: line 5: enqueue: key_window_seconds needs a key") {
		t.Fatalf("got %+v", r)
	}
	task := decode[struct {
		Key    string
		Window float64 `json:"key_window_seconds"`
	}](t, "task", "get", ids[1])
	if task.Key != "j" || task.Window != 8760*3600 {
		t.Errorf("got %+v", task)
	}
	if out := ok(t, "task", "get", ids[1]); !strings.Contains(single(out), "unique key j (once per 365d)\n") {
		t.Errorf("got %s", out)
	}
	if out := ok(t, "task", "get", ids[3]); !strings.Contains(single(out), "if one dies run\n") {
		t.Errorf("got %s", out)
	}
}
