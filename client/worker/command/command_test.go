//go:build unix

package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/id"
)

func TestCommandSeesTheTask(t *testing.T) {
	o, e := runShell(t, Config{Env: []string{"MORE=yes"}}, `
		cat; echo
		echo "$NORN_TASK_ID $NORN_TOKEN $NORN_QUEUE $NORN_KIND+$NORN_TAGS $NORN_ATTEMPT $MORE"
		cat "$NORN_CHECKPOINT_FILE"; echo
		echo
		printf 'no line feed'`, nil)
	want := []string{"the payload", id.ID{1}.String() + " 77 q + 2 yes", "page 3", "", "no line feed"}
	if !slices.Equal(o.updates, want) {
		t.Errorf("updates %q", o.updates)
	}
	if e.Kind != worker.Completed || o.done.GetSeq() != 5 {
		t.Errorf("got %+v, completed with %v", e, o.done)
	}
}

func TestExitStatus(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		kind         worker.EventKind
		uncounted    bool
		contains     []string
	}{
		{"payload not read", "exit 0", worker.Completed, false, nil},
		{"tempfail", "echo later >&2; exit 75", worker.Snoozed, true, nil},
		{"failure", "echo one >&2; echo two >&2; exit 3", worker.Failed, false, []string{"exit status 3", "one\ntwo"}},
		{"silent failure", "exit 1", worker.Failed, false, []string{"exit status 1"}},
		{"signal", "kill -KILL $$", worker.Failed, false, []string{"signal: killed"}},
		{"long error", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done >&2; exit 9", worker.Failed, false, []string{"…", "line 1999"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, e := runShell(t, Config{}, tt.script, nil)
			if e.Kind != tt.kind || o.failure.GetUncounted() != tt.uncounted {
				t.Errorf("got %+v, failed with %v", e, o.failure)
			}
			for _, c := range tt.contains {
				if !strings.Contains(o.failure.GetError(), c) {
					t.Errorf("failed with %q", o.failure.GetError())
				}
			}
			if n := len(o.failure.GetError()); n > maxTail+100 {
				t.Errorf("the error has %d bytes", n)
			}
		})
	}
}

func TestMissingCommand(t *testing.T) {
	if err := (Config{Args: []string{"there-is-no-such-command"}}).Check(); err == nil {
		t.Error("a missing command is found")
	}
	if err := (Config{}).Check(); err == nil {
		t.Error("no command is found")
	}
	if err := (Config{Args: []string{"sh"}}).Check(); err != nil {
		t.Error(err)
	}
}

