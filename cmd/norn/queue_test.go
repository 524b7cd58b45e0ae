package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type queueJSON struct {
	Name      string
	Version   string
	Settings  settingsJSON
	Effective settingsJSON
	Count     struct{ Queue, Ready, Total string }
}

type settingsJSON struct {
	Paused, Draining bool
	Note, Retention  string
	Lease            float64 `json:"lease_seconds"`
	Kept             float64 `json:"retention_seconds"`
	Retry            *struct {
		MaxAttempts int     `json:"max_attempts"`
		Initial     float64 `json:"initial_seconds"`
	}
	MaxTasks string `json:"max_tasks"`
}

func TestQueueSettings(t *testing.T) {
	beside(t)
	refused(t, 3, "neither tasks nor settings", "queue", "get", "q-set")
	got := decode[queueJSON](t, "queue", "set", "q-set", "max-attempts=3", "lease=2m", "retention=7d", "note=a=b, c")
	if s := got.Settings; got.Name != "q-set" || s.Lease != 120 || s.Kept != 7*24*3600 || s.Note != "a=b, c" || s.Retry == nil || s.Retry.MaxAttempts != 3 || s.Retry.Initial != 0 {
		t.Errorf("set: %+v", got)
	}
	if e := got.Effective; e.Lease != 120 || e.Retry == nil || e.Retry.MaxAttempts != 3 || e.Retry.Initial != 1 || e.Retention != "delete" {
		t.Errorf("what holds: %+v", e)
	}
	version := got.Version
	i := enqueue(t, "-q", "q-set", "x")
	if task := decode[struct {
		Most int `json:"max_attempts"`
	}](t, "task", "get", i); task.Most != 3 {
		t.Errorf("a task has %d attempts", task.Most)
	}
	if g := decode[[]struct {
		Lease float64 `json:"lease_seconds"`
	}](t, "task", "claim", "-q", "q-set"); len(g) != 1 || g[0].Lease != 120 {
		t.Errorf("claimed %+v", g)
	}
	got = decode[queueJSON](t, "queue", "set", "q-set", "lease=", "--if-version", version)
	if got.Settings.Lease != 0 || got.Effective.Lease != 30 || got.Settings.Note == "" || got.Version == version {
		t.Errorf("taken back: %+v", got)
	}
	refused(t, 5, "version", "queue", "set", "q-set", "lease=1m", "--if-version", version)
	out := single(ok(t, "queue", "get", "q-set"))
	for _, want := range []string{"state open\n", "tasks 1 claimed\n", "max-attempts 3 queue\n", "lease 30s server\n", "dead-retention -\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q: %s", want, out)
		}
	}
	ok(t, "queue", "set", "q-set", "max-tasks=1")
	refused(t, 6, "max-tasks", "task", "enqueue", "-q", "q-set", "x", "--quiet", "--timeout", "5s")
}

// single makes single spaces of several.
func single(table string) string { return regexp.MustCompile(` +`).ReplaceAllString(table, " ") }

// TestQueueJSON looks at the names of a queue's fields.
func TestQueueJSON(t *testing.T) {
	enqueue(t, "-q", "q-json", "x")
	var q map[string]json.RawMessage
	if err := json.Unmarshal([]byte(ok(t, "queue", "get", "q-json", "-o", "json")), &q); err != nil {
		t.Fatal(err)
	}
	keys := func(m map[string]json.RawMessage) (out []string) {
		for k := range m {
			out = append(out, k)
		}
		slices.Sort(out)
		return out
	}
	want := []string{"bytes", "count", "effective", "name", "oldest_ready_seconds", "settings", "version", "waiting_claims"}
	if got := keys(q); !slices.Equal(got, want) {
		t.Errorf("a queue has %v", got)
	}
	var s map[string]json.RawMessage
	if err := json.Unmarshal(q["settings"], &s); err != nil {
		t.Fatal(err)
	}
	want = []string{"dead_retention_seconds", "deleted", "draining", "lease_seconds", "max_tasks", "note", "paused", "paused_at", "paused_by", "retention", "retention_seconds", "retry"}
	if got := keys(s); !slices.Equal(got, want) {
		t.Errorf("settings have %v", got)
	}
	all := decode[[]queueJSON](t, "queue", "list")
	if !slices.IsSortedFunc(all, func(a, b queueJSON) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("queues are not in the order of their names")
	}
	if i := slices.IndexFunc(all, func(q queueJSON) bool { return q.Name == "q-json" }); i < 0 || all[i].Count.Ready != "1" {
		t.Errorf("listed: %+v", all)
	}
	if out := ok(t, "queue", "list"); !strings.HasPrefix(out, "QUEUE ") || !strings.Contains(out, "\nq-json ") {
		t.Errorf("got %s", out)
	}
}

