package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var rewriteData = flag.Bool("rewrite-data", false, "make the data directory of the release that is coming anew")

// stored are the data directories of releases, packed. A build reads all of them for good, or
// docs/reference/versions.md says from which on.
const stored = "testdata/data-0.1.0.tar.gz"

// storedIDs are the tasks in it, as they were when the directory was packed.
type storedIDs struct{ Completed, Dead, Later, Ready, Claimed, Keyed, Follows, Token string }

// TestUpgradeFrom010 starts a node of this build on the data directory of release 0.1.0: all
// that was stored is there, and work goes on.
func TestUpgradeFrom010(t *testing.T) {
	if *rewriteData {
		packStored(t)
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", stored, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var ids storedIDs
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "ids.json"))), &ids); err != nil {
		t.Fatal(err)
	}
	s, err := startServer(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.end(syscall.SIGTERM) })
	on := func(args ...string) string {
		t.Helper()
		r := nornWith(t, "", nil, append([]string{"--addr", s.addr}, args...)...)
		if r.code != 0 {
			t.Fatalf("norn %s: %d: %s", strings.Join(args, " "), r.code, r.err)
		}
		return r.out
	}
	shows := func(want []string, args ...string) {
		t.Helper()
		out := on(args...)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("norn %s does not say %q:\n%s", strings.Join(args, " "), w, out)
			}
		}
	}
	shows([]string{"completed", "half done", "the result", "finance", "daily"}, "task", "get", ids.Completed)
	shows([]string{"half done"}, "task", "log", ids.Completed)
	shows([]string{"dead", "no such address"}, "task", "get", ids.Dead)
	shows([]string{"scheduled"}, "task", "get", ids.Later)
	shows([]string{"waiting"}, "task", "get", ids.Follows)
	shows([]string{"kept for the audit", "max-attempts", "7"}, "queue", "get", "kept")
	shows([]string{"America/New_York", "30 2 * * *", "team-a"}, "schedule", "get", "nightly")
	shows([]string{"auditor"}, "access", "role", "list")
	shows([]string{ids.Keyed}, "task", "enqueue", "-q", "kept", "--key", "welcome/42", "keyed") // the same task
	// The claim of before has ended or ends; its worker may still complete.
	on("task", "complete", ids.Claimed, ids.Token, "--result", "late")
	shows([]string{"completed", "late"}, "task", "get", ids.Claimed)
	on("task", "retry", ids.Dead)
	on("work", "-q", "kept", "--exit-when-empty", "--", "cat")
	for _, id := range []string{ids.Ready, ids.Dead, ids.Keyed, ids.Follows} {
		shows([]string{"completed"}, "task", "get", id)
	}
	shows(nil, "cluster", "verify")
}

// packStored makes tasks of each kind, settings, a schedule and a role with this build, and
// packs the directory.
func packStored(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	s, err := startServer(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	on := func(args ...string) string {
		t.Helper()
		r := nornWith(t, "", nil, append([]string{"--addr", s.addr}, args...)...)
		if r.code != 0 {
			t.Fatalf("norn %s: %d: %s", strings.Join(args, " "), r.code, r.err)
		}
		return strings.TrimSpace(r.out)
	}
	claim := func() grantJSON {
		t.Helper()
		var grants []grantJSON
		if err := json.Unmarshal([]byte(on("task", "claim", "-q", "kept", "--lease", "1s", "-o", "json")), &grants); err != nil || len(grants) != 1 {
			t.Fatalf("%v, %v", grants, err)
		}
		return grants[0]
	}
	on("queue", "set", "kept", "max-attempts=7", "retention-policy=keep", "dead-retention=0", "note=kept for the audit")
	on("schedule", "set", "nightly", "--cron", "30 2 * * *", "--tz", "America/New_York", "-q", "reports", "--owner", "team-a", "--paused", "{}")
	on("access", "role", "set", "auditor", "--allow", "read:*")
	var ids storedIDs
	ids.Completed = on("task", "enqueue", "-q", "kept", "--kind", "daily", "--tag", "finance", "hello")
	g := claim()
	on("task", "update", ids.Completed, g.Token, "0", "half done")
	on("task", "complete", ids.Completed, g.Token, "--result", "the result")
	ids.Dead = on("task", "enqueue", "-q", "kept", "to nobody")
	on("task", "fail", ids.Dead, claim().Token, "--error", "no such address", "--discard")
	ids.Claimed = on("task", "enqueue", "-q", "kept", "in work")
	ids.Token = claim().Token
	ids.Later = on("task", "enqueue", "-q", "kept", "--at", "2099-01-01T00:00:00Z", "later")
	ids.Ready = on("task", "enqueue", "-q", "kept", "now")
	ids.Keyed = on("task", "enqueue", "-q", "kept", "--key", "welcome/42", "keyed")
	ids.Follows = on("task", "enqueue", "-q", "kept", "--after", ids.Ready, "after it")
	if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	b, err := json.MarshalIndent(ids, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ids.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-cSzf", stored, "-C", dir, "data", "ids.json").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
