package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
)

// TestBench runs small scenarios and looks for their figures.
func TestBench(t *testing.T) {
	beside(t)
	type report struct {
		Scenario string
		Valid    bool
		Figures  map[string]float64
		Units    map[string]string
		Tasks    int
		Fsync    bool   `json:"fsync_before_ack"`
		Go       string `json:"go_version"`
		Server   string `json:"server_version"`
		Cores    int
	}
	for scenario, figure := range map[string]string{"enqueue": "enqueue_rate", "claim": "claim_complete_rate", "cycle": "cycle_rate"} {
		r := decode[report](t, "bench", "--scenario", scenario, "--tasks", "500", "--batch", "10", "--producers", "4", "--workers", "4")
		if r.Scenario != scenario || !r.Valid || r.Tasks != 500 || r.Figures[figure] <= 0 || r.Units[figure] != "tasks/s" || !r.Fsync || r.Go == "" || r.Server != "1.2.3-test" || r.Cores < 1 {
			t.Errorf("got %+v", r)
		}
	}
	r := decode[report](t, "bench", "--scenario", "latency", "--rate", "200", "--duration", "500ms")
	if !r.Valid || r.Tasks != 100 || r.Figures["enqueue_to_claim_p99"] <= 0 {
		t.Errorf("got %+v", r)
	}
	// What the table prints, the JSON has.
	var all report
	table := ok(t, "bench", "--scenario", "enqueue", "--tasks", "500", "--batch", "10", "--limits="+t.TempDir())
	all = decode[report](t, "bench", "--scenario", "enqueue", "--tasks", "500", "--batch", "10", "--limits="+t.TempDir())
	rows := 0
	for line := range strings.Lines(table) {
		if name, _, _ := strings.Cut(line, " "); strings.Contains(name, "_") {
			rows++
			if _, ok := all.Figures[name]; !ok {
				t.Errorf("figure %s is not in %v", name, all.Figures)
			}
		}
	}
	if rows != len(all.Figures) || all.Figures["limit_fdatasync_p50"] <= 0 {
		t.Errorf("%d rows, %d figures:\n%s", rows, len(all.Figures), table)
	}
	refused(t, 2, "workers must be at least 1", "bench", "--workers", "0")
	refused(t, 2, "payload must be at least 8", "bench", "--payload", "7")
	refused(t, 2, "no scenario", "bench", "--scenario", "magic")
	refused(t, 2, "producers must be at least 1", "bench", "--producers", "0")
	refused(t, 4, "--addr", "bench", "--addr", "127.0.0.1:1", "--timeout", "200ms")
}

// TestWrongNumbersBreakNothing: what is wrong with a failover run is said before
// anything is started for it, and nothing is left of that.
func TestWrongNumbersBreakNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, c := range [][]string{
		{"--nodes: 0 is not", "--nodes", "0"},
		{"--nodes: -1 is not", "--nodes", "-1"},
		{"--base-port: 70000 is not", "--base-port", "70000"},
		{"--base-port: 0 is not", "--base-port", "0"},
		{"partitions: 0 is not", "--partitions", "0"},
		{"kills must be at least 0", "--kills", "-1"},
		{"batch must be at least 1", "--batch", "0"},
	} {
		r := refused(t, 2, c[0], append([]string{"bench", "--scenario", "failover"}, c[1:]...)...)
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%q leaves %v, %v: %s", c[1:], left, err, r.err)
		}
	}
}

// TestInterruptedWhileItStarts: who presses Ctrl-C hears of no time-out.
func TestInterruptedWhileItStarts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &breakable{devCluster: &devCluster{}, checks: &devChecks{}}
	if err := b.whole(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestInterruptedSaysSo: what is said of Ctrl-C is for people.
func TestInterruptedSaysSo(t *testing.T) {
	interrupted := func(holds func() bool, args ...string) string {
		cmd := exec.CommandContext(t.Context(), the.norn, args...)
		cmd.Env = environment("NORN_ADDR=" + the.server.addr)
		var log buffer
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("%q has begun", args), holds)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it failed
		return log.String()
	}
	begun := func() bool { return len(payloads(t, "interrupted")) > 0 }
	if got := interrupted(begun, "bench", "--scenario", "latency", "--rate", "50", "--duration", "1h", "-q", "interrupted"); !strings.HasPrefix(got, "norn: bench: interrupted;") {
		t.Errorf("bench says %q", got)
	}
}

// TestWhatIsSaidOfUnknownOutcomes: whether it may be asked for again, which is another
// thing for each call.
func TestWhatIsSaidOfUnknownOutcomes(t *testing.T) {
	for op, want := range map[string]string{
		"claim":            "; what it may have been given is ready again when the lease is over",
		"enqueue":          "; repeating it with the same IDs is safe",
		"set queue":        "; repeating it is safe",
		"complete":         "; repeating it is safe",
		"trigger schedule": ": repeating it launches again",
		"retry":            ": repeating it runs what is dead by then",
	} {
		if got := cli.Message(&client.Error{Op: op, Unknown: true, Ended: context.Canceled}); !strings.HasSuffix(got, want) {
			t.Errorf("%s says %q, want %q", op, got, want)
		}
	}
}

// TestClusterBenchFailover kills and freezes real nodes under load. What it says of
// times is said on purpose of a busy machine: they are bounded, not measured.
func TestClusterBenchFailover(t *testing.T) {
	thorough(t)
	type report struct {
		Valid   bool
		Figures map[string]float64
		Rounds  []struct{ Fault, Node string }
	}
	r := decode[report](t, "bench", "--scenario", "failover", "--kills", "3", "--freezes", "1", "--partitions", "16", "--base-port", fmt.Sprint(basePort(t, 3)))
	if !r.Valid || len(r.Rounds) != 4 || r.Rounds[0].Fault != "kill" || r.Rounds[3].Fault != "freeze" || r.Rounds[0].Node == r.Rounds[1].Node {
		t.Fatalf("got %+v", r)
	}
	for figure, most := range map[string]float64{
		"kill_producer_waits_p50": 1000, "kill_task_waits_p50": 1000, "kill_task_waits_max": 2900, "freeze_producer_waits_max": 5900, "freeze_task_waits_max": 5900,
	} {
		if ms, is := r.Figures[figure]; !is || ms <= 0 || ms > most {
			t.Errorf("%s: %v ms, at most %v", figure, ms, most)
		}
	}
}
