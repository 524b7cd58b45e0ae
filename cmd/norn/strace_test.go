package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
)

// TestOneFdatasyncPerSequentialEnqueue counts system calls: an acknowledgement
// means on disk, so a client that waits for each answer costs one fdatasync
// each, no less.
func TestOneFdatasyncPerSequentialEnqueue(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("NOT RUN: strace is not installed")
	}
	s, err := startServer(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = s.end(syscall.SIGTERM) }()
	c, err := client.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	enqueue := func() {
		if _, err := c.Enqueue(t.Context(), client.Task{Queue: "strace"}); err != nil {
			t.Fatal(err)
		}
	}
	enqueue() // the server leads from here on
	var out buffer
	trace := exec.Command(strace, "-f", "-y", "-ttt", "-e", "trace=fdatasync,fsync", "-p", strconv.Itoa(s.cmd.Process.Pid))
	trace.Stderr = &out
	if err := trace.Start(); err != nil {
		t.Skip("NOT RUN: strace cannot start: ", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- trace.Wait() }()
	for !strings.Contains(out.String(), "attached") {
		select {
		case err := <-ended:
			t.Skipf("NOT RUN: strace cannot attach here: %v: %s", err, out.String())
		default:
			enqueue()
		}
	}
	const n = 100
	began := time.Now() // of earlier ones strace may not have told yet
	for range n {
		enqueue()
	}
	_ = trace.Process.Signal(syscall.SIGINT)
	<-ended
	got := countSyncs(out.String(), began)
	// An enqueue must not share its sync with the next one, for that one is not
	// sent yet. The node itself may have something to write now and then.
	if got < n || got > n+10+int(5*time.Since(began).Seconds()) {
		t.Fatalf("%d syncs for %d sequential enqueues:\n%s", got, n, tail(out.String()))
	}
	t.Logf("%d syncs for %d sequential enqueues", got, n)
}

// syncOfLog is a call as strace tells it; the second half of an interrupted line has no
// parenthesis after the name.
var syncOfLog = regexp.MustCompile(`(\d+\.\d+) f(?:data)?sync\(.*\.wal>`)

// countSyncs counts the calls on logs from a time on.
func countSyncs(trace string, from time.Time) (n int) {
	for _, call := range syncOfLog.FindAllStringSubmatch(trace, -1) {
		if at, err := strconv.ParseFloat(call[1], 64); err == nil && at >= float64(from.UnixMicro())/1e6 {
			n++
		}
	}
	return n
}

func tail(s string) string { return s[max(0, len(s)-2000):] }
