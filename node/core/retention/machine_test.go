package retention

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/ground"
)

const eta = 200 * time.Millisecond

func testMachine() (*Machine, clock.Time) {
	now := clock.Time{Wall: time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: int64(time.Minute)}
	left := Policy{JumpCollects: mutant.JumpCollects.On(), GraveEarly: mutant.GraveEarly.On(), WindowForgotten: mutant.WindowForgotten.On()}
	pass := func(clock.Time, id.ID, *crdt.Enqueued) {}
	return New(Env{Ground: &ground.Ground{Eta: eta, GCGrace: 7 * 24 * time.Hour}, Policy: left, Interval: time.Minute, PassKey: pass}, now), now
}

// TestNothingIsCollectedByAClockThatJumps: not in the step that sees it.
func TestNothingIsCollectedByAClockThatJumps(t *testing.T) {
	k, now := testMachine()
	for i, step := range []struct {
		wall   time.Duration
		jumped bool
	}{{0, false}, {time.Second + eta, false}, {time.Second, false}, {time.Second + eta + 1, true}, {time.Second, false}, {time.Second - eta - 1, true}, {time.Second - eta, false}} {
		now = clock.Time{Wall: now.Wall + int64(step.wall), Mono: now.Mono + int64(time.Second)}
		if k.jumped(now) != step.jumped {
			t.Errorf("step %d: %v a second", i, step.wall)
		}
	}
}

// TestTombstonesStayForSomeEtasMore: an ID may be one ahead of its node, that one ahead of the
// leader, and the leader ahead of who is asked to take the task anew, and must refuse it by then.
func TestTombstonesStayForSomeEtasMore(t *testing.T) {
	m, now := testMachine()
	for etas := range 4 {
		if at := m.Tombstones.over(now, etas); at != now.Wall-int64(m.GCGrace)-int64(etas)*int64(eta) {
			t.Errorf("with %d etas to spare those of %v ago go", etas, time.Duration(now.Wall-at))
		}
	}
}

// TestTheTombstoneOfAKeyStaysForItsWindow: the key is taken until then (K8).
func TestTheTombstoneOfAKeyStaysForItsWindow(t *testing.T) {
	k, now := testMachine()
	start := convert.WindowStart(now.Wall, int64(time.Hour))
	task := &crdt.Task{ID: id.UniqueKey([16]byte{1}, "q", "k", start, 0), Enqueued: &crdt.Enqueued{Queue: "q", Key: "k", KeyWindow: int64(time.Hour)}}
	if at := k.bury(now, task); at != start+int64(time.Hour) {
		t.Errorf("it counts as collected %v from now", time.Duration(at-now.Wall))
	}
	late := now.Add(2 * time.Hour)
	if at := k.bury(late, task); at != late.Wall {
		t.Errorf("after its window it counts as collected %v from then", time.Duration(at-late.Wall))
	}
}
