package node

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/inbox"
)

// TestPace says at which loads a loop gathers, and which it counts as load.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		name       string
		idle, span time.Duration
		events     int
		bytes      int
		gathers    bool
		loaded     bool
	}{
		{"a node without anything to do", time.Second, time.Second, 1, 200, false, false},
		{"10 tasks a second", 33 * time.Millisecond, 34 * time.Millisecond, 1, 200, false, false},
		{"500 tasks a second", 600 * time.Microsecond, 800 * time.Microsecond, 2, 400, false, false},
		{"500 tasks a second on a slow disk", 10 * time.Microsecond, 800 * time.Microsecond, 2, 400, false, false},
		{"as much as it can, in small rounds", 10 * time.Microsecond, 200 * time.Microsecond, 5, 1000, true, true},
		{"in large rounds", 0, time.Millisecond, 500, 100000, false, true},
		{"15 large tasks a second", 66 * time.Millisecond, 67 * time.Millisecond, 1, 100 << 10, false, true},
		{"a clock that stands still", 0, 0, 5, 1000, true, true},
		{"a wait that is longer than the round", time.Second, time.Millisecond, 1, 200, false, false},
	} {
		var p pacing
		if p.gathers() {
			t.Fatal("a loop that has just begun gathers")
		}
		for range 10 * paceMemory {
			p.took(c.idle, c.span, c.events, c.bytes)
		}
		if p.gathers() != c.gathers || p.loaded() != c.loaded {
			t.Errorf("%s: gathers %v, loaded %v, want %v, %v", c.name, p.gathers(), p.loaded(), c.gathers, c.loaded)
		}
	}
}

// TestPaceStopsWithTheLoad: the first rounds after a load count at once, as the longer a
// wait is the more it weighs.
func TestPaceStopsWithTheLoad(t *testing.T) {
	var p pacing
	for range 1000 {
		p.took(0, 100*time.Microsecond, 5, 0)
	}
	if !p.gathers() {
		t.Fatal("it does not gather under load")
	}
	for n := range 10 {
		p.took(5*time.Millisecond, 5100*time.Microsecond, 1, 0)
		if !p.gathers() {
			t.Logf("after %d rounds", n+1)
			return
		}
	}
	t.Error("it still gathers ten rounds after the load")
}

// TestAFullRoundTakesNoMore: a loop that gathered took what came as long as the disk worked,
// so that a round of large tasks needed more memory than a small server has.
func TestAFullRoundTakesNoMore(t *testing.T) {
	n := &Node{inbox: inbox.New(1 << 20)}
	n.inbox.Post(message.Tick{})
	for _, in := range []intake{{events: inbox.TakeEvents}, {bytes: inbox.TakeBytes}} {
		if err := in.step(n); err == nil {
			if first, _ := n.inbox.Lines(); first == 1 {
				continue
			}
		}
		t.Errorf("a round of %d events and %d bytes takes more", in.events, in.bytes)
	}
}
