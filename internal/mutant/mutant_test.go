package mutant

import "testing"

// TestNobodyErrsWithoutTheTag: a program that is shipped makes none of the
// mistakes; one that is built for it makes the one that was chosen.
func TestNobodyErrsWithoutTheTag(t *testing.T) {
	if len(names) != int(last) {
		t.Fatalf("%d mistakes, %d names", Count, len(names))
	}
	for _, m := range All() {
		Choose(m)
		if m.On() != Built {
			t.Errorf("%s (%s) is made: %v, in a build with mistakes: %v", m.Number(), m, m.On(), Built)
		}
	}
	Choose(None)
}
