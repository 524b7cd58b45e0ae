package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/schedule"
)

var zones = schedule.NewZones()

func table(t testing.TB, spec, zone string) *schedule.Timetable {
	t.Helper()
	s, err := schedule.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zones.Load(zone)
	if err != nil {
		t.Fatal(err)
	}
	tt, err := s.Compile([16]byte{}, z)
	if err != nil {
		t.Fatal(err)
	}
	return tt
}

// noon is where tests begin.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC).UnixNano()

const (
	second = int64(time.Second)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	year   = 365 * day
)

func each(t testing.TB, spec string) *Definition {
	return &Definition{Table: table(t, spec, ""), Window: DefaultWindow, Count: 3}
}

// master plays the cron master: it decides, commits and concludes.
type master struct {
	t        fataler
	d        *Definition
	s        State
	now      int64
	launched []int64
	skipped  []Skipped
	replaced []int64
	paused   int
	decided  int
	last     Decision
	// crash leaves launches open.
	crash func() bool
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func start(t testing.TB, d *Definition, now int64) *master {
	t.Helper()
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return &master{t: t, d: d, s: Create(d.Table, now, 0), now: now}
}

// at sets the clock and does all there is to do.
func (m *master) at(now int64) *master {
	m.t.Helper()
	m.now = now
	for range MaxCount + 500 {
		d := Decide(m.d, m.s, m.now)
		m.decided++
		m.check(&d)
		m.last = d
		m.s = d.After
		m.skipped = append(m.skipped, d.Skips...)
		switch {
		case d.Conclude:
			m.s = m.s.Conclude(d.Instant, Running)
		case d.Launch:
			m.launched = append(m.launched, d.Instant)
			if d.Replace {
				m.replaced = append(m.replaced, d.Replaced)
			}
			if m.crash == nil || !m.crash() {
				m.s = m.s.Conclude(d.Instant, Running)
			}
		case d.Pause:
			m.paused++
			return m
		default:
			return m
		}
	}
	m.t.Fatalf("still deciding after %d decisions: %+v", MaxCount+500, m.last)
	return m
}

// check holds of every decision.
func (m *master) check(d *Decision) {
	m.t.Helper()
	due := m.now - int64(m.d.Offset())
	if d.Changed != (d.After != m.s) || len(d.Skips) > 5 || (d.Launch || len(d.Skips) > 0) && !d.Changed {
		m.t.Fatalf("%+v changes %+v", d, m.s)
	}
	for _, s := range d.Skips {
		if s.From > s.To || s.Reason == 0 || s.Reason > Limit {
			m.t.Fatalf("skips %+v", s)
		}
	}
	if !d.Launch {
		if !d.Conclude && d.Wake <= m.now {
			m.t.Fatalf("at %d it wants to wake at %d: %+v", m.now, d.Wake, d)
		}
		if before := d.Wake - 1; !d.Conclude && !d.Pause && d.Wake != clock.Never && before > m.now {
			if again := Decide(m.d, d.After, before); again.Changed {
				m.t.Fatalf("it wakes at %d, but a moment before there is %+v", d.Wake, again)
			}
		}
		return
	}
	late := due - d.Instant
	switch last, ok := m.d.Table.Last(d.Instant); {
	case !ok || last != d.Instant:
		m.t.Fatalf("%d is no instant of it", d.Instant)
	case late < 0 || late > int64(m.d.limit()) || int64(d.Late) != late:
		m.t.Fatalf("%d is late by %s, said to be %s, limit %s", d.Instant, time.Duration(late), d.Late, m.d.limit())
	case slices.Contains(m.launched, d.Instant):
		m.t.Fatalf("%s is launched twice", when(d.Instant))
	case d.Instant < m.d.Start || m.d.End != 0 && d.Instant >= m.d.End:
		m.t.Fatalf("%d is not from %d to %d", d.Instant, m.d.Start, m.d.End)
	case m.d.MaxLaunches > 0 && uint64(len(m.launched)) >= m.d.MaxLaunches:
		m.t.Fatalf("launch %d of %d", len(m.launched)+1, m.d.MaxLaunches)
	case m.d.Paused:
		m.t.Fatalf("launched while it is paused")
	case m.s.Last.Status.Live() && m.d.Overlap != Allow && !(m.d.Overlap == Replace && d.Replace && d.Replaced == m.s.Last.Instant):
		m.t.Fatalf("launched beside %+v", m.s.Last)
	case !m.s.Last.Status.Live() && d.Replace, m.d.Overlap != Replace && d.Replace:
		m.t.Fatalf("replaces %+v", m.s.Last)
	}
}

func (m *master) end(status Status) *master {
	m.s = m.s.Conclude(m.s.Last.Instant, status)
	return m
}

func (m *master) edit(change func(*Definition)) *master {
	m.t.Helper()
	after := *m.d
	change(&after)
	after.Version++
	if err := after.Check(); err != nil {
		m.t.Fatalf("%v", err)
	}
	s, skips := Edit(m.d, &after, m.s, m.now)
	m.d, m.s, m.skipped = &after, s, append(m.skipped, skips...)
	return m
}

func when(at int64) string { return time.Unix(0, at).UTC().Format("2006-01-02T15:04:05") }

// story is what happened, as offsets from noon.
func (m *master) story() string {
	out := ""
	for _, l := range m.launched {
		out += fmt.Sprintf("%s ", time.Duration(l-noon))
	}
	for _, s := range m.skipped {
		out += fmt.Sprintf("[%s %s..%s] ", s.Reason, time.Duration(s.From-noon), time.Duration(s.To-noon))
	}
	return out
}

func (m *master) tells(want string) {
	m.t.Helper()
	if got := m.story(); got != want {
		m.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEveryInstantIsLaunchedOnTime(t *testing.T) {
	m := start(t, each(t, "* * * * *"), noon)
	if d := m.at(noon + 1).last; d.Changed || d.Next != noon+minute || d.Wake != noon+minute {
		t.Errorf("%+v", d)
	}
	for range 3 {
		m.at(m.last.Wake).end(Completed)
	}
	m.tells("1m0s 2m0s 3m0s ")
	if m.last.Wake != noon+4*minute || m.last.Ahead != 0 || m.s.Launches != 3 {
		t.Errorf("%+v", m.last)
	}
}

func TestAnOpenLaunchIsConcludedFirst(t *testing.T) {
	d := each(t, "* * * * *")
	s := Create(d.Table, noon, 0)
	one := Decide(d, s, noon+minute)
	if !one.Launch || one.After.Last.Status != Open {
		t.Fatalf("%+v", one)
	}
	two := Decide(d, one.After, noon+5*minute)
	if !two.Conclude || two.Launch || two.Changed || two.Instant != noon+minute || two.Wake != clock.Never {
		t.Errorf("%+v", two)
	}
	failed := one.After.Conclude(noon+minute, NotEnqueued)
	if three := Decide(d, failed, noon+2*minute); !three.Launch || three.Instant != noon+2*minute {
		t.Errorf("after an attempt that failed: %+v", three)
	}
	if s := failed.Conclude(noon+minute, Completed); s != failed {
		t.Errorf("an end is changed: %+v", s)
	}
	if s := one.After.Conclude(noon, Completed); s != one.After {
		t.Errorf("another launch is concluded: %+v", s)
	}
}

func TestOverlap(t *testing.T) {
	for _, tc := range []struct {
		overlap Overlap
		want    string
	}{
		{Allow, "1m0s 2m0s 3m0s 4m0s 5m0s "},
		{Skip, "1m0s 5m0s [overlap 2m0s..2m0s] [overlap 3m0s..3m0s] [overlap 4m0s..4m0s] "},
		{QueueOne, "1m0s 2m0s [overlap 3m0s..3m0s] [overlap 4m0s..4m0s] "},
		{Replace, "1m0s 2m0s 3m0s 4m0s 5m0s "},
	} {
		t.Run(tc.overlap.String(), func(t *testing.T) {
			d := each(t, "* * * * *")
			d.Overlap = tc.overlap
			m := start(t, d, noon)
			for i := range int64(4) {
				m.at(noon + (i+1)*minute)
			}
			m.at(noon + 4*minute + 30*second).end(Completed).at(noon + 4*minute + 31*second).at(noon + 5*minute)
			m.tells(tc.want)
			if want := map[bool]int{true: 3}[tc.overlap == Replace]; len(m.replaced) != want {
				t.Errorf("replaced %v", m.replaced)
			}
			if tc.overlap == QueueOne && m.s.Queued != noon+5*minute {
				t.Errorf("waiting: %+v", m.s)
			}
		})
	}
}

// TestQueuedIsDroppedWhenItIsTooLate also wants to be woken for it.
func TestQueuedIsDroppedWhenItIsTooLate(t *testing.T) {
	d := each(t, "0 * * * *")
	d.Overlap, d.Deadline = QueueOne, 10*time.Minute
	m := start(t, d, noon).at(noon + hour).at(noon + 2*hour)
	if m.last.Wake != noon+2*hour+10*minute+1 || m.s.Queued != noon+2*hour {
		t.Errorf("%+v", m.last)
	}
	m.at(m.last.Wake)
	m.tells("1h0m0s [too late 2h0m0s..2h0m0s] ")
}

func TestQueuedFollowsAChangedPolicy(t *testing.T) {
	for _, tc := range []struct {
		to   Overlap
		want string
	}{{Allow, "1h0m0s 2h0m0s "}, {Replace, "1h0m0s 2h0m0s "}, {Skip, "1h0m0s [overlap 2h0m0s..2h0m0s] "}, {QueueOne, "1h0m0s "}} {
		d := each(t, "0 * * * *")
		d.Overlap = QueueOne
		m := start(t, d, noon).at(noon + hour).at(noon + 2*hour)
		m.edit(func(d *Definition) { d.Overlap = tc.to }).at(noon + 2*hour + minute)
		m.tells(tc.want)
	}
}

func TestCatchUp(t *testing.T) {
	for _, tc := range []struct {
		name string
		d    Definition
		spec string
		back int64
		want string
	}{
		{"none", Definition{CatchUp: None}, "*/10 * * * *", 35 * minute, "[missed 10m0s..30m0s] "},
		{"latest", Definition{CatchUp: Latest}, "*/10 * * * *", 35 * minute, "30m0s [missed 10m0s..20m0s] "},
		{"latest, one on time", Definition{CatchUp: Latest}, "*/10 * * * *", 30*minute + 30*second, "30m0s [missed 10m0s..20m0s] "},
		{"all", Definition{CatchUp: All, Count: 9}, "*/10 * * * *", 35 * minute, "10m0s 20m0s 30m0s "},
		{"all, two", Definition{CatchUp: All, Count: 2}, "*/10 * * * *", 35 * minute, "20m0s 30m0s [missed 10m0s..10m0s] "},
		{"all, one and one on time", Definition{CatchUp: All, Count: 1}, "*/10 * * * *", 30 * minute, "20m0s 30m0s [missed 10m0s..10m0s] "},
		{"all in the window", Definition{CatchUp: All, Count: 99}, "*/10 * * * *", 85 * minute, "30m0s 40m0s 50m0s 1h0m0s 1h10m0s 1h20m0s [too late 10m0s..20m0s] "},
		{"window and count", Definition{CatchUp: All, Count: 2}, "*/10 * * * *", 85 * minute, "1h10m0s 1h20m0s [too late 10m0s..20m0s] [missed 30m0s..1h0m0s] "},
		{"latest, out of the window", Definition{CatchUp: Latest}, "0 * * * *", 2*hour - minute, "1h0m0s "},
		{"latest, later", Definition{CatchUp: Latest, Window: 10 * time.Minute}, "0 * * * *", 2*hour - minute, "[too late 1h0m0s..1h0m0s] "},
		{"deadline", Definition{CatchUp: All, Count: 99, Deadline: 15 * time.Minute}, "*/10 * * * *", 35 * minute, "20m0s 30m0s [too late 10m0s..10m0s] "},
		{"a deadline beyond the window", Definition{CatchUp: All, Count: 99, Window: 15 * time.Minute, Deadline: time.Hour}, "*/10 * * * *", 35 * minute, "20m0s 30m0s [too late 10m0s..10m0s] "},
		{"a failover is no outage", Definition{CatchUp: None}, "*/10 * * * * *", 55 * second, "10s 20s 30s 40s 50s "},
		{"beyond the grace", Definition{CatchUp: None}, "*/30 * * * * *", 130 * second, "1m30s 2m0s [missed 30s..1m0s] "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := tc.d
			d.Table = table(t, tc.spec, "")
			if d.Window == 0 {
				d.Window = DefaultWindow
			}
			start(t, &d, noon).at(noon + tc.back).tells(tc.want)
		})
	}
}

func TestOverlapOfABacklog(t *testing.T) {
	for _, tc := range []struct {
		overlap Overlap
		want    string
	}{
		{Allow, "1m0s 10m0s 20m0s 30m0s "},
		{Skip, "1m0s [overlap 10m0s..30m0s] "},
		{QueueOne, "1m0s [overlap 20m0s..30m0s] "},
		{Replace, "1m0s 30m0s [overlap 10m0s..20m0s] "},
	} {
		d := each(t, "1,10,20,30 * * * *")
		d.Overlap, d.CatchUp, d.Count = tc.overlap, All, 10
		m := start(t, d, noon).at(noon + minute).at(noon + 35*minute)
		m.tells(tc.want)
		if tc.overlap == QueueOne {
			m.end(Completed).at(noon + 36*minute).tells("1m0s 10m0s [overlap 20m0s..30m0s] ")
		}
	}
}

func TestStartEndAndMost(t *testing.T) {
	d := each(t, "*/10 * * * *")
	d.Start, d.End = noon+20*minute, noon+50*minute
	m := start(t, d, noon)
	if w := m.at(noon + minute).last.Wake; w != noon+20*minute {
		t.Errorf("wakes at %s", when(w))
	}
	for i := range int64(10) {
		m.at(noon + (i+1)*10*minute)
	}
	m.tells("20m0s 30m0s 40m0s ")
	if !m.last.Ended || m.last.Wake != clock.Never || m.last.Next != clock.Never {
		t.Errorf("%+v", m.last)
	}
	d = each(t, "*/10 * * * *")
	d.MaxLaunches = 2
	m = start(t, d, noon).at(noon + 10*minute).at(noon + 20*minute).at(noon + 30*minute)
	m.tells("10m0s 20m0s ")
	if !m.last.Ended || m.last.Wake != clock.Never {
		t.Errorf("%+v", m.last)
	}
}

func TestJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 200 {
		d := Definition{UUID: [16]byte{byte(i)}, Jitter: time.Minute}
		if d.Offset() < 0 || d.Offset() > d.Jitter {
			t.Fatalf("%s", d.Offset())
		}
		seen[d.Offset()/(10*time.Second)] = true
	}
	if len(seen) < 6 {
		t.Errorf("offsets fall into %d of six parts", len(seen))
	}
	d := each(t, "*/10 * * * *")
	d.Jitter = time.Hour
	for d.Offset() < 25*time.Minute || d.Offset() > 29*time.Minute {
		d.UUID[0]++
	}
	off := int64(d.Offset())
	m := start(t, d, noon).at(noon + minute)
	if m.last.Next != noon+10*minute || m.last.Wake != noon+10*minute+off {
		t.Errorf("%+v", m.last)
	}
	m.at(noon + 10*minute + off - 1).tells("")
	m.at(noon + 10*minute + off).tells("10m0s ")
	m.at(noon + 20*minute + off).tells("10m0s 20m0s ")
}

func TestPause(t *testing.T) {
	m := start(t, each(t, "*/10 * * * *"), noon).at(noon + 10*minute)
	m.edit(func(d *Definition) { d.Paused = true })
	if m.at(noon+45*minute).last.Wake != clock.Never || m.last.Next != noon+50*minute {
		t.Errorf("%+v", m.last)
	}
	m.edit(func(d *Definition) { d.Paused = false }).at(noon + 46*minute)
	m.tells("10m0s [paused 20m0s..40m0s] ")
	m.at(noon + 50*minute).tells("10m0s 50m0s [paused 20m0s..40m0s] ")
}

func TestPauseOnFailure(t *testing.T) {
	d := each(t, "*/10 * * * *")
	d.PauseOnFailure = true
	m := start(t, d, noon).at(noon + 10*minute).end(Failed).at(noon + 11*minute)
	if m.paused != 1 || m.last.Wake != clock.Never {
		t.Errorf("%+v", m.last)
	}
	m.edit(func(d *Definition) { d.Paused = true }).at(noon + 30*minute)
	m.edit(func(d *Definition) { d.Paused = false }).at(noon + 40*minute)
	if m.tells("10m0s 40m0s [paused 20m0s..30m0s] "); m.paused != 1 {
		t.Errorf("paused %d times for one failure", m.paused)
	}
	if m.end(Failed).at(noon + 41*minute); m.paused != 2 {
		t.Errorf("paused %d times for two failures", m.paused)
	}
}

// TestEditsTakeEffectAfterwards edits at 12:35: neither old instants of the new
// times nor decided ones are launched.
func TestEditsTakeEffectAfterwards(t *testing.T) {
	m := start(t, each(t, "*/10 * * * *"), noon).at(noon + 30*minute)
	m.now = noon + 35*minute
	m.edit(func(d *Definition) { d.Table = table(t, "*/3 * * * *", "") })
	m.at(noon + 36*minute).tells("30m0s 36m0s [missed 10m0s..20m0s] ")

	// Times that stay keep what is due.
	m = start(t, each(t, "*/10 * * * *"), noon)
	m.now = noon + 12*minute
	m.edit(func(d *Definition) { d.Overlap = Skip }).at(m.now).tells("10m0s ")

	// Times that change tell what they leave out.
	m = start(t, each(t, "*/10 * * * *"), noon)
	m.now = noon + 22*minute
	m.edit(func(d *Definition) { d.Table = table(t, "*/11 * * * *", "") }).at(m.now).tells("[edited 10m0s..20m0s] ")

	// A new start in the past begins now.
	m = start(t, each(t, "*/10 * * * *"), noon)
	m.now = noon + 5*minute
	m.edit(func(d *Definition) { d.Start = noon - day }).at(noon + 10*minute).tells("10m0s ")
}

// TestResumeKeepsWhatTheJitterHoldsBack ends a pause between an instant and its
// launch.
func TestResumeKeepsWhatTheJitterHoldsBack(t *testing.T) {
	d := each(t, "0 * * * *")
	for d.Jitter = time.Hour; d.Offset() < 20*time.Minute || d.Offset() > 40*time.Minute; {
		d.UUID[0]++
	}
	m := start(t, d, noon).at(noon + minute)
	m.edit(func(d *Definition) { d.Paused = true }).at(noon + 2*hour)
	m.now = noon + 2*hour + 10*minute
	m.edit(func(d *Definition) { d.Paused = false }).at(m.now).at(noon + 2*hour + int64(d.Offset()))
	m.tells("2h0m0s [paused 1h0m0s..1h0m0s] ")
}

// TestAnotherZoneStartsAfresh moves a schedule westward by an edit: local times
// that the old zone has shown are no reason to wait.
func TestAnotherZoneStartsAfresh(t *testing.T) {
	d := each(t, "0 9 * * *")
	d.Table = table(t, "0 9 * * *", "Europe/Berlin")
	m := start(t, d, noon)
	m.at(noon + minute)
	m.edit(func(d *Definition) { d.Table = table(t, "0 9 * * *", "America/New_York") })
	m.at(noon + hour).tells("1h0m0s ")
}

func TestCreateAfterAPredecessor(t *testing.T) {
	d := each(t, "*/10 * * * *")
	m := &master{t: t, d: d, s: Create(d.Table, noon, noon+20*minute)}
	m.at(noon + 10*minute).at(noon + 20*minute).at(noon + 30*minute).tells("30m0s ")
}

func TestRestore(t *testing.T) {
	m := start(t, each(t, "*/10 * * * *"), noon)
	m.crash = func() bool { return true }
	one := Decide(m.d, m.s, noon+10*minute).After
	s, skips := Restore(m.d, one, noon+35*minute)
	m.s, m.skipped, m.crash = s, skips, nil
	m.at(noon + 36*minute).at(noon + 40*minute).tells("40m0s [in doubt 10m0s..10m0s] [in doubt 20m0s..30m0s] ")
	waits := one.Conclude(noon+10*minute, Running)
	waits.Queued = noon + 15*minute
	if s, skips := Restore(m.d, waits, noon+16*minute); s.Queued != 0 || len(skips) != 1 || skips[0].From != noon+15*minute {
		t.Errorf("%+v, %+v", s, skips)
	}
}

// TestAnotherTZDatabase moves a schedule to a zone an hour away without an
// edit, as a changed tz database would.
func TestAnotherTZDatabase(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		at       int64 // hours after noon
		want     string
	}{
		{"America/New_York", "America/Chicago", 19, "18h0m0s 43h0m0s "}, // launched at 06:00Z; 02:00 of that date comes again at 07:00Z
		{"America/Chicago", "America/New_York", 20, "19h0m0s 42h0m0s "},
	} {
		d := each(t, "0 2 * * *")
		d.Table = table(t, "0 2 * * *", tc.from)
		m := start(t, d, noon)
		for i := range tc.at {
			m.at(noon + i*hour)
		}
		d.Table = table(t, "0 2 * * *", tc.to)
		for i := tc.at; i < 44; i++ {
			m.at(noon + i*hour)
		}
		m.tells(tc.want)
	}
}

