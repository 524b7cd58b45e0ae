package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
	"github.com/norn-dev/norn/cmd/norn/outboxes"
	"github.com/norn-dev/norn/id"
)

// box is a database of SQLite with the table in it.
type box struct {
	url string
	db  *sql.DB
	box *outbox.Outbox
}

func newBox(t *testing.T) *box {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec(ok(t, "outbox", "schema", "sqlite")); err != nil {
		t.Fatal(err)
	}
	b := &box{url: "sqlite:" + path, db: db}
	if b.box, err = outbox.New(outbox.SQLite, outbox.Options{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// put writes a task.
func (b *box) put(t *testing.T, task client.Task) id.ID {
	t.Helper()
	made, err := b.box.Enqueue(t.Context(), b.db, task)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestOutboxRelays(t *testing.T) {
	b := newBox(t)
	var ids []id.ID
	for i := range 30 {
		ids = append(ids, b.put(t, client.Task{Queue: "outbox", Payload: fmt.Append(nil, i)}))
	}
	if r := norn(t, "outbox", "status", "--db", b.url); !strings.HasPrefix(r.out, "30 wait, 0 are set aside\nthe oldest waits since 20") {
		t.Errorf("status: %+v", r)
	}
	got := decode[map[string]any](t, "outbox", "--db", b.url, "--exit-when-empty", "--quiet")
	if got["relayed"] != "30" || got["aside"] != "0" {
		t.Errorf("got %v", got)
	}
	for i, one := range ids {
		if task := decode[taskJSON](t, "task", "get", one.String()); string(task.Payload) != fmt.Sprint(i) {
			t.Errorf("task %d: %+v", i, task)
		}
		if i == 3 {
			break // each is a process
		}
	}
	if got := decode[map[string]any](t, "outbox", "status", "--db", b.url); got["waiting"] != "0" || got["oldest"] != nil {
		t.Errorf("status: %v", got)
	}
}

// The life of a relay as a service: it runs, is looked at, and is told to stop.
func TestOutboxService(t *testing.T) {
	b := newBox(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	metrics := freeAddress(t)
	cmd := exec.CommandContext(ctx, the.norn, "outbox", "--metrics-listen", metrics, "--poll", "10ms")
	cmd.Env = environment("NORN_ADDR="+the.server.addr, outboxes.DatabaseVariable+"="+b.url)
	var log buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.put(t, client.Task{Queue: "outbox"})
	b.put(t, client.Task{Queue: "outbox", Payload: make([]byte, 2<<20)}) // more than the server takes
	eventually(t, "it relays", func() bool {
		left, err := b.box.Backlog(t.Context(), b.db)
		return err == nil && left.Waiting == 0
	})
	page := func(path string) string {
		r, err := http.Get("http://" + metrics + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, r.StatusCode, err)
		}
		return string(text)
	}
	text := page("/metrics")
	for _, want := range []string{"norn_outbox_relayed_total 1\n", "norn_outbox_set_aside_total 1\n", "norn_outbox_aside_rows 1\n", "norn_outbox_waiting_rows 0\n", "norn_outbox_failing 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := page("/readyz"); got != "ok\n" {
		t.Errorf("readyz: %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), "norn: 1 relayed, 1 set aside in ") {
		t.Errorf("%v:\n%s", err, log.String())
	}
}

// What is set aside is listed with its reason, sent again, renamed, discarded.
func TestOutboxAside(t *testing.T) {
	b := newBox(t)
	made := strings.Fields(ok(t, "task", "enqueue", "-q", "outbox", "first"))
	taken, err := id.Parse(made[0])
	if err != nil {
		t.Fatal(err)
	}
	b.put(t, client.Task{ID: taken, Queue: "outbox", Payload: []byte("second")})
	large := b.put(t, client.Task{Queue: "outbox", Payload: make([]byte, 2<<20)})
	b.put(t, client.Task{Queue: "outbox"})
	r := norn(t, "outbox", "--db", b.url, "--exit-when-empty")
	if r.code != 0 || !strings.Contains(r.err, "1 relayed, 2 set aside") || strings.Count(r.err, "row set aside") != 2 {
		t.Errorf("%+v", r)
	}
	rows := decode[[]struct {
		ID, Queue, Error string
		CreatedAt        time.Time `json:"created_at"`
		Attempts         int
	}](t, "outbox", "list", "--db", b.url)
	if len(rows) != 2 || rows[0].ID != taken.String() || !strings.Contains(rows[0].Error, "another spec") || rows[1].ID != large.String() ||
		rows[1].Queue != "outbox" || rows[1].Attempts != 1 || time.Since(rows[1].CreatedAt) > patience {
		t.Errorf("%+v", rows)
	}
	if out := ok(t, "outbox", "list", "--db", b.url, "--limit", "1"); strings.Count(out, "another spec") != 1 || strings.Contains(out, large.String()) {
		t.Errorf("got %s", out)
	}
	renamed := decode[[]map[string]string](t, "outbox", "retry", "--db", b.url, "--new-id", taken.String())
	refused(t, 2, "add --yes", "outbox", "discard", "--db", b.url, large.String())
	ok(t, "outbox", "discard", "--db", b.url, large.String(), "--yes")
	refused(t, 3, "is set aside", "outbox", "retry", "--db", b.url, large.String())
	if r := norn(t, "outbox", "--db", b.url, "--exit-when-empty", "--quiet"); r.code != 0 || r.err != "" {
		t.Errorf("%+v", r)
	}
	if task := decode[taskJSON](t, "task", "get", renamed[0]["id"]); string(task.Payload) != "second" {
		t.Errorf("%+v", task)
	}
}

// An ID of zeros is no name: its row is set aside, and not enqueued under another one.
func TestOutboxZeroID(t *testing.T) {
	b := newBox(t)
	made := b.put(t, client.Task{Queue: "outbox-zero"})
	if _, err := b.db.Exec("UPDATE "+outbox.DefaultTable+" SET id = ? WHERE id = ?", strings.Repeat("0", 27), made.String()); err != nil {
		t.Fatal(err)
	}
	if r := norn(t, "outbox", "--db", b.url, "--exit-when-empty"); r.code != 0 || !strings.Contains(r.err, "1 set aside") || !strings.Contains(r.err, "it is zero") {
		t.Errorf("%+v", r)
	}
	if left := payloads(t, "outbox-zero"); len(left) != 0 {
		t.Errorf("enqueued: %q", left)
	}
}

func TestOutboxSchema(t *testing.T) {
	for _, d := range []string{"postgres", "mysql", "sqlite"} {
		out := ok(t, "outbox", "schema", d, "--table", "app.jobs")
		if !strings.Contains(out, "CREATE TABLE IF NOT EXISTS app.jobs (") || !strings.Contains(out, "jobs_due") {
			t.Errorf("%s: %s", d, out)
		}
	}
	var before string
	for _, line := range strings.Fields(ok(t, "outbox", "id", "-n", "3")) {
		if made, err := id.Parse(line); err != nil || made.Kind() != id.KindTask || line <= before {
			t.Errorf("%s after %q: %v", line, before, err)
		}
		before = line
	}
	refused(t, 2, "is not postgres, mysql or sqlite", "outbox", "schema", "oracle")
	refused(t, 2, "bad table name", "outbox", "schema", "sqlite", "--table", "x; DROP TABLE y")
}

func TestOutboxBadInput(t *testing.T) {
	b := newBox(t)
	refused(t, 2, "no database", "outbox")
	refused(t, 2, "it is not a URL of", "outbox", "--db", "app.db")
	refused(t, 1, "norn outbox schema sqlite", "outbox", "--db", "sqlite:"+filepath.Join(t.TempDir(), "none.db"))
	refused(t, 1, "norn outbox schema sqlite", "outbox", "--db", b.url, "--table", "other")
	refused(t, 2, "--batch", "outbox", "--db", b.url, "--batch", "many")
	refused(t, 2, "not between 1 and 10000", "outbox", "--db", b.url, "--batch", "10001")
	refused(t, 2, "--batch: 0 is not between 1 and 10000", "outbox", "--db", b.url, "--batch", "0")
	for _, flag := range []string{"--poll", "--lease", "--batch-timeout", "--gc-grace"} {
		refused(t, 2, flag+": 0s is not over zero", "outbox", "--db", b.url, flag, "0")
	}
	refused(t, 2, "--metrics-listen: address foo: missing port", "outbox", "--db", b.url, "--metrics-listen", "foo")
	refused(t, 2, "not longer than the timeout", "outbox", "--db", b.url, "--lease", "1s")
	refused(t, 2, "--write", "outbox", "--db", b.url, "--write", "none")
	refused(t, 2, "unknown command", "outbox", "relay")
	refused(t, 4, "connection refused", "outbox", "--db", b.url, "--addr", "127.0.0.1:1", "--timeout", "1s")
	for _, secret := range []string{"postgres://u:se%cret@h/d", "postgres://u:secret@127.0.0.1:1/d?sslmode=disable", "mysql://u:secret@127.0.0.1:1/d", "mysql://u:secret@h"} {
		r := norn(t, "outbox", "status", "--db", secret)
		if r.code == 0 || strings.Contains(r.err, "cret@") || strings.Contains(r.err, "secret") {
			t.Errorf("%s: %+v", secret, r)
		}
	}
}

// A row of which nothing can be made is set aside and shown, whatever it is: others are not behind it.
func TestOutboxRowsThatMakeNoSense(t *testing.T) {
	b := newBox(t)
	for _, values := range []string{
		"('', 'outbox-odd', 'x', 0, 0, 0)",                           // of a shell in which `norn outbox id` failed
		"('no ID', 'outbox-odd', 'x', 0, 1764201599123.4, 0)",        // SQLite keeps what is no integer as it is
		"('no priority', 'outbox-odd', 'x', 5000000000, 'today', 0)", // more than 32 bits, and no time
		"('" + strings.TrimSpace(ok(t, "outbox", "id")) + "', 'outbox-odd', 'x', 0, 1764201599123.4, 1764201599123.4)",
	} {
		if _, err := b.db.Exec("INSERT INTO " + outbox.DefaultTable + " (id, queue, payload, priority, created, due) VALUES " + values); err != nil {
			t.Fatal(err)
		}
	}
	for i, attempts := range []string{"-1", "0.5", "9223372036854775807"} { // of one that is to be refused, and of two that are not
		values := fmt.Sprintf("('%s', 'outbox-odd', 'x', 0, %s)", strings.TrimSpace(ok(t, "outbox", "id")), attempts)
		if i == 0 {
			values = fmt.Sprintf("('no attempts', 'outbox-odd', 'x', 0, %s)", attempts)
		}
		if _, err := b.db.Exec("INSERT INTO " + outbox.DefaultTable + " (id, queue, payload, priority, attempts) VALUES " + values); err != nil {
			t.Fatal(err)
		}
	}
	bytes := strings.TrimSpace(ok(t, "outbox", "id")) // as drivers write what is no string to them
	if _, err := b.db.Exec("INSERT INTO "+outbox.DefaultTable+" (id, queue, payload) VALUES (?, 'outbox-odd', 'x')", []byte(bytes)); err != nil {
		t.Fatal(err)
	}
	b.put(t, client.Task{Queue: "outbox-odd", Payload: []byte("well")})
	if got := decode[map[string]any](t, "outbox", "status", "--db", b.url); got["waiting"] != "9" {
		t.Errorf("%v", got)
	}
	if r := norn(t, "outbox", "--db", b.url, "--exit-when-empty"); r.code != 0 || !strings.Contains(r.err, "5 relayed, 4 set aside") {
		t.Fatalf("%+v", r)
	}
	rows := decode[[]struct{ ID string }](t, "outbox", "list", "--db", b.url)
	if len(rows) != 4 || len(rows[0].ID) != 27 || rows[1].ID != "no ID" || rows[2].ID != "no attempts" || rows[3].ID != "no priority" {
		t.Errorf("%+v", rows)
	}
	ok(t, "outbox", "retry", "--db", b.url, rows[0].ID)
	ok(t, "outbox", "discard", "--db", b.url, "--yes", "no ID", "no attempts", "no priority")
	if r := norn(t, "outbox", "--db", b.url, "--exit-when-empty"); r.code != 0 || !strings.Contains(r.err, "1 relayed in") {
		t.Errorf("%+v", r)
	}
}
