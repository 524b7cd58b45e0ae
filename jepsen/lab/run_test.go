package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/faults"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/verdict"
)

// cutter ends a run as soon as it says something.
type cutter struct {
	mu   sync.Mutex
	said bytes.Buffer
	at   string
	cut  func()
}

func (c *cutter) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.said.Write(b)
	if strings.Contains(c.said.String(), c.at) {
		c.cut()
	}
	return n, err
}

// TestARunThatSomebodyEnds is no verdict on the cluster, wherever in it that happens: in
// the storm, or while the cluster comes to rest.
func TestARunThatSomebodyEnds(t *testing.T) {
	if os.Getenv("NORN_TEST_CLUSTER") == "" {
		t.Skip("takes long; `make cluster` runs it")
	}
	for _, at := range []string{" kill ", "is over", "all replicas are equal"} {
		ctx, cancel := context.WithCancel(t.Context())
		says := &cutter{at: at, cut: cancel}
		began := time.Now()
		r, err := Run(ctx, cluster.Config{Norn: norn(t), Fault: "kill", Duration: 5 * time.Second, Seed: 1, Proxy: true, Progress: says})
		cancel()
		if err != nil {
			t.Fatalf("%q: %v\n%s", at, err, &says.said)
		}
		var report bytes.Buffer
		if err := r.Markdown(&report); err != nil {
			t.Fatal(err)
		}
		t.Logf("%q: %v after %v\n%s\n%s", at, r.Verdict, time.Since(began), &report, &says.said)
		if r.Verdict != verdict.Invalid || len(r.Findings) > 0 || !strings.Contains(report.String(), "ended by somebody") {
			t.Errorf("ended at %q: %s, %v, %v", at, r.Verdict, r.Findings, r.Missing)
		}
	}
}

// TestATakenPortIsDrawnAnew: a run whose node cannot have its port begins anew, a few times;
// one that fails for anything else does not.
func TestATakenPortIsDrawnAnew(t *testing.T) {
	other, busy := errors.New("the disk is full"), fmt.Errorf("%w: n1", cluster.ErrTaken)
	for _, c := range []struct {
		what  string
		ends  []error // of one attempt after the other; then it is done
		tries int
		fails error
	}{
		{"at once", nil, 1, nil},
		{"a port is taken twice", []error{busy, busy}, 3, nil},
		{"ports are always taken", []error{busy, busy, busy, busy, busy, busy, busy}, starts, cluster.ErrTaken},
		{"something else is wrong", []error{busy, other}, 2, other},
	} {
		tries, told := 0, 0
		r, err := begun(func(string) { told++ }, func() (*verdict.Result, error) {
			if tries++; tries <= len(c.ends) {
				return nil, c.ends[tries-1]
			}
			return &verdict.Result{}, nil
		})
		if tries != c.tries || !errors.Is(err, c.fails) || (r == nil) != (c.fails != nil) || told > tries {
			t.Errorf("%s: %d attempts, %v, %v", c.what, tries, r, err)
		}
	}
}

// without makes a program that runs another one, but for the node that ends as one that cannot
// have a port as soon as there is a file named deny, once. A name chooses the node; "": any.
func without(t *testing.T, real, name string) (program, deny string) {
	t.Helper()
	program, deny = filepath.Join(t.TempDir(), "norn"), filepath.Join(t.TempDir(), "deny")
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in *"--name %s"*)
	if mv '%s' '%s'.$$ 2>/dev/null; then
		echo 'norn: listen tcp 127.0.0.1:1: bind: address already in use; stop the process that listens there'
		exit 1
	fi
esac
exec '%s' "$@"
`, name, deny, deny, real)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, deny
}

// TestANodeWithoutItsPortEndsTheAttempt: whoever waits for the node does so no longer, whether
// the cluster forms or a node comes back in the storm. The run begins anew, and there is no
// finding.
func TestANodeWithoutItsPortEndsTheAttempt(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts clusters, left out with -short")
	}
	for _, c := range []struct {
		what, name, at string
		nodes          int
	}{
		{"the last node", "n5", "", 5},
		{"a node that was killed", "", " kill ", 3},
	} {
		program, deny := without(t, norn(t), c.name)
		ctx, cancel := context.WithCancel(t.Context())
		var denied, again time.Time
		says := &cutter{at: c.at}
		says.cut = func() {
			if denied.IsZero() {
				denied = time.Now()
				if err := os.WriteFile(deny, nil, 0o600); err != nil {
					t.Error(err)
				}
			}
			if again.IsZero() && bytes.Contains(says.said.Bytes(), []byte("attempt 1 of")) {
				again = time.Now()
				cancel() // what the next attempt does is no matter here
			}
		}
		if c.at == "" {
			says.cut()
		}
		_, err := Run(ctx, cluster.Config{Norn: program, Nodes: c.nodes, Fault: "kill", Duration: time.Second, Seed: 1, Proxy: true, Progress: says})
		cancel()
		if !errors.Is(err, cluster.ErrEnded) || again.IsZero() || again.Sub(denied) > cluster.Rest/2 || bytes.Contains(says.said.Bytes(), []byte("FOUND")) {
			t.Errorf("%s: begun anew after %v, %v\n%s", c.what, again.Sub(denied), err, &says.said)
		}
	}
}

// TestAllFaultsAndThoseThatNeedNothing: "all" leaves none out, and "mix" has none that
// needs something of the machine.
func TestAllFaultsAndThoseThatNeedNothing(t *testing.T) {
	all, err := faults.Find("all")
	if known := faults.Faults(); err != nil || len(all) != len(known) {
		t.Errorf("all: %d of %d faults, %v", len(all), len(known), err)
	}
	mix, err := faults.Find("mix")
	if err != nil || len(mix) == 0 {
		t.Fatalf("mix: %d faults, %v", len(mix), err)
	}
	cfg := cluster.Config{Nodes: cluster.Replicas}
	got, err := takes(&cfg, mix)
	if err != nil || got.shaped || got.layers != 0 || cfg.Nodes != cluster.Replicas {
		t.Errorf("mix takes %+v and %d nodes, %v", got, cfg.Nodes, err)
	}
	some, err := faults.Find("power-loss,slow-voters,delay")
	if err != nil {
		t.Fatal(err)
	}
	if got, err = takes(&cfg, some); errors.As(err, new(*machine.NotRun)) {
		t.Skip(err)
	}
	if err != nil || !got.shaped || got.layers != cluster.Limited|cluster.Powered|cluster.Moody || cfg.Nodes != 5 {
		t.Errorf("those take %+v and %d nodes, %v", got, cfg.Nodes, err)
	}
}
