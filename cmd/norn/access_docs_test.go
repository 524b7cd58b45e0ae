package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
		if !is || strings.HasPrefix(line, "server ") {
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

// accessPage is a section of docs/how-to/access.md.
func accessPage(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/how-to/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, is := strings.Cut(string(text), "## "+heading+"\n")
	if !is {
		t.Fatalf("there is no section %q", heading)
	}
	section, _, _ := strings.Cut(rest, "\n## ")
	return section
}

// TestALeakedTokenOfEachRole tries the table of docs/how-to/access.md, cell by cell.
func TestALeakedTokenOfEachRole(t *testing.T) {
	beside(t)
	g := newGuarded(t)
	var roles []string
	tokens := map[string]string{}
	tried := 0
	for line := range strings.Lines(accessPage(t, "Secure a cluster in ten minutes")) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		if cells[0] == "command" {
			for _, role := range cells[1:] {
				roles = append(roles, role)
				tokens[role] = g.on("r00t", "access", "token", "create", "--name", "leaked-"+role, "--role", role)
			}
			continue
		}
		for i, want := range cells[1:] {
			id := g.on("r00t", "task", "enqueue", "-q", "mail", "s3cret")
			args := strings.Fields(strings.ReplaceAll(strings.TrimPrefix(cells[0], "norn "), "ID", id))
			r := g.as(tokens[roles[i]], args...)
			tried++
			denied := strings.Contains(r.err, "may not") || strings.Contains(r.err, "and not read")
			contents := strings.Contains(r.out, "s3cret") || strings.Contains(r.out, "czNjcmV0")
			switch {
			case want == "no" && (r.code == 0 || !denied), want != "no" && denied:
				t.Errorf("%s may %s (%s): %+v", roles[i], cells[0], want, r)
			case want == "no contents" && contents, strings.Contains(cells[0], "task get") && want == "yes" && !contents:
				t.Errorf("%s is shown by %s (%s): %+v", roles[i], cells[0], want, r)
			}
			g.on("r00t", "queue", "resume", "mail")
		}
	}
	if tried < 50 {
		t.Errorf("%d cells were tried", tried)
	}
}

// secured starts a node by the command that docs/how-to/access.md has for the first one.
func secured(t *testing.T, dir, command string, i int, client string, peers []string) {
	t.Helper()
	name := string(rune('a' + i))
	command = strings.NewReplacer(" a.pem", " "+name+".pem", " a.key", " "+name+".key", "--name a", "--name "+name, "/var/lib/norn", filepath.Join(dir, "data-"+name),
		"0.0.0.0:7711", client, "0.0.0.0:7712", peers[i], "a.example:7712", peers[i]).Replace(command)
	args := append(strings.Fields(command)[1:], "--http-listen", "127.0.0.1:0", "--eta", "100ms", "--log-format", "json")
	if i > 0 {
		args = append(args, "--join", peers[0])
	}
	server := exec.Command(the.norn, args...)
	server.Dir = dir
	s, err := launchAs(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.done
	})
	if err := s.wait(); err != nil {
		t.Fatal(err, s.log)
	}
}

// TestSecureAClusterInTenMinutes does what docs/how-to/access.md says, word for word but for addresses,
// on three nodes; then each token does its work over TLS on each of them, and nobody gets in
// without one.
func TestSecureAClusterInTenMinutes(t *testing.T) {
	beside(t)
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(the.norn, filepath.Join(dir, "norn")); err != nil {
		t.Fatal(err)
	}
	var clients, peers []string
	for range 3 {
		clients, peers = append(clients, freeAddress(t)), append(peers, freePeerAddress(t))
	}
	on := func(script string) string {
		t.Helper()
		c := exec.Command("sh", "-ec", script)
		c.Dir, c.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "NORN_ADDR="+clients[0], "NORN_TLS_CA=ca.pem", "NORN_AUTH_TOKEN_FILE=root-token")
		out, err := c.CombinedOutput()
		if err != nil && !strings.Contains(script, "access check") {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	var names []string // where the nodes are here
	for _, addr := range slices.Concat(clients, peers) {
		host, _, _ := strings.Cut(addr, ":")
		names = append(names, "IP:"+host)
	}
	place := strings.NewReplacer("a.example:7711", clients[0], "10.0.0.0/8", "127.0.0.0/8", "IP:127.0.0.1", strings.Join(names, ","))
	for _, block := range regexp.MustCompile(`(?m)(^       .*\n)+`).FindAllString(accessPage(t, "Secure a cluster in ten minutes"), -1) {
		switch {
		case strings.Contains(block, "norn server"):
			for i := range clients {
				secured(t, dir, strings.TrimSpace(block), i, clients[i], peers)
			}
		case strings.Contains(block, "revoke"):
			for line := range strings.Lines(block) {
				token, err := os.ReadFile(filepath.Join(dir, "wall.token"))
				if err != nil {
					t.Fatal(err)
				}
				on(strings.ReplaceAll(line, "ID", strings.Split(string(token), "_")[1]))
			}
		default:
			on(place.Replace(block))
		}
	}
	for i, addr := range clients {
		at := "NORN_ADDR=" + addr + " "
		id := strings.TrimSpace(on(at + "NORN_AUTH_TOKEN_FILE=shop.token norn task enqueue -q mail hello"))
		if out := on(at + "NORN_AUTH_TOKEN_FILE=mailer.token norn task claim -q mail --wait 20s -o json"); !strings.Contains(out, id) {
			t.Errorf("node %d: the worker gets %s", i+1, out)
		}
		if out := on(at + "NORN_AUTH_TOKEN_FILE=anna.token norn task get " + id + " -o json"); !strings.Contains(out, `"principal": "mailer"`) {
			t.Errorf("node %d: the operator sees %s", i+1, out)
		}
		for _, bad := range []string{"NORN_AUTH_TOKEN_FILE= norn task count", "NORN_AUTH_TOKEN_FILE=wall.token norn task count", "NORN_TLS_CA= norn task count"} {
			if out := on("if " + at + bad + " --timeout 3s; then echo it was let in; fi"); strings.Contains(out, "let in\n") {
				t.Errorf("node %d: %s: %s", i+1, bad, out)
			}
		}
	}
	if out := on("norn cluster status -o json"); !strings.Contains(out, `"name": "c"`) {
		t.Errorf("the cluster is %s", out)
	}
}
