package policy

import (
	"testing"
	"time"
)

// TestMoreLaunchesLaunchNothingOfThePast: a schedule that had made all its
// launches is given more of them. What came due in between is skipped, as after a
// pause.
func TestMoreLaunchesLaunchNothingOfThePast(t *testing.T) {
	for _, catchUp := range []CatchUp{Latest, None, All} {
		d := each(t, "*/10 * * * *")
		d.MaxLaunches, d.CatchUp = 1, catchUp
		m := start(t, d, noon).at(noon + 10*minute).at(noon + 35*minute)
		m.edit(func(d *Definition) { d.MaxLaunches = 5 })
		m.at(m.now).at(noon + 40*minute).tells("10m0s 40m0s [limit 20m0s..30m0s] ")
	}
}

// TestResetForgetsWhatWaitsAhead: the instant that waits for the task before is
// ahead of a clock that has come back. After a reset it is launched once, when its
// time comes.
func TestResetForgetsWhatWaitsAhead(t *testing.T) {
	d := each(t, "*/10 * * * *")
	d.Overlap = QueueOne
	m := start(t, d, noon).at(noon + 10*minute).at(noon + 20*minute)
	m.s = Reset(d.Table, m.s, noon+5*minute)
	m.end(Completed).launched = nil // the operator says so
	m.at(noon + 10*minute).end(Completed).at(noon + 20*minute).end(Completed).at(noon + 21*minute).tells("10m0s 20m0s ")
}

// TestAnEditOfWhatCouldNotBeRead launches nothing from before it.
func TestAnEditOfWhatCouldNotBeRead(t *testing.T) {
	d := each(t, "*/10 * * * *")
	m := start(t, d, noon)
	unread := *d
	unread.Table = nil
	s, skips := Edit(&unread, d, m.s, noon+35*minute)
	m.s, m.skipped = s, skips
	m.at(noon + 35*minute).at(noon + 40*minute).tells("40m0s ")
}

// TestAnEditOfTimesDropsWhatWaits: the instant that waits for the task before is of the old
// times, and is not launched after an edit of them, nor after an end that is set; another
// edit leaves it where it is.
func TestAnEditOfTimesDropsWhatWaits(t *testing.T) {
	for _, tc := range []struct {
		what string
		edit func(*Definition)
		want string
	}{
		{"times", func(d *Definition) { d.Table = table(t, "30 * * * *", "") }, "10m0s 30m0s [edited 20m0s..20m0s] "},
		{"end", func(d *Definition) { d.End = noon + 25*minute }, "10m0s [edited 20m0s..20m0s] "},
		{"pause and times", func(d *Definition) { d.Table, d.Paused = table(t, "30 * * * *", ""), true }, "10m0s [edited 20m0s..20m0s] "},
		{"deadline", func(d *Definition) { d.Deadline = 50 * time.Minute }, "10m0s 20m0s 30m0s "},
	} {
		d := each(t, "*/10 * * * *")
		d.Overlap = QueueOne
		m := start(t, d, noon).at(noon + 10*minute).at(noon + 20*minute).at(noon + 21*minute)
		m.edit(tc.edit)
		m.at(m.now).end(Completed).at(noon + 22*minute).end(Completed).at(noon + 30*minute)
		if got := m.story(); got != tc.want {
			t.Errorf("an edit of %s: got %s, want %s", tc.what, got, tc.want)
		}
	}
}

