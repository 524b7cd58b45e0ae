package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const receiptJSON = `{
  "id": "ID",
  "copies": 1,
  "durable_copies": 1,
  "hinted": 0,
  "partition": PARTITION,
  "existed": false
}
`

const grantsJSON = `[
  {
    "task": {
      "id": "ID",
      "queue": "exact",
      "payload": "aGVsbG8=",
      "payload_text": "hello",
      "priority": -5,
      "state": "claimed",
      "attempts": 0,
      "max_attempts": 7,
      "created_at": "TIME",
      "not_before": null,
      "dependencies": [],
      "claims": [
        {
          "token": "TOKEN",
          "worker": "me",
          "start": "TIME",
          "end": "TIME",
          "outcome": "active",
          "principal": ""
        }
      ],
      "updates": [],
      "completed_at": null,
      "error": "",
      "headers": {
        "a": "1",
        "b": "x=y"
      },
      "result": "",
      "result_text": "",
      "on_dependency_failure": "cancel",
      "key": "",
      "key_window_seconds": 0,
      "retries": "0",
      "finished_at": null,
      "attempt_log": [],
      "kind": "greet",
      "tags": [
        "vip",
        "a,b"
      ]
    },
    "token": "TOKEN",
    "lease_seconds": 60,
    "start": "TIME",
    "end": "TIME",
    "eta_seconds": 0.1,
    "checkpoint": "",
    "checkpoint_text": ""
  }
]
`

const doneJSON = `{
  "id": "ID",
  "queue": "exact",
  "payload": "aGVsbG8=",
  "payload_text": "hello",
  "priority": -5,
  "state": "completed",
  "attempts": 0,
  "max_attempts": 7,
  "created_at": "TIME",
  "not_before": null,
  "dependencies": [],
  "claims": [
    {
      "token": "TOKEN",
      "worker": "me",
      "start": "TIME",
      "end": "TIME",
      "outcome": "completed",
      "principal": ""
    }
  ],
  "updates": [
    {
      "token": "TOKEN",
      "seq": "0",
      "data": "aGFsZg==",
      "data_text": "half",
      "at": "TIME"
    }
  ],
  "completed_at": "TIME",
  "error": "",
  "headers": {
    "a": "1",
    "b": "x=y"
  },
  "result": "",
  "result_text": "",
  "on_dependency_failure": "cancel",
  "key": "",
  "key_window_seconds": 0,
  "retries": "0",
  "finished_at": "TIME",
  "attempt_log": [
    {
      "number": "1",
      "token": "TOKEN",
      "worker": "me",
      "start": "TIME",
      "end": "TIME",
      "duration_seconds": SECONDS,
      "outcome": "completed",
      "error": "",
      "stack": "",
      "wait_seconds": SECONDS,
      "counted": true,
      "principal": "",
      "completed_by": ""
    }
  ],
  "kind": "greet",
  "tags": [
    "vip",
    "a,b"
  ]
}
`

const countJSON = `{
  "queue": "exact",
  "waiting": "0",
  "scheduled": "0",
  "ready": "0",
  "claimed": "0",
  "completed": "1",
  "dead": "0",
  "cancelled": "0",
  "total": "1"
}
`

