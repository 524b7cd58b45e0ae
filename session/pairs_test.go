package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// calls are the five core calls.
var calls = []string{"heartbeat", "getRunningTasks", "runTask", "notify", "updateStatus"}

// faults are what happens to their frames.
var faults = []string{"drop", "duplicate", "delay", "reorder"}

// TestPairs runs every ordered pair of core calls with every fault: frames of the
// first, requests and answers, are lost, doubled, delayed or overtaken around frames
// of the second to or from the same worker.
func TestPairs(t *testing.T) {
	first := uint64(0)
	for _, a := range calls {
		for _, b := range calls {
			if a == b {
				continue
			}
			for _, fault := range faults {
				first += uint64(*pairSeeds)
				t.Run(fmt.Sprintf("%s/%s/%s", a, b, fault), func(t *testing.T) { pair(t, a, b, fault, first) })
			}
		}
	}
}

func pair(t *testing.T, a, b, fault string, first uint64) {
	// More seeds than asked for where the two calls have not met.
	for seed := first; seed < first+20*uint64(*pairSeeds); seed++ {
		w := newWorldOf(seed, 2, 30)
		w.net.pair = &pairFault{a: a, b: b, fault: fault, share: 0.35}
		w.net.drop = 0.03 // or there would be nothing to ask about
		if seed == *simSeed {
			w.trace = &strings.Builder{}
		}
		w.run(5 * time.Second)
		if w.trace != nil {
			t.Log("\n" + w.trace.String())
		}
		if len(w.check.broken) > 0 {
			t.Fatalf("seed %d: %s", seed, strings.Join(w.check.broken, "\n"))
		}
		if w.net.pair.hits > 0 && seed-first+1 >= uint64(*pairSeeds) {
			return
		}
	}
	t.Errorf("from seed %d no frame of %s met one of %s", first, a, b)
}