// alive tells whether a process exists, a zombie that nobody reaps aside.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// A shutdown gives the group SIGTERM; a command that ends by it is released.
func TestTerminate(t *testing.T) {
	began := time.Now()
	o, e := runShell(t, Config{Grace: time.Minute}, `
		trap 'echo bye >&2; exit 0' TERM
		echo ready >&2
		while :; do sleep 0.05; done`, (*worker.Worker).StopNow)
	if e.Kind != worker.Released || o.done != nil || o.failure != nil {
		t.Errorf("got %+v; completed %v, failed %v", e, o.done, o.failure)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// What a command says in answer to SIGTERM is kept: a last checkpoint.
func TestLastWords(t *testing.T) {
	o, e := runShell(t, Config{Grace: time.Minute}, `
		trap 'echo row 17; printf "row 18"; exit 1' TERM
		echo ready >&2
		while :; do sleep 0.05; done`, (*worker.Worker).StopNow)
	if e.Kind != worker.Released || !slices.Equal(o.updates, []string{"row 17", "row 18"}) {
		t.Errorf("got %+v, updates %q", e, o.updates)
	}
}

// Commands hear nothing of the service manager of their worker.
func TestEnvironmentOfServiceManagers(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		t.Setenv(name, "x")
	}
	t.Setenv("OTHER", "y")
	o, _ := runShell(t, Config{}, `echo "$NOTIFY_SOCKET$WATCHDOG_USEC$WATCHDOG_PID$OTHER"`, nil)
	if !slices.Equal(o.updates, []string{"y"}) {
		t.Errorf("updates %q", o.updates)
	}
}

// One that does not listen is killed after the grace, with its children.
func TestKill(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	o, e := runShell(t, Config{Grace: 200 * time.Millisecond}, `
		trap '' TERM
		sleep 1000 & echo $! > "`+pidFile+`"
		echo ready >&2
		while :; do sleep 0.05; done`, (*worker.Worker).StopNow)
	if e.Kind != worker.Released || o.failure != nil {
		t.Errorf("got %+v", e)
	}
	waitGone(t, readPid(t, pidFile))
}

// readPid reads the process ID that a script has written.
func readPid(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// waitGone waits until a process has ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.After(5 * time.Second)
	for alive(pid) {
		select {
		case <-deadline:
			t.Fatalf("child %d lives on", pid)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A soft stop lets the command finish.
func TestSoftStop(t *testing.T) {
	o, e := runShell(t, Config{}, `echo ready >&2; sleep 0.3; echo done`, func(w *worker.Worker) {
		if err := w.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if e.Kind != worker.Completed || !slices.Equal(o.updates, []string{"done"}) {
		t.Errorf("got %+v, updates %q", e, o.updates)
	}
}

// A process in the background that holds the output open delays nobody long.
func TestBackgroundProcessHoldsOutput(t *testing.T) {
	began := time.Now()
	o, e := runShell(t, Config{}, `echo first; sleep 3 & exit 0`, nil)
	if e.Kind != worker.Completed || !slices.Equal(o.updates, []string{"first"}) {
		t.Errorf("got %+v, updates %q", e, o.updates)
	}
	if took := time.Since(began); took > pipeDelay+1500*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

// TestLinesThatTakeLong: a command has long ended when what it has printed is durable. All
// of it is kept.
func TestLinesThatTakeLong(t *testing.T) {
	const n = 60 // in the pipe of a command that has ended
	o, e := runOver(t, &outcomeOf{slow: pipeDelay + 500*time.Millisecond}, Config{},
		`i=0; while [ $i -lt 60 ]; do printf '%01000d\n' $i; i=$((i+1)); done`, nil)
	if e.Kind != worker.Completed || len(o.updates) != n {
		t.Fatalf("got %+v, %d lines", e, len(o.updates))
	}
	for i, line := range o.updates {
		if want := fmt.Sprintf("%01000d", i); line != want {
			t.Errorf("line %d has %d bytes, %.20q…", i, len(line), line)
		}
	}
}

// TestLinesOutlastAnOutage: each one waits for a node to take it, for as long as the claim
// holds and whatever the patience of the client.
func TestLinesOutlastAnOutage(t *testing.T) {
	o, e := runOver(t, &outcomeOf{away: 5, patience: 100 * time.Millisecond}, Config{}, `echo one; echo two`, nil)
	if e.Kind != worker.Completed || !slices.Equal(o.updates, []string{"one", "two"}) {
		t.Errorf("got %+v, updates %q", e, o.updates)
	}
}

// TestWhoWritesOnInTheBackground holds nobody up, however much it writes.
func TestWhoWritesOnInTheBackground(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	_, e := runShell(t, Config{}, `yes "`+long(4000)+`" & echo $! > "`+pid+`"; exit 0`, nil)
	if e.Kind != worker.Completed {
		t.Errorf("got %+v", e)
	}
	waitGone(t, readPid(t, pid))
}

// TestChildrenHaveTheGraceToo: a shell ends by SIGTERM at once. What it has started saves
// what it has to save.
func TestChildrenHaveTheGraceToo(t *testing.T) {
	dir := t.TempDir()
	_, e := runShell(t, Config{Grace: time.Minute}, `
		(trap 'sleep 0.2; echo yes > "`+dir+`/saved"; exit 0' TERM
		echo ready >&2
		exec > /dev/null 2>&1
		while :; do sleep 0.05; done) & wait`, (*worker.Worker).StopNow)
	if e.Kind != worker.Released {
		t.Errorf("got %+v", e)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "saved")); err != nil || string(b) != "yes\n" {
		t.Errorf("saved %q, %v", b, err)
	}
}

func TestLines(t *testing.T) {
	var got []string
	l := &lines{take: func(b []byte) { got = append(got, string(b)) }}
	for _, s := range []string{"a", "b\nc\n\n", long(maxLine) + "\n", long(maxLine - 1), "y\n", long(2*maxLine + 3), "\nend"} {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	l.flush()
	l.flush()
	want := []string{"ab", "c", "", long(maxLine), long(maxLine-1) + "y", long(maxLine), long(maxLine), "xxx", "end"}
	if !slices.Equal(got, want) {
		sizes := make([]int, len(got))
		for i, g := range got {
			sizes[i] = len(g)
		}
		t.Errorf("got lines of %v", sizes)
	}
}

// TestALineOfFullLengthIsOne: where its line feed comes by itself, there is no empty line
// after it, which would be the last checkpoint.
func TestALineOfFullLengthIsOne(t *testing.T) {
	var got []int
	l := &lines{take: func(b []byte) { got = append(got, len(b)) }}
	for _, s := range []string{long(maxLine), "\n", long(maxLine - 1), "x", "\n", long(2 * maxLine), "\nend", long(maxLine - 3), "\n\n", long(maxLine)} {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	l.flush()
	if want := []int{maxLine, maxLine, maxLine, maxLine, maxLine, 0, maxLine}; !slices.Equal(got, want) {
		t.Errorf("got lines of %v, want %v", got, want)
	}
}

func TestTail(t *testing.T) {
	e := &tail{}
	for _, s := range []string{"start ", long(3000), long(3000), "end\n"} {
		if _, err := e.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if s := e.String(); !strings.HasPrefix(s, "… x") || !strings.HasSuffix(s, "xend") || len(e.b) != maxTail {
		t.Errorf("kept %d bytes: %.20q", len(e.b), s)
	}
	e = &tail{}
	if _, err := e.Write([]byte(long(2*maxTail) + "\xff")); err != nil || !strings.HasSuffix(e.String(), "x\uFFFD") {
		t.Errorf("kept %.20q", e.String())
	}
}

func TestOutcome(t *testing.T) {
	if err := outcome(errors.New("strange"), ""); err == nil || err.Error() != "strange" {
		t.Errorf("got %v", err)
	}
}
