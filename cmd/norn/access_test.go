package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// guarded is a server that asks for tokens.
type guarded struct {
	t *testing.T
	*server
	audit string
}

func newGuarded(t *testing.T) *guarded {
	audit := filepath.Join(t.TempDir(), "audit.log")
	return &guarded{t, ownServer(t, t.TempDir(), "--auth-token-file", write(t, "r00t\n"), "--audit-log", audit), audit}
}

func (g *guarded) as(token string, args ...string) result {
	g.t.Helper()
	return nornWith(g.t, "", []string{"NORN_ADDR=" + g.addr, "NORN_AUTH_TOKEN=" + token}, args...)
}

// on runs a command that has to do.
func (g *guarded) on(token string, args ...string) string {
	g.t.Helper()
	r := g.as(token, args...)
	if r.code != 0 {
		g.t.Fatalf("%v: %+v", args, r)
	}
	return strings.TrimSpace(r.out)
}

// refused runs one that must be refused, by these words.
func (g *guarded) refused(token, words string, args ...string) {
	g.t.Helper()
	if r := g.as(token, args...); r.code == 0 || !strings.Contains(r.err, words) {
		g.t.Errorf("%v: %+v", args, r)
	}
}

// TestALeakedWorkerTokenIsNoKeyToTheHouse: it works, and neither purges, deletes, pauses,
// destroys, makes tokens, nor enqueues; the audit log says that it tried.
func TestALeakedWorkerTokenIsNoKeyToTheHouse(t *testing.T) {
	g := newGuarded(t)
	worker := g.on("r00t", "access", "token", "create", "--name", "leaked", "--role", "worker", "--ttl", "1h")
	producer := g.on("r00t", "access", "token", "create", "--name", "shop", "--role", "producer")
	id := g.on(producer, "task", "enqueue", "-q", "mail", "hello")
	g.refused(producer, "shop (role producer) may not work", "task", "claim", "-q", "mail")
	for _, args := range [][]string{
		{"queue", "pause", "mail"}, {"queue", "purge", "mail", "--yes"}, {"queue", "set", "mail", "max-tasks=1"}, {"task", "cancel", id}, {"task", "retry", id},
		{"schedule", "set", "s", "--cron", "@daily", "--tz", "UTC", "-q", "mail", "x"}, {"worker", "kill", "w"}, {"cluster", "destroy", "--yes"},
		{"access", "token", "create", "--name", "mine", "--role", "admin"}, {"access", "audit"}, {"task", "enqueue", "-q", "mail", "x"},
	} {
		g.refused(worker, "leaked (role worker) may not", args...)
	}
	var grants []struct {
		Task  struct{ Payload string }
		Token string
	}
	if out := g.on(worker, "task", "claim", "-q", "mail", "-o", "json"); json.Unmarshal([]byte(out), &grants) != nil || len(grants) != 1 {
		t.Fatal(out)
	}
	g.on(worker, "task", "complete", id, grants[0].Token)
	if out := g.on(worker, "access", "whoami"); !strings.Contains(out, "leaked") || !strings.Contains(out, "work,see,read:*") {
		t.Error(out)
	}
	denied := map[string]bool{}
	for _, r := range audited(t, g.audit) {
		if r.Principal == "leaked" && r.Decision == "denied" {
			denied[r.Verb] = true
		}
	}
	for _, verb := range []string{"operate", "schedule", "control", "cluster", "access", "enqueue"} {
		if !denied[verb] {
			t.Errorf("no line says that %s was refused", verb)
		}
	}
	request, err := http.NewRequest(http.MethodDelete, "http://"+g.http+"/api/v1/queues/mail", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+worker)
	a, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	if a.StatusCode != http.StatusForbidden {
		t.Errorf("over HTTP: %s", a.Status)
	}
	if out := g.on("r00t", "access", "audit"); !strings.Contains(out, `"create token leaked with role worker"`) || strings.Contains(out, strings.SplitN(worker, "_", 3)[2]) {
		t.Error(out)
	}
}

