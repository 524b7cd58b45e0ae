package lab

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-dev/norn/jepsen/history"
)

// TestCeilings: a run in which a node took more of the machine than it may is a
// violation, whichever it was; the report says what each took.
func TestCeilings(t *testing.T) {
	for name, by := range map[string]Peak{
		"": {Memory: ceiling.Memory, Descriptors: ceiling.Descriptors, Threads: ceiling.Threads, Disk: ceiling.Disk}, "memory": {Memory: ceiling.Memory + 1},
		"open files": {Descriptors: ceiling.Descriptors + 1}, "threads": {Threads: ceiling.Threads + 1}, "disk": {Disk: ceiling.Disk + 1},
	} { // Any order: each is for itself.
		l := forged(t, leastPerSecond)
		for n := range leastPerSecond {
			l.reads(n, history.Cancelled)
		}
		p := &process{name: "n1"}
		l.nodes = []*process{p}
		l.gauges.note(p, Peak{Memory: 7 << 20, Threads: 3})
		l.gauges.note(p, by)
		p.log = filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(p.log, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r := verdict(t, l)
		var report bytes.Buffer
		if err := r.Markdown(&report); err != nil {
			t.Fatal(err)
		}
		if (name == "") != (r.Verdict == Passed) || name != "" && !strings.Contains(r.Findings[0], name) || !strings.Contains(report.String(), "## Limits") {
			t.Errorf("%q: %s, %v\n%s", name, r.Verdict, r.Findings, &report)
		}
	}
}

// TestTaken: what this process has of the machine is seen where the system tells,
// and of no process nothing.
func TestTaken(t *testing.T) {
	got := taken(os.Getpid())
	if _, err := os.Stat("/proc/self/status"); err == nil && (got.Memory < 1<<20 || got.Threads < 1 || got.Descriptors < 1) {
		t.Errorf("this process has %+v", got)
	}
	if got := taken(-1); got != (Peak{}) {
		t.Errorf("no process has %+v", got)
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := sizeOf(dir); got != 2000 {
		t.Errorf("two files of 1000 bytes take %d", got)
	}
	if got := sizeOf(filepath.Join(dir, "none")); got != 0 {
		t.Errorf("no directory takes %d", got)
	}
}

// TestFlipInPlace: some bits of a file change, and nothing else: somebody has it
// open.
func TestFlipInPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	was := bytes.Repeat([]byte("content"), 1000)
	n := disk{&nemesis{lab: &lab{rnd: rand.New(rand.NewPCG(1, 1))}}}
	for range 20 {
		if err := os.WriteFile(file, was, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := n.flipInPlace(file); err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(file)
		if err != nil || len(is) != len(was) {
			t.Fatalf("%d bytes of %d, %v", len(is), len(was), err)
		}
		flipped := 0
		for i := range is {
			flipped += bits.OnesCount8(is[i] ^ was[i])
		}
		if flipped == 0 || flipped > 8 {
			t.Errorf("%d bits are other ones", flipped)
		}
	}
	if err := n.flipInPlace(file + ".none"); !os.IsNotExist(err) {
		t.Errorf("a file that has gone: %v", err)
	}
}
