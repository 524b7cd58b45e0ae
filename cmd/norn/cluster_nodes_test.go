package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOperators has four nodes: one leaves, one dies and is removed, and the
// rest is destroyed; what was enqueued is there until then.
func TestOperators(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	dir, base := t.TempDir(), basePort(t, 4)
	d := startDev(t, "--nodes", "4", "--data", dir, "--base-port", fmt.Sprint(base), "--partitions", "8").ready(t)
	env := to(d.rows[0][1])
	run := func(code int, args ...string) result {
		t.Helper()
		r := nornWith(t, "", env, append([]string{"cluster"}, args...)...)
		if r.code != code {
			t.Fatalf("cluster %q: exit %d, not %d: %s%s", args, r.code, code, r.out, r.err)
		}
		return r
	}
	state := func(node string) string {
		t.Helper()
		var all []struct{ Name, State string }
		if err := json.Unmarshal([]byte(run(0, "members", "-o", "json").out), &all); err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			if n.Name == node {
				return n.State
			}
		}
		return ""
	}
	whole := func() {
		t.Helper()
		if out := single(run(0, "verify").out); !strings.HasPrefix(out, "partitions 8, 8 equal\nreplicas 24\n") {
			t.Errorf("got %s", out)
		}
		if r := nornWith(t, "", env, "task", "count", "-o", "json"); !strings.Contains(r.out, `"total": "100"`) {
			t.Errorf("got %s%s", r.out, r.err)
		}
	}
	eventually(t, "all are members", func() bool { return state("n2")+state("n3")+state("n4") == "upupup" })
	run(0, "rebalance", "--wait", "1m") // nothing to do but to wait
	if r := nornWith(t, strings.Repeat("x\n", 100), to(d.rows[1][1]), "task", "enqueue", "-q", "q", "--lines", "-"); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	whole()

	run(0, "leave", "n4", "--wait", "1m")
	if s := state("n4"); s != "removed" && s != "" {
		t.Errorf("n4 is %s", s)
	}
	whole()
	if out := run(0, "repair").out; !strings.Contains(out, "24 comparisons done") {
		t.Errorf("got %s", out)
	}

	kill(t, d.rows[2][4], syscall.SIGKILL)
	eventually(t, "n3 is down", func() bool { return state("n3") == "down" })
	run(4, "verify", "--wait", "1s")
	run(4, "repair")
	run(5, "leave", "n3")
	run(5, "replace", "n3", "n4")
	run(0, "remove", "n3", "--wait", "1m")
	if out := single(run(0, "verify").out); !strings.HasPrefix(out, "partitions 8, 8 equal\nreplicas 16\n") {
		t.Errorf("got %s", out)
	}
	run(0, "destroy", "--yes")
	eventually(t, "nothing is left of it", func() bool {
		for _, node := range []string{"n1", "n2"} {
			if _, err := os.Stat(filepath.Join(dir, node, "facts")); !os.IsNotExist(err) {
				return false
			}
		}
		return true
	})
	_ = d.cmd.Process.Signal(os.Interrupt)
	<-d.done
}
