package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

type sums struct {
	Completed, Failed, Snoozed, Released, Lost, Unreported string
	Seconds                                                float64
}

// TestWorkRunsACommandPerTask checks the payload, the environment, the updates,
// and that it ends when nothing is left.
func TestWorkRunsACommandPerTask(t *testing.T) {
	var ids []string
	for _, p := range []string{"a", "b", "c"} {
		ids = append(ids, enqueue(t, "-q", "run", "--kind", "greet", "--tag", "vip", p))
	}
	r := norn(t, "work", "-q", "run", "--slots", "2", "--exit-when-empty", "--name", "tester", "-o", "json", "--",
		"sh", "-c", `echo "got $(cat)"; echo "$NORN_TASK_ID $NORN_QUEUE $NORN_KIND $NORN_TAGS $NORN_ATTEMPT"; test -n "$NORN_TOKEN" && test -f "$NORN_CHECKPOINT_FILE"`)
	var got sums
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || got.Completed != "3" || got.Failed != "0" {
		t.Fatalf("%v: %+v", err, r)
	}
	for i, p := range []string{"a", "b", "c"} {
		task := decode[taskJSON](t, "task", "get", ids[i])
		if task.State != "completed" || task.Claims[0].Worker != "tester" || len(task.Updates) != 2 ||
			string(task.Updates[0].Data) != "got "+p || string(task.Updates[1].Data) != ids[i]+" run greet vip 1" {
			t.Errorf("got %+v", task)
		}
	}
}

// TestWorkExitStatus checks what becomes of a task for each way to exit.
func TestWorkExitStatus(t *testing.T) {
	fails := enqueue(t, "-q", "exit", "1", "--max-attempts", "1")
	r := norn(t, "work", "-q", "exit", "--exit-when-empty", "--", "sh", "-c", `echo point; echo "no luck" >&2; exit $(cat)`)
	if r.code != 0 || !strings.Contains(r.err, "no luck\n") || !strings.Contains(r.err, "norn: task "+fails+" failed: ") || !strings.Contains(r.err, "norn: 0 completed, 1 failed in ") {
		t.Errorf("got %+v", r)
	}
	if got := decode[taskJSON](t, "task", "get", fails); got.State != "dead" || !strings.Contains(got.Error, "no luck") {
		t.Errorf("failed: %+v", got)
	}
	dir := t.TempDir()
	again := enqueue(t, "-q", "again", "75", "--max-attempts", "1")
	r = norn(t, "work", "-q", "again", "--exit-when-empty", "-o", "jsonl", "--", "sh", "-c",
		`cd "`+dir+`"; if test -e ran; then cat "$NORN_CHECKPOINT_FILE" > checkpoint; exit 0; fi; touch ran; echo first; echo second; exit 75`)
	if r.code != 0 || !strings.HasPrefix(r.out, `{"completed":"1","failed":"0","snoozed":"1",`) {
		t.Errorf("got %+v", r)
	}
	if got := decode[taskJSON](t, "task", "get", again); got.State != "completed" || got.Attempts != 0 {
		t.Errorf("snoozed: %+v", got)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "checkpoint")); err != nil || string(b) != "second" {
		t.Errorf("checkpoint %q, %v", b, err)
	}
}

// startWork starts a worker whose command says that it runs, and waits for that.
func startWork(t *testing.T, queue, script string, flags ...string) (cmd *exec.Cmd, out *buffer, id string) {
	t.Helper()
	id = enqueue(t, "-q", queue, "x")
	running := filepath.Join(t.TempDir(), "running")
	out = &buffer{}
	args := append([]string{"work", "-q", queue, "--lease", "20s"}, flags...)
	cmd = exec.Command(the.norn, append(args, "--", "sh", "-c", "touch '"+running+"'; "+script)...)
	cmd.Env = environment("NORN_ADDR=" + the.server.addr)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(t, "the command runs", func() bool {
		_, err := os.Stat(running)
		return err == nil
	})
	return cmd, out, id
}

// TestWorkFinishesOnTheFirstSignal lets what runs finish, also when a terminal is closed.
func TestWorkFinishesOnTheFirstSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) { finishesOn(t, sig) })
	}
}

func finishesOn(t *testing.T, sig syscall.Signal) {
	if signal.Ignored(sig) {
		t.Skip("the tests were started with the signal ignored (nohup), and so is the worker")
	}
	gate := filepath.Join(t.TempDir(), "gate")
	cmd, out, id := startWork(t, "soft-"+strconv.Itoa(int(sig)), "while ! test -e '"+gate+"'; do sleep 0.05; done; echo done")
	next := enqueue(t, "-q", "soft-"+strconv.Itoa(int(sig)), "y")
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the signal is heard", func() bool { return strings.Contains(out.String(), "taking nothing new") })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
	if got := decode[taskJSON](t, "task", "get", id); got.State != "completed" {
		t.Errorf("what ran: %+v", got)
	}
	if got := decode[taskJSON](t, "task", "get", next); got.State != "ready" || len(got.Claims) != 0 {
		t.Errorf("what did not run: %+v", got)
	}
}

// TestWorkStopsOnTheSecondSignal ends the command and gives the task back.
func TestWorkStopsOnTheSecondSignal(t *testing.T) {
	beside(t)
	cmd, out, id := startWork(t, "hard", "trap '' TERM; while :; do sleep 0.05; done")
	for _, heard := range []string{"taking nothing new", "norn: 0 completed"} {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		eventually(t, heard, func() bool { return strings.Contains(out.String(), heard) })
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
	got := decode[taskJSON](t, "task", "get", id)
	if got.State != "ready" || got.Attempts != 0 || got.Claims[0].Outcome != "released" {
		t.Errorf("got %+v", got)
	}
}

func TestWorkUsage(t *testing.T) {
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"no queue": {"work", "--", "true"}, "no command": {"work", "-q", "q"}, "--slots": {"work", "-q", "q", "--slots", "0", "--", "true"},
		"--lease": {"work", "-q", "q", "--lease", "25h", "--", "true"}, "--grace": {"work", "-q", "q", "--grace", "20s", "--", "true"},
		"--grace: -1s is below zero":                     {"work", "-q", "q", "--grace", "-1s", "--", "true"},
		"--lock: " + dir + " is a directory":             {"work", "-q", "q", "--lock", dir, "--name", "x", "--", "true"},
		"--lock: there is no directory " + dir + "/gone": {"work", "-q", "q", "--lock", dir + "/gone/lock", "--name", "x", "--", "true"},
		"not found": {"work", "-q", "q", "--", "no-such-command"}, "--queue": {"work", "-q", "no good", "--", "true"},
	} {
		refused(t, 2, want, args...)
	}
	refused(t, 4, "--addr", "work", "-q", "q", "--addr", "127.0.0.1:1", "--timeout", "300ms", "--", "true")
	refused(t, 2, "--name: it is not UTF-8", "work", "-q", "q", "--name", "w\xff", "--", "true")
	refused(t, 2, "--name: it is not UTF-8", "work", "-q", "q", "--name", strings.Repeat("w", 257), "--", "true")
}
