package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/id"
)

// bystander is a client that was there before, over one connection that must
// not be cut, with a claim that must stay its own. harmless shows that it is
// served as if nothing had happened, and that nothing was added to the queue.
type bystander struct {
	t     *testing.T
	c     *client.Client
	held  client.Ref
	dials atomic.Int32
}

func newBystander(t *testing.T) *bystander {
	t.Helper()
	b := &bystander{t: t}
	c, err := client.Dial(t.Context(), []string{the.server.addr}, client.WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		b.dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	b.c = c
	claim := b.pass("held by the bystander", "the beginning")
	b.held = client.Ref{ID: claim.ID, Token: claim.Token}
	t.Cleanup(func() {
		// t's context has ended.
		if _, err := c.Complete(context.Background(), claim.ID, claim.Token, client.CompleteOptions{}); err != nil {
			t.Errorf("the claim held since the beginning: %v", err)
		}
	})
	b.harmless("the beginning")
	return b
}

// pass enqueues a task and claims it.
func (b *bystander) pass(name, after string) *client.Claim {
	b.t.Helper()
	queue := strings.ReplaceAll(name, " ", "-") + "-" + b.t.Name() // others run beside this test
	r, err := b.c.Enqueue(b.t.Context(), client.Task{Queue: queue, Payload: []byte("x")})
	if err != nil {
		b.t.Fatalf("after %s: %v", after, err)
	}
	claims, err := b.c.Claim(b.t.Context(), client.ClaimRequest{Queues: []string{queue}})
	if err != nil || len(claims) != 1 || claims[0].ID.String() != r.GetId() {
		b.t.Fatalf("after %s: claimed %v, %v", after, claims, err)
	}
	return claims[0]
}

func (b *bystander) harmless(after string) {
	b.t.Helper()
	ctx := b.t.Context()
	claim := b.pass("bystander", after)
	if _, err := b.c.Complete(ctx, claim.ID, claim.Token, client.CompleteOptions{}); err != nil {
		b.t.Fatalf("after %s: %v", after, err)
	}
	if r, err := b.c.Renew(ctx, []client.Ref{b.held}, 0); err != nil || r[0].Err != nil {
		b.t.Fatalf("after %s: the claim held since the beginning: %v, %v", after, r, err)
	}
	if n, err := b.c.Count(ctx, "bad"); err != nil || n.GetTotal().GetTotal() != 0 {
		b.t.Fatalf("after %s: %d tasks came into being, %v", after, n.GetTotal().GetTotal(), err)
	}
	if n := b.dials.Load(); n != 1 {
		b.t.Fatalf("after %s: the bystander had to connect %d times", after, n)
	}
}

func TestBadInputIsRefused(t *testing.T) {
	beside(t)
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
		{2, "it is zero", []string{"task", "enqueue", "-q", "bad", "x", "--id", strings.Repeat("0", 27)}},
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
		{2, "--wait: -1s is negative", []string{"task", "wait", other27, "--wait", "-1s"}},
		{2, "token", []string{"task", "complete", other27, "not-a-token"}},
		{2, "SEQ", []string{"task", "update", other27, "1", "-", "x"}},
		{2, "--error", []string{"task", "fail", other27, "1"}},
		{2, "unknown flag", []string{"task", "get", other27, "--colour"}},
		{2, `unknown command "norn enqueue"; did you mean "norn task enqueue"?`, []string{"enqueue", "-q", "a", "x"}},
		{2, `unknown command "norn completion tcsh"`, []string{"completion", "tcsh"}},
		{2, "days are written in hours: 48h", []string{"task", "enqueue", "-q", "bad", "x", "--delay", "2d"}},
		{2, `did you mean "norn task"?`, []string{"help", "taks"}},
		{2, "xml", []string{"task", "list", "-o", "xml"}},
		{2, "--timeout", []string{"task", "list", "--timeout", "0s"}},
		{2, "--addr", []string{"task", "list", "--addr", "a:b:c"}},
		{2, "no number from 1 to 65535", []string{"task", "list", "--addr", "127.0.0.1:99999", "--timeout", "10m"}},
		{2, "--at-least", []string{"task", "get", other27, "--at-least", "7"}},
		{3, other27, []string{"task", "get", other27}},
		{3, other27, []string{"task", "log", other27}},
		{3, other27, []string{"task", "wait", other27}},
	} {
		if r := refused(t, tc.code, tc.want, tc.args...); r.out != "" {
			t.Errorf("%q prints %q", tc.args, r.out)
		}
		other.harmless(fmt.Sprintf("%.100q", tc.args))
	}
}

