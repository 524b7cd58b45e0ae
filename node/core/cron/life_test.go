package cron

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"pgregory.net/rapid"
)

// life is a world in which things go wrong, and what is known of its tasks.
type life struct {
	*world
	*rapid.T
	ended   map[id.ID]crdt.State
	overlap nornv1.Overlap
}

// TestTheLifeOfASchedule: masters die, answers of the register and of those who
// enqueue get lost, tasks end, users pause, edit and trigger. Tasks overlap only
// where they may, no launch has two tasks, and in the end the schedule goes on.
func TestTheLifeOfASchedule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &life{world: newWorld(t), T: rt, ended: map[id.ID]crdt.State{}}
		l.overlap = nornv1.Overlap(rapid.IntRange(0, 3).Draw(rt, "overlap"))
		s := spec(rapid.SampledFrom([]string{"* * * * * *", "*/7 * * * * *", "0 * * * * *"}).Draw(rt, "cron"))
		s.Overlap, s.CatchUp = l.overlap, nornv1.CatchUp(rapid.IntRange(0, 2).Draw(rt, "catchUp"))
		s.History = rapid.Uint32Range(1, 5).Draw(rt, "history")
		l.put("a", s)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			l.step(s)
		}
		l.lost, l.refuse, l.noCancel = false, nil, nil
		l.put("a", s)
		for task := range l.tasks {
			l.end(task, crdt.StateCompleted)
		}
		before := l.show("a").GetLaunches()
		for range 70 {
			l.run(time.Second)
			for task := range l.tasks {
				l.end(task, crdt.StateCompleted)
			}
		}
		if got := l.show("a"); got.GetLaunches() == before || got.GetOverdueSeconds() > 2 {
			rt.Fatalf("it does not go on: %v", got)
		}
	})
}

func (l *life) step(s *nornv1.ScheduleSpec) {
	switch rapid.IntRange(0, 9).Draw(l.T, "step") {
	case 0:
		l.succeed()
	case 1:
		l.lost = !l.lost
	case 2:
		l.refuse = rapid.SampledFrom([]*proto.Error{nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "away"), proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "draining")}).Draw(l.T, "refuse")
	case 3:
		l.noCancel = rapid.SampledFrom([]*proto.Error{nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "away")}).Draw(l.T, "noCancel")
	case 4:
		edit, err := l.editor().Pause("a", l.state.Schedules.Get("a"), 0, &nornv1.PauseSchedule{Paused: rapid.Bool().Draw(l.T, "paused")})
		if err == nil && edit.Change != nil {
			l.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
		}
	case 5:
		s.Note += "x"
		l.put("a", s)
	case 6, 7:
		for task := range l.tasks { // Any order: one of them
			l.end(task, rapid.SampledFrom([]crdt.State{crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled}).Draw(l.T, "state"))
			break
		}
	default:
		l.run(time.Duration(rapid.IntRange(1, 40).Draw(l.T, "seconds")) * time.Second / 4)
	}
}

// end ends a task, and tells the machine.
func (l *life) end(task id.ID, state crdt.State) {
	if _, over := l.ended[task]; !over {
		l.ended[task] = state
	}
	l.machine.Finished(l.now, task, l.ended[task])
}

// run lets time pass in small steps, and looks at what was enqueued meanwhile.
func (l *life) run(d time.Duration) {
	for range d / (250 * time.Millisecond) {
		known := map[id.ID]bool{}
		for task := range l.tasks {
			known[task] = true
		}
		cancelled := len(l.cancels)
		l.pass(250 * time.Millisecond)
		for _, task := range l.cancels[cancelled:] {
			if l.noCancel == nil {
				l.end(task, crdt.StateCancelled)
			}
		}
		for task := range l.ended {
			l.machine.Finished(l.now, task, l.ended[task]) // it asks again and again
		}
		fresh := 0
		for task := range l.tasks {
			if !known[task] {
				fresh++
			}
		}
		if fresh == 0 || l.overlap == nornv1.Overlap_OVERLAP_ALLOW || l.overlap == nornv1.Overlap_OVERLAP_REPLACE {
			continue
		}
		running := 0
		for task := range l.tasks {
			if _, over := l.ended[task]; !over {
				running++
			}
		}
		if running > 1 {
			l.T.Fatalf("%d tasks run: %v", running, l.show("a"))
		}
	}
}