// TestJSONOfALife follows a task from enqueue to completion and compares every
// document to the letter.
func TestJSONOfALife(t *testing.T) {
	same := func(what, got, want string) {
		t.Helper()
		if got := masked(got); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	same("claim of nothing", ok(t, "task", "claim", "-q", "exact", "-o", "json"), "[]\n")
	same("list of nothing", ok(t, "task", "list", "-q", "exact", "-o", "json"), "[]\n")
	receipts := ok(t, "task", "enqueue", "-q", "exact", "hello", "--priority", "-5", "--max-attempts", "7", "--header", "a=1", "--header", "b=x=y", "--kind", "greet", "--tag", "vip", "--tag", "a,b", "-o", "json")
	same("enqueue", receipts, "[\n  "+strings.ReplaceAll(strings.TrimSpace(receiptJSON), "\n", "\n  ")+"\n]\n")
	grants := ok(t, "task", "claim", "-q", "exact", "--lease", "1m", "--worker", "me", "-o", "json")
	same("claim", grants, grantsJSON)
	var g []grantJSON
	if err := json.Unmarshal([]byte(grants), &g); err != nil {
		t.Fatal(err)
	}
	id, token := g[0].Task.ID, g[0].Token
	same("update", ok(t, "task", "update", id, token, "0", "half", "-o", "json"), receiptJSON)
	same("renew", ok(t, "task", "renew", id, token, "--lease", "90s", "-o", "json"),
		"{\n  \"token\": \"TOKEN\",\n  \"worker\": \"me\",\n  \"start\": \"TIME\",\n  \"end\": \"TIME\",\n  \"outcome\": \"active\",\n  \"principal\": \"\",\n  \"lease_seconds\": 90\n}\n")
	if renewed := decode[struct {
		Lease float64 `json:"lease_seconds"`
	}](t, "task", "renew", id, token); renewed.Lease != 90 {
		t.Errorf("renewed without --lease: %v seconds", renewed.Lease)
	}
	same("log", ok(t, "task", "log", id, "-o", "jsonl"), `{"token": "TOKEN","seq":"0","data":"aGFsZg==","data_text":"half","at":"TIME"}`+"\n")
	same("complete", ok(t, "task", "complete", id, token, "-o", "json"), receiptJSON)
	same("get", ok(t, "task", "get", id, "-o", "json"), doneJSON)
	same("wait", ok(t, "task", "wait", id, "-o", "json"), "[\n  "+strings.ReplaceAll(strings.TrimSpace(doneJSON), "\n", "\n  ")+"\n]\n")
	same("count", ok(t, "task", "count", "-q", "exact", "-o", "json"), countJSON)
	same("list", ok(t, "task", "list", "-q", "exact", "-o", "json"), "[]\n")
	if all := decode[[]taskJSON](t, "task", "list", "-q", "exact", "--all"); len(all) != 1 || all[0].State != "completed" {
		t.Errorf("list --all: %+v", all)
	}
}

func enqueue(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(ok(t, append([]string{"task", "enqueue"}, args...)...))
}

func claim(t *testing.T, queue string) (id, token string) {
	t.Helper()
	g := decode[[]grantJSON](t, "task", "claim", "-q", queue, "--wait", "20s")
	if len(g) != 1 {
		t.Fatalf("nothing to claim in %s", queue)
	}
	return g[0].Task.ID, g[0].Token
}

// TestAClaimThatCannotBePrinted is given back: nobody knows its token.
func TestAClaimThatCannotBePrinted(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = full.Close() }()
	read, unread, err := os.Pipe()
	if err == nil {
		err = read.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unread.Close() }()
	id := enqueue(t, "-q", "unprinted", "x", "--max-attempts", "1")
	for what, out := range map[string]*os.File{"a full disk": full, "a pipe that nobody reads": unread} {
		for _, format := range []string{"table", "json"} {
			cmd := exec.Command(the.norn, "task", "claim", "-q", "unprinted", "-o", format, "--wait", "20s")
			cmd.Env, cmd.Stdout = environment("NORN_ADDR="+the.server.addr), out
			if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("-o %s to %s: %v", format, what, err)
			}
			if got := decode[taskJSON](t, "task", "get", id); got.State != "ready" || got.Attempts != 0 {
				t.Errorf("-o %s to %s: the task is %+v", format, what, got)
			}
		}
	}
}

// TestRetryInNoTime: a task that is to be retried after no time does not wait for what
// the policy says.
func TestRetryInNoTime(t *testing.T) {
	ok(t, "queue", "set", "at-once", "retry-initial=1h")
	want := enqueue(t, "-q", "at-once", "x")
	id, token := claim(t, "at-once")
	ok(t, "task", "fail", id, token, "--error", "no luck", "--retry-in", "0s")
	if got, _ := claim(t, "at-once"); got != want {
		t.Errorf("claimed %s, want %s", got, want)
	}
}

func TestFailRetryRelease(t *testing.T) {
	id := enqueue(t, "-q", "fails", "x", "--max-attempts", "2")
	_, token := claim(t, "fails")
	if out := ok(t, "task", "release", id, token, "-o", "json"); out != "{}\n" {
		t.Errorf("release prints %q", out)
	}
	_, token = claim(t, "fails")
	if out := ok(t, "task", "fail", id, token, "--error", "no luck", "--retry-in", "1h", "-o", "json"); out != "{\n  \"state\": \"scheduled\"\n}\n" {
		t.Errorf("fail prints %q", out)
	}
	got := decode[taskJSON](t, "task", "get", id)
	if got.State != "scheduled" || got.Attempts != 1 || got.Error != "no luck" || got.NotBefore == nil {
		t.Errorf("after a failure: %+v", got)
	}
	refused(t, 5, "lost", "task", "renew", id, "1")
	refused(t, 5, "lost", "task", "release", id, "1")

	id = enqueue(t, "-q", "fails", "y")
	_, token = claim(t, "fails")
	if out := ok(t, "task", "fail", id, token, "--error", "no use", "--discard", "-o", "yaml"); out != "state: dead\n" {
		t.Errorf("fail --discard prints %q", out)
	}
	refused(t, 1, "1 of 1 tasks ended dead", "task", "wait", id, "-o", "json")
	if dead := decode[[]taskJSON](t, "task", "list", "-q", "fails", "--state", "dead"); len(dead) != 1 || dead[0].ID != id {
		t.Errorf("dead tasks: %+v", dead)
	}
	for _, args := range [][]string{
		{"task", "renew", id, token}, {"task", "release", id, token}, {"task", "fail", id, "4294967299", "--error", "never mine"},
	} {
		refused(t, 5, "lost", args...)
	}
}

