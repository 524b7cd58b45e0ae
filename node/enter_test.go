package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
)

// TestWhatIsLeftBehindStaysGone counts system calls: that the files of a directory that
// waited to be let in are gone is durable before the node begins. Were they there again
// after a power failure, it would format its register anew, under the incarnation that
// has voted since.
func TestWhatIsLeftBehindStaysGone(t *testing.T) {
	const child = "NORN_TEST_ENTER"
	if data := os.Getenv(child); data != "" {
		enter(t, data)
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("NOT RUN: strace is not installed")
	}
	data, err := filepath.EvalSymlinks(t.TempDir()) // that is how a trace names it
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command(strace, "-f", "-y", "-e", "trace=unlink,unlinkat,fsync", "-o", trace, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), child+"="+data)
	if out, err := cmd.CombinedOutput(); strings.Contains(string(out), "--- FAIL") {
		t.Fatalf("%s", out)
	} else if err != nil {
		t.Skipf("NOT RUN: strace cannot start: %v: %s", err, out)
	}
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	left, found := "", false
	for line := range strings.Lines(string(b)) {
		switch {
		case strings.Contains(line, "unlink") && strings.Contains(line, joiningFile):
			left, found = line, true
		case strings.Contains(line, "fsync(") && strings.Contains(line, "<"+data+">"):
			left = ""
		}
	}
	if !found || left != "" {
		t.Errorf("removed %t, and not synced: %s", found, left)
	}
}

// enter is what a node does with its directory when it was let in.
func enter(t *testing.T, data string) {
	cfg := config.Default()
	cfg.Data, cfg.Name, cfg.Join = data, "n1", []string{"127.0.0.1:1"}
	open := func(dir string) (*store.Pebble, error) {
		return store.OpenPebble(store.PebbleOptions{Dir: dir})
	}
	d, err := openDirectory(t.Context(), cfg, nil, open)
	if err == nil {
		err = d.enter(cfg, register.Cluster{ID: register.UUID{1}, Partitions: 4, Replicas: 1}, open)
	}
	if err == nil {
		err = d.close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
