package node

import (
	"bytes"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// failuresOf is what the node's metrics say of failed logins.
func failuresOf(t *testing.T, n *Node, port, reason string) float64 {
	t.Helper()
	all, err := n.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != "norn_auth_failures_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); l[0].GetValue() == port && l[1].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric for %s, %s", port, reason)
	return 0
}

// lockedLog is a log that several goroutines write.
type lockedLog struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// TestFailedLoginsAreCountedAndLogged: by why, and from this machine nobody waits.
func TestFailedLoginsAreCountedAndLogged(t *testing.T) {
	var log lockedLog
	n := start(t, testConfig(t), Options{Access: access.Of("secret"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	began := time.Now()
	for range 12 {
		_, _, _ = dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "guess"})
		_, _, _ = dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
	}
	if took := time.Since(began); took > 5*time.Second { // slowed it would be 13 s and more
		t.Errorf("24 failed logins from this machine took %s", took)
	}
	if wrong, missing := failuresOf(t, n, "client", "wrong_token"), failuresOf(t, n, "client", "missing_token"); wrong != 12 || missing != 12 {
		t.Errorf("%v wrong ones and %v missing ones are counted", wrong, missing)
	}
	if _, _, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1, AuthToken: "secret"}); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	stop(t, n)
	log.mu.Lock()
	defer log.mu.Unlock()
	if lines := bytes.Count(log.b.Bytes(), []byte("msg=auth.failed")); lines < 2 || lines > 2*(int(took/time.Second)+3) {
		t.Errorf("%d lines are logged in %s", lines, took)
	}
}

// TestGuessesFromAnotherMachineWait, until the node stops at the latest.
func TestGuessesFromAnotherMachineWait(t *testing.T) {
	n := start(t, testConfig(t), Options{Access: access.Of("secret")})
	from := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 1}
	guess := func() *proto.Error {
		_, err := door{n}.admits(from, nil, &nornv1.Hello{AuthToken: "guess"})
		return err
	}
	began := time.Now()
	for range 5 {
		if err := guess(); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("five guesses are answered in %s", took)
	}
	kinds := make(chan nornv1.ErrorKind, 40)
	var running sync.WaitGroup
	for range cap(kinds) {
		running.Go(func() { kinds <- guess().Kind })
	}
	if kind := <-kinds; kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Errorf("the first of many at a time is answered %v", kind)
	}
	began = time.Now()
	stop(t, n)
	running.Wait()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("they hold up the end: %s", took)
	}
}
