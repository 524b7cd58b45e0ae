package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock/offset"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// TestACohortThatComesBackHasItsTime: a node that could not show yet how good its clock is
// when the cohort changed gave up its partitions at once when the same cohort came again,
// and not after ten seconds. What was noted of cohorts that are gone was kept for ever.
func TestACohortThatComesBackHasItsTime(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	k := c.standing.Clocks
	whole := c.view.Cells[0].Cohort
	judge := func(after time.Duration, cohort []register.Member) {
		for p := range c.view.Cells {
			recohort(c, ring.Partition(p), cohort...)
		}
		k.Peers = offset.New(offset.Config{Self: c.cfg.Self.Incarnation.ID()}) // nobody has told
		k.Judge(r.now.Add(after))
		if len(k.Bad) != 0 {
			t.Errorf("after %v its clock is no good any more for %d partitions", after, len(k.Bad))
		}
		if len(k.Since) != 1 {
			t.Errorf("after %v something is noted of %d cohorts", after, len(k.Since))
		}
	}
	judge(0, whole)
	judge(standing.Unsure-time.Second, whole[:2])
	judge(standing.Unsure+time.Second, whole)
}

// TestToJudgeClocksLeavesNoGarbage: each second the name of each partition's cohort was put together, a third of
// what a node of 20 with 4,096 partitions allocated at rest.
func TestToJudgeClocksLeavesNoGarbage(t *testing.T) {
	r := newTrio(t)
	k := r.peers[0].core.standing.Clocks
	k.Judge(r.now)
	cohort := r.peers[0].core.view.Cells[0].Cohort
	if n := testing.AllocsPerRun(100, func() { k.GoodFor(r.now, cohort) }); n > 0 || len(k.Since) > 0 {
		t.Errorf("%.0f allocations for a cohort of which %d are unsure", n, len(k.Since))
	}
	if n := testing.AllocsPerRun(100, func() { k.Judge(r.now) }); n > 6 { // what the clock of most is, once
		t.Errorf("%.0f allocations for %d partitions", n, len(r.peers[0].core.view.Cells))
	}
}

// TestClocksAreComparedOnceASecond: two nodes said four things a second, each a question and an
// answer to the other's. An answer goes with the next question, in one round, and still says what
// time it is to within the two ways; a node that has set its clock has one at once.
func TestClocksAreComparedOnceASecond(t *testing.T) {
	const nodes, seconds = 3, 20
	l := newLarge(t, nodes, 16)
	l.run(5 * time.Second)
	type frame struct {
		from, to int
		at       int64
	}
	frames, answers := map[frame]bool{}, 0
	l.said = func(from, to int, m any) {
		switch m.(type) {
		case *message.Beaten:
			answers++
		case *message.Beat:
		default:
			return
		}
		frames[frame{from, to, l.now.Mono}] = true
	}
	l.run(seconds * time.Second)
	pairs := nodes * (nodes - 1)
	if most := pairs * (seconds + 1); len(frames) > most || answers < pairs*(seconds-2) {
		t.Errorf("%d rounds with questions or answers in %d s, %d at most; %d answers", len(frames), seconds, most, answers)
	}
	for i, c := range l.cores {
		for _, o := range c.standing.Clocks.Peers.Offsets(l.now) {
			if most := int64(5 * time.Millisecond); o.OffsetNs > most || -o.OffsetNs > most || o.ErrorNs > most {
				t.Errorf("node %d finds a clock %v off, give or take %v", i, time.Duration(o.OffsetNs), time.Duration(o.ErrorNs))
			}
		}
	}
}
