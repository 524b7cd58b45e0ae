package lab

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// program is the program under test, built once.
var program struct {
	path string
	err  error
}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "norn-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program.path = filepath.Join(dir, "norn")
	if given := os.Getenv("NORN_TEST_PROGRAM"); given != "" {
		program.path = given
	} else if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program.path, "../../cmd/norn").CombinedOutput(); err != nil {
		program.err = errors.New(string(out) + err.Error())
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	return code
}

// run does a run that must pass, and logs its report.
func run(t *testing.T, cfg Config) *Result {
	t.Helper()
	if testing.Short() {
		t.Skip("not run: starts a cluster, left out with -short")
	}
	if program.err != nil {
		t.Fatal(program.err)
	}
	cfg.Norn = program.path
	var progress, report bytes.Buffer
	cfg.Progress = &progress
	r, err := Run(t.Context(), cfg)
	var not *NotRun
	if errors.As(err, &not) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	if err := r.Markdown(&report); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s", &report, &progress)
	if r.Verdict != Passed {
		t.Errorf("the run %s", r.Verdict)
	}
	return r
}

// TestOneIsCutOffAnotherWiped: of three nodes, each with an address of its own,
// one is cut off from the others and healed, and another killed, wiped and
// joined again, while clients enqueue through all of them with every write
// level. In the end every acknowledged task is on all three disks, and verify and
// count say the same through every node; the node that was cut off took tasks
// all the time.
func TestOneIsCutOffAnotherWiped(t *testing.T) {
	if why := namespaces(); why != nil && !testing.Short() {
		t.Skip(why)
	}
	r := run(t, Config{Fault: "partition", Duration: 10 * time.Second, Seed: 1})
	if r.Network != "network namespaces" || len(r.Windows) == 0 || !strings.Contains(r.Windows[0].What, "wipe") {
		t.Errorf("it ran in %s, with %+v", r.Network, r.Windows)
	}
	if len(r.OnDisk) != 3 || r.OnDisk[0] < r.Acked || slices.Max(r.OnDisk) != slices.Min(r.OnDisk) || r.Acked < 200 {
		t.Errorf("of %d acknowledged tasks %v are on disks", r.Acked, r.OnDisk)
	}
}
