package core

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// TestFramesOfATask: a task that is enqueued, claimed and completed through three nodes, a hundred of
// them a second, is 10 frames between three nodes. Of twenty nodes the three mostly lead and keep none
// of it: enqueue, claim and completion go to who leads and back, which is 6 more, each node has too
// little to share frames, and of a leader's copy others hear by a frame of its own. Workers that look
// whether there is another task before they wait for one, as METHOD_WORK does, do not make it dearer:
// each of them asked all others in vain, 57 frames for a task of twenty nodes.
func TestFramesOfATask(t *testing.T) {
	for _, c := range []struct {
		nodes int
		looks bool
		most  float64
	}{{3, false, 12}, {20, false, 22}, {3, true, 12}, {20, true, 22}} {
		g := newFormed(t, c.nodes, 64)
		g.looks = c.looks
		g.served(30 * time.Second)
		g.run(20 * time.Second)
		end := g.count()
		g.run(10 * time.Second)
		idle, _, _, _ := end()
		for i := range 3 {
			for range 3 {
				g.claim(i)
			}
		}
		g.run(3 * time.Second)
		const rate, seconds = 100, 10
		was := len(g.acked)
		end = g.count()
		for n := range rate * seconds {
			g.enqueue(n % 3)
			g.run(time.Second / rate)
		}
		busy, _, _, kinds := end()
		tasks := len(g.acked) - was
		frames := (busy - idle) * float64(c.nodes) / rate
		t.Logf("%d nodes, workers look: %v: %d tasks, %.1f frames for each", c.nodes, c.looks, tasks, frames)
		for _, k := range slices.Sorted(maps.Keys(kinds)) {
			t.Logf("  %-18s %6.2f", k, float64(kinds[k])/(rate*seconds))
		}
		if frames > c.most || tasks < rate*seconds*99/100 {
			t.Errorf("%d nodes, workers look: %v: %.1f frames for each of %d tasks, at most %.0f", c.nodes, c.looks, frames, tasks, c.most)
		}
	}
}
