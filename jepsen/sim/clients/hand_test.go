package clients

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/session"
)

// Of two grants that a worker with two slots is pushed, the first one comes last, when
// the other one is done and a third has come. It was not given after the requests that
// were made in between (seed 42,053 of clusters of five at 6f1a237: its token seemed to
// have fallen). A grant whose leader was asked before any of the open requests was made
// has no room.
func TestAGrantThatComesLateAnswersAnEarlyRequest(t *testing.T) {
	ms := func(n int) int64 { return int64(time.Duration(n) * time.Millisecond) }
	h := &Hand{Caller: &Caller{Clock: world.Local{}}, told: map[session.Claim]int64{}}
	asks := func(at int64) { h.asks = append(h.asks, &history.Event{At: at}) }
	asks(0)
	asks(0)
	for _, g := range []struct {
		task          byte
		stamp, begins int64
		want          int64 // when the request was made; -1: there is none
	}{
		{2, ms(600), ms(702), 0},
		{3, ms(715), ms(723), ms(702)},
		{1, ms(600), ms(1268), 0},
		{4, ms(700), ms(1300), -1},
		{5, ms(1268), ms(1310), ms(1268)},
	} {
		c := session.Claim{Task: id.ID{g.task}, Token: uint64(g.task)}
		h.told[c] = g.stamp
		got := h.answered(c)
		switch {
		case got == nil && g.want >= 0, got != nil && got.At != g.want:
			t.Fatalf("task %d, asked for after %d, answers %v, want the request of %d", g.task, g.stamp, got, g.want)
		case got != nil:
			asks(g.begins)
		}
	}
	if len(h.told) > 0 {
		t.Fatalf("%d grants are remembered", len(h.told))
	}
}
