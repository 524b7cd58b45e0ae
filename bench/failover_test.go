package bench

import (
	"testing"
	"time"
)

func TestRoundsAreJudged(t *testing.T) {
	ms := time.Millisecond
	b := &breaking{
		calls: [][2]time.Duration{{90 * ms, 95 * ms}, {98 * ms, 350 * ms}, {360 * ms, 400 * ms}, {950 * ms, 1100 * ms}},
		acked: map[uint32]time.Duration{1: 10 * ms, 2: 80 * ms, 3: 350 * ms, 4: 400 * ms, 5: 500 * ms}, served: map[uint32]time.Duration{1: 20 * ms, 5: 36 * time.Second, 2: 600 * ms, 3: 620 * ms, 4: 700 * ms},
		claims: []time.Duration{20 * ms, 600 * ms, 620 * ms, 700 * ms},
	}
	var r Round
	b.judgeRound(&r, [2]time.Duration{100 * ms, 1000 * ms})
	if want := (Round{Enqueue: 600 * ms, Producer: 250 * ms, Claim: 500 * ms, Task: 500 * ms, Held: 1}); r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	report := &Report{}
	report.rounds([]Round{{Fault: Kill, Claim: 3 * ms}, {Fault: Kill, Claim: ms}, {Fault: Kill, Claim: 2 * ms}, {Fault: Freeze, Claim: 9 * ms}})
	for name, want := range map[string]float64{"kill_claim_stops_p50": 2, "kill_claim_stops_max": 3, "freeze_claim_stops_max": 9} {
		if got, ok := report.Get(name); !ok || got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
