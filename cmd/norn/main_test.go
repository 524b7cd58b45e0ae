package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests run the program itself: what scripts see is what is tested.

// patience is how long anything may take on a busy machine; commands that wait
// themselves have longer.
const (
	patience       = 60 * time.Second
	patientCommand = 3 * patience
)

// built is where TestMain puts the program, and the server most tests share.
type built struct {
	norn   string
	dir    string
	server *server
}

var the built

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	flag.Parse()
	if *manTo != "" {
		return m.Run() // a release makes its man pages so: they need no server
	}
	dir, err := os.MkdirTemp("", "norn-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	the = built{norn: filepath.Join(dir, "norn"), dir: dir}
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X main.version=1.2.3-test -X main.commit=abcdef", "-o", the.norn, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%v\n", out, err)
		return 1
	}
	if the.server, err = startServer(filepath.Join(dir, "data")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if left, err := the.server.end(syscall.SIGTERM); err != nil || left != 0 {
		fmt.Fprintf(os.Stderr, "the shared server ended with %d, %v:\n%s\n", left, err, the.server.log.String())
		code = max(code, 1)
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// server is a running `norn server`.
type server struct {
	cmd        *exec.Cmd
	addr, http string // once it is ready
	log        *buffer
	ready      chan struct{} // closed when it is ready
	done       chan struct{} // closed when it has ended
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func environment(extra ...string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NORN_") {
			env = append(env, v)
		}
	}
	return append(env, extra...)
}

// startServer starts a server on free ports and waits until it is ready.
func startServer(data string, args ...string) (*server, error) {
	s, err := launch(append([]string{"--data", data, "--name", "n1", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, err
	}
	return s, s.wait()
}

// launch starts a server.
func launch(args ...string) (*server, error) {
	return launchAs(exec.Command(the.norn, append([]string{"server", "--http-listen", "127.0.0.1:0", "--eta", "100ms", "--log-format", "json"}, args...)...))
}

func launchAs(cmd *exec.Cmd) (*server, error) {
	cmd.Env = environment(cmd.Env...)
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, log: &buffer{}, ready: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		lines := bufio.NewScanner(io.TeeReader(out, s.log))
		var ready sync.Once
		for lines.Scan() {
			var line struct{ Msg, Listen, HTTP string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "server.ready" {
				ready.Do(func() { // once: a node that joins anew says it again
					s.addr, s.http = line.Listen, line.HTTP
					close(s.ready)
				})
			}
		}
		_ = cmd.Wait()
	}()
	return s, nil
}

// wait waits until the server is ready.
func (s *server) wait() error {
	select {
	case <-s.ready:
		return nil
	case <-s.done:
		return fmt.Errorf("the server ended: %s", s.log.String())
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		return fmt.Errorf("the server is not ready: %s", s.log.String())
	}
}

// ownServer starts a server for one test.
func ownServer(t *testing.T, data string, args ...string) *server {
	t.Helper()
	s, err := startServer(data, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.done
	})
	return s
}

// end sends a signal and gives the exit code.
func (s *server) end(sig os.Signal) (int, error) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return 0, err
	}
	select {
	case <-s.done:
		return s.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		return 0, errors.New("it does not end")
	}
}

// result is what a command left behind.
type result struct {
	out, err string
	code     int
}

// norn runs a command against the shared server.
func norn(t *testing.T, args ...string) result { return nornWith(t, "", nil, args...) }

// nornWith has standard input, and more environment.
func nornWith(t *testing.T, in string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patientCommand)
	defer cancel()
	cmd := exec.CommandContext(ctx, the.norn, args...)
	cmd.Env = environment(append([]string{"NORN_ADDR=" + the.server.addr}, env...)...)
	cmd.Stdin = strings.NewReader(in)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("norn %q: %v\n%s", args, err, errOut.String())
	}
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// ok runs a command that must succeed, and gives its output.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := norn(t, args...)
	if r.code != 0 || r.err != "" {
		t.Fatalf("norn %q exits with %d: %s", args, r.code, r.err)
	}
	return r.out
}

// decode runs a command with -o json and reads its output.
func decode[T any](t *testing.T, args ...string) T {
	t.Helper()
	var v T
	out := ok(t, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("norn %q prints no JSON: %v\n%s", args, err, out)
	}
	return v
}

// refused runs a command that must fail with a code, and an error of one line
// that says what.
func refused(t *testing.T, code int, want string, args ...string) result {
	t.Helper()
	r := norn(t, args...)
	if r.code != code {
		t.Errorf("norn %.200q exits with %d, want %d: %s", args, r.code, code, r.err)
	}
	if !strings.HasPrefix(r.err, "norn: ") || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, want) {
		t.Errorf("norn %.200q says %q, want one line with %q", args, r.err, want)
	}
	return r
}

var (
	anyTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
	anyID   = regexp.MustCompile(`"[0-9A-Za-z]{27}"`)
	anyPart = regexp.MustCompile(`"partition": ?\d+`)
	anySpan = regexp.MustCompile(`(duration|wait)_seconds": [0-9]+\.[0-9]+`)
	anyTok  = regexp.MustCompile(`"token": ?"\d+"`)
)

// masked replaces what differs from run to run.
func masked(s string) string {
	s = anyTime.ReplaceAllString(s, `"TIME"`)
	s = anyID.ReplaceAllString(s, `"ID"`)
	s = anyTok.ReplaceAllString(s, `"token": "TOKEN"`)
	s = anySpan.ReplaceAllString(s, `${1}_seconds": SECONDS`)
	return anyPart.ReplaceAllString(s, `"partition": PARTITION`)
}

// task and grant are what tests look at in JSON.
type taskJSON struct {
	ID, Queue, State, Error string
	Payload                 []byte
	Priority                int
	Attempts                int
	NotBefore               *time.Time `json:"not_before"`
	Headers                 map[string]string
	Claims                  []struct{ Token, Worker, Outcome string }
	Updates                 []struct {
		Seq  string
		Data []byte
	}
}

type grantJSON struct {
	Task       taskJSON
	Token      string
	Checkpoint []byte
}

// eventually asks until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}
