package partitions

import (
	"testing"

	"github.com/norn-dev/norn/clock"

	"pgregory.net/rapid"
)

// TestWakesAreFound: whatever is set in whatever order, the first of all and the next that
// is due are what a look at each would find.
func TestWakesAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 70).Draw(t, "things")
		w, all := newWakes(n), make([]wake, n)
		for i := range all {
			all[i] = wake{clock.Never, clock.Never}
		}
		times := rapid.OneOf(rapid.Int64Range(0, 9), rapid.Just(clock.Never))
		for range rapid.IntRange(0, 100).Draw(t, "changes") {
			i := rapid.IntRange(0, n-1).Draw(t, "thing")
			all[i] = wake{times.Draw(t, "wall"), times.Draw(t, "mono")}
			w.set(i, all[i].wall, all[i].mono)
		}
		first := wake{clock.Never, clock.Never}
		for i, a := range all {
			if w.of(i) != a {
				t.Fatalf("%d has %v, want %v", i, w.of(i), a)
			}
			first = wake{min(first.wall, a.wall), min(first.mono, a.mono)}
		}
		if wall, mono := w.first(); (wake{wall, mono}) != first {
			t.Fatalf("the first are %d and %d, want %v", wall, mono, first)
		}
		now := clock.Time{Wall: rapid.Int64Range(-1, 9).Draw(t, "wall now"), Mono: rapid.Int64Range(-1, 9).Draw(t, "mono now")}
		from := rapid.IntRange(0, n).Draw(t, "from")
		want, found := 0, false
		for i := from; i < n && !found; i++ {
			want, found = i, all[i].due(now)
		}
		if got, ok := w.due(from, now); ok != found || ok && got != want {
			t.Fatalf("from %d on %d is due (%t), want %d (%t)", from, got, ok, want, found)
		}
	})
}
