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

// operator runs `norn cluster` through one node.
type operator struct {
	t   *testing.T
	env []string
}

// run wants an exit code.
func (o operator) run(code int, args ...string) result {
	o.t.Helper()
	r := nornWith(o.t, "", o.env, append([]string{"cluster"}, args...)...)
	if r.code != code {
		o.t.Fatalf("cluster %q: exit %d, not %d: %s%s", args, r.code, code, r.out, r.err)
	}
	return r
}

// state is a node's; "" when it is not listed.
func (o operator) state(node string) string {
	o.t.Helper()
	var all []struct{ Name, State string }
	if err := json.Unmarshal([]byte(o.run(0, "members", "-o", "json").out), &all); err != nil {
		o.t.Fatal(err)
	}
	for _, n := range all {
		if n.Name == node {
			return n.State
		}
	}
	return ""
}

// whole wants so many equal replicas of 8 partitions, and 100 tasks.
func (o operator) whole(replicas int) {
	o.t.Helper()
	if out := single(o.run(0, "verify").out); !strings.HasPrefix(out, fmt.Sprintf("partitions 8, 8 equal\nreplicas %d\n", replicas)) {
		o.t.Errorf("got %s", out)
	}
	if r := nornWith(o.t, "", o.env, "task", "count", "-o", "json"); !strings.Contains(r.out, `"total": "100"`) {
		o.t.Errorf("got %s%s", r.out, r.err)
	}
}

// TestOperators has four nodes: one leaves, one dies and is removed, and the
// rest is destroyed; what was enqueued is there until then.
func TestOperators(t *testing.T) {
	beside(t)
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	dir, base := t.TempDir(), basePort(t, 4)
	d := startDev(t, "--nodes", "4", "--data", dir, "--base-port", fmt.Sprint(base), "--partitions", "8").ready(t)
	o := operator{t, to(d.rows[0][1])}
	eventually(t, "all are members", func() bool { return o.state("n2")+o.state("n3")+o.state("n4") == "upupup" })
	o.run(0, "rebalance", "--wait", "2m") // nothing to do but to wait
	if r := nornWith(t, strings.Repeat("x\n", 100), to(d.rows[1][1]), "task", "enqueue", "-q", "q", "--lines", "-"); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	o.whole(24)

	operator{t, to(d.rows[3][1])}.run(0, "leave", "--wait", "2m") // asked at n4 itself, which ends
	eventually(t, "n4 ends by itself", func() bool { return strings.Contains(d.err.String(), "ended: exit status 0") })
	if s := o.state("n4"); s != "removed" && s != "" {
		t.Errorf("n4 is %s", s)
	}
	o.whole(24)
	if out := o.run(0, "repair").out; !strings.Contains(out, "24 comparisons done") {
		t.Errorf("got %s", out)
	}

	kill(t, d.rows[2][4], syscall.SIGKILL)
	eventually(t, "n3 is down", func() bool { return o.state("n3") == "down" })
	o.run(4, "verify", "--wait", "1s")
	o.run(4, "repair")
	o.run(5, "leave", "n3")
	o.run(5, "replace", "n3", "n4")
	o.run(0, "remove", "n3", "--wait", "2m")
	o.whole(16)
	if r := o.run(1, "recover", "n3"); !strings.Contains(r.err, "no partition is stuck") || strings.Contains(r.err, "add --accept-loss") {
		t.Errorf("got %+v", r)
	}

	o.run(0, "destroy", "--yes")
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

// TestTheNumberOfReplicasChanges of three nodes from 3 to 1, to 3 and to 2, and is what
// it was when they start again; what was enqueued is on as many of them each time.
func TestTheNumberOfReplicasChanges(t *testing.T) {
	beside(t)
	if testing.Short() {
		t.Skip("takes a minute")
	}
	dir, base := t.TempDir(), basePort(t, 3)
	start := func() (*dev, operator) {
		d := startDev(t, "--nodes", "3", "--data", dir, "--base-port", fmt.Sprint(base), "--partitions", "8").ready(t)
		return d, operator{t, to(d.rows[1][1])}
	}
	d, o := start()
	eventually(t, "all are members", func() bool { return o.state("n2")+o.state("n3") == "upup" })
	o.run(0, "rebalance", "--wait", "2m")
	if r := nornWith(t, strings.Repeat("x\n", 100), o.env, "task", "enqueue", "-q", "q", "--lines", "-"); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	o.whole(24)
	if r := o.run(2, "replicas", "1"); !strings.Contains(r.err, "add --yes") {
		t.Errorf("got %+v", r)
	}
	o.run(0, "replicas", "1", "--yes", "--wait", "3m")
	o.whole(8)
	o.run(0, "replicas", "3", "--wait", "3m")
	o.whole(24)
	o.run(0, "replicas", "2", "--yes", "--wait", "3m")
	o.whole(16)
	_ = d.cmd.Process.Signal(os.Interrupt)
	<-d.done
	_, o = start()
	eventually(t, "all are there again", func() bool { return o.state("n1")+o.state("n2")+o.state("n3") == "upupup" })
	if out := single(o.run(0, "status").out); !strings.Contains(out, "\nreplicas 2\n") {
		t.Errorf("got %s", out)
	}
	o.whole(16)
}