func TestCheck(t *testing.T) {
	good := *each(t, "@daily")
	for name, change := range map[string]func(*Definition){
		"no table":   func(d *Definition) { d.Table = nil },
		"overlap":    func(d *Definition) { d.Overlap = 9 },
		"catch-up":   func(d *Definition) { d.CatchUp = 9 },
		"count 0":    func(d *Definition) { d.CatchUp, d.Count = All, 0 },
		"count":      func(d *Definition) { d.CatchUp, d.Count = All, MaxCount+1 },
		"end":        func(d *Definition) { d.Start, d.End = 2, 1 },
		"no window":  func(d *Definition) { d.Window = 0 },
		"window":     func(d *Definition) { d.Window = MaxWindow + 1 },
		"jitter":     func(d *Definition) { d.Jitter = MaxJitter + 1 },
		"jitter < 0": func(d *Definition) { d.Jitter = -1 },
		"deadline":   func(d *Definition) { d.Deadline = MaxWindow + 1 },
	} {
		d := good
		if change(&d); d.Check() == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	if Limit.String() != "limit" || NotEnqueued.String() != "not enqueued" || Reason(99).String() != "99" {
		t.Errorf("%s %s", Limit, NotEnqueued)
	}
}

// TestRestoreLeavesNoLaunchOpen: whether it was enqueued is in doubt, so that nobody
// enqueues it once more.
func TestRestoreLeavesNoLaunchOpen(t *testing.T) {
	d := each(t, "*/15 * * * *")
	s := State{Watermark: noon, Last: Run{Instant: noon, Begun: noon, Status: Open}, Launches: 1}
	s, skips := Restore(d, s, noon+minute)
	if s.Last.Status.Live() || len(skips) != 1 || skips[0] != (Skipped{noon, noon, InDoubt}) {
		t.Errorf("%+v, skipped %+v", s.Last, skips)
	}
	if got := Decide(d, s, noon+2*minute); got.Conclude || got.Launch {
		t.Errorf("after that: %+v", got)
	}
}

// TestTheFirstEndOfALaunchStays: what is heard of it after that changes nothing.
func TestTheFirstEndOfALaunchStays(t *testing.T) {
	ends := []Status{Completed, Failed, Cancelled, NotEnqueued, Unknown}
	for _, first := range ends {
		s := State{Last: Run{Instant: noon, Status: Running}}.Conclude(noon, first)
		for _, later := range append(ends, Running) {
			if got := s.Conclude(noon, later); got != s || got.Last.Status != first {
				t.Errorf("%v, then %v: %v", first, later, got.Last.Status)
			}
		}
	}
}

// TestABarWithinABar: nothing of the longer one is launched again.
func TestABarWithinABar(t *testing.T) {
	for _, order := range [][]Span{{{10, 100}, {20, 30}}, {{20, 30}, {10, 100}}, {{10, 50}, {40, 100}}} {
		var b Bars
		for _, s := range order {
			b = b.with(s, 0)
		}
		if b != (Bars{{10, 100}}) {
			t.Errorf("%v make %v", order, b)
		}
	}
}
