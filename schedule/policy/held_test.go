package policy

import (
	"errors"
	"testing"
)

// TestWhatWaitsAndWhatIsDueAreTwoLaunches: the task before has ended, or need not end any more,
// and the next instant has come due, before anything is decided.
func TestWhatWaitsAndWhatIsDueAreTwoLaunches(t *testing.T) {
	for _, o := range []Overlap{Allow, QueueOne, Replace} {
		d := each(t, "*/10 * * * *")
		d.Overlap = QueueOne
		m := start(t, d, noon).at(noon + 10*minute).at(noon + 20*minute).end(Completed)
		m.edit(func(d *Definition) { d.Overlap = o })
		m.at(noon + 30*minute).end(Completed).at(noon + 31*minute).tells("10m0s 20m0s 30m0s ")
	}
}

// TestNothingBehindTheEndCounts: the last instant before the end is the newest one, however
// late it is.
func TestNothingBehindTheEndCounts(t *testing.T) {
	d := each(t, "*/10 * * * *")
	d.Overlap, d.End = Replace, noon+25*minute
	start(t, d, noon).at(noon + 10*minute).at(noon + 40*minute).tells("10m0s 20m0s ")
}

// TestWhatWaitsIsNoEnd: there is no instant any more, but one that waits for the task before.
func TestWhatWaitsIsNoEnd(t *testing.T) {
	d := each(t, "*/10 * * * *")
	d.Overlap, d.End = QueueOne, noon+25*minute
	m := start(t, d, noon).at(noon + 10*minute).at(noon + 20*minute)
	if m.last.Ended {
		t.Error("it has ended, and an instant waits")
	}
	if m.end(Completed).at(noon + 21*minute).end(Completed).at(noon + 22*minute); !m.last.Ended {
		t.Error("it never ends")
	}
	m.tells("10m0s 20m0s ")
}

// TestWhatWaitsIsSkippedWhenAllLaunchesWereMade: fewer of them are wanted by then.
func TestWhatWaitsIsSkippedWhenAllLaunchesWereMade(t *testing.T) {
	d := each(t, "*/10 * * * *")
	d.Overlap, d.MaxLaunches = QueueOne, 2
	m := start(t, d, noon).at(noon + 10*minute).at(noon + 20*minute)
	m.edit(func(d *Definition) { d.MaxLaunches = 1 })
	m.at(noon + 21*minute).tells("10m0s [limit 20m0s..20m0s] ")
}

// TestWhatComesDueWithAnEditIsSkipped, and said to be.
func TestWhatComesDueWithAnEditIsSkipped(t *testing.T) {
	m := start(t, each(t, "*/10 * * * *"), noon).at(noon + 10*minute).end(Completed)
	m.now = noon + 20*minute
	m.edit(func(d *Definition) { d.Table = table(t, "*/15 * * * *", "") })
	m.at(noon + 30*minute).tells("10m0s 30m0s [edited 20m0s..20m0s] ")
}

// TestAClockThatComesBackALittle, by less than what counts as on time, had not jumped ahead:
// what was left out stays so.
func TestAClockThatComesBackALittle(t *testing.T) {
	m := start(t, everySecond(t, Latest), noon)
	m.run(noon, 10)
	m.run(noon+hour, 1)
	n := len(m.launched)
	if m.run(noon+hour-90*second, 20); len(m.launched) != n {
		t.Errorf("launched %s", when(m.launched[n]))
	}
}

// TestMoreIsCaughtUpAmongBarredInstants: the clock was ahead and has come back, and since then
// more is to be caught up than then. What was launched is not when its time comes.
func TestMoreIsCaughtUpAmongBarredInstants(t *testing.T) {
	d := everySecond(t, All)
	d.Overlap, d.Count = Replace, 1
	m := start(t, d, noon)
	m.run(noon, 10)
	m.run(noon+day, 30)
	m.run(noon+20*second, 2)
	m.at(noon + 22*second) // and this one runs on
	m.edit(func(d *Definition) { d.Count = 1000 })
	n := len(m.launched)
	m.at(noon + day + 10*second) // the master fails what is launched twice
	if len(m.launched) != n+1 {
		t.Errorf("%d launches", len(m.launched)-n)
	}
}

// TestResetForgetsTheGap: what a clock that was ahead has left out is decided by the operator's
// word, and does not take the watermark anywhere later.
func TestResetForgetsTheGap(t *testing.T) {
	s := State{Watermark: noon + hour, Gap: Span{noon, noon + minute}, Barred: Bars{{noon + day, noon + year}}}
	if got := Reset(table(t, "* * * * *", ""), s, noon); got.Watermark != noon || got.Gap != (Span{}) || got.Barred != (Bars{}) {
		t.Errorf("%+v", got)
	}
}

// TestLessThanIsKnownChangesNothing: of a launch.
func TestLessThanIsKnownChangesNothing(t *testing.T) {
	s := State{Last: Run{Instant: noon, Status: Running}}
	for _, status := range []Status{NoLaunch, Open, Running} {
		if got := s.Conclude(noon, status); got != s {
			t.Errorf("%d: %+v", status, got.Last)
		}
	}
}

// TestBarsOfThePastGo: there is room for so many only, and those that are nearest to each other
// become one.
func TestBarsOfThePastGo(t *testing.T) {
	b := Bars{{1, 2}, {4, 5}, {7, 9}}.with(Span{20, 21}, 8)
	if want := (Bars{{7, 9}, {20, 21}}); b != want {
		t.Errorf("%v", b)
	}
}

// TestStatesThatNobodyWrites are damaged.
func TestStatesThatNobodyWrites(t *testing.T) {
	status := State{}.Append(nil)
	status[1] = byte(Unknown) + 1
	empty := State{Barred: Bars{{1, 2}, {3, 4}}}.Append(nil)
	empty[len(empty)-1], empty[len(empty)-2] = 0, 0
	for _, b := range [][]byte{status, empty} {
		if s, err := ReadState(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v is read as %+v", b, s)
		}
	}
}
