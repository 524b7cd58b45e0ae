package faults

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
)

// TestFlipInPlace: some bits of a file change, and nothing else: somebody has it
// open.
func TestFlipInPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	was := bytes.Repeat([]byte("content"), 1000)
	n := disk{&nemesis{Lab: &cluster.Lab{Rnd: rand.New(rand.NewPCG(1, 1))}}}
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