// TestEmptyFlagsAreRefused: a variable of a script that is not set must not make another
// task of it.
func TestEmptyFlagsAreRefused(t *testing.T) {
	for _, flag := range []string{"--id", "--key", "--after", "--file", "--lines", "--jsonl"} {
		refused(t, 2, flag+": nothing is given", "task", "enqueue", "-q", "empty", flag, "")
	}
	const other27 = "3ZyfAz4TTlNLdMEJYWbpzCDKw1p"
	refused(t, 2, "--max-attempts: 0 is no attempt", "task", "enqueue", "-q", "empty", "x", "--max-attempts", "0")
	refused(t, 2, "--at-least: nothing is given", "task", "get", other27, "--at-least", "")
	refused(t, 2, "--if-version: 0 is the version", "queue", "set", "empty", "lease=1m", "--if-version", "0")
	refused(t, 2, `tasks[0].headers["a"] is not UTF-8 text`, "task", "enqueue", "-q", "empty", "x", "--header", "a=\xff")
	if got := payloads(t, "empty"); len(got) != 0 {
		t.Errorf("enqueued: %q", got)
	}
}

// TestEmptyFlagsWidenNothing: nor must it show or count what is in all queues, take a
// weaker promise than was meant, or begin a worker without its name.
func TestEmptyFlagsWidenNothing(t *testing.T) {
	const other27 = "3ZyfAz4TTlNLdMEJYWbpzCDKw1p"
	for _, args := range [][]string{
		{"task", "list", "--queue", ""},
		{"task", "list", "--state", ""},
		{"task", "count", "--queue", ""},
		{"task", "get", other27, "--read", ""},
		{"task", "get", other27, "--at-least", ""},
		{"task", "enqueue", "-q", "wide", "x", "--write", ""},
		{"task", "update", other27, "4294967297", "0", "x", "--write", ""},
		{"task", "cancel", other27, "--write", ""},
		{"archive", "show", t.TempDir(), "--queue", ""},
		{"archive", "show", t.TempDir(), "--id", ""},
		{"work", "-q", "wide", "--exit-when-empty", "--name", "", "--", "true"},
		{"work", "-q", "wide", "--exit-when-empty", "--lock", "", "--", "true"},
	} {
		flag := args[slices.Index(args, "")-1]
		refused(t, 2, flag+": nothing is given", args...)
	}
	if got := payloads(t, "wide"); len(got) != 0 {
		t.Errorf("enqueued: %q", got)
	}
}

// TestAWaitThatIsOverSaysSo: it said "context deadline exceeded".
func TestAWaitThatIsOverSaysSo(t *testing.T) {
	task := strings.TrimSpace(ok(t, "task", "enqueue", "-q", "waited-for", "x"))
	refused(t, 1, "task "+task+" is not finished: --wait of 300ms is over", "task", "wait", task, "--wait", "300ms")
}

// TestATruthValueAfterAFlagIsRefused: `--paused false` would pause, and make false the
// payload.
func TestATruthValueAfterAFlagIsRefused(t *testing.T) {
	const other27 = "3ZyfAz4TTlNLdMEJYWbpzCDKw1p"
	ok(t, "schedule", "set", "truth", "--cron", "@daily", "-q", "truth", "kept", "--paused")
	for _, args := range [][]string{
		{"schedule", "set", "truth", "--paused", "false"},
		{"--quiet", "schedule", "set", "truth", "--paused", "false", "--note", "x"},
		{"task", "log", other27, "-f", "true"},
		{"task", "enqueue", "-q", "truth", "--no-color", "true"},
		{"server", "--print-config", "false"},
		{"work", "-q", "truth", "--exit-when-empty", "false", "--", "true"},
		{"work", "-q", "truth", "--exit-when-empty", "true"},
	} {
		code := cli.ExitUsage
		if args[0] == "server" {
			code = cli.ExitServerUsage
		}
		refused(t, code, "=", args...)
	}
	if got := ok(t, "schedule", "get", "truth", "-o", "json"); !strings.Contains(got, `"paused": true`) || !strings.Contains(got, "a2VwdA==") {
		t.Errorf("the schedule is %s", got)
	}
	ok(t, "schedule", "set", "truth", "--paused=false", "--note", "--quiet", "--", "false")
	ok(t, "schedule", "delete", "truth")
	ok(t, "task", "enqueue", "-q", "truth", "--no-color", "--", "false")
	if got := payloads(t, "truth"); len(got) != 1 || got[0] != "false" {
		t.Errorf("enqueued: %q", got)
	}
}