// TestARevokedTokenEndsWhatIsOpen: a claim that waits with it is over at once, over the wire
// and over HTTP, and no task goes to it.
func TestARevokedTokenEndsWhatIsOpen(t *testing.T) {
	g := newGuarded(t)
	token := g.on("r00t", "access", "token", "create", "--name", "w", "--role", "worker")
	id := strings.Split(token, "_")[1]
	g.on("r00t", "queue", "set", "mail", "max-tasks=100") // so that it is shown
	wait := exec.Command(the.norn, "task", "claim", "-q", "mail", "--wait", "10m")
	wait.Env = environment("NORN_ADDR="+g.addr, "NORN_AUTH_TOKEN="+token)
	said := &buffer{}
	wait.Stderr = said
	if err := wait.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan int, 1)
	go func() {
		request, _ := http.NewRequest(http.MethodPost, "http://"+g.http+"/api/v1/tasks/claim", strings.NewReader(`{"queues":["mail"],"max_tasks":1,"wait_seconds":300}`))
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if a, err := client.Do(request); err == nil {
			_ = a.Body.Close()
			over <- a.StatusCode
		}
	}()
	for end := time.Now().Add(patience); ; {
		if out := g.on("r00t", "queue", "get", "mail", "-o", "json"); strings.Contains(out, `"waiting_claims": 2,`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("two claims never wait")
		}
	}
	g.on("r00t", "access", "token", "revoke", id, "--wait")
	if code := <-over; code != http.StatusUnauthorized {
		t.Errorf("the claim over HTTP is answered %d", code)
	}
	if err := wait.Wait(); err == nil || !strings.Contains(said.String(), "auth token") {
		t.Errorf("the claim over the wire: %v, %s", err, said.String())
	}
	g.refused(token, "auth token", "queue", "list")
	g.on("r00t", "task", "enqueue", "-q", "mail", "hello")
	if out := g.on("r00t", "task", "list", "-q", "mail", "-o", "json"); !strings.Contains(out, `"state": "ready"`) {
		t.Errorf("the task: %s", out)
	}
	if out := g.on("r00t", "access", "token", "list", "-o", "json"); out != "[]" {
		t.Error(out)
	}
}

// TestARoleThatShrinksEndsWhatWaits: a claim that waits by a right that is taken is over at once, over the wire
// and over HTTP, and is not granted what comes then; who has lost nothing waits on.
func TestARoleThatShrinksEndsWhatWaits(t *testing.T) {
	g := newGuarded(t)
	g.on("r00t", "access", "role", "set", "mailer", "--allow", "see,work:mail", "--allow", "work:news")
	g.on("r00t", "access", "role", "set", "other", "--allow", "work:mail")
	token := g.on("r00t", "access", "token", "create", "--name", "w", "--role", "mailer")
	other := g.on("r00t", "access", "token", "create", "--name", "o", "--role", "other")
	g.on("r00t", "queue", "set", "mail", "max-tasks=100") // so that it is shown
	claim := func(token string) chan result {
		over := make(chan result, 1)
		go func() { over <- g.as(token, "task", "claim", "-q", "mail", "--wait", "10m") }()
		return over
	}
	taken := claim(token)
	over := make(chan int, 1)
	go func() {
		request, _ := http.NewRequest(http.MethodPost, "http://"+g.http+"/api/v1/tasks/claim", strings.NewReader(`{"queues":["mail"],"max_tasks":1,"wait_seconds":300}`))
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if a, err := client.Do(request); err == nil {
			_ = a.Body.Close()
			over <- a.StatusCode
		}
	}()
	waits := func(n int) {
		for end := time.Now().Add(patience); !strings.Contains(g.on("r00t", "queue", "get", "mail", "-o", "json"), fmt.Sprintf(`"waiting_claims": %d,`, n)); {
			if time.Now().After(end) {
				t.Fatalf("%d claims never wait", n)
			}
		}
	}
	waits(2)
	kept := claim(other)
	waits(3)
	g.on("r00t", "access", "role", "set", "mailer", "--allow", "see:mail", "--allow", "work:news")
	if code := <-over; code != http.StatusServiceUnavailable {
		t.Errorf("the claim over HTTP is answered %d", code)
	}
	if r := <-taken; r.code == 0 || !strings.Contains(r.err, "w (role mailer) may not work on queue mail") {
		t.Errorf("the claim over the wire: %+v", r)
	}
	waits(1)
	g.on("r00t", "task", "enqueue", "-q", "mail", "hello")
	if r := <-kept; r.code != 0 || r.out == "" {
		t.Errorf("who has lost nothing: %+v", r)
	}
}

// TestAccessChecks: what somebody may do can be asked, and its answer is the exit code.
func TestAccessChecks(t *testing.T) {
	g := newGuarded(t)
	g.on("r00t", "access", "role", "set", "mailer", "--allow", "enqueue:acme/mail*", "--allow", "see:acme/*")
	g.on("r00t", "access", "token", "create", "--name", "ci", "--role", "mailer", "--from", "127.0.0.0/8")
	g.on("r00t", "access", "check", "--as", "ci", "enqueue", "acme/mail2")
	if r := g.as("r00t", "access", "check", "--as", "ci", "work", "acme/mail"); r.code != 1 || !strings.Contains(r.out, "ci (role mailer) may not work on queue acme/mail; it may: see acme/*, enqueue acme/mail*") {
		t.Errorf("%+v", r)
	}
	g.refused("r00t", "have role mailer", "access", "role", "rm", "mailer")
	if out := g.on("r00t", "access", "role", "list"); !strings.Contains(out, "mailer") || !strings.Contains(out, "operator") {
		t.Error(out)
	}
	if out := g.on("r00t", "access", "token", "list"); !strings.Contains(out, "ci") || !strings.Contains(out, "127.0.0.0/8") {
		t.Error(out)
	}
}
