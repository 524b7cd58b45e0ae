package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/cmd/norn/cli"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestADestroyedNodeThatCannotBeErased: it does not say that its data is deleted.
func TestADestroyedNodeThatCannotBeErased(t *testing.T) {
	beside(t)
	data := filepath.Join(t.TempDir(), "data")
	s := ownServer(t, data)
	if err := os.Mkdir(filepath.Join(data, "FORMATTING"), 0o700); err != nil { // where it notes that it has begun to
		t.Fatal(err)
	}
	if r := nornWith(t, "", []string{"NORN_ADDR=" + s.addr}, "cluster", "destroy", "--yes"); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatal("the server runs")
	}
	if log := s.log.String(); s.cmd.ProcessState.ExitCode() == 0 || strings.Contains(log, "server.destroyed") || !strings.Contains(log, "server.not_erased") {
		t.Errorf("it ended with %d:\n%s", s.cmd.ProcessState.ExitCode(), log)
	}
}

// TestClusterDestroy: only when it is meant; then the server stops by itself,
// with nothing of its data left and everything else still there.
func TestClusterDestroy(t *testing.T) {
	beside(t)
	data := filepath.Join(t.TempDir(), "data")
	s := ownServer(t, data)
	env := []string{"NORN_ADDR=" + s.addr}
	if r := nornWith(t, "", env, "task", "enqueue", "-q", "q", "x"); r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	mine := filepath.Join(data, "mine")
	if err := os.WriteFile(mine, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := nornWith(t, "", env, "cluster", "destroy"); r.code != 2 || !strings.Contains(r.err, "--yes") {
		t.Errorf("without --yes: %+v", r)
	}
	if r := nornWith(t, "", env, "cluster", "destroy", "--dry-run"); r.code != 0 || !strings.Contains(r.out, "Nothing is done yet") || !strings.Contains(r.out, "these nodes stop: n1") {
		t.Errorf("dry run: %+v", r)
	}
	if r := nornWith(t, "", env, "task", "count"); r.code != 0 {
		t.Fatalf("it was not meant: %+v", r)
	}
	if r := nornWith(t, "", env, "cluster", "destroy", "--yes"); r.code != 0 || r.err != "" {
		t.Fatalf("got %+v", r)
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatal("the server runs")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(s.log.String(), "server.destroyed") {
		t.Errorf("it ended with %d:\n%s", code, s.log.String())
	}
	left, err := os.ReadDir(data)
	if err != nil || len(left) != 1 || left[0].Name() != "mine" {
		t.Errorf("left are %v, %v", left, err)
	}
	again := ownServer(t, data)
	if r := nornWith(t, "", []string{"NORN_ADDR=" + again.addr}, "task", "count", "-o", "jsonl"); r.code != 0 || strings.Contains(r.out, `"total":"1"`) {
		t.Errorf("after a new start: %+v", r)
	}
}

// TestDestroyTellsOnlyWhatItSees: a node whose address does not lead anywhere from here was
// said to have stopped.
func TestDestroyTellsOnlyWhatItSees(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shut := l.Addr().String()
	_ = l.Close()
	for _, addr := range []string{"nosuch.invalid:7711", shut} {
		var told bytes.Buffer
		k := clusterCommands{&app{&cli.App{Quiet: true, ErrOut: &told}}}
		s := &nornv1.StatusReply{Nodes: []*nornv1.NodeStatus{{Name: "n1", State: "up", Alive: true, Address: addr}}}
		err := k.gone(t.Context(), reach(t.Context(), s), time.Second)
		if cli.ExitCode(err) != cli.ExitFailed || !strings.Contains(told.String(), "it cannot be seen from here whether n1 stops") {
			t.Errorf("%s: %v, %q", addr, err, told.String())
		}
	}
}
