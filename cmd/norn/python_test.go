package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// pythonWithProtobuf finds an interpreter that has the protobuf package, and
// skips the test where there is none.
func pythonWithProtobuf(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} { // another one may stand before Debian's
		if path, err := exec.LookPath(name); err == nil && exec.CommandContext(t.Context(), path, "-c", "import google.protobuf").Run() == nil {
			return path
		}
	}
	t.Skip("no Python with protobuf: apt-get install python3-protobuf")
	return ""
}

const pythonClient = "../../clients/python"

// TestPythonTypes has mypy read the client and its example, strictly.
func TestPythonTypes(t *testing.T) {
	beside(t)
	mypy := inPath(t, "mypy")
	cmd := exec.CommandContext(t.Context(), mypy, "--config-file", "pyproject.toml", "--cache-dir", t.TempDir())
	cmd.Dir = pythonClient
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// waiting is the class whose tests do little but wait, for leases to lapse. It runs
// beside everything else, first, so that the rest takes no time of its own.
const waiting = "Programs"

var pythonClass = regexp.MustCompile(`(?m)^class (\w+)\(`)

// pythonParts are the tests of some files, in parts that run beside each other.
func pythonParts(t *testing.T, files []string) (parts [][]string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".py")
		var rest []string
		for _, m := range pythonClass.FindAllStringSubmatch(string(text), -1) {
			if m[1] == waiting {
				parts = append([][]string{{name + "." + m[1]}}, parts...)
			} else {
				rest = append(rest, name+"."+m[1])
			}
		}
		parts = append(parts, rest)
	}
	if len(parts) != len(files)+1 {
		t.Fatalf("%d parts of %d files: where is class %s?", len(parts), len(files), waiting)
	}
	return parts
}

var skippedPython = regexp.MustCompile(`(?m)^(?:(test\w+) \(.*\)|.*) \.\.\. skipped ['"](.*)['"]$`)

// TestPython runs the tests of clients/python against real servers, and what every client does
// against one that lies.
func TestPython(t *testing.T) {
	beside(t)
	python := pythonWithProtobuf(t)
	// The document's example carries an ID of its day, so the server must be
	// one that remembers long.
	plain := ownServer(t, t.TempDir(), "--max-in-flight", "16", "--gc-grace", "900000h")
	cert, key := certificate(t)
	secured := ownServer(t, t.TempDir(), "--tls-cert", cert, "--tls-key", key, "--auth-token-file", write(t, "s3cret"))
	env := environment(
		"PYTHONPATH="+strings.Join([]string{pythonClient + "/src", pythonClient + "/examples", pythonClient + "/tests"}, string(os.PathListSeparator)),
		"PYTHONDONTWRITEBYTECODE=1", "NORN_LIAR="+buildLiar(t), "NORN_ADDR="+plain.addr, "NORN_TEST_EMPTY=1",
		"NORN_TLS_ADDR="+secured.addr, "NORN_TLS_CA="+cert, "NORN_AUTH_TOKEN=s3cret",
	)
	files, err := filepath.Glob(pythonClient + "/tests/test_*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, tests := range pythonParts(t, files) {
		t.Run(tests[0], func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, python, append([]string{"-W", "error::ResourceWarning", "-m", "unittest", "-v"}, tests...)...)
			cmd.Env, cmd.WaitDelay = env, time.Second
			out, err := cmd.CombinedOutput()
			if err != nil || !regexp.MustCompile(`(?m)^Ran [1-9]\d* tests? in `).Match(out) {
				t.Fatalf("%v: %v\n%s", tests, err, out)
			}
			for _, m := range skippedPython.FindAllSubmatch(out, -1) {
				t.Run(string(m[1]), func(t *testing.T) { t.Skip(string(m[2])) })
			}
		})
	}
}

