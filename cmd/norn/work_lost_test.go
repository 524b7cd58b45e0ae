package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// worker is a running `norn work`.
type workProcess struct {
	cmd *exec.Cmd
	out *buffer
}

// workLease is the lease of workers in tests: how long one may be kept from the
// processor and keep its claim.
const workLease = 5 * time.Second

// startWorker starts a worker on a server whose eta is 100 ms.
func startWorker(t *testing.T, queue, name, script string) *workProcess {
	t.Helper()
	return startWith(t, queue, []string{"--name", name, "--lease", workLease.String()}, "sh", "-c", script)
}

// startWith starts a worker with some flags and a command.
func startWith(t *testing.T, queue string, flags []string, command ...string) *workProcess {
	t.Helper()
	w := &workProcess{out: &buffer{}}
	args := append([]string{"work", "-q", queue}, flags...)
	w.cmd = exec.Command(the.norn, append(append(args, "--"), command...)...)
	w.cmd.Env = environment("NORN_ADDR=" + the.server.addr)
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it may have ended, and been waited for
		_ = w.cmd.Process.Signal(syscall.SIGCONT)
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	})
	return w
}

func (w *workProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ranTask is a task with what each of its claims has printed.
type ranTask struct {
	Claims  []struct{ Token, Worker, Outcome string }
	Updates []struct {
		Token string
		Data  []byte
	}
}

// lines are the updates of a task by the worker with a name.
func (j ranTask) lines(worker string) (data []string) {
	for _, c := range j.Claims {
		for _, u := range j.Updates {
			if c.Worker == worker && u.Token == c.Token {
				data = append(data, string(u.Data))
			}
		}
	}
	return data
}

func contentOf(path string) string {
	b, _ := os.ReadFile(path) // a file that is not there is empty
	return strings.TrimSpace(string(b))
}

// TestWorkFrozenBeyondItsLease: a worker that is stopped while its command goes on
// printing loses its claim to another one. When it wakes nothing of what was
// printed meanwhile becomes an update, the command is ended, and the other
// worker's completion stands.
func TestWorkFrozenBeyondItsLease(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	id := enqueue(t, "-q", "frozen", "x")
	frozen := startWorker(t, "frozen", "frozen",
		`cd "`+dir+`"; trap 'echo ended > ended; exit 1' TERM; i=0; while :; do i=$((i+1)); echo $i; echo $i > printed; sleep 0.02; done`)
	eventually(t, "its lines are updates", func() bool { return len(decode[ranTask](t, "task", "get", id).lines("frozen")) >= 3 })
	frozen.signal(t, syscall.SIGSTOP)
	before := len(decode[ranTask](t, "task", "get", id).lines("frozen"))
	heir := startWorker(t, "frozen", "second", `echo mine; while ! test -e "`+dir+`/gate"; do sleep 0.05; done`)
	eventually(t, "another worker has it", func() bool { return len(decode[ranTask](t, "task", "get", id).lines("second")) == 1 })
	printed := contentOf(dir + "/printed")
	eventually(t, "the command prints on", func() bool { return contentOf(dir+"/printed") != printed })
	frozen.signal(t, syscall.SIGCONT)
	eventually(t, "the command is ended", func() bool { return contentOf(dir+"/ended") == "ended" })
	eventually(t, "the loss is told", func() bool { return strings.Contains(frozen.out.String(), "task "+id+" lost") })
	after := len(decode[ranTask](t, "task", "get", id).lines("frozen"))
	// One update may have been under way when it was stopped.
	if last, _ := strconv.Atoi(contentOf(dir + "/printed")); after > before+1 || last <= after {
		t.Errorf("%d updates before, %d after, %d lines printed", before, after, last)
	}
	if err := os.WriteFile(dir+"/gate", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the task is completed", func() bool { return decode[taskJSON](t, "task", "get", id).State == "completed" })
	got := decode[taskJSON](t, "task", "get", id)
	if n := len(got.Claims); n != 2 || got.Claims[0].Worker != "frozen" || got.Claims[0].Outcome != "expired" || got.Claims[1].Worker != "second" || got.Claims[1].Outcome != "completed" {
		t.Errorf("claims %+v", got.Claims)
	}
	heir.signal(t, syscall.SIGTERM)
	if err := heir.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, heir.out.String())
	}
}