// TestCheckpoint hands the last visible update to the next claim, and hides
// what comes after a gap.
func TestCheckpoint(t *testing.T) {
	id := enqueue(t, "-q", "points", "x")
	_, token := claim(t, "points")
	ok(t, "task", "update", id, token, "0", "first")
	ok(t, "task", "update", id, token, "2", "third")
	if got := decode[taskJSON](t, "task", "get", id); len(got.Updates) != 1 {
		t.Errorf("with a gap: %+v", got.Updates)
	}
	ok(t, "task", "release", id, token)
	g := decode[[]grantJSON](t, "task", "claim", "-q", "points")
	if len(g) != 1 || string(g[0].Checkpoint) != "first" {
		t.Fatalf("next claim: %+v", g)
	}
	if n := len(decode[[]map[string]string](t, "task", "log", id)); n != 1 {
		t.Errorf("the log has %d updates", n)
	}
}

func TestOrderAndSchedule(t *testing.T) {
	low := enqueue(t, "-q", "order", "low", "--priority", "-2147483648")
	high := enqueue(t, "-q", "order", "high", "--priority", "2147483647")
	later := enqueue(t, "-q", "order", "later", "--delay", "1h", "--priority", "7")
	at := enqueue(t, "-q", "order", "at", "--at", "2200-01-02T03:04:05.5Z")
	g := decode[[]grantJSON](t, "task", "claim", "-q", "nothing,order", "-n", "9")
	if len(g) != 2 || g[0].Task.ID != high || g[1].Task.ID != low {
		t.Errorf("claimed %+v", g)
	}
	if got := decode[taskJSON](t, "task", "get", later); got.State != "scheduled" {
		t.Errorf("delayed: %+v", got)
	}
	if got := decode[taskJSON](t, "task", "get", at); got.State != "scheduled" || got.NotBefore.Format("2006-01-02T15:04:05.9Z") != "2200-01-02T03:04:05.5Z" {
		t.Errorf("at: %+v", got)
	}
}

func TestSameIDIsTheSameTask(t *testing.T) {
	id := enqueue(t, "-q", "same", "x")
	type receipt struct {
		ID      string
		Existed bool
	}
	if r := decode[[]receipt](t, "task", "enqueue", "-q", "same", "x", "--id", id); len(r) != 1 || !r[0].Existed || r[0].ID != id {
		t.Errorf("repeated: %+v", r)
	}
	refused(t, 5, "is taken by a task with another spec", "task", "enqueue", "-q", "same", "another", "--id", id)
	if n := len(decode[[]taskJSON](t, "task", "list", "-q", "same")); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func TestCountOfAll(t *testing.T) {
	enqueue(t, "-q", "counted", "x")
	type count struct{ Queue, Ready, Total string }
	all := decode[struct {
		count
		Queues []count
	}](t, "task", "count")
	found := false
	for _, q := range all.Queues {
		found = found || q == count{"counted", "1", "1"}
	}
	if !found || all.Queue != "" || all.Total == "0" {
		t.Errorf("got %+v", all)
	}
	if c := decode[count](t, "task", "count", "-q", "never-seen"); c != (count{"never-seen", "0", "0"}) {
		t.Errorf("an unknown queue: %+v", c)
	}
}

func TestFollow(t *testing.T) {
	id := enqueue(t, "-q", "followed", "x")
	_, token := claim(t, "followed")
	ok(t, "task", "update", id, token, "0", "one")
	followed := make(chan result)
	go func() { followed <- norn(t, "task", "log", id, "--follow", "-o", "jsonl") }()
	ok(t, "task", "update", id, token, "1", "two")
	ok(t, "task", "complete", id, token)
	if r := <-followed; r.code != 0 || strings.Count(r.out, "\n") != 2 || !strings.Contains(r.out, `"data":"dHdv"`) {
		t.Errorf("got %+v", r)
	}
}

func TestTables(t *testing.T) {
	id := enqueue(t, "-q", "tables", "--kind", "<greet>", "esc\x1b[2J")
	out := ok(t, "task", "list", "-q", "tables")
	lines := strings.Split(out, "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "ID ") || !strings.HasPrefix(lines[1], id+"  tables  <greet>  ready  0 ") || strings.Contains(out, "\x1b") {
		t.Errorf("got %q", out)
	}
	if out := ok(t, "task", "get", id); !strings.Contains(out, "state     ready\n") || strings.Contains(out, "\x1b") {
		t.Errorf("got %q", out)
	}
	if out := ok(t, "cluster", "status"); !strings.Contains(out, "partitions led     64 of 64\n") {
		t.Errorf("got %q", out)
	}
	r := norn(t, "task", "claim", "-q", "empty")
	if r.out != "" || r.err != "norn: nothing is ready\n" || r.code != 0 {
		t.Errorf("an empty claim: %+v", r)
	}
	if r := norn(t, "task", "list", "--all", "-q", "empty"); r.err != "" || r.code != 0 {
		t.Errorf("all of nothing: %+v", r)
	}
	if out := ok(t, "task", "claim", "-q", "tables", "--wait", "10000h"); !strings.Contains(out, id) {
		t.Errorf("a claim that would wait for long: %q", out)
	}
}
