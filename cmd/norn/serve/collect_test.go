package serve

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"time"
)

// The heap may grow more from the first look with enough allocated to be load on, and
// less again only after a pause; load that just goes on changes nothing, nor does what
// is too little for the one and too much for the other.
func TestPacerFollowsTheLoad(t *testing.T) {
	total := uint64(1 << 20)
	p := newPacer(total)
	step := func(bytes uint64, percent int, rest bool) {
		t.Helper()
		total += bytes
		if got, is := p.look(total, 1<<30); got != percent || is != rest {
			t.Fatalf("after %d bytes more: %d %%, load has ended %v; want %d %%, %v", bytes, got, is, percent, rest)
		}
	}
	for look := range 2 * calmLooks {
		step(calmBytes/someLooks/4, calmPercent, look == calmLooks-1)
	}
	for range busyLooks {
		step(busyBytes/busyLooks-1, calmPercent, false)
	}
	step(busyBytes/busyLooks+busyLooks-2, calmPercent, false)
	step(busyBytes/busyLooks, busyPercent, false)
	for range 3 {
		step(calmBytes+1, busyPercent, false)
		for range someLooks - 1 { // what was allocated last counts for so long
			step(0, busyPercent, false)
		}
		for range calmLooks - 1 {
			step(calmBytes/someLooks, busyPercent, false)
		}
	}
	step(calmBytes/someLooks, calmPercent, true)
	step(calmBytes/someLooks, calmPercent, false)
}

// TestWhatTheStartHasLeftIsGivenBack: when it has come to rest, and then from time to time. A node
// that joined 19 others with 4,096 partitions kept four megabytes of memtables and two of empty
// spans; one with a million tasks waiting kept ten that its rest itself had left.
func TestWhatTheStartHasLeftIsGivenBack(t *testing.T) {
	p, total := newPacer(busyBytes), uint64(busyBytes)
	var rests []int
	for look := range calmLooks + 2*restLooks {
		total += calmBytes / 20
		if _, rest := p.look(total, 10<<20); rest {
			rests = append(rests, look+1)
		}
	}
	if want := []int{calmLooks, calmLooks + restLooks, calmLooks + 2*restLooks}; !slices.Equal(rests, want) {
		t.Errorf("given back at looks %d, want %d", rests, want)
	}
}

// TestLoadIsNoticedAtOnce: a hundred megabytes a second are load before half a second is over.
func TestLoadIsNoticedAtOnce(t *testing.T) {
	p := newPacer(0)
	p.look(25<<20, 30<<20)
	if got, _ := p.look(50<<20, 30<<20); got != busyPercent || paceEvery > time.Second/4 {
		t.Errorf("%d %% after two looks, one each %v", got, paceEvery)
	}
}

// TestASmallHeapMayGrow: at rest it is not collected for less than calmGrowth, and a
// large one not for much more.
func TestASmallHeapMayGrow(t *testing.T) {
	for _, c := range []struct {
		live    uint64
		percent int
	}{
		{0, busyPercent}, {3 << 20, busyPercent}, {5 << 20, 81}, {20 << 20, 22},
		{calmGrowth*100/calmPercent - 1, 7}, {calmGrowth * 100 / calmPercent, calmPercent}, {1 << 40, calmPercent},
	} {
		if got := calm(c.live); got != c.percent {
			t.Errorf("with %d bytes in use %d %%, want %d %%", c.live, got, c.percent)
		}
	}
	for live := uint64(5 << 20); live < calmGrowth*100/calmPercent; live += 1 << 20 { // twice the percent was up to twice the growth
		if grows := live * uint64(calm(live)) / 100; grows < calmGrowth*99/100 || grows > calmGrowth*3/2 {
			t.Errorf("with %d bytes in use it grows by %d", live, grows)
		}
	}
}

// The metrics that the pacer reads count something: they are there by these names.
func TestPacerReadsTheRuntime(t *testing.T) {
	before, _ := heap()
	kept := make([]byte, 1<<20)
	if now, _ := heap(); now-before < uint64(len(kept)) {
		t.Errorf("%d bytes counted after %d were allocated", now-before, len(kept))
	}
	runtime.GC()
	if _, live := heap(); live < uint64(len(kept)) {
		t.Errorf("%d bytes in use, of which %d are in one piece", live, len(kept))
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