// TestWorkKilled: the task of a worker that is killed runs elsewhere within the
// lease, eta and a second; its command does not outlive it.
func TestWorkKilled(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	id := enqueue(t, "-q", "killed", "x")
	victim := startWorker(t, "killed", "victim", `echo $$ > "`+dir+`/pid"; exec sleep 1000`)
	eventually(t, "its command runs", func() bool { return contentOf(dir+"/pid") != "" })
	pid, err := strconv.Atoi(contentOf(dir + "/pid"))
	if err != nil {
		t.Fatal(err)
	}
	startWorker(t, "killed", "heir", `touch "`+dir+`/heir"; exec sleep 1000`)
	victim.signal(t, syscall.SIGKILL)
	killed := time.Now()
	eventually(t, "its command is killed too", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	eventually(t, "the task runs elsewhere", func() bool {
		_, err := os.Stat(dir + "/heir")
		return err == nil
	})
	took := time.Since(killed)
	t.Logf("running elsewhere after %v", took)
	if limit := workLease + 100*time.Millisecond + time.Second; timed() && took > limit {
		t.Errorf("running elsewhere after %v, more than %v", took, limit)
	}
	if got := decode[taskJSON](t, "task", "get", id); len(got.Claims) != 2 || got.Claims[1].Worker != "heir" {
		t.Errorf("claims %+v", got.Claims)
	}
}

// TestWorkCancelled: a cancelled task's command gets SIGTERM, and SIGKILL with
// its children if it does not listen.
func TestWorkCancelled(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	id := enqueue(t, "-q", "cancelled", "x")
	w := startWorker(t, "cancelled", "w", `cd "`+dir+`"; trap 'echo asked > asked' TERM; sleep 1000 & echo $! > pid; while :; do sleep 0.05; done`)
	eventually(t, "its command runs", func() bool { return contentOf(dir+"/pid") != "" })
	if r := norn(t, "task", "cancel", id); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	eventually(t, "it is told", func() bool { return strings.Contains(w.out.String(), "task "+id+" lost") })
	if contentOf(dir+"/asked") != "asked" {
		t.Error("the command was not asked to end")
	}
	pid := contentOf(dir + "/pid")
	eventually(t, "its child is gone", func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	if got := decode[taskJSON](t, "task", "get", id); got.State != "cancelled" {
		t.Errorf("got %+v", got)
	}
	// The slot is free again.
	next := enqueue(t, "-q", "cancelled", "y")
	eventually(t, "the next one runs", func() bool { return decode[taskJSON](t, "task", "get", next).State == "claimed" })
}

// TestWorkTaskTimeout: a command that takes too long fails its task, at its last
// checkpoint.
func TestWorkTaskTimeout(t *testing.T) {
	beside(t)
	id := enqueue(t, "-q", "slow", "x", "--max-attempts", "1")
	r := norn(t, "work", "-q", "slow", "--task-timeout", "3s", "--exit-when-empty", "--", "sh", "-c",
		`trap 'echo last words; exit 0' TERM; echo begun; while :; do sleep 0.05; done`)
	if r.code != 0 || !strings.Contains(r.err, "1 failed") {
		t.Errorf("got %+v", r)
	}
	got := decode[taskJSON](t, "task", "get", id)
	if got.State != "dead" || !strings.Contains(got.Error, "time is over") || len(got.Updates) != 2 || string(got.Updates[1].Data) != "last words" {
		t.Errorf("got %+v", got)
	}
}
