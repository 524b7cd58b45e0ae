package main

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestCommandsDoNotGetSecrets of the worker's environment, unless it is told so.
func TestCommandsDoNotGetSecrets(t *testing.T) {
	env := []string{"NORN_AUTH_TOKEN=s3cret", "NORN_OUTBOX_DB=postgres://u:s3cret@db/x", "NORN_SERVER_SNAPSHOT_TO=s3://k:s3cret@b", "NORN_OF_MINE=kept"}
	for name, pass := range map[string]bool{"secrets": false, "passed": true} {
		id := enqueue(t, "-q", name, "x")
		args := []string{"work", "-q", name, "--exit-when-empty"}
		if pass {
			args = append(args, "--pass-auth")
		}
		if r := nornWith(t, "", env, append(args, "--", "sh", "-c", "env")...); r.code != 0 {
			t.Fatalf("%+v", r)
		}
		var said strings.Builder
		for _, u := range decode[taskJSON](t, "task", "get", id).Updates {
			said.Write(append(u.Data, '\n'))
		}
		if strings.Contains(said.String(), "s3cret") != pass || !strings.Contains(said.String(), "NORN_OF_MINE=kept") || !strings.Contains(said.String(), "NORN_ADDR=") {
			t.Errorf("--pass-auth %v: the command has\n%s", pass, said.String())
		}
	}
}

// TestTokenOfAFile: what the commands of a client are told on no command line.
func TestTokenOfAFile(t *testing.T) {
	s := ownServer(t, t.TempDir(), "--auth-token-file", write(t, "s3cret\n"))
	good, bad := write(t, "s3cret\n"), write(t, "wrong\n")
	to := "NORN_ADDR=" + s.addr
	var status struct {
		ID string `json:"cluster_id"`
	}
	if r := nornWith(t, "", []string{to}, "cluster", "status", "-o", "json", "--auth-token-file", good); json.Unmarshal([]byte(r.out), &status) != nil || status.ID == "" {
		t.Fatalf("%+v", r)
	}
	for name, tc := range map[string]struct {
		env  []string
		args []string
		code int
	}{
		"flag":                    {nil, []string{"--auth-token-file", good}, 0},
		"variable":                {[]string{"NORN_AUTH_TOKEN_FILE=" + good}, nil, 0},
		"another":                 {nil, []string{"--auth-token-file", bad}, 1},
		"flag before variable":    {[]string{"NORN_AUTH_TOKEN=wrong"}, []string{"--auth-token-file", good}, 0},
		"flag before file":        {[]string{"NORN_AUTH_TOKEN_FILE=" + bad}, []string{"--auth-token", "s3cret"}, 0},
		"both":                    {nil, []string{"--auth-token-file", good, "--auth-token", "s3cret"}, 2},
		"both in the environment": {[]string{"NORN_AUTH_TOKEN_FILE=" + good, "NORN_AUTH_TOKEN=s3cret"}, nil, 2},
		"its cluster":             {nil, []string{"--auth-token-file", good, "--cluster-id", status.ID}, 0},
		"its cluster, a variable": {[]string{"NORN_CLUSTER_ID=" + status.ID}, []string{"--auth-token-file", good}, 0},
		"another cluster":         {nil, []string{"--auth-token-file", good, "--cluster-id", "01234567-89ab-4cde-8f01-23456789abcd"}, 1},
		"no cluster":              {nil, []string{"--auth-token-file", good, "--cluster-id", "main"}, 2},
		"no file":                 {nil, []string{"--auth-token-file", "does/not/exist"}, 2},
		"empty":                   {nil, []string{"--auth-token-file", write(t, "\n")}, 2},
	} {
		args := append([]string{"task", "count", "-o", "jsonl", "--timeout", "10s"}, tc.args...)
		if r := nornWith(t, "", append(tc.env, to), args...); r.code != tc.code {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// replace has a file hold what another one does.
func replace(t *testing.T, file, by string) {
	t.Helper()
	b, err := os.ReadFile(by)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// TestWorkReadsItsFilesAgain: a worker goes on with the certificate, the authority and the
// token that its files have when it connects anew; until they are there its log names the one
// it shows.
func TestWorkReadsItsFilesAgain(t *testing.T) {
	beside(t)
	cert, key := certificate(t)
	token, ca := write(t, "first\n"), write(t, "")
	replace(t, ca, cert)
	data := t.TempDir()
	s := ownServer(t, data, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert, "--auth-token-file", write(t, "first\n"))
	w := startWith(t, "renewed", []string{"--addr", s.addr, "--name", "renewed", "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key, "--auth-token-file", token}, "true")
	eventually(t, "it is connected", func() bool { return strings.Contains(w.out.String(), "waiting for tasks") })
	if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	newCert, newKey := certificate(t)
	again := ownServer(t, data, "--listen", s.addr, "--tls-cert", newCert, "--tls-key", newKey, "--tls-client-ca", newCert, "--auth-token-file", write(t, "second\n"))
	eventually(t, "it says whom it trusts", func() bool { return strings.Contains(w.out.String(), "trusted are the authorities in "+ca) })
	replace(t, ca, newCert)
	replace(t, cert, newCert)
	replace(t, key, newKey)
	replace(t, token, write(t, "second\n"))
	flags := []string{"--addr", again.addr, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key, "--auth-token-file", token}
	id := strings.TrimSpace(ok(t, append([]string{"task", "enqueue", "-q", "renewed", "x"}, flags...)...))
	ok(t, append([]string{"task", "wait", id, "--timeout", "60s"}, flags...)...)
}
