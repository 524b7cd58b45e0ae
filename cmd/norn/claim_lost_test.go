package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
)

// deafened listens, and passes on to the server what clients send; what the server answers,
// until it is told to lose that.
func deafened(t *testing.T) (addr string, deaf *atomic.Bool) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	deaf = &atomic.Bool{}
	pass := func(client net.Conn) {
		server, err := net.Dial("tcp", the.server.addr)
		if err != nil {
			_ = client.Close()
			return
		}
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		for b := make([]byte, 64<<10); ; {
			n, err := server.Read(b)
			if err != nil {
				_ = client.Close()
				return
			}
			if !deaf.Load() {
				_, _ = client.Write(b[:n])
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go pass(c)
		}
	}()
	return l.Addr().String(), deaf
}

// TestAClaimWithoutAnAnswerIsFreed: nobody has heard of what it was granted when it is
// interrupted, and no next claim of that program will free it.
func TestAClaimWithoutAnAnswerIsFreed(t *testing.T) {
	addr, deaf := deafened(t)
	ok(t, "queue", "set", "unanswered", "note=n")
	cmd := exec.Command(the.norn, "task", "claim", "-q", "unanswered", "--wait", "10m", "--lease", "1h")
	log := &buffer{}
	cmd.Env, cmd.Stderr = environment("NORN_ADDR="+addr), log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool {
		return decode[struct {
			Waiting int `json:"waiting_claims"`
		}](t, "queue", "get", "unanswered").Waiting == 1
	})
	deaf.Store(true)
	id := enqueue(t, "-q", "unanswered", "x")
	eventually(t, "it is granted", func() bool { return decode[taskJSON](t, "task", "get", id).State == "claimed" })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() == 0 || !strings.Contains(log.String(), "ready again") {
		t.Errorf("it ends with %v: %s", err, log)
	}
	if got := decode[taskJSON](t, "task", "get", id); got.State != "ready" || len(got.Claims) != 1 {
		t.Errorf("the task is %+v", got)
	}
}
