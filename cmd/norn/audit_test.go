package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/access"
)

func audited(t *testing.T, file string) (all []access.Record) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var r access.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		all = append(all, r)
	}
	return all
}

// TestAuditSaysWhoDidIt: nobody is asked for a token, and the log has who paused, purged,
// deleted, cancelled by filter, paused a schedule and destroyed, over the wire and over HTTP.
func TestAuditSaysWhoDidIt(t *testing.T) {
	beside(t)
	file := filepath.Join(t.TempDir(), "audit.log")
	s := ownServer(t, t.TempDir(), "--audit-log", file)
	on := func(args ...string) {
		t.Helper()
		if r := nornWith(t, "", []string{"NORN_ADDR=" + s.addr}, args...); r.code != 0 {
			t.Fatalf("%v: %+v", args, r)
		}
	}
	on("task", "enqueue", "-q", "mail", "s3cret")
	on("queue", "pause", "mail")
	on("task", "cancel", "--filter", "queue=mail", "--yes")
	on("task", "enqueue", "-q", "mail", "s3cret")
	on("queue", "purge", "mail", "--yes")
	on("schedule", "set", "s", "--cron", "0 0 1 1 *", "--tz", "UTC", "-q", "mail", "x")
	on("schedule", "delete", "s")
	for _, c := range [][3]string{
		{http.MethodPatch, "queues/mail", `{"settings":{"draining":true},"fields":["draining"]}`},
		{http.MethodPost, "tasks/bulk", `{"action":"cancel","queue":"mail","all":true}`},
	} {
		request, err := http.NewRequest(c[0], "http://"+s.http+"/api/v1/"+c[1], strings.NewReader(c[2]))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("User-Agent", "an-operator/7")
		a, err := http.DefaultClient.Do(request)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatal(a, err)
		}
		_ = a.Body.Close()
	}
	on("cluster", "destroy", "--yes")
	all := audited(t, file)
	for _, want := range []struct{ verb, object, agent string }{
		{"operate", "queue mail: paused=true", "norn"}, {"operate", "task ", "norn"}, {"operate", "cancel by filter: queue=mail all", "an-operator/7"},
		{"schedule", "schedule s: put", "norn"}, {"schedule", "schedule s: delete", "norn"},
		{"operate", "queue mail: draining=true", "an-operator/7"}, {"cluster", "destroy", "norn"},
	} {
		found := false
		for _, r := range all {
			found = found || r.Verb == want.verb && strings.HasPrefix(r.Object, want.object) && strings.HasPrefix(r.Agent, want.agent) && r.Decision == "allowed" &&
				r.Principal == "anonymous" && strings.HasPrefix(r.Address, "127.0.0.1:") && r.Node == "n1"
		}
		if !found {
			t.Errorf("nothing says %v", want)
		}
	}
	text, _ := os.ReadFile(file)
	if strings.Contains(string(text), "s3cret") || strings.Contains(string(text), `"enqueue"`) || t.Failed() {
		t.Errorf("the audit log:\n%s", text)
	}
}

// TestTokensAreReadAgain: a token that is added to the file lets in without a restart, one that
// is taken out does not any more, and a file that cannot be read changes nothing.
func TestTokensAreReadAgain(t *testing.T) {
	file := write(t, "one\n")
	s := ownServer(t, t.TempDir(), "--auth-token-file", file, "--tls-reload", "10ms")
	with := func(token string) int {
		return nornWith(t, "", []string{"NORN_ADDR=" + s.addr, "NORN_AUTH_TOKEN=" + token}, "queue", "list").code
	}
	until := func(token string, code int) {
		t.Helper()
		for end := time.Now().Add(patience); with(token) != code; {
			if time.Now().After(end) {
				t.Fatalf("with token %q it never ends with %d", token, code)
			}
		}
	}
	until("one", 0)
	rewrite := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if with("two") == 0 {
		t.Error("a token that is not in the file lets in")
	}
	rewrite("one\ntwo\n")
	until("two", 0)
	rewrite("two\n")
	until("one", 1)
	rewrite("# nothing\n")
	if with("two") != 0 || with("") == 0 {
		t.Error("a file without tokens changes who gets in")
	}
}
