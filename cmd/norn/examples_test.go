package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestExampleShop: an order becomes a mail, one that is rolled back does not, SIGTERM ends it
// with 0 (examples/go/shop).
func TestExampleShop(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "shop")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "../../examples/go/shop").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s, err := startServer(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.end(syscall.SIGTERM) })
	listen := freeAddress(t)
	out := &buffer{}
	cmd := exec.Command(bin, "-addr", s.addr, "-db", filepath.Join(dir, "shop.db"), "-listen", listen)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(), out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	post := func(body string) (status int, task string) {
		eventually(t, "the shop answers", func() bool {
			resp, err := http.Post("http://"+listen+"/orders", "application/json", bytes.NewBufferString(body))
			if err != nil {
				return false
			}
			defer func() { _ = resp.Body.Close() }()
			var answer struct{ Task string }
			_ = json.NewDecoder(resp.Body).Decode(&answer) // of refusals it is text
			status, task = resp.StatusCode, answer.Task
			return true
		})
		return status, task
	}
	status, id := post(`{"item": "tea", "to": "ada@example.org"}`)
	if status != http.StatusOK {
		t.Fatalf("an order is answered %d: %s", status, out)
	}
	if status, _ := post(`{"item": "unicorn", "to": "ada@example.org"}`); status != http.StatusConflict {
		t.Errorf("what is sold out is answered %d", status)
	}
	if status, _ := post(`{"item": "tea"}`); status != http.StatusBadRequest {
		t.Errorf("an order without a buyer is answered %d", status)
	}
	at := []string{"--addr", s.addr}
	eventually(t, "the mail is sent", func() bool {
		r := nornWith(t, "", nil, append(at, "task", "get", id, "-o", "json")...)
		return strings.Contains(r.out, `"state": "completed"`) || strings.Contains(r.out, `"state":"completed"`)
	})
	if r := nornWith(t, "", nil, append(at, "task", "list", "-q", "mail", "--all", "-o", "jsonl")...); strings.Count(r.out, "\n") != 1 {
		t.Errorf("the order that was rolled back has a task:\n%s", r.out)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, out)
	}
}

// TestExampleShell: examples/shell as its files say; enqueued twice, run once.
func TestExampleShell(t *testing.T) {
	pictures, small := t.TempDir(), t.TempDir()
	for _, name := range []string{"a.jpg", "b.jpg"} {
		if err := os.WriteFile(filepath.Join(pictures, name), []byte("picture "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := append(environment(), "NORN_ADDR="+the.server.addr, "THUMBNAILS="+small, "PATH="+filepath.Dir(the.norn)+":"+os.Getenv("PATH"))
	worker := exec.Command(the.norn, "work", "-q", "thumbnails", "--slots", "4", "--", "../../examples/shell/thumbnails.sh")
	worker.Env = env
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait() })
	for range 2 {
		cmd := exec.Command("../../examples/shell/enqueue.sh", pictures)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "completed") < 2 {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, name := range []string{"a.jpg", "b.jpg"} {
		if got := read(t, filepath.Join(small, name+".small")); got != "picture "+name {
			t.Errorf("%s is %q", name, got)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(small, "*")); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

// TestExampleSchedules: examples/schedules makes its schedules, the second time none, and what
// docs/how-to/schedules.md shows of it is its beginning.
func TestExampleSchedules(t *testing.T) {
	const file = "../../examples/schedules/schedules.yaml"
	apply := []string{"schedule", "apply", "-f", file, "--owner", "example", "--prune"}
	defer func() { ok(t, "schedule", "delete", "nightly", "heartbeat") }()
	if out := ok(t, append(apply, "--dry-run")...); !strings.Contains(out, "nightly") {
		t.Errorf("a dry run says %s", out)
	}
	ok(t, apply...)
	for _, name := range []string{"nightly", "heartbeat"} {
		if out := ok(t, "schedule", "get", name); !strings.Contains(out, "example") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if out := ok(t, "schedule", "get", "nightly"); !strings.Contains(out, "daily-report") || !strings.Contains(out, "America/New_York") {
		t.Errorf("%s", out)
	}
	before := ok(t, "schedule", "get", "nightly", "-o", "json")
	ok(t, apply...)
	if after := ok(t, "schedule", "get", "nightly", "-o", "json"); versionOf(after) != versionOf(before) {
		t.Errorf("the same file again changes\n%s\ninto\n%s", before, after)
	}
	page := regexp.MustCompile("(?s)```yaml\n(schedules:.*?)```").FindStringSubmatch(read(t, "../../docs/how-to/schedules.md"))
	if page == nil || !strings.Contains(read(t, file), page[1]) {
		t.Error("docs/how-to/schedules.md shows something else")
	}
}

// versionOf is the line of a schedule that says its version.
func versionOf(schedule string) string {
	return regexp.MustCompile(`"version": ?"?\d+`).FindString(schedule)
}

// TestExampleKubernetes: norn takes the command of examples/kubernetes/worker.yaml, which ends
// within the pod's grace period.
func TestExampleKubernetes(t *testing.T) {
	var m struct {
		Spec struct {
			Template struct {
				Spec struct {
					Grace      int `yaml:"terminationGracePeriodSeconds"`
					Containers []struct{ Command []string }
				}
			}
		}
	}
	first, _, _ := strings.Cut(read(t, "../../examples/kubernetes/worker.yaml"), "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &m); err != nil {
		t.Fatal(err)
	}
	pod := m.Spec.Template.Spec
	words := pod.Containers[0].Command
	at := slices.Index(words, "--")
	if at < 0 || pod.Grace != 30 || !strings.Contains(strings.Join(words, " "), "--finish-timeout 20s --grace 5s") {
		t.Fatalf("%v, %d s", words, pod.Grace)
	}
	args := append(slices.Clone(words[1:at]), "--exit-when-empty", "--", "cat") // and send-mail is not here
	id := enqueue(t, "-q", "mail-kubernetes", "x")
	args[slices.Index(args, "mail")] = "mail-kubernetes"
	if r := nornWith(t, "", nil, args...); r.code != 0 {
		t.Fatalf("%v: %d: %s", args, r.code, r.err)
	}
	if state := decode[taskJSON](t, "task", "get", id).State; state != "completed" {
		t.Errorf("the task is %s", state)
	}
}
