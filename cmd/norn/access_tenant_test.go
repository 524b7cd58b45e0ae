package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestATenantIsAlone: in what it may do, in lists, in the dashboard's API and in metrics; acme2 is
// another one. Its limits say which one, and how much is used.
func TestATenantIsAlone(t *testing.T) {
	beside(t)
	g := &guarded{t, ownServer(t, t.TempDir(), "--auth-token-file", write(t, "r00t\n"), "--audit-log", "off", "--metrics-auth"), ""}
	for _, name := range []string{"acme", "acme2"} {
		g.on("r00t", "access", "tenant", "set", name, "--max-queues", "2", "--max-tasks", "3", "--max-schedules", "1", "--max-connections", "2")
	}
	create := func(tenant, role string) string {
		return g.on("r00t", "access", "token", "create", "--name", tenant+"-"+role, "--role", role, "--tenant", tenant)
	}
	admin, metrics, other := create("acme", "admin"), create("acme", "metrics"), create("acme2", "admin")
	g.on(admin, "task", "enqueue", "-q", "acme/mail", "mine")
	theirs := g.on(other, "task", "enqueue", "-q", "acme2/mail", "theirs")
	g.on("r00t", "task", "enqueue", "-q", "mail", "nobody's")
	for _, args := range [][]string{
		{"task", "enqueue", "-q", "acme2/mail", "x"}, {"task", "enqueue", "-q", "acme", "x"}, {"task", "claim", "-q", "mail"}, {"queue", "pause", "acme2/mail"},
		{"schedule", "set", "acme2/s", "--cron", "@daily", "--tz", "UTC", "-q", "acme/mail", "x"}, {"schedule", "set", "s", "--cron", "@daily", "--tz", "UTC", "-q", "acme/mail", "x"},
		{"schedule", "set", "acme/s", "--cron", "@daily", "--tz", "UTC", "-q", "acme2/mail", "x"}, {"worker", "kill", "acme2/w"}, {"cluster", "destroy", "--yes"}, {"access", "token", "list"},
	} {
		g.refused(admin, "acme-admin (role admin) may not", args...)
	}
	if r := g.as(admin, "task", "get", theirs); r.code != 3 {
		t.Errorf("a task of another tenant: %+v", r)
	}
	g.on(admin, "schedule", "set", "acme/s", "--cron", "@daily", "--tz", "UTC", "-q", "acme/mail", "x")
	g.on("r00t", "schedule", "set", "s", "--cron", "@daily", "--tz", "UTC", "-q", "mail", "x")
	for _, args := range [][]string{{"queue", "list", "-o", "json"}, {"task", "list", "-o", "json"}, {"schedule", "list", "-o", "json"}} {
		if out := g.on(admin, args...); !strings.Contains(out, "acme/") || strings.Contains(out, "acme2") || strings.Contains(out, `"mail"`) || strings.Contains(out, `"s"`) {
			t.Errorf("%v: %s", args, out)
		}
	}
	g.refused(admin, "tenant acme has 1 schedules, its limit (max-schedules) is 1", "schedule", "set", "acme/s2", "--cron", "@daily", "--tz", "UTC", "-q", "acme/mail", "x")
	g.on(admin, "task", "enqueue", "-q", "acme/news", "x")
	g.refused(admin, "tenant acme has 2 queues with settings or tasks, its limit (max-queues) is 2", "task", "enqueue", "-q", "acme/third", "x")
	g.on(admin, "task", "enqueue", "-q", "acme/news", "x")
	for _, token := range []string{admin, "r00t"} {
		g.refused(token, "tenant acme has 3 tasks that are not finished, its limit (max-tasks) is 3", "task", "enqueue", "-q", "acme/news", "x", "--timeout", "2s")
	}
	g.on(other, "task", "enqueue", "-q", "acme2/mail", "x")
	tenantsBytes(g, admin)
	for _, token := range []string{admin, metrics} {
		text := g.get(token, "/metrics")
		for _, want := range []string{`norn_queue_tasks{queue="acme/mail"`, `norn_tenant_connections{tenant="acme"}`,
			`norn_tenant_queues{tenant="acme"} 2`, `norn_tenant_tasks{tenant="acme"} 3`, `norn_tenant_bytes{tenant="acme"} 6`, `norn_tenant_schedules{tenant="acme"} 1`,
			`norn_tenant_claims{tenant="acme"} 0`, `norn_tenant_waits{tenant="acme"} 0`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("metrics of a tenant have no %s", want)
			}
		}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "#") && (strings.Contains(line, "acme2") || !strings.Contains(line, "acme")) {
				t.Errorf("metrics of a tenant have %s", line)
			}
		}
	}
	if text := g.get("r00t", "/metrics"); !strings.Contains(text, `norn_tenant_connections{tenant="acme2"}`) || !strings.Contains(text, "go_goroutines") {
		t.Error("metrics of all have not all")
	}
	if out := g.get(admin, "/api/v1/access/whoami"); !strings.Contains(out, `"tenant":"acme"`) && !strings.Contains(out, `"tenant": "acme"`) {
		t.Error(out)
	}
	g.on("r00t", "access", "tenant", "set", "acme", "--rate", "0.01")
	if status, text := g.ask(admin, "/api/v1/access/whoami"); status != http.StatusOK {
		t.Errorf("the first one within the rate: %d %s", status, text)
	}
	if status, text := g.ask(admin, "/api/v1/access/whoami"); status != http.StatusTooManyRequests || !strings.Contains(text, "tenant acme sends more than 0.01 requests a second to this node, its limit (rate)") {
		t.Errorf("over the rate: %d %s", status, text)
	}
}

// tenantsBytes holds a tenant to its bytes, of which it has 6.
func tenantsBytes(g *guarded, admin string) {
	g.t.Helper()
	g.on("r00t", "access", "tenant", "set", "acme", "--max-bytes", "7")
	g.refused(admin, "the tasks of tenant acme have 6 bytes, finished ones too, this one has 2, and its limit (max-bytes) is 7", "task", "enqueue", "-q", "acme/news", "xx", "--timeout", "2s")
	if r := g.as("r00t", "access", "tenant", "set", "acme", "--max-bytes", "7 bytes"); r.code != 2 || !strings.Contains(r.err, "--max-bytes") {
		g.t.Errorf("a size that is none: %+v", r)
	}
}

// get reads a path over HTTP that is to be there.
func (g *guarded) get(token, path string) string {
	g.t.Helper()
	status, text := g.ask(token, path)
	if status != http.StatusOK {
		g.t.Fatalf("%s: %d %s", path, status, text)
	}
	return text
}

// ask reads a path over HTTP.
func (g *guarded) ask(token, path string) (status int, body string) {
	g.t.Helper()
	request, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+g.http+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(request)
	if err != nil {
		g.t.Fatal(err)
	}
	text, err := io.ReadAll(a.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	_ = a.Body.Close()
	return a.StatusCode, string(text)
}
