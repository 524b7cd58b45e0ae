package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		walk(c, visit)
	}
}

// TestEveryCommandHasHelp wants a line, an example, and a usage for each flag.
func TestEveryCommandHasHelp(t *testing.T) {
	var names []string
	walk((&app{&cli.App{Out: &bytes.Buffer{}}}).root(), func(c *cobra.Command) {
		names = append(names, c.CommandPath())
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no short text or no example", c.CommandPath())
		}
		if c.HasParent() && c.Name() != "completion" && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("the example of %s is of something else: %q", c.CommandPath(), c.Example)
		}
	})
	for _, want := range []string{
		"norn server", "norn task enqueue", "norn task get", "norn task list", "norn task count", "norn task log", "norn task claim", "norn task renew",
		"norn task update", "norn task complete", "norn task fail", "norn task release", "norn task wait", "norn work", "norn cluster status",
		"norn version", "norn completion bash", "norn completion zsh", "norn completion fish", "norn completion powershell", "norn task explain",
		"norn task cancel", "norn task retry", "norn queue list", "norn queue get", "norn queue set", "norn queue pause", "norn queue resume",
		"norn queue drain", "norn queue purge", "norn queue delete", "norn cluster members", "norn cluster partitions", "norn cluster leaders", "norn cluster leave",
		"norn cluster remove", "norn cluster replace", "norn cluster rebalance", "norn cluster replicas", "norn cluster verify", "norn cluster repair", "norn cluster recover", "norn cluster destroy",
	} {
		if !strings.Contains(strings.Join(names, "\n")+"\n", want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestHelpThatCannotBeWritten is a failure, like any other output.
func TestHelpThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = full.Close() }()
	for _, args := range [][]string{{"help"}, {"help", "task", "claim"}, {"--help"}, {"task", "claim", "--help"}, {"task"}, {}} {
		var errOut bytes.Buffer
		cmd := exec.Command(the.norn, args...)
		cmd.Env, cmd.Stdout, cmd.Stderr = environment(), full, &errOut
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != cli.ExitFailed || !strings.Contains(errOut.String(), "no space left") || strings.Contains(errOut.String(), "see `") {
			t.Errorf("norn %q: %v: %s", args, err, errOut.String())
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	if out := ok(t, "work", "--help"); !strings.Contains(out, "5 another process") {
		t.Errorf("work does not say when it exits with 5:\n%s", out)
	}
	out := ok(t, "task", "claim", "--help")
	if !strings.Contains(out, "Examples:\n  norn task claim -q mail") {
		t.Errorf("got %s", out)
	}
	if out := ok(t, "task"); !strings.Contains(out, "Available Commands:") {
		t.Errorf("got %s", out)
	}
	v := decode[map[string]string](t, "version")
	if v["version"] != "1.2.3-test" || v["commit"] != "abcdef" || !strings.HasPrefix(v["go_version"], "go1.") {
		t.Errorf("got %v", v)
	}
	if out := ok(t, "version"); !strings.HasPrefix(out, "norn 1.2.3-test (commit abcdef, go1.") {
		t.Errorf("got %s", out)
	}
	if out := ok(t, "completion", "bash"); !strings.Contains(out, "__start_norn") {
		t.Errorf("got %.200s", out)
	}
	refused(t, 2, `did you mean "norn task enqueue"?`, "task", "enqueu")
	refused(t, 2, `did you mean "norn task list"?`, "task", "lst") // and not get
	refused(t, 2, `invalid argument "5" for "--lease" flag: it has no unit; write 5s for seconds`, "task", "claim", "-q", "q", "--lease", "5")
	refused(t, 2, "received 2; it takes: norn task enqueue -q QUEUE [PAYLOAD |", "task", "enqueue", "-q", "q", "two", "words")
	refused(t, 2, "received 1; it takes: norn task fail ID TOKEN", "task", "fail", "x")
	r := nornWith(t, "", []string{"NORN_OUTPUT=yaml"}, "version")
	if !strings.HasPrefix(r.out, "version: 1.2.3-test\n") {
		t.Errorf("NORN_OUTPUT=yaml: %+v", r)
	}
	if r := nornWith(t, "", []string{"NORN_TIMEOUT=soon"}, "version"); r.code != 2 || !strings.Contains(r.err, "environment variable NORN_TIMEOUT") {
		t.Errorf("NORN_TIMEOUT=soon: %+v", r)
	}
}

func TestExitCodes(t *testing.T) {
	answered := func(k nornv1.ErrorKind) error {
		return fmt.Errorf("outer: %w", &client.Error{Op: "op", Err: proto.Refused(k, "why")})
	}
	for k := range nornv1.ErrorKind_name {
		want := map[nornv1.ErrorKind]int{
			nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT: 2, nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW: 2, nornv1.ErrorKind_ERROR_KIND_NOT_FOUND: 3,
			nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE: 4, nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED: 4, nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS: 5,
			nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST: 5, nornv1.ErrorKind_ERROR_KIND_CONFLICT: 5, nornv1.ErrorKind_ERROR_KIND_OVERLOADED: 6, nornv1.ErrorKind_ERROR_KIND_DISK_FULL: 6,
		}[nornv1.ErrorKind(k)]
		if want == 0 {
			want = 1
		}
		if got := cli.ExitCode(answered(nornv1.ErrorKind(k))); got != want {
			t.Errorf("%s: exit %d, want %d", nornv1.ErrorKind(k), got, want)
		}
	}
	if got := cli.ExitCode(nil); got != 0 {
		t.Errorf("no error: %d", got)
	}
	unknown := &client.Error{Op: "enqueue", Unknown: true, Err: proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "gone\x1b[2J")}
	if got := cli.Message(unknown); !strings.Contains(got, "it may have happened") || !strings.HasSuffix(got, "safe") || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}

// TestEveryOutputFormat reads one list in each format.
func TestEveryOutputFormat(t *testing.T) {
	enqueue(t, "-q", "formats", "x")
	for _, format := range []string{"table", "json", "jsonl", "yaml"} {
		out := ok(t, "task", "list", "-q", "formats", "-o", format)
		if format[0] == 'j' && !json.Valid([]byte(out)) || !strings.Contains(out, "formats") {
			t.Errorf("%s: %s", format, out)
		}
	}
}
