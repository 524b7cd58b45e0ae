package serve

import (
	"bytes"
	"runtime"
	"testing"
)

// The heap may grow more from the first look with collections enough to be load
// on, and less again only after a pause; load that just goes on changes nothing.
func TestPacerFollowsTheLoad(t *testing.T) {
	var p pacer
	total := uint64(0)
	step := func(cycles uint64, percent int, changed bool) {
		t.Helper()
		total += cycles
		if got, is := p.look(total); got != percent || is != changed {
			t.Fatalf("after %d collections more: %d %%, changed %v; want %d %%, %v", cycles, got, is, percent, changed)
		}
	}
	for range 2 * calmLooks {
		step(0, calmPercent, false)
	}
	step(busyCycles-1, calmPercent, false)
	step(0, calmPercent, false)
	step(busyCycles-1, calmPercent, false)
	step(1, busyPercent, true)
	for range 3 { // fewer collections, because more is allowed, are load all the same
		step(1, busyPercent, false)
		for range calmLooks - 1 {
			step(0, busyPercent, false)
		}
	}
	step(0, calmPercent, true)
	step(0, calmPercent, false)
}

// The metric that the pacer reads counts something: it is there by this name.
func TestPacerReadsTheRuntime(t *testing.T) {
	var kept [][]byte
	before := cycles()
	for n := 0; cycles() == before; n++ {
		if n > 1<<12 {
			t.Fatal("no collection counted after 256 MiB were allocated")
		}
		if kept = append(kept, make([]byte, 64<<10)); len(kept) > 64 {
			kept = nil
		}
	}
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
