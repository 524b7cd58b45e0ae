package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

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

// TestWaited: what a process has waited only grows, and one that never was has
// waited for nothing.
func TestWaited(t *testing.T) {
	first, told := Waited(os.Getpid())
	if _, err := os.Stat("/proc/self/schedstat"); (err == nil) != told {
		t.Fatalf("told: %v, although %v", told, err)
	}
	if again, _ := Waited(os.Getpid()); again < first || first < 0 {
		t.Errorf("%v, then %v", first, again)
	}
	if sum, told := Waited(-1); told || sum != 0 {
		t.Errorf("no process has waited %v", sum)
	}
}
