package main

import (
	"os"
	"strings"
	"testing"
)

// TestAccessPage runs the commands of docs/how-to/access.md, in their order, against a server that asks
// for tokens.
func TestAccessPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/how-to/access.md")
	if err != nil {
		t.Fatal(err)
	}
	g := newGuarded(t)
	tokens := map[string]string{"": "r00t"} // by the name of the file in the page
	ran := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "    ") {
			continue
		}
		line, to, _ := strings.Cut(strings.TrimSpace(line), " > ")
		env, line, is := strings.Cut(line, "norn ")
		if !is || strings.Contains(line, "…") {
			continue
		}
		file := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(env), "NORN_AUTH_TOKEN_FILE="), ".token")
		args := strings.Fields(line)
		for i, arg := range args {
			if arg == "ID" {
				args[i] = strings.Split(tokens["wall"], "_")[1]
			}
		}
		r := g.as(tokens[file], args...)
		ran++
		switch {
		case args[1] == "check":
			if r.code != 1 || !strings.Contains(r.out, "may not operate on queue mail") {
				t.Errorf("%s: %+v", line, r)
			}
		case args[1] == "token" && args[2] == "enable":
			if r.code == 0 || !strings.Contains(r.err, "not suspended") {
				t.Errorf("%s: %+v", line, r)
			}
		case args[1] == "token" && args[2] == "create" && strings.Contains(line, "10.0.0.0/8"):
			if args[len(args)-1] = "127.0.0.0/8"; r.code != 0 {
				t.Errorf("%s: %+v", line, r)
			}
			g.on("r00t", "access", "token", "revoke", strings.Split(strings.TrimSpace(r.out), "_")[1])
			tokens["mailer"] = g.on("r00t", args...)
		case r.code != 0:
			t.Errorf("%s: %+v", line, r)
		case to != "":
			tokens[strings.TrimSuffix(to, ".token")] = strings.TrimSpace(r.out)
		}
	}
	if ran < 11 {
		t.Errorf("%d commands were run", ran)
	}
}

// TestWhoSeesWhatByAccess: a viewer which tasks there are, and not what is in them; somebody with rights
// on other queues nothing, in the words for nothing.
func TestWhoSeesWhatByAccess(t *testing.T) {
	g := newGuarded(t)
	viewer := g.on("r00t", "access", "token", "create", "--name", "wall2", "--role", "viewer")
	id := g.on("r00t", "task", "enqueue", "-q", "mail", "s3cret")
	for _, args := range [][]string{{"task", "get", id, "-o", "json"}, {"task", "list", "-q", "mail", "-o", "json"}, {"task", "explain", id, "-o", "json"}} {
		if out := g.on(viewer, args...); !strings.Contains(out, id) || strings.Contains(out, "s3cret") || strings.Contains(out, "czNjcmV0") {
			t.Errorf("%v: %s", args, out)
		}
	}
	g.on("r00t", "access", "role", "set", "acme", "--allow", "see,read,work,operate:acme/*")
	acme := g.on("r00t", "access", "token", "create", "--name", "acme", "--role", "acme")
	for _, args := range [][]string{{"task", "get", id}, {"task", "cancel", id}, {"task", "complete", id, "4294967297"}, {"queue", "get", "mail"}} {
		if r := g.as(acme, args...); r.code != 3 {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if out := g.on(acme, "queue", "list", "-o", "json"); out != "[]" {
		t.Error(out)
	}
	if out := g.on("r00t", "task", "get", id, "-o", "json"); !strings.Contains(out, `"state": "ready"`) {
		t.Error(out)
	}
}
