package scope

import "testing"

// TestWhoIsNewIsHeld: each one who comes is held, also the one for whom those are forgotten that
// are not known any more; and of many that come and go few are kept.
func TestWhoIsNewIsHeld(t *testing.T) {
	var h Holders[int]
	for i := range 100 * leastHeld {
		h.Hold(i, Holder{By: "ci"}, func(who int) bool { return who < 10 }) // the new one is not known yet
		if h.Of(i).By != "ci" {
			t.Fatalf("number %d is not held", i)
		}
	}
	for i := range 10 {
		if h.Of(i).By != "ci" {
			t.Errorf("number %d is known, and was forgotten", i)
		}
	}
	if len(h.of) > leastHeld {
		t.Errorf("%d are kept", len(h.of))
	}
	h.Hold(3, Holder{}, func(int) bool { return true })
	if _, is := h.of[3]; is {
		t.Error("nobody in particular is kept")
	}
}
