package main

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

// bystander is a client that was there before; harmless shows that it is served
// as if nothing had happened, and that nothing was added to the queue.
type bystander struct {
	t *testing.T
	c *client.Client
}

func newBystander(t *testing.T) *bystander {
	t.Helper()
	c, err := client.Dial(t.Context(), []string{the.server.addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	b := &bystander{t, c}
	b.harmless("the beginning")
	return b
}

func (b *bystander) harmless(after string) {
	b.t.Helper()
	ctx := b.t.Context()
	r, err := b.c.Enqueue(ctx, client.Task{Queue: "bystander", Payload: []byte("x")})
	if err != nil {
		b.t.Fatalf("after %s: %v", after, err)
	}
	claims, err := b.c.Claim(ctx, client.ClaimRequest{Queues: []string{"bystander"}})
	if err != nil || len(claims) != 1 || claims[0].ID.String() != r.GetId() {
		b.t.Fatalf("after %s: claimed %v, %v", after, claims, err)
	}
	if _, err := b.c.Complete(ctx, claims[0].ID, claims[0].Token, client.CompleteOptions{}); err != nil {
		b.t.Fatalf("after %s: %v", after, err)
	}
	if n, err := b.c.Count(ctx, "bad"); err != nil || n.GetTotal().GetTotal() != 0 {
		b.t.Fatalf("after %s: %d tasks came into being, %v", after, n.GetTotal().GetTotal(), err)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	other := newBystander(t)
	big := write(t, strings.Repeat("x", 1<<20+1))
	huge := write(t, strings.Repeat("x", 16<<20+1))
	const other27 = "3ZyfAz4TTlNLdMEJYWbpzCDKw1p"
	at := func(ahead time.Duration) string {
		return id.NewGenerator(1, func() uint64 { return 1 }).Next(time.Now().Add(ahead).UnixNano()).String()
	}
	deps := strings.Repeat(other27+",", 1000) + other27
	for _, tc := range []struct {
		code int
		want string
		args []string
	}{
		{2, "payload of 1048577 bytes is over the limit of 1048576", []string{"task", "enqueue", "-q", "bad", "--file", big}},
		{2, "over the limit of 16777216 bytes", []string{"task", "enqueue", "-q", "bad", "--file", huge}},
		{2, "is not [a-zA-Z0-9]", []string{"task", "enqueue", "-q", "-bad", "x"}},
		{2, "is not [a-zA-Z0-9]", []string{"task", "enqueue", "-q", strings.Repeat("b", 129), "x"}},
		{2, "is not [a-zA-Z0-9]", []string{"task", "claim", "-q", "no good"}},
		{2, "--priority", []string{"task", "enqueue", "-q", "bad", "x", "--priority", "2147483648"}},
		{2, "--priority", []string{"task", "enqueue", "-q", "bad", "x", "--priority", "high"}},
		{2, "5 characters, not 27", []string{"task", "enqueue", "-q", "bad", "x", "--id", "short"}},
		{2, "malformed ID", []string{"task", "enqueue", "-q", "bad", "x", "--id", strings.Repeat("z", 27)}},
		{2, "clients do not make", []string{"task", "enqueue", "-q", "bad", "x", "--id", other27}},
		{2, "in the future", []string{"task", "enqueue", "-q", "bad", "x", "--id", at(time.Hour)}},
		{2, "older", []string{"task", "enqueue", "-q", "bad", "x", "--id", at(-365 * 24 * time.Hour)}},
		{2, "1001 dependencies", []string{"task", "enqueue", "-q", "bad", "x", "--after", deps}},
		{2, "depends on itself", []string{"task", "enqueue", "-q", "bad", "x", "--id", other27, "--after", other27}},
		{2, "is not cancel, run or wait", []string{"task", "enqueue", "-q", "bad", "x", "--after", other27, "--on-dep-failure", "x"}},
		{2, "lease", []string{"task", "claim", "-q", "bad", "--lease", "999ms"}},
		{2, "lease", []string{"task", "claim", "-q", "bad", "--lease", "24h1s"}},
		{2, "--lease", []string{"task", "claim", "-q", "bad", "--lease", "0s"}},
		{2, "--number", []string{"task", "claim", "-q", "bad", "-n", "10001"}},
		{2, "no queue", []string{"task", "claim"}},
		{2, "--state", []string{"task", "list", "--state", "done"}},
		{2, "--limit", []string{"task", "list", "--limit", "0"}},
		{2, "--write", []string{"task", "enqueue", "-q", "bad", "x", "-w", "most"}},
		{2, "--at", []string{"task", "enqueue", "-q", "bad", "x", "--at", "tomorrow"}},
		{2, "--at and --delay", []string{"task", "enqueue", "-q", "bad", "x", "--at", "2030-01-01T00:00:00Z", "--delay", "1s"}},
		{2, "--delay", []string{"task", "enqueue", "-q", "bad", "x", "--delay", "-1s"}},
		{2, "--header", []string{"task", "enqueue", "-q", "bad", "x", "--header", "novalue"}},
		{2, "give one of", []string{"task", "enqueue", "-q", "bad", "x", "--lines", "-"}},
		{2, "no such file", []string{"task", "enqueue", "-q", "bad", "--lines", "does-not-exist"}},
		{2, "accepts at most 1 arg", []string{"task", "enqueue", "-q", "bad", "x", "y"}},
		{2, "token", []string{"task", "complete", other27, "not-a-token"}},
		{2, "SEQ", []string{"task", "update", other27, "1", "-", "x"}},
		{2, "--error", []string{"task", "fail", other27, "1"}},
		{2, "unknown flag", []string{"task", "get", other27, "--colour"}},
		{2, "unknown command", []string{"task", "explode"}},
		{2, "xml", []string{"task", "list", "-o", "xml"}},
		{2, "--timeout", []string{"task", "list", "--timeout", "0s"}},
		{2, "--addr", []string{"task", "list", "--addr", "a:b:c"}},
		{2, "--at-least", []string{"task", "get", other27, "--at-least", "7"}},
		{3, other27, []string{"task", "get", other27}},
		{3, other27, []string{"task", "log", other27}},
		{3, other27, []string{"task", "wait", other27}},
	} {
		if r := refused(t, tc.code, tc.want, tc.args...); r.out != "" {
			t.Errorf("%q prints %q", tc.args, r.out)
		}
	}
	other.harmless("bad input")
}

// TestBatchOverTheLimitIsSplit sends what no single request may hold.
func TestBatchOverTheLimitIsSplit(t *testing.T) {
	own := ownServer(t, t.TempDir())
	to := []string{"NORN_ADDR=" + own.addr}
	line := strings.Repeat("y", 1<<20)
	r := nornWith(t, strings.Repeat(line+"\n", 20), to, "task", "enqueue", "-q", "large", "--lines", "-")
	if r.code != 0 || len(strings.Fields(r.out)) != 20 {
		t.Errorf("exit %d, %d IDs: %s", r.code, len(strings.Fields(r.out)), r.err)
	}
	r = nornWith(t, line+"\n"+line+"y\nshort\n", to, "task", "enqueue", "-q", "large", "--lines", "-")
	if r.code != 2 || len(strings.Fields(r.out)) != 2 || !strings.HasPrefix(r.err, "norn: line 2: enqueue: payload of 1048577 bytes") {
		t.Errorf("exit %d, %d IDs: %s", r.code, len(strings.Fields(r.out)), r.err)
	}
}

// TestBadBytes sends what is no frame, too large a frame, and no protobuf.
func TestBadBytes(t *testing.T) {
	other := newBystander(t)
	noise := make([]byte, 1<<16)
	_, _ = rand.Read(noise)
	frame := func(length uint32, body []byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, length), body...)
	}
	for name, sent := range map[string][]byte{
		"noise": noise, "http": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "a frame over the limit": frame(1<<31, noise),
		"half a frame": frame(1000, noise[:10]), "no protobuf": frame(100, bytes.Repeat([]byte{0xff}, 100)),
	} {
		conn, err := net.Dial("tcp", the.server.addr)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, _ = conn.Write(sent) // it may be cut off while we write
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		answer := make([]byte, 4096)
		for err == nil {
			_, err = conn.Read(answer)
		}
		if os.IsTimeout(err) {
			t.Errorf("%s: the server keeps the connection", name)
		}
		_ = conn.Close()
		other.harmless(name)
	}
}

func TestServerRefusesBadConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "norn.yaml")
	if err := os.WriteFile(file, []byte("etta: 1s\nreplicas: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := norn(t, "server", "--data", filepath.Join(dir, "data"), "--config", file, "--max-payload", "17MiB")
	for _, want := range []string{
		"norn: " + file + `:1: unknown key "etta"; the nearest is "eta"` + "\n",
		"norn: " + file + `:2: replicas: "many" is not a whole number` + "\n",
		"norn: max-payload: 17MiB is not between 1 and 16MiB\n",
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("missing %q in %q", want, r.err)
		}
	}
	if r.code != 2 || strings.Count(r.err, "\n") != 3 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("it touched the data directory: %v", err)
	}
	refused(t, 2, "17MB", "server", "--eta", "17MB")
	refused(t, 2, "unknown flag", "server", "--etta", "1s")
}