// TestQueuesInAnOrder: by part of a name, by a count, so many, and the other way round.
func TestQueuesInAnOrder(t *testing.T) {
	for queue, n := range map[string]int{"q-order-a": 2, "Q-ORDER-b": 3, "q-order-c": 1} {
		for range n {
			enqueue(t, "-q", queue, "x")
		}
	}
	names := func(args ...string) (all []string) {
		for _, q := range decode[[]queueJSON](t, append([]string{"queue", "list", "--contains", "q-Order-", "--quiet"}, args...)...) {
			all = append(all, q.Name)
		}
		return all
	}
	for _, tt := range []struct{ args, want []string }{
		{nil, []string{"Q-ORDER-b", "q-order-a", "q-order-c"}}, {[]string{"--reverse"}, []string{"q-order-c", "q-order-a", "Q-ORDER-b"}},
		{[]string{"--sort", "ready"}, []string{"Q-ORDER-b", "q-order-a", "q-order-c"}}, {[]string{"--sort", "ready", "--reverse"}, []string{"q-order-c", "q-order-a", "Q-ORDER-b"}},
		{[]string{"--sort", "ready", "--limit", "1"}, []string{"Q-ORDER-b"}}, {[]string{"--sort", "dead"}, []string{"Q-ORDER-b", "q-order-a", "q-order-c"}},
	} {
		if got := names(tt.args...); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
	if r := norn(t, "queue", "list", "--contains", "q-order", "-n", "2"); r.code != 0 || !strings.Contains(r.err, "2 of 3 queues") {
		t.Errorf("%+v", r)
	}
	if all := decode[[]queueJSON](t, "queue", "list", "--contains", "no such queue"); len(all) != 0 {
		t.Errorf("got %+v", all)
	}
	refused(t, 2, "is none of busy, cancelled, claimed", "queue", "list", "--sort", "size")
	refused(t, 2, "outside 0 to 1000", "queue", "list", "-n", "1001")
}

func TestPauseDrainResume(t *testing.T) {
	i := enqueue(t, "-q", "q-stop", "x")
	if q := decode[queueJSON](t, "queue", "pause", "q-stop", "--note", "incident 12"); !q.Settings.Paused || q.Settings.Note != "incident 12" {
		t.Errorf("paused: %+v", q)
	}
	if g := decode[[]grantJSON](t, "task", "claim", "-q", "q-stop"); len(g) != 0 {
		t.Errorf("claimed %+v of a paused queue", g)
	}
	enqueue(t, "-q", "q-stop", "y")
	if out := ok(t, "task", "explain", i); !strings.Contains(out, "queue paused") || !strings.Contains(out, "incident 12") {
		t.Errorf("explained: %s", out)
	}
	if out := ok(t, "queue", "drain", "q-stop"); !strings.Contains(single(out), "state paused, draining\n") {
		t.Errorf("drained: %s", out)
	}
	refused(t, 5, "queue q-stop is draining", "task", "enqueue", "-q", "q-stop", "z")
	ok(t, "queue", "drain", "q-stop", "--note", "see\nthere")
	refused(t, 5, "takes no new tasks (see there);", "task", "enqueue", "-q", "q-stop", "z")
	if q := decode[queueJSON](t, "queue", "resume", "q-stop"); q.Settings.Paused || q.Settings.Draining || q.Settings.Note != "" {
		t.Errorf("resumed: %+v", q)
	}
	enqueue(t, "-q", "q-stop", "z")
	if got, _ := claim(t, "q-stop"); got != i {
		t.Errorf("claimed %s", got)
	}
}

func TestBadQueueCommands(t *testing.T) {
	for want, args := range map[string][]string{
		`the nearest is "max-attempts"`:    {"queue", "set", "q", "max-attemps=3"},
		"is not a duration such as":        {"queue", "set", "q", "lease=soon"},
		"is not name=value":                {"queue", "set", "q", "lease"},
		"lease of 0.5 seconds":             {"queue", "set", "q-bad", "lease=500ms"},
		"is not [a-zA-Z0-9]":               {"queue", "get", "no good"},
		"requires at least 2 arg":          {"queue", "set", "q"},
		`did you mean "norn queue purge"?`: {"queue", "purg", "q"},
		"archive":                          {"queue", "set", "q-bad", "retention-policy=archive"},
	} {
		refused(t, 2, want, args...)
	}
	refused(t, 3, "neither tasks nor settings", "queue", "get", "q-bad")
}

// completed is what a shell is offered.
func completed(t *testing.T, env []string, args ...string) []string {
	t.Helper()
	r := nornWith(t, "", env, append([]string{"__completeNoDesc"}, args...)...)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != 0 || !strings.HasPrefix(lines[len(lines)-1], ":") || strings.Contains(r.err, "norn:") {
		t.Errorf("%q: %+v", args, r)
	}
	return lines[:len(lines)-1]
}

func TestCompletion(t *testing.T) {
	enqueue(t, "-q", "complete-a", "x")
	enqueue(t, "-q", "complete-b", "x")
	both := []string{"complete-a", "complete-b"}
	for _, args := range [][]string{
		{"queue", "get", "complete-"}, {"queue", "pause", "complete-"}, {"queue", "set", "complete-"}, {"queue", "purge", "complete-"},
		{"task", "enqueue", "-q", "complete-"}, {"task", "list", "--queue", "complete-"}, {"work", "-q", "complete-"}, {"task", "count", "-q", "complete-"},
	} {
		if got := completed(t, nil, args...); !slices.Equal(got, both) {
			t.Errorf("%q: %q", args, got)
		}
	}
	for _, tt := range []struct{ args, want []string }{
		{[]string{"work", "-q", "x,complete-a"}, []string{"x,complete-a"}},
		{[]string{"queue", "get", "complete-a", ""}, nil},
		{[]string{"task", "list", "--state", "c"}, []string{"claimed", "completed", "cancelled"}},
		{[]string{"task", "list", "--state", "dead,w"}, []string{"dead,waiting"}},
		{[]string{"task", "cancel", "--filter", "queue=x,state=d"}, []string{"queue=x,state=dead"}},
		{[]string{"queue", "set", "complete-a", "retention"}, []string{"retention=", "retention-policy="}},
		{[]string{"queue", "set", "complete-a", "retention-policy=a"}, []string{"retention-policy=archive"}},
		{[]string{"task", "enqueue", "--on-dep-failure", "r"}, []string{"run"}},
		{[]string{"task", "list", "-o", "json"}, []string{"json", "jsonl"}},
		{[]string{"completion", "p"}, []string{"powershell"}},
	} {
		if got := completed(t, nil, tt.args...); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q", tt.args, got)
		}
	}
	nobody := []string{"NORN_ADDR=127.0.0.1:1"}
	if got := completed(t, nobody, "queue", "get", ""); len(got) != 0 {
		t.Errorf("without a server: %q", got)
	}
	if got := completed(t, nobody, "queue", "get", "--addr", the.server.addr, "complete-"); !slices.Equal(got, both) {
		t.Errorf("--addr is not heeded: %q", got)
	}
	if got := completed(t, []string{"NORN_OUTPUT=nonsense"}, "queue", "get", ""); len(got) != 0 {
		t.Errorf("with a bad environment: %q", got)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := ok(t, "completion", shell); !strings.Contains(out, "norn") {
			t.Errorf("%s: %.100s", shell, out)
		}
		if out := ok(t, "completion", shell, "--help"); !strings.Contains(out, "Examples:\n") {
			t.Errorf("%s has no example", shell)
		}
	}
}

// TestTheNoteOfAnotherDoesNotWriteOnTheTerminal: the note of a queue is in the error of
// who enqueues into it. ESC was taken out of it, and U+009B, which begins a sequence as
// ESC [ does, and U+202E, which turns around what follows, were not.
func TestTheNoteOfAnotherDoesNotWriteOnTheTerminal(t *testing.T) {
	beside(t)
	ok(t, "queue", "drain", "q-noted", "--note", "a\u009b2Jb\u202ec\x1bd\u200be\u00e9\U0001f600")
	refused(t, 5, "(a 2Jb c d e\u00e9\U0001f600)", "task", "enqueue", "-q", "q-noted", "x")
}
