package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/cron"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// TestTheClockOfTheMasterIsOff: schedules go by the time of the majority that its
// node knows, so that nothing is launched an hour early, or late.
func TestTheClockOfTheMasterIsOff(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour, 24 * 365 * time.Hour} {
		r := newTrio(t)
		r.wrong = map[int]time.Duration{}
		r.leads = 0
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		s := everySecond("q")
		s.Cron = "0 * * * * *"
		r.send(1, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{put("minutely", s)}})
		launches := func() uint64 {
			x := cron.Show(r.peers[1].core.schedules.Cron.Zones(), [16]byte{}, r.state().Schedules.Get("minutely"), r.now.Wall, true)
			for _, l := range x.GetHistory() {
				if at := l.GetInstant().AsTime().UnixNano(); at > r.now.Wall || l.GetKind() != nornv1.LaunchKind_LAUNCH_KIND_LAUNCH {
					t.Errorf("off by %v: %v", off, l)
				}
			}
			return x.GetLaunches()
		}
		r.live(27*time.Second, 100*time.Millisecond, nothing)
		r.wrong[0] = off
		r.live(20*time.Second, 100*time.Millisecond, nothing) // 50 s
		if n := launches(); n != 0 {
			t.Fatalf("off by %v: %d launches before the first instant", off, n)
		}
		r.live(15*time.Second, 100*time.Millisecond, nothing)
		if n := launches(); n != 1 {
			t.Fatalf("off by %v: %d launches in the first minute", off, n)
		}
		clear(r.wrong)
		r.live(time.Minute, 100*time.Millisecond, nothing)
		if n := launches(); n != 2 {
			t.Fatalf("off by %v, and right again: %d launches in two minutes", off, n)
		}
	}
}

// TestAMasterWithAWrongClockThatKeepsNothingAnyMore: it is being removed for its clock,
// say. It goes on by what the others have told it last.
func TestAMasterWithAWrongClockThatKeepsNothingAnyMore(t *testing.T) {
	for _, before := range []bool{true, false} { // whether its clock is off before that
		r := newTrio(t)
		r.wrong, r.leads = map[int]time.Duration{}, 0
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		if before {
			r.wrong[0] = time.Hour
			r.live(3*time.Second, 100*time.Millisecond, nothing)
		}
		var changes []register.Change
		for p, cell := range r.state().Cells {
			next := register.Cell{Epoch: cell.Epoch + 10, Nonce: 5, Cohort: []register.Member{r.peers[1].self, r.peers[2].self}}
			changes = append(changes, register.Change{Partition: ring.Partition(p), Old: cell, New: next})
		}
		r.register.Do(register.Request{Changes: changes}, func(res register.Result) { r.check(res.Err) })
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		r.wrong[0] = time.Hour
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		c := r.peers[0].core
		if off := time.Duration(c.schedules.Time(r.clock(0)).Wall - r.now.Wall); off.Abs() > eta || len(c.standing.Company()) > 0 {
			t.Errorf("off before: %t: schedules go by a time that is off by %v", before, off)
		}
	}
}
