package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/norn-dev/norn/client"
)

// TestConnectionsDoNotTakeTheStoresFiles: more connections than the process may have
// files, of anybody who reaches the ports, do not end the server; who was there before
// goes on while the store flushes.
func TestConnectionsDoNotTakeTheStoresFiles(t *testing.T) {
	const files = "256"
	s, err := launchAs(exec.Command("sh", "-c", "ulimit -n "+files+` && exec "$0" "$@"`, the.norn, "server", "--data", filepath.Join(t.TempDir(), "data"), "--name", "n1",
		"--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--eta", "100ms", "--log-format", "json",
		"--memtable-size", "1MiB", "--hello-timeout", "5m"))
	if err == nil {
		err = s.wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.end(syscall.SIGTERM) }()
	c, err := client.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	enqueue := func(n int) {
		for range n {
			if _, err := c.Enqueue(t.Context(), client.Task{Queue: "q", Payload: make([]byte, 256<<10)}); err != nil {
				t.Fatalf("%v: %s", err, tail(s.log.String()))
			}
		}
	}
	enqueue(1)
	_, peers, _ := strings.Cut(s.log.String(), `"peers":"`)
	peers, _, _ = strings.Cut(peers, `"`)
	for _, port := range []string{s.addr, s.http, peers} {
		for range 300 {
			nc, err := net.Dial("tcp", port)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = nc.Close() }()
		}
	}
	enqueue(100)
	if log := s.log.String(); !strings.Contains(log, "server.few_files") || strings.Contains(log, "store.background") {
		t.Error(tail(log))
	}
}
