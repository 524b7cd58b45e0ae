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
	trace := exec.Command(strace, "-f", "-y", "-ttt", "-e", "trace=pwrite64,fdatasync,fsync", "-p", strconv.Itoa(s.cmd.Process.Pid))
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

// callOnLog is a call as strace tells it; the second half of an interrupted line has no
// parenthesis after the name.
var callOnLog = regexp.MustCompile(`(\d+\.\d+) (pwrite64|fsync|fdatasync)\(\d+<([^>]*\.wal)>`)

// countSyncs counts the syncs of records of the logs from a time on. A store that has just
// begun fills the segment that comes next with zeros, a piece at a time with a sync after each.
// On a busy disk it still does so when the enqueues come. A segment that is being filled has no
// records: pwrite64 writes those, and write the zeros.
func countSyncs(trace string, from time.Time) (n int) {
	records := make(map[string]bool)
	for _, call := range callOnLog.FindAllStringSubmatch(trace, -1) {
		if at, err := strconv.ParseFloat(call[1], 64); err != nil || at < float64(from.UnixMicro())/1e6 {
			continue
		}
		switch segment := call[3]; {
		case call[2] == "pwrite64":
			records[segment] = true
		case records[segment]:
			n++
		}
	}
	return n
}

func tail(s string) string { return s[max(0, len(s)-2000):] }
