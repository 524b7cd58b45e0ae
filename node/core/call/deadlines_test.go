package call

import (
	"math/rand/v2"
	"testing"

	"github.com/norn-dev/norn/clock"
)

type waiting struct{ Deadline }

// TestByTime: whose time is over first is in front, of one instant who came first; whoever
// is taken out from between is found no more.
func TestByTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all ByTime[*waiting]
	var some []*waiting
	for n := range uint64(500) {
		w := &waiting{Deadline{Until: r.Int64N(50), Number: n}}
		all.Add(w)
		some = append(some, w)
	}
	for _, w := range some[100:300] {
		if all.Remove(w); w.Waits() {
			t.Fatal("it waits although it was taken out")
		}
	}
	var last *waiting
	for n := 0; len(all) > 0; n++ {
		w := all[0]
		if !w.Waits() || all.Next() != w.Until || w.Number >= 100 && w.Number < 300 {
			t.Fatalf("the first is %d, due at %d, and %d is next", w.Number, w.Until, all.Next())
		}
		if last != nil && (w.Until < last.Until || w.Until == last.Until && w.Number < last.Number) {
			t.Fatalf("%d of %d comes after %d of %d", w.Number, w.Until, last.Number, last.Until)
		}
		last = w
		if all.Remove(w); len(all)+n != 299 {
			t.Fatalf("%d are left after %d", len(all), n)
		}
	}
	if all.Next() != clock.Never {
		t.Error("nobody waits, and something is due")
	}
}
