package policy

import "testing"

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