// TestFilesThatCannotBeRead: a directory is a mistake of whoever names it, and the
// flag is named.
func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	schedule := []string{"schedule", "set", "bad", "--cron", "@daily", "-q", "bad"}
	for want, args := range map[string][]string{
		"--lines: " + dir + " is a directory": {"task", "enqueue", "-q", "bad", "--lines", dir},
		"--jsonl: " + dir + " is a directory": {"task", "enqueue", "-q", "bad", "--jsonl", dir},
		"--file: open does-not-exist":         append(slices.Clone(schedule), "--file", "does-not-exist"),
	} {
		refused(t, 2, want, args...)
	}
	for _, args := range [][]string{{"task", "enqueue", "-q", "bad"}, schedule} {
		refused(t, 2, "--file: "+dir+" is a directory", append(slices.Clone(args), "--file", dir)...)
	}
	refused(t, 3, "there is no schedule", "schedule", "get", "bad")
}

// TestBadJSONIsRefused: a line that is no task is told with its position.
func TestBadJSONIsRefused(t *testing.T) {
	other := newBystander(t)
	for in, want := range map[string]string{
		`{"payload_text":}`:                     "line 1, column 17: malformed JSON",
		`{"payload_text":"x"`:                   "line 1, column 20: malformed JSON: it ends too early",
		`{"payload_text":"x"} y`:                "line 1, column 22: something follows",
		`["x"]`:                                 "line 1, column 1: expected a JSON object",
		`null`:                                  "line 1, column 1: expected a JSON object",
		"{\"payload_text\":\"\x01\"}":           "line 1, column 18: malformed JSON",
		`{"prority":1}`:                         `line 1, column 2: unknown key "prority"`,
		`{"priority":2147483648}`:               "priority: number 2147483648 is not a whole number from -2147483648 to 2147483647",
		`{"priority":-2147483649}`:              "is not a whole number from -2147483648",
		`{"priority":1.5}`:                      "is not a whole number from -2147483648",
		`{"priority":"1"}`:                      "is not a whole number from -2147483648",
		`{"payload":"no base64!"}`:              "line 1, column 2: payload: it is not base64",
		`{"payload":"eA==","payload_text":"x"}`: "give one of payload",
		`{"queue":"no good"}`:                   "is not [a-zA-Z0-9]",
		`{"queue":""}`:                          "no queue",
		`{"id":"short"}`:                        "5 characters, not 27",
		`{"id":"000000000000000000000000000"}`:  "it is zero",
		`{"delay":"-1s"}`:                       "delay",
		`{"at":"tomorrow"}`:                     "at",
		`{"after":["x"]}`:                       "not 27",
		`{"on_dep_failure":"panic","after":[]}`: "cancel, run or wait",
		`{"max_attempts":-1}`:                   "is not a whole number from 0",
		`{"headers":{"a":1}}`:                   "headers",
		`{"headers":{"":"x"}}`:                  "empty name",
		`{"payload_text":"` + strings.Repeat("x", 1<<20) + `x"}`: "over the limit of 1048576",
	} {
		r := nornWith(t, in+"\n", nil, "task", "enqueue", "-q", "bad", "--jsonl", "-")
		if r.code != 2 || r.out != "" || !strings.HasPrefix(r.err, "norn: line 1") || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, want) {
			t.Errorf("%.100q: exit %d, %q, want one line with %q", in, r.code, r.err, want)
		}
		other.harmless(fmt.Sprintf("%.100q", in))
	}
}