// documented gives the frames in docs/reference/protocol.md by name: fenced blocks whose
// lines begin with bytes in hex, and go on with words.
func documented(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(?:[0-9a-f]{2} ?)+`)
	frames := map[string][]byte{}
	for _, m := range regexp.MustCompile("(?ms)^```frame ([^\n]+)\n(.*?)^```$").FindAllSubmatch(text, -1) {
		digits := strings.ReplaceAll(string(bytes.Join(line.FindAll(m[2], -1), nil)), " ", "")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%s: %v", m[1], err)
		}
		frames[string(m[1])] = b
	}
	return frames
}

// frameOf encodes what the document says a frame is.
func frameOf(t *testing.T, request uint64, method nornv1.Method, flags uint16, deadline time.Duration, m proto.Message) []byte {
	t.Helper()
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return transport.AppendFrame(nil, transport.Frame{Request: request, Method: uint16(method), Flags: flags, Deadline: deadline, Body: body})
}

// TestProtocolExamples compares the bytes in docs/reference/protocol.md with what the
// encoder makes of the messages that the words beside them describe.
func TestProtocolExamples(t *testing.T) {
	task, err := id.Parse("37dGamhT6KhgeCdJ3yaFwZAimIC")
	if err != nil {
		t.Fatal(err)
	}
	const reply, token = transport.FlagResponse, 1<<32 | 1
	receipt := &nornv1.Receipt{Id: task.String(), Copies: 1, DurableCopies: 1, Partition: 33}
	start, end := &timestamppb.Timestamp{Seconds: 1767225601}, &timestamppb.Timestamp{Seconds: 1767225631}
	placement := &nornv1.Placement{Partitions: 64, Enqueueable: bytes.Repeat([]byte{0xff}, 8), Replicas: 3, Copies: 1}
	claim := func(number uint64) *nornv1.ClaimRequest {
		return &nornv1.ClaimRequest{
			Queues: []string{"greetings"}, MaxTasks: 1, LeaseSeconds: 30, WaitSeconds: 10, Worker: "w1",
			Session: []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, RequestNo: number,
		}
	}
	want := map[string][]byte{
		"hello": frameOf(t, 1, nornv1.Method_METHOD_HELLO, 0, 0, &nornv1.Hello{MinVersion: 1, MaxVersion: 1, Agent: "example/1"}),
		"hello reply": frameOf(t, 1, nornv1.Method_METHOD_HELLO, reply, 0, &nornv1.HelloReply{
			Version: 1, ClusterId: "9199fb19-4513-401b-a424-e72ced8fcfe2", Node: "n1", ServerVersion: "1.0.0",
			Limits: &nornv1.Limits{
				MaxFrameBytes: 24 << 20, MaxPayloadBytes: 1 << 20, MaxBatchTasks: 10000, MaxBatchBytes: 16 << 20, MaxDependencies: 1000,
				MaxInFlight: 4096, MinLeaseSeconds: 1, MaxLeaseSeconds: 86400, MaxWaitSeconds: 300,
			},
			Placement: placement, EtaSeconds: 5, Now: start,
		}),
		"enqueue": frameOf(t, 2, nornv1.Method_METHOD_ENQUEUE, 0, 5*time.Second, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{
			{Id: task.Bytes(), Queue: "greetings", Payload: []byte("Ada"), Priority: -1},
		}}),
		"enqueue with kind": frameOf(t, 2, nornv1.Method_METHOD_ENQUEUE, 0, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{
			{Id: task.Bytes(), Queue: "greetings", Kind: "hello", Tags: []string{"vip"}},
		}}),
		"enqueue reply": frameOf(t, 2, nornv1.Method_METHOD_ENQUEUE, reply, 0, &nornv1.EnqueueReply{Results: []*nornv1.EnqueueResult{{Receipt: receipt}}}),
		"claim":         frameOf(t, 3, nornv1.Method_METHOD_CLAIM, 0, 15*time.Second, claim(1)),
		"claim reply": frameOf(t, 3, nornv1.Method_METHOD_CLAIM, reply, 0, &nornv1.ClaimReply{
			Grants: []*nornv1.Grant{{
				Task: &nornv1.Task{
					Id: task.String(), Queue: "greetings", Payload: []byte("Ada"), Priority: -1, State: nornv1.State_STATE_CLAIMED, MaxAttempts: 25,
					CreatedAt: timestamppb.New(task.Time()),
					Claims:    []*nornv1.Claim{{Token: token, Worker: "w1", Start: start, End: end, Outcome: nornv1.ClaimOutcome_CLAIM_OUTCOME_ACTIVE}},
				},
				Token: token, LeaseSeconds: 30, Start: start, End: end, EtaSeconds: 5,
			}},
			WaitedSeconds: 0.25,
		}),
		"complete": frameOf(t, 4, nornv1.Method_METHOD_COMPLETE, 0, 0, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{
			{Id: task.Bytes(), Token: token, Result: []byte("Hello, Ada!")},
		}}),
		"complete reply": frameOf(t, 4, nornv1.Method_METHOD_COMPLETE, reply, 0, &nornv1.WriteReply{Results: []*nornv1.WriteResult{{Receipt: receipt}}}),
		"second claim":   frameOf(t, 5, nornv1.Method_METHOD_CLAIM, 0, 0, claim(2)),
		"cancel":         transport.AppendFrame(nil, transport.Frame{Request: 5, Flags: transport.FlagCancel}),
		"cancel reply": frameOf(t, 5, nornv1.Method_METHOD_CLAIM, reply|transport.FlagError, 0, &nornv1.Error{
			Kind: nornv1.ErrorKind_ERROR_KIND_CANCELLED, Message: "the request was cancelled by its sender", Effect: nornv1.Effect_EFFECT_NONE,
		}),
		"ping":       frameOf(t, 6, nornv1.Method_METHOD_PING, 0, 0, &nornv1.Ping{}),
		"ping reply": frameOf(t, 6, nornv1.Method_METHOD_PING, reply, 0, &nornv1.PingReply{Placement: placement, Now: start}),
	}
	got := documented(t)
	for name, frame := range want {
		if !bytes.Equal(got[name], frame) {
			t.Errorf("%s: docs/reference/protocol.md has\n% x\nthe encoder makes\n% x", name, got[name], frame)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("docs/reference/protocol.md has a frame %q that is not checked", name)
		}
	}
}
