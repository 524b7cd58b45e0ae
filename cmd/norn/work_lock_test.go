package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startLocked starts a worker with a lease that no test waits for, under a lock.
func startLocked(t *testing.T, queue, name, lock, script string) *workProcess {
	t.Helper()
	w := &workProcess{out: &buffer{}}
	w.cmd = exec.Command(the.norn, "work", "-q", queue, "--name", name, "--lock", lock, "--lease", "10m", "--grace", "1s", "--", "sh", "-c", script)
	w.cmd.Env = environment("NORN_ADDR=" + the.server.addr)
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it may have ended, and been waited for
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	})
	return w
}

// TestWorkLock: while a worker lives nobody else starts under its lock. When it is killed
// the one that comes back has its name at once, and its task runs again long before
// its lease is over.
func TestWorkLock(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	lock := dir + "/lock"
	id := enqueue(t, "-q", "locked", "x", "--max-attempts", "5")
	first := startLocked(t, "locked", "holder", lock, `echo first > "`+dir+`/first"; exec sleep 1000`)
	eventually(t, "its command runs", func() bool { return contentOf(dir+"/first") != "" })
	eventually(t, "it is listed with it", func() bool { return len(listed(t, "holder").Running) == 1 })
	second := startLocked(t, "locked", "holder", lock, "exit 0")
	if code := second.exits(t); code != 5 || !strings.Contains(second.out.String(), "another process") {
		t.Errorf("beside the first: exit code %d: %s", code, second.out.String())
	}
	first.signal(t, syscall.SIGKILL)
	killed := time.Now()
	_ = first.cmd.Wait()
	startLocked(t, "locked", "holder", lock, `echo again > "`+dir+`/again"; exec sleep 1000`)
	eventually(t, "the task runs again", func() bool { return contentOf(dir+"/again") != "" })
	t.Logf("running again %v after the kill, with a lease of 10 min", time.Since(killed))
	got := decode[taskJSON](t, "task", "get", id)
	if len(got.Claims) != 2 {
		t.Fatalf("got %+v", got)
	}
	if got.Claims[0].Outcome != "failed" || got.Claims[1].Outcome != "active" || got.Attempts != 1 {
		t.Errorf("got %+v", got)
	}
	if r := norn(t, "work", "-q", "locked", "--lock", lock, "--", "true"); r.code != 2 || !strings.Contains(r.err, "--name") {
		t.Errorf("a lock without a name: %+v", r)
	}
	if b, err := os.ReadFile(lock); err != nil || len(strings.Fields(string(b))) != 2 {
		t.Errorf("the lock holds %q, %v", b, err)
	}
}