// TestBadStartsAreRefused starts servers that must not start, beside the one
// that runs: on its directory, on its ports, on directories that are not theirs,
// with settings that make no sense.
func TestBadStartsAreRefused(t *testing.T) {
	beside(t)
	other := newBystander(t)
	stopped := func() string {
		dir := t.TempDir()
		s := ownServer(t, dir)
		if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
			t.Fatalf("exit %d, %v", code, err)
		}
		return dir
	}
	newer, mixed := stopped(), stopped()
	identity := filepath.Join(newer, "IDENTITY")
	b, err := os.ReadFile(identity)
	if err == nil {
		err = os.WriteFile(identity, bytes.Replace(b, []byte(`"format_version": 3`), []byte(`"format_version": 4`), 1), 0o600)
	}
	if err == nil {
		err = os.RemoveAll(filepath.Join(mixed, "register"))
	}
	if err == nil {
		err = os.Rename(filepath.Join(stopped(), "register"), filepath.Join(mixed, "register"))
	}
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "data")
	for name, tc := range map[string]struct {
		code int
		want string
		args []string
	}{
		"the same directory":   {1, "", []string{"--data", filepath.Join(the.dir, "data")}},
		"the same client port": {1, "address already in use", []string{"--data", fresh, "--listen", the.server.addr}},
		"the same http port":   {1, "address already in use", []string{"--data", fresh, "--http-listen", the.server.http}},
		"a newer directory":    {1, "newer version", []string{"--data", newer}},
		"another cluster":      {1, "different origin", []string{"--data", mixed}},
		"another node's":       {1, `belongs to node "n1"`, []string{"--data", stopped(), "--name", "n2"}},
		"an unknown key":       {cli.ExitServerUsage, `:1: unknown key "max-paylod"; the nearest is "max-payload"`, []string{"--data", fresh, "--config", write(t, "max-paylod: 1MiB\n")}},
		"a payload over 16MiB": {cli.ExitServerUsage, "max-payload: 17MiB is not between 1 and 16MiB", []string{"--data", fresh, "--max-payload", "17MiB"}},
		"no number":            {cli.ExitServerUsage, "partitions", []string{"--data", fresh, "--partitions", "many"}},
		"no YAML":              {cli.ExitServerUsage, "line 1", []string{"--data", fresh, "--config", write(t, "eta: [1s\n")}},
		"no file":              {cli.ExitServerUsage, "no such file", []string{"--data", fresh, "--config", "does-not-exist"}},
	} {
		args := append([]string{"server", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--name", "n1", "--log-level", "error"}, tc.args...)
		refused(t, tc.code, tc.want, args...)
		if _, err := os.Stat(fresh); !os.IsNotExist(err) {
			t.Errorf("%s: it has made a directory: %v", name, err)
		}
		other.harmless(name)
	}
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
	if r.code != 64 || strings.Count(r.err, "\n") != 3 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("it touched the data directory: %v", err)
	}
	refused(t, 64, "17MB", "server", "--eta", "17MB")
	refused(t, 64, "unknown flag", "server", "--etta", "1s")
}

// TestNobodyWaitsForATypo: where no node answers, a command that waits for tasks ends as
// soon as any other does.
func TestNobodyWaitsForATypo(t *testing.T) {
	const task = "3ZyfAz4TTlNLdMEJYWbpzCDKw1p"
	for _, args := range [][]string{{"wait", task}, {"log", task, "--follow"}, {"log", task, "--follow", "--lines"}, {"claim", "-q", "q", "--wait", "1h"}} {
		refused(t, 4, "a node that answers", append(append([]string{"task"}, args...), "--addr", "127.0.0.1:1", "--timeout", "300ms")...)
	}
}

// TestWhoWaitsIsTold: a command that still tries to reach somebody says so meanwhile, and
// not where it is asked to be quiet.
func TestWhoWaitsIsTold(t *testing.T) {
	t.Parallel()
	const told = "trying again, for 3s in all (--timeout)"
	where := []string{"--addr", "127.0.0.1:1", "--timeout", "3s"}
	for _, args := range [][]string{{"queue", "list"}, {"task", "enqueue", "-q", "q"}} {
		r := norn(t, append(args, where...)...)
		if lines := strings.SplitAfter(r.err, "\n"); r.code != 4 || len(lines) != 3 || !strings.Contains(lines[0], "connection refused; "+told) || !strings.Contains(lines[1], "a node that answers") {
			t.Errorf("%s: ends with %d: %s", args, r.code, r.err)
		}
	}
	refused(t, 4, "a node that answers", append([]string{"queue", "list", "--quiet"}, where...)...)
}

// TestANodeThatSaysNothing: who is connected and hears nothing is told what to do, as
// where nobody answers.
func TestANodeThatSaysNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, args := range [][]string{{"cluster", "status"}, {"task", "enqueue", "-q", "q", "x"}} {
		refused(t, 4, "a node that answers in time); name other nodes with --addr, or give it longer with --timeout",
			append(args, "--addr", l.Addr().String(), "--timeout", "300ms")...)
	}
}
