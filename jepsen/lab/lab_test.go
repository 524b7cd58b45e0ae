package lab

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/jepsen/history"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/verdict"
)

// built is the program under test, built when the first test needs it.
type built struct {
	dir  string
	once sync.Once
	path string
	err  error
}

var program built

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "norn-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program.dir = dir
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	return code
}

// norn gives the program under test: NORN_TEST_PROGRAM names another one than
// that of this tree.
func norn(t *testing.T) string {
	t.Helper()
	program.once.Do(func() {
		if program.path = os.Getenv("NORN_TEST_PROGRAM"); program.path != "" {
			return
		}
		program.path = filepath.Join(program.dir, "norn")
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program.path, "../../cmd/norn").CombinedOutput(); err != nil {
			program.err = errors.New(string(out) + err.Error())
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

// run does a run that must pass, and logs its report.
func run(t *testing.T, cfg cluster.Config) *verdict.Result {
	t.Helper()
	if testing.Short() {
		t.Skip("not run: starts a cluster, left out with -short")
	}
	cfg.Norn = norn(t)
	var progress, report bytes.Buffer
	cfg.Progress = &progress
	r, err := Run(t.Context(), cfg)
	var not *machine.NotRun
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
	if r.Verdict != verdict.Passed {
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
	if os.Getenv("NORN_TEST_CLUSTER") == "" {
		t.Skip("takes long; `make cluster` runs it")
	}
	if why := machine.Namespaces(); why != nil && !testing.Short() {
		t.Skip(why)
	}
	r := run(t, cluster.Config{Fault: "partition", Duration: 5 * time.Second, Seed: 1, Think: 300 * time.Millisecond})
	if r.Network != "network namespaces" || len(r.Windows) == 0 || !strings.Contains(r.Windows[0].What, "wipe") {
		t.Errorf("it ran in %s, with %+v", r.Network, r.Windows)
	}
	if len(r.OnDisk) != 3 || r.OnDisk[0] < r.Acked || slices.Max(r.OnDisk) != slices.Min(r.OnDisk) || r.Acked < 200 {
		t.Errorf("of %d acknowledged tasks %v are on disks", r.Acked, r.OnDisk)
	}
}

// TestMixWithoutRoot is what every machine can run: nodes on loopback behind the
// proxy, links that are late, lossy, slow and cut one way, and a node that is
// killed while another is cut off.
func TestMixWithoutRoot(t *testing.T) {
	if os.Getenv("NORN_TEST_CLUSTER") == "" {
		t.Skip("takes long; `make cluster` runs it")
	}
	r := run(t, cluster.Config{Fault: "bad-links,cut-and-kill", Duration: 5 * time.Second, Seed: 2, Proxy: true, Think: 300 * time.Millisecond})
	if len(r.Windows) < 2 {
		t.Errorf("faults were %+v", r.Windows)
	}
}

// TestClaimStress: workers at all nodes and on all of them claim as fast as they
// can while nodes are killed and cut off. In the end each task was done, and at no
// time had two workers one.
func TestClaimStress(t *testing.T) {
	if os.Getenv("NORN_TEST_CLUSTER") == "" {
		t.Skip("takes long; `make cluster` runs it")
	}
	r := run(t, cluster.Config{Fault: "kill,isolate", Workload: "claims", Duration: 5 * time.Second, Seed: 3, Proxy: true, Think: 300 * time.Millisecond})
	done := func(f history.Func) (n int) {
		for _, e := range r.Events {
			if e.Func == f && e.Phase == history.OK {
				n += len(e.Items)
			}
		}
		return n
	}
	if grants, completed := done(history.Claim), done(history.Complete); grants < r.Acked || completed < r.Acked {
		t.Errorf("%d grants and %d completions of %d acknowledged tasks", grants, completed, r.Acked)
	}
}
