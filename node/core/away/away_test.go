package away

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
)

// TestWhatIsKeptIsBounded: so many of a worker, until their time is over, and of nobody nothing.
func TestWhatIsKeptIsBounded(t *testing.T) {
	var k Kept
	w, task := Taker{Worker: "w"}, func(i int) id.ID { return id.ID{byte(i), byte(i >> 8), 1} }
	for i := range 2 * MostTasks {
		k.Add(0, w, task(i), 2*Longest)
	}
	if k.Add(0, Taker{}, task(1), time.Hour); k.n != MostTasks || len(k.Of(w)) != MostTasks {
		t.Errorf("%d tasks are remembered", k.n)
	}
	if k.Of(w)[task(0)] != int64(Longest) {
		t.Errorf("kept until %d", k.Of(w)[task(0)])
	}
	k.Add(0, Taker{Worker: "v"}, task(0), time.Minute)
	if got := k.From(0, task(0)); !slices.Equal(got, []string{"v", "w"}) {
		t.Errorf("kept from %v", got)
	}
	if got := k.From(int64(time.Minute), task(0)); !slices.Equal(got, []string{"w"}) {
		t.Errorf("a minute later kept from %v", got)
	}
	if k.Add(int64(2*Longest), w, task(7777), time.Hour); k.n != 1 {
		t.Errorf("%d tasks are remembered when their time is over", k.n)
	}
}
