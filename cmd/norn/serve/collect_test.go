package serve

import (
	"bytes"
	"runtime"
	"testing"
)

// The heap may grow more from the first look with enough allocated to be load on, and
// less again only after a pause; load that just goes on changes nothing, nor does what
// is too little for the one and too much for the other.
func TestPacerFollowsTheLoad(t *testing.T) {
	var p pacer
	total := uint64(0)
	step := func(bytes uint64, percent int, changed bool) {
		t.Helper()
		total += bytes
		if got, is := p.look(total); got != percent || is != changed {
			t.Fatalf("after %d bytes more: %d %%, changed %v; want %d %%, %v", bytes, got, is, percent, changed)
		}
	}
	for range 2 * calmLooks {
		step(calmBytes, calmPercent, false)
	}
	step(busyBytes/2-1, calmPercent, false)
	step(busyBytes/2, calmPercent, false)
	step(busyBytes/2, busyPercent, true)
	for range 3 {
		step(calmBytes+1, busyPercent, false)
		for range calmLooks - 1 {
			step(calmBytes, busyPercent, false)
		}
	}
	step(calmBytes, calmPercent, true)
	step(calmBytes, calmPercent, false)
}

// The metric that the pacer reads counts something: it is there by this name.
func TestPacerReadsTheRuntime(t *testing.T) {
	before := allocated()
	kept := make([]byte, 1<<20)
	if got := allocated() - before; got < uint64(len(kept)) {
		t.Errorf("%d bytes counted after %d were allocated", got, len(kept))
	}
	runtime.KeepAlive(kept)
}

// TestThePacerIsJoined: when it was told to end it has, and not soon.
func TestThePacerIsJoined(t *testing.T) {
	t.Setenv("GOGC", "")
	stacks := make([]byte, 1<<20)
	runs := func() bool {
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("serve.pace.func"))
	}
	for range 50 {
		end := pace(func() {})
		for !runs() { // it has begun
			runtime.Gosched()
		}
		if end(); runs() {
			t.Fatal("it still runs")
		}
	}
}
