package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func payloads(t *testing.T, queue string) (out []string) {
	t.Helper()
	for _, task := range decode[[]taskJSON](t, "task", "list", "-q", queue, "--all") {
		out = append(out, string(task.Payload))
	}
	return out
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEnqueuePayloads(t *testing.T) {
	path := write(t, "from a file\x00\xff")
	ok(t, "task", "enqueue", "-q", "payloads", "--file", path)
	ok(t, "task", "enqueue", "-q", "payloads")
	ok(t, "task", "enqueue", "-q", "payloads", "--", "--dashed")
	if r := nornWith(t, "from stdin", nil, "task", "enqueue", "-q", "payloads", "-"); r.code != 0 {
		t.Errorf("got %+v", r)
	}
	want := map[string]bool{"from a file\x00\xff": true, "": true, "--dashed": true, "from stdin": true}
	got := payloads(t, "payloads")
	for _, p := range got {
		if !want[p] {
			t.Errorf("unexpected %q", p)
		}
		delete(want, p)
	}
	if len(got) != 4 || len(want) != 0 {
		t.Errorf("got %q, missing %v", got, want)
	}
}

// TestEnqueueManyLines streams more tasks than fit into one batch.
func TestEnqueueManyLines(t *testing.T) {
	const n = 5_000
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "line %d\n", i)
	}
	r := nornWith(t, in.String(), nil, "task", "enqueue", "-q", "many", "--lines", "-")
	ids := strings.Fields(r.out)
	if r.code != 0 || r.err != "" || len(ids) != n {
		t.Fatalf("%d IDs, exit %d: %s", len(ids), r.code, r.err)
	}
	type count struct{ Ready string }
	if c := decode[count](t, "task", "count", "-q", "many"); c.Ready != fmt.Sprint(n) {
		t.Errorf("%s ready", c.Ready)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		if got := decode[taskJSON](t, "task", "get", ids[i]); string(got.Payload) != fmt.Sprintf("line %d", i) {
			t.Errorf("ID %d is of %q", i, got.Payload)
		}
	}
	listed := ok(t, "task", "list", "-q", "many", "--all", "-o", "jsonl")
	lines := strings.Split(strings.TrimSpace(listed), "\n")
	before := ""
	for _, l := range lines {
		var task taskJSON
		if err := json.Unmarshal([]byte(l), &task); err != nil {
			t.Fatal(err)
		}
		if task.ID <= before {
			t.Fatalf("%s after %s", task.ID, before)
		}
		before = task.ID
	}
	if len(lines) != n {
		t.Errorf("%d listed", len(lines))
	}
	if !slices.IsSorted(ids) {
		t.Error("later lines are older tasks")
	}
	if page := decode[[]taskJSON](t, "task", "list", "-q", "many"); len(page) != 100 {
		t.Errorf("a page has %d", len(page))
	}
	if page := decode[[]taskJSON](t, "task", "list", "-q", "many", "--limit", "2345"); len(page) != 2345 {
		t.Errorf("--limit 2345 gives %d", len(page))
	}
}

func TestEnqueueJSONLines(t *testing.T) {
	in := `{"payload":"aGVsbG8=","priority":5,"headers":{"k":"v"},"max_attempts":3}
{"payload_text":"two","queue":"jsonl-two","delay":"1h"}
`
	r := nornWith(t, in, nil, "task", "enqueue", "-q", "jsonl", "--jsonl", "-", "-o", "json")
	var receipts []struct{ ID string }
	if err := json.Unmarshal([]byte(r.out), &receipts); err != nil || r.code != 0 || len(receipts) != 2 {
		t.Fatalf("%v: %+v", err, r)
	}
	one, two := decode[taskJSON](t, "task", "get", receipts[0].ID), decode[taskJSON](t, "task", "get", receipts[1].ID)
	if string(one.Payload) != "hello" || one.Priority != 5 || one.Headers["k"] != "v" || one.Queue != "jsonl" {
		t.Errorf("first: %+v", one)
	}
	if string(two.Payload) != "two" || two.Queue != "jsonl-two" || two.State != "scheduled" {
		t.Errorf("second: %+v", two)
	}
}

// TestRefusedLinesAreNamed checks that what is wrong with a line is told with
// its number, in order, and that all other lines are enqueued.
func TestRefusedLinesAreNamed(t *testing.T) {
	taken := enqueue(t, "-q", "mixed", "taken")
	in := `{"payload_text":"a"}
{"payload_text":}
{"payload_text":"b","queue":"no good"}
{"payload_text":"c","id":"` + taken + `"}
{"payload_text":"d","priorty":1}
{"payload_text":"e"}
`
	r := nornWith(t, in, nil, "task", "enqueue", "-q", "mixed", "--jsonl", write(t, in), "-o", "json")
	want := []string{
		"norn: line 2, column 17: malformed JSON: ",
		`norn: line 3: enqueue: queue name "no good" is not `,
		"norn: line 4: enqueue: ID " + taken + " is taken by a task with another spec",
		`norn: line 5, column 21: unknown key "priorty"`,
	}
	got := strings.Split(strings.TrimSpace(r.err), "\n")
	for i := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	var receipts []struct{ ID string }
	if err := json.Unmarshal([]byte(r.out), &receipts); err != nil || len(receipts) != 2 || r.code != 5 {
		t.Errorf("exit %d, %v: %s", r.code, err, r.out)
	}
	if got := payloads(t, "mixed"); len(got) != 3 {
		t.Errorf("enqueued: %q", got)
	}
	if r := nornWith(t, "{}\n{", nil, "task", "enqueue", "-q", "mixed", "--jsonl", "-"); r.code != 2 || len(strings.Fields(r.out)) != 1 {
		t.Errorf("a malformed last line: %+v", r)
	}
	if r := nornWith(t, "", nil, "task", "enqueue", "-q", "mixed", "--lines", "-", "-o", "json"); r.code != 0 || r.out != "[]\n" {
		t.Errorf("no lines: %+v", r)
	}
}

// TestUnavailable checks what is said, and that a document is whole, when no
// server answers.
func TestUnavailable(t *testing.T) {
	r := nornWith(t, "a\nb\n", []string{"NORN_ADDR=127.0.0.1:1", "NORN_TIMEOUT=300ms"}, "task", "enqueue", "-q", "x", "--lines", "-", "-o", "json")
	if r.code != 4 || r.out != "[]\n" || !strings.Contains(r.err, "missing guarantee") || !strings.Contains(r.err, "--addr") {
		t.Errorf("got %+v", r)
	}
	if r := norn(t, "task", "count", "--addr", "127.0.0.1:1", "--timeout", "200ms"); r.code != 4 || strings.Count(r.err, "\n") != 1 {
		t.Errorf("got %+v", r)
	}
	// A second address that answers is enough.
	if out := ok(t, "task", "count", "-q", "x", "-o", "jsonl", "--addr", "127.0.0.1:1,"+the.server.addr); !strings.HasPrefix(out, `{"queue":"x"`) {
		t.Errorf("got %q", out)
	}
}
