package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// workerJSON is what scripts may rely on.
type workerJSON struct {
	Name, State, Node string
	Trouble           string
	Draining          bool
	Slots             int
	Queues            []struct{ Queue string }
	Running           []struct{ ID, Token string }
}

// listed gives a worker as a node lists it; the zero one when it does not.
func listed(t *testing.T, name string) (w workerJSON) {
	t.Helper()
	if all := decode[[]workerJSON](t, "worker", "list", name); len(all) == 1 {
		w = all[0]
	}
	return w
}

// exits waits for the end of a worker, and gives its exit code.
func (w *workProcess) exits(t *testing.T) int {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		_ = w.cmd.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatalf("the worker does not end: %s", w.out.String())
	}
	return w.cmd.ProcessState.ExitCode()
}

// TestWorkerListAndDrain: a worker is listed with what it runs; drained, it finishes
// that, takes nothing new, and exits with 0.
func TestWorkerListAndDrain(t *testing.T) {
	dir := t.TempDir()
	w := startWorker(t, "drained", "to-drain", `cd "`+dir+`"; echo on >> runs; while ! test -e gate; do sleep 0.05; done`)
	id := enqueue(t, "-q", "drained", "x")
	eventually(t, "it runs", func() bool { return len(listed(t, "to-drain").Running) == 1 && contentOf(dir+"/runs") != "" })
	if got := listed(t, "to-drain"); got.State != "healthy" || got.Node != "n1" || got.Slots != 1 || got.Queues[0].Queue != "drained" || got.Running[0].ID != id {
		t.Errorf("listed as %+v", got)
	}
	if out := ok(t, "worker", "list", "to-drain"); !strings.Contains(out, "to-drain") || !strings.Contains(out, "1 of 1") || !strings.Contains(out, id) {
		t.Errorf("listed as\n%s", out)
	}
	status := decode[struct{ Workers []workerJSON }](t, "cluster", "status")
	if i := slices.IndexFunc(status.Workers, func(w workerJSON) bool { return w.Name == "to-drain" }); i < 0 || len(status.Workers[i].Running) != 1 || status.Workers[i].Running[0].ID != id {
		t.Errorf("the status has %+v", status.Workers)
	}
	if out := ok(t, "cluster", "status"); !strings.Contains(out, " healthy") || !strings.Contains(out, " on them\n") {
		t.Errorf("the status has no workers:\n%s", out)
	}
	if got := decode[workerJSON](t, "worker", "drain", "to-drain"); !got.Draining {
		t.Errorf("drained: %+v", got)
	}
	enqueue(t, "-q", "drained", "y")
	if err := os.WriteFile(dir+"/gate", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.exits(t); code != 0 {
		t.Errorf("exit code %d: %s", code, w.out.String())
	}
	if got := decode[taskJSON](t, "task", "get", id); got.State != "completed" || contentOf(dir+"/runs") != "on" {
		t.Errorf("the task is %+v, runs %q", got, contentOf(dir+"/runs"))
	}
	if got := listed(t, "to-drain"); got.Name != "" {
		t.Errorf("still listed: %+v", got)
	}
}

// TestWorkerKill: the command of a worker that is killed gets SIGTERM, its task is
// given back without using an attempt, and norn work exits with 1.
func TestWorkerKill(t *testing.T) {
	dir := t.TempDir()
	w := startWorker(t, "killed-by-word", "to-kill", `cd "`+dir+`"; trap 'echo ended > ended; exit 1' TERM; echo on > on; while :; do sleep 0.05; done`)
	id := enqueue(t, "-q", "killed-by-word", "x")
	eventually(t, "it runs", func() bool { return contentOf(dir+"/on") != "" && listed(t, "to-kill").Name != "" })
	ok(t, "worker", "kill", "to-kill", "--reason", "it runs the old version")
	if code := w.exits(t); code != 1 || !strings.Contains(w.out.String(), "an operator has stopped it") {
		t.Errorf("exit code %d: %s", code, w.out.String())
	}
	if contentOf(dir+"/ended") != "ended" {
		t.Error("the command was not asked to end")
	}
	if got := decode[taskJSON](t, "task", "get", id); got.State != "ready" || got.Attempts != 0 {
		t.Errorf("the task is %+v", got)
	}
	if got := norn(t, "worker", "kill", "to-kill"); got.code != 3 || !strings.Contains(got.err, "no worker to-kill") {
		t.Errorf("a second time: %d %s", got.code, got.err)
	}
}

// TestTaskLogLines: what a command says on standard error can be followed while it
// runs, and read after, as long as its worker lives; the log without --lines has what
// was printed on standard output and nothing else.
func TestTaskLogLines(t *testing.T) {
	dir := t.TempDir()
	w := startWorker(t, "lines", "liner", `cd "`+dir+`"; echo kept; echo "seen 1" >&2; while ! test -e gate; do sleep 0.05; done; echo "seen 2" >&2; printf unended >&2`)
	id := enqueue(t, "-q", "lines", "x")
	follow := exec.Command(the.norn, "task", "log", id, "--follow", "--lines", "-o", "jsonl")
	followed := &buffer{}
	follow.Env, follow.Stdout, follow.Stderr = environment("NORN_ADDR="+the.server.addr), followed, followed
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = follow.Process.Kill() })
	type lineJSON struct {
		Token, Line, Seq string
		Data             []byte
	}
	has := func(out, data string, number bool) bool {
		for text := range strings.Lines(out) {
			var l lineJSON
			if json.Unmarshal([]byte(text), &l) == nil && string(l.Data) == data && l.Token != "" && (l.Line != "") == number && (l.Seq == "") == number {
				return true
			}
		}
		return false
	}
	eventually(t, "both streams are followed", func() bool {
		return has(followed.String(), "kept", false) && has(followed.String(), "seen 1", true)
	})
	if err := os.WriteFile(dir+"/gate", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := follow.Wait(); err != nil || !has(followed.String(), "seen 2", true) || !has(followed.String(), "unended", true) {
		t.Errorf("following ends with %v: %s", err, followed.String())
	}
	if out := ok(t, "task", "log", id, "--lines", "-o", "jsonl"); strings.Count(out, "\n") != 4 || !has(out, "seen 2", true) {
		t.Errorf("afterwards:\n%s", out)
	}
	if out := ok(t, "task", "log", id); !strings.Contains(out, "kept") || strings.Contains(out, "seen") {
		t.Errorf("without --lines:\n%s", out)
	}
	w.signal(t, syscall.SIGTERM)
	if code := w.exits(t); code != 0 {
		t.Errorf("exit code %d: %s", code, w.out.String())
	}
	if out := ok(t, "task", "log", id, "--lines"); !strings.Contains(out, "kept") || strings.Contains(out, "seen") {
		t.Errorf("when its worker has left:\n%s", out)
	}
}

