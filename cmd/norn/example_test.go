package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestExampleWorkersEndCleanly: what a service manager or a container sends ends them with 0.
func TestExampleWorkersEndCleanly(t *testing.T) {
	for dir, queue := range map[string]string{"go/worker": "greetings", "worker": "mail"} {
		bin := filepath.Join(t.TempDir(), "worker")
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "../../examples/"+dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		id := enqueue(t, "-q", queue, `{"Name": "Ada", "To": "ada@example.org"}`)
		cmd := exec.Command(bin, the.server.addr)
		out := &buffer{}
		cmd.Env, cmd.Stdout, cmd.Stderr = environment(), out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
		eventually(t, dir+" works", func() bool { return decode[taskJSON](t, "task", "get", id).State == "completed" })
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ends with %v: %s", dir, err, out)
		}
	}
}

// TestAPanicIsShownByItsMessage, and the stack apart from it, line by line.
func TestAPanicIsShownByItsMessage(t *testing.T) {
	id := enqueue(t, "-q", "panics", "x", "--max-attempts", "1")
	g := decode[[]grantJSON](t, "task", "claim", "-q", "panics", "--wait", "20s")[0]
	ok(t, "task", "fail", id, g.Token, "--error", "panic: no luck today\n\ngoroutine 7 [running]:\nmain.work()\n\t/src/main.go:12")
	if out := ok(t, "task", "list", "-q", "panics"); !strings.Contains(out, "panic: no luck today") || strings.Contains(out, "main.go") {
		t.Errorf("the list:\n%s", out)
	}
	out := ok(t, "task", "get", id)
	error, stack, found := strings.Cut(out, "\nstack ")
	if !found || !strings.Contains(error, "panic: no luck today") || strings.Contains(error, "goroutine") || !strings.Contains(stack, "goroutine 7 [running]:\n") || !strings.Contains(stack, "main.go:12\n") {
		t.Errorf("the task:\n%s", out)
	}
	if out := ok(t, "task", "explain", id); !strings.Contains(out, "no luck today") || strings.Contains(out, "goroutine") {
		t.Errorf("the explanation:\n%s", out)
	}
}
