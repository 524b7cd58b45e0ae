package main

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobodyReads starts a command whose standard error nobody reads any more once a line
// there has the text, or from the start on when that is "".
func nobodyReads(t *testing.T, cmd *exec.Cmd, until string) (last string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = write
	if until == "" {
		_ = read.Close()
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	_ = write.Close()
	if until == "" {
		return ""
	}
	_ = read.SetReadDeadline(time.Now().Add(patience))
	for lines := bufio.NewScanner(read); lines.Scan(); {
		if strings.Contains(lines.Text(), until) {
			last = lines.Text()
			break
		}
	}
	_ = read.Close()
	if last == "" {
		t.Fatalf("it never said %q", until)
	}
	return last
}

// TestServerOutlivesItsLog: nobody reads the log of a server any more, and it goes on and
// counts what is lost.
func TestServerOutlivesItsLog(t *testing.T) {
	cmd := exec.Command(the.norn, "server", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0",
		"--http-listen", "127.0.0.1:0", "--log-level", "debug", "--log-format", "json")
	cmd.Env = environment()
	var ready struct{ Listen, HTTP string }
	if err := json.Unmarshal([]byte(nobodyReads(t, cmd, `"server.ready"`)), &ready); err != nil {
		t.Fatal(err)
	}
	eventually(t, "lost lines are counted", func() bool {
		c, err := net.Dial("tcp", ready.Listen)
		if err != nil {
			t.Fatal("the server is gone: ", err)
		}
		_ = c.Close() // a line of the log
		a := askOf(t, ready.HTTP, "GET", "/metrics", "")
		lost := regexp.MustCompile(`(?m)^norn_log_lines_lost_total ([0-9]+)$`).FindStringSubmatch(a.raw)
		return a.code == http.StatusOK && lost != nil && lost[1] != "0"
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error("it ended with", err)
	}
}

// TestWorkOutlivesItsLog: nobody reads what a worker says of a task that fails, and what
// its command says, and the worker does the next one.
func TestWorkOutlivesItsLog(t *testing.T) {
	bad, good := enqueue(t, "-q", "unread", "1", "--max-attempts", "1"), enqueue(t, "-q", "unread", "0")
	cmd := exec.Command(the.norn, "work", "-q", "unread", "--exit-when-empty", "-o", "json", "--", "sh", "-c", "echo said >&2; exit $(cat)")
	cmd.Env = environment("NORN_ADDR=" + the.server.addr)
	var out buffer
	cmd.Stdout = &out
	nobodyReads(t, cmd, "")
	if err := cmd.Wait(); err != nil {
		t.Error("it ended with", err)
	}
	var got struct {
		Completed, Failed string
		Lost              string `json:"log_lines_lost"`
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Completed != "1" || got.Failed != "1" || len(got.Lost) != 1 || got.Lost < "3" {
		t.Errorf("%v: %s", err, out.String())
	}
	for id, want := range map[string]string{bad: "dead", good: "completed"} {
		if got := decode[taskJSON](t, "task", "get", id); got.State != want {
			t.Errorf("want %s: %+v", want, got)
		}
	}
}

// TestCommandsDieOfAPipe: what a worker starts is ended by SIGPIPE as ever.
func TestCommandsDieOfAPipe(t *testing.T) {
	id := enqueue(t, "-q", "pipes", "x")
	r := norn(t, "work", "-q", "pipes", "--exit-when-empty", "--", "bash", "-c", `yes | head -n 1; echo "${PIPESTATUS[0]}"`)
	got := decode[taskJSON](t, "task", "get", id)
	if r.code != 0 || len(got.Updates) != 2 || string(got.Updates[1].Data) != "141" {
		t.Errorf("got %+v, %+v", r, got)
	}
}

// TestWorkFinishTimeout: what has not ended some time after the first signal is given
// back, and costs no attempt.
func TestWorkFinishTimeout(t *testing.T) {
	beside(t)
	cmd, out, id := startWork(t, "finish", "trap 'exit 0' TERM; while :; do sleep 0.05; done", "--finish-timeout", "1s")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, want := range []string{"finishing what runs for 1s at most", "--finish-timeout is over", "1 released"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q: %s", want, out.String())
		}
	}
	got := decode[taskJSON](t, "task", "get", id)
	if got.State != "ready" || got.Attempts != 0 || got.Claims[0].Outcome != "released" {
		t.Errorf("got %+v", got)
	}
	refused(t, 2, "--finish-timeout: -1s is below zero", "work", "-q", "q", "--finish-timeout", "-1s", "--", "true")
}
