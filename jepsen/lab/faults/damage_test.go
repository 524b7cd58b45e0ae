package faults

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
)

// Damage that is reported was done: zeros in place of zeros would be none, and a log
// ends with many that are to be written still.
func TestDamageIsDone(t *testing.T) {
	for name, do := range map[string]func(disk, string) error{"zero": zero, "truncate": truncate} {
		for _, written := range []int{0, 1, 100} {
			before := make([]byte, 64<<10)
			for i := range written {
				before[100*i] = 1
			}
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, before, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := do(disk{&nemesis{Lab: &cluster.Lab{Rnd: rand.New(rand.NewPCG(1, 2))}}}, file); err != nil {
				t.Fatal(err)
			}
			if after, err := os.ReadFile(file); err != nil || bytes.Equal(before, after) {
				t.Errorf("%s of a file with %d bytes that are not zero has changed nothing (%v)", name, written, err)
			}
		}
	}
}
