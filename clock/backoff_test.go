package clock

import (
	"testing"
	"time"
)

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	b := Backoff{First: 50 * time.Millisecond, Most: 300 * time.Millisecond}
	for failed, want := range []time.Duration{50, 100, 200, 300, 300} {
		if got := b.Pause(failed); got != want*time.Millisecond {
			t.Errorf("after %d tries that failed: %v, want %v ms", failed, got, want)
		}
	}
	if got := (Backoff{First: time.Hour, Most: 24 * time.Hour}).Pause(1 << 40); got != 24*time.Hour {
		t.Errorf("after very many tries: %v", got)
	}
}
