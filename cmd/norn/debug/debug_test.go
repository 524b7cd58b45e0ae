package debug

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/store"
)

var errUsage = errors.New("usage")

// run runs a command and gives what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Commands(Host{
		Writer: func() *render.Writer { return render.New(&out, render.Table, false) },
		Group:  func(c *cobra.Command) *cobra.Command { return c },
		Usage:  func(string, ...any) error { return errUsage },
	})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

// TestTheLogOfANode: its records, its damage with the place, and that a server has it.
func TestTheLogOfANode(t *testing.T) {
	c := config.Default()
	c.Data, c.Listen, c.PeerListen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	c.DiskReserve, c.DiskStop = 2<<20, 1<<20
	n, err := node.Start(c, node.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "log", c.Data); !errors.Is(err, store.ErrLocked) {
		t.Errorf("while a server has it: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it changes nothing
		out, err := run(t, "log", c.Data)
		if err != nil || !strings.Contains(out, "facts") || !strings.Contains(out, "register") || !strings.Contains(out, "whole") {
			t.Errorf("%v:\n%s", err, out)
		}
	}
	out, err := run(t, "log", "--records", c.Data)
	if err != nil || strings.Count(out, "\n") < 4 {
		t.Errorf("%v:\n%s", err, out)
	}
	out, err = run(t, "migrate", "--dry-run", c.Data)
	if err != nil || !strings.Contains(out, "nothing") {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, err = run(t, "migrate", c.Data); !errors.Is(err, errUsage) {
		t.Errorf("without --dry-run: %v", err)
	}
	if _, err = run(t, "log", t.TempDir()); !errors.Is(err, node.ErrDirectory) {
		t.Errorf("no data directory: %v", err)
	}
	segments, err := filepath.Glob(filepath.Join(c.Data, "register", "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	b[560] ^= 1 // in the second record
	if err := os.WriteFile(segments[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = run(t, "log", c.Data); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(segments[0])) {
		t.Errorf("a damaged log: %v", err)
	}
}