// TestSessionOutlivesItsNode: the node that a worker is with is killed. What runs goes
// on under its claim, its lines can be followed through another node, new tasks
// arrive; and after a stop in order everything is given back at once.
func TestSessionOutlivesItsNode(t *testing.T) {
	thorough(t)
	c := startCompany(t, 3)
	dir := t.TempDir()
	w := &workProcess{out: &buffer{}}
	w.cmd = exec.Command(the.norn, "work", "-q", "s", "--name", "roamer", "--slots", "2", "--lease", "20s", "--", "sh", "-c",
		`p=$(cat); echo "line of $p"; echo "note of $p" >&2; cd "`+dir+`"; date +%s%N > $p; case $p in long) while ! test -e gate; do sleep 0.05; done; echo "end of $p"; echo "last note of $p" >&2;; esac`)
	w.cmd.Env = environment("NORN_ADDR=" + strings.Join(c.addresses(), ","))
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	id := strings.TrimSpace(c.all[0].norn(t, "task", "enqueue", "-q", "s", "long").out)
	eventually(t, "it runs", func() bool { return contentOf(dir+"/long") != "" })
	var at *process
	eventually(t, "it has a node", func() bool {
		out := c.all[0].norn(t, "worker", "list").out
		for _, p := range c.all {
			if strings.Contains(out, " "+p.name+" ") {
				at = p
			}
		}
		return at != nil
	})
	other := c.all[0]
	if at == other {
		other = c.all[1]
	}
	follow := exec.Command(the.norn, "task", "log", id, "--follow", "--lines")
	followed := &buffer{}
	follow.Env, follow.Stdout, follow.Stderr = environment("NORN_ADDR="+other.listen), followed, followed
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = follow.Process.Kill() })
	eventually(t, "its lines are followed through another node", func() bool {
		return strings.Contains(followed.String(), "line of long") && strings.Contains(followed.String(), "note of long")
	})
	at.kill(t)
	killed := time.Now()
	eventually(t, "a task is taken", func() bool { return other.norn(t, "task", "enqueue", "-q", "s", "next").code == 0 })
	eventually(t, "a new task arrives", func() bool { return contentOf(dir+"/next") != "" })
	t.Logf("a new task ran %v after the death of %s", time.Since(killed), at.name)
	if out := other.norn(t, "task", "log", id); !strings.Contains(out.out, "line of long") {
		t.Errorf("its lines through %s: %q %s", other.name, out.out, out.err)
	}
	if err := os.WriteFile(dir+"/gate", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is completed under its first claim", func() bool {
		out := other.norn(t, "task", "get", id, "-o", "json").out
		return strings.Contains(out, `"completed"`) && strings.Count(out, `"worker"`) == 1
	})
	if err := follow.Wait(); err != nil || !strings.Contains(followed.String(), "end of long") || !strings.Contains(followed.String(), "last note of long") || strings.Count(followed.String(), "note of long") != 2 {
		t.Errorf("following ends with %v: %s", err, followed.String())
	}
	w.signal(t, syscall.SIGTERM)
	if code := w.exits(t); code != 0 {
		t.Errorf("exit code %d: %s", code, w.out.String())
	}
	eventually(t, "it has left", func() bool { return !strings.Contains(other.norn(t, "worker", "list").out, "roamer") })
}
