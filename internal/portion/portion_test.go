package portion

import (
	"testing"

	"pgregory.net/rapid"
)

// TestNobodyHasMoreThanAQuarter while others ask; alone three quarters.
func TestNobodyHasMoreThanAQuarter(t *testing.T) {
	const limit = 1000
	alone := int64(0)
	for Fits(limit, alone, alone, 1) {
		alone++
	}
	if alone != limit*3/4 {
		t.Errorf("alone it has %d", alone)
	}
	own := int64(0)
	for Fits(limit, own+1, own, 1) { // another one has 1
		own++
	}
	if own < limit/5 || own > limit/4 {
		t.Errorf("beside another one it has %d", own)
	}
}

// TestSomethingIsLeft for who comes next, however many have as much as they may.
func TestSomethingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1000, 1<<30).Draw(t, "limit")
		step := limit / 1000
		all := make([]int64, rapid.IntRange(2, 40).Draw(t, "clients"))
		total := int64(0)
		for more := true; more; {
			more = false
			for i := range all {
				if Fits(limit, total, all[i], step) {
					all[i], total, more = all[i]+step, total+step, true
				}
			}
		}
		for i, own := range all {
			if own > limit/4 {
				t.Fatalf("client %d of %d has %d of %d", i, len(all), own, limit)
			}
		}
		if !Fits(limit, total, 0, step) {
			t.Fatalf("%d clients have %d of %d, and nothing is left for one more", len(all), total, limit)
		}
	})
}

// TestWhatIsLargeIsLetInAlone: it would fit nowhere else.
func TestWhatIsLargeIsLetInAlone(t *testing.T) {
	if !Fits(10, 0, 0, 50) || Fits(10, 1, 0, 50) || Fits(10, 50, 50, 1) {
		t.Error("what is larger than the limit is let in when it is empty, and nothing beside it")
	}
}