// TestAResumptionShowsNoLocalTimeAgain: the tz database has moved the clock back, and a
// local time comes again that had its launch. A pause that ends in between, and a restore,
// are no reason to launch it once more.
func TestAResumptionShowsNoLocalTimeAgain(t *testing.T) {
	for what, do := range map[string]func(*master){
		"a pause": func(m *master) {
			m.edit(func(d *Definition) { d.Paused = true })
			m.at(noon + 18*hour + 20*minute)
			m.edit(func(d *Definition) { d.Paused = false })
		},
		"an edit of times": func(m *master) {
			m.edit(func(d *Definition) { d.End = noon + 100*day })
		},
		"a restore": func(m *master) { m.s, _ = Restore(m.d, m.s, m.now) },
	} {
		d := each(t, "0 2 * * *")
		d.Table = table(t, "0 2 * * *", "America/New_York")
		m := start(t, d, noon).at(noon + 18*hour)
		m.d.Table = table(t, "0 2 * * *", "America/Chicago") // as another tz database would have it
		do(m.at(noon + 18*hour + 10*minute))
		m.at(noon + 19*hour).at(noon + 43*hour)
		if got := m.story(); got != "18h0m0s 43h0m0s " {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// TestResetLosesNothingThatIsHeldBack: what the jitter still holds back, and what is due and
// not decided, is no instant that the clock was ahead of. A reset leaves it to the policies.
func TestResetLosesNothingThatIsHeldBack(t *testing.T) {
	d := each(t, "*/10 * * * *")
	d.UUID, d.Jitter = [16]byte{1}, time.Hour
	late := int64(d.Offset())
	if late < 10*minute {
		t.Fatalf("an offset of %s shows nothing", d.Offset())
	}
	m := start(t, d, noon).at(noon + 10*minute + late)
	m.s = Reset(d.Table, m.s, m.now+minute)
	m.at(noon + 20*minute + late).tells("10m0s 20m0s ")
}

// TestMoreJitterLaunchesNothingThatWasSkipped: what may be launched goes back when a schedule
// is given more jitter. That is no clock that has come back, and what an outage has cost stays
// skipped.
func TestMoreJitterLaunchesNothingThatWasSkipped(t *testing.T) {
	d := each(t, "0 * * * *")
	d.UUID, d.CatchUp = [16]byte{1}, None
	m := start(t, d, noon).at(noon + 5*hour + 30*minute)
	m.edit(func(d *Definition) { d.Jitter = MaxJitter })
	if m.d.Offset() < 4*time.Hour {
		t.Fatalf("an offset of %s shows nothing", m.d.Offset())
	}
	for at := m.now; at < noon+7*hour+int64(m.d.Offset()); at += minute / 2 {
		m.at(at)
	}
	m.tells("6h0m0s [too late 1h0m0s..4h0m0s] [missed 5h0m0s..5h0m0s] ")
}

// TestAResumptionForgetsFailures: a task that failed while its schedule was paused does not
// pause it again when somebody resumes it, whatever else the edit changes; nor does one that
// failed before failures were to pause it. One that fails after that does.
func TestAResumptionForgetsFailures(t *testing.T) {
	for what, resume := range map[string]func(*Definition){
		"resume":                  func(d *Definition) { d.Paused = false },
		"resume with other times": func(d *Definition) { d.Paused, d.Table = false, table(t, "*/20 * * * *", "") },
	} {
		d := each(t, "*/10 * * * *")
		d.PauseOnFailure = true
		m := start(t, d, noon).at(noon + 10*minute)
		m.edit(func(d *Definition) { d.Paused = true })
		m.at(noon + 15*minute).end(Failed).at(noon + 16*minute)
		m.edit(resume).at(noon + 20*minute)
		if got := m.story(); m.paused != 0 || got != "10m0s 20m0s " {
			t.Errorf("%s: paused %d times, %s", what, m.paused, got)
		}
		if m.end(Failed).at(noon + 21*minute); m.paused != 1 {
			t.Errorf("%s: paused %d times for a failure after it", what, m.paused)
		}
	}
	d := each(t, "*/10 * * * *")
	m := start(t, d, noon).at(noon + 10*minute).end(Failed).at(noon + 15*minute)
	m.edit(func(d *Definition) { d.PauseOnFailure = true }).at(noon + 16*minute).at(noon + 20*minute)
	if got := m.story(); m.paused != 0 || got != "10m0s 20m0s " {
		t.Errorf("a failure of before pauses what is to pause from now on: %d times, %s", m.paused, got)
	}
	if m.end(Failed).at(noon + 21*minute); m.paused != 1 {
		t.Errorf("paused %d times for a failure after that", m.paused)
	}
	d = each(t, "*/10 * * * *")
	d.PauseOnFailure = true
	unread := *d
	unread.Table, unread.Paused = nil, true
	m = start(t, d, noon).at(noon + 10*minute).end(Failed)
	if m.s, _ = Edit(&unread, d, m.s, noon+15*minute); m.at(noon+20*minute).paused != 0 {
		t.Error("one that could not be read before is paused")
	}
}
