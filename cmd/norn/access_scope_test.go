package main

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// follow opens the log of a task as events, and gives its lines until it ends.
func (g *guarded) follow(token, task string) <-chan string {
	g.t.Helper()
	request, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+g.http+"/api/v1/tasks/"+task+"/log", http.NoBody)
	if err != nil {
		g.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "text/event-stream")
	a, err := http.DefaultClient.Do(request)
	if err != nil || a.StatusCode != http.StatusOK {
		g.t.Fatalf("%v, %v", a, err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		defer a.Body.Close()
		for s := bufio.NewScanner(a.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// next is the next line that begins so; false: the stream has ended.
func next(t *testing.T, lines <-chan string, prefix string) (string, bool) {
	t.Helper()
	for limit := time.After(patience); ; {
		select {
		case line, open := <-lines:
			if !open || strings.HasPrefix(line, prefix) {
				return line, open
			}
		case <-limit:
			t.Fatalf("nothing that begins with %q comes", prefix)
		}
	}
}

// TestAStreamEndsWithItsToken: events of a task's log end with an error when the token is revoked or its role may
// read no more, and what is written to the log after that goes to nobody but who may still read.
func TestAStreamEndsWithItsToken(t *testing.T) {
	g := newGuarded(t)
	g.on("r00t", "access", "role", "set", "reader", "--allow", "see,read:mail")
	task := g.on("r00t", "task", "enqueue", "-q", "mail", "hello")
	token := func(name, role string) (secret, id string) {
		secret = g.on("r00t", "access", "token", "create", "--name", name, "--role", role)
		return secret, strings.Split(secret, "_")[1]
	}
	revoked, revokedID := token("revoked", "worker")
	shrunk, _ := token("shrunk", "reader")
	kept, _ := token("kept", "worker")
	var grants []struct{ Token string }
	if out := g.on("r00t", "task", "claim", "-q", "mail", "--lease", "10m", "-o", "json"); json.Unmarshal([]byte(out), &grants) != nil || len(grants) != 1 {
		t.Fatal(out)
	}
	claim := grants[0].Token
	streams := map[string]<-chan string{"revoked": g.follow(revoked, task), "shrunk": g.follow(shrunk, task), "kept": g.follow(kept, task)}
	g.on("r00t", "task", "update", task, claim, "0", "before")
	for name, s := range streams {
		if _, open := next(t, s, "event: update"); !open {
			t.Fatalf("the stream of %s has ended", name)
		}
	}
	g.on("r00t", "access", "token", "revoke", revokedID, "--wait")
	g.on("r00t", "access", "role", "set", "reader", "--allow", "see:mail")
	for name, words := range map[string]string{"revoked": "unauthenticated", "shrunk": "has changed"} {
		if _, open := next(t, streams[name], "event: error"); !open {
			t.Errorf("the stream of %s ends without a word", name)
		} else if data, _ := next(t, streams[name], "data: "); !strings.Contains(data, words) {
			t.Errorf("%s is told %s", name, data)
		}
		if line, open := next(t, streams[name], "event: update"); open {
			t.Errorf("%s is told %s after its end", name, line)
		}
	}
	g.on("r00t", "task", "update", task, claim, "1", "sesame")
	if _, open := next(t, streams["kept"], "event: update"); !open {
		t.Error("the stream of who has lost nothing has ended")
	}
	for name, secret := range map[string]string{"revoked": revoked, "shrunk": shrunk} {
		if status, text := g.ask(secret, "/api/v1/tasks/"+task+"/log"); status != http.StatusUnauthorized && status != http.StatusForbidden || strings.Contains(text, "sesame") {
			t.Errorf("%s asks again: %d %s", name, status, text)
		}
	}
}

// TestDependenciesTellNothing: who may not see all queues cannot name a task to wait for, and is told the same of
// one that is hidden, of one that is its own and of one that is not there.
func TestDependenciesTellNothing(t *testing.T) {
	g := newGuarded(t)
	g.on("r00t", "access", "role", "set", "shop", "--allow", "enqueue,see:acme/*")
	g.on("r00t", "access", "role", "set", "planner", "--allow", "enqueue:acme/*", "--allow", "see:*")
	shop := g.on("r00t", "access", "token", "create", "--name", "shop", "--role", "shop")
	planner := g.on("r00t", "access", "token", "create", "--name", "planner", "--role", "planner")
	hidden := g.on("r00t", "task", "enqueue", "-q", "billing", "x")
	own := g.on(shop, "task", "enqueue", "-q", "acme/mail", "x")
	var said []string
	for _, on := range []string{hidden, own, "37dGamhT6KhgeCdJ3yaFwZAimIC"} {
		r := g.as(shop, "task", "enqueue", "-q", "acme/mail", "--after", on, "y")
		if r.code == 0 || !strings.Contains(r.err, "may not enqueue on tasks that depend on others (that takes see on *)") {
			t.Errorf("%+v", r)
		}
		said = append(said, r.err)
	}
	if len(slices.Compact(said)) != 1 {
		t.Errorf("the answers differ: %q", said)
	}
	waits := g.on(planner, "task", "enqueue", "-q", "acme/mail", "--after", hidden, "y")
	if out := g.on(shop, "task", "explain", waits); strings.Contains(out, hidden) || strings.Contains(out, "billing") {
		t.Errorf("an explanation names what may not be seen: %s", out)
	}
}

// TestCompletionOffersWhatMayBeSeen: a shell is offered the queues and schedules that a token may see, and none of
// others.
func TestCompletionOffersWhatMayBeSeen(t *testing.T) {
	g := newGuarded(t)
	g.on("r00t", "access", "role", "set", "acme", "--allow", "enqueue,see,schedule:acme/*")
	token := g.on("r00t", "access", "token", "create", "--name", "acme", "--role", "acme")
	for _, q := range []string{"acme/mail", "acme2/mail", "billing"} {
		g.on("r00t", "task", "enqueue", "-q", q, "x")
		g.on("r00t", "schedule", "set", strings.ReplaceAll(q, "/", "-"), "--cron", "@daily", "--tz", "UTC", "-q", q, "x")
	}
	for _, tt := range []struct {
		token string
		args  []string
		want  []string
	}{
		{token, []string{"queue", "get", ""}, []string{"acme/mail"}}, {token, []string{"task", "list", "-q", ""}, []string{"acme/mail"}},
		{token, []string{"schedule", "get", ""}, []string{"acme-mail"}}, {token, []string{"queue", "get", "b"}, nil}, {"wrong", []string{"queue", "get", ""}, nil},
		{"r00t", []string{"queue", "get", ""}, []string{"acme/mail", "acme2/mail", "billing"}},
	} {
		if got := completed(t, []string{"NORN_ADDR=" + g.addr, "NORN_AUTH_TOKEN=" + tt.token}, tt.args...); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
}
