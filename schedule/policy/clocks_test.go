package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
)

// everySecond and the like are what jumps of clocks are tried on.
func everySecond(t testing.TB, c CatchUp) *Definition {
	d := each(t, "* * * * * *")
	d.CatchUp, d.Count = c, 100
	return d
}

// run lets the clock run second by second.
func (m *master) run(from int64, seconds int) {
	for i := range int64(seconds) {
		m.at(from + i*second).end(Completed)
	}
}

// TestJumpsAndSuspensions jumps ahead in one-second schedules: an hour, a
// day's suspension, a year. Each keeps its policy in a number of decisions
// that has nothing to do with the time that passed.
func TestJumpsAndSuspensions(t *testing.T) {
	for _, ahead := range []int64{hour, day, year} {
		for c, want := range map[CatchUp]int{None: 61, Latest: 61, All: 161} { // the grace, both ends included
			m := start(t, everySecond(t, c), noon)
			m.run(noon, 10)
			before := len(m.launched)
			m.decided = 0
			m.at(noon + ahead)
			if n := len(m.launched) - before; n != want || m.decided > 2*want+2 {
				t.Errorf("%s after %s: %d launches in %d decisions, want %d", c, time.Duration(ahead), n, m.decided, want)
			}
			if first := m.launched[before]; first != noon+ahead-int64(want-1)*second {
				t.Errorf("%s after %s: the first is %s", c, time.Duration(ahead), when(first))
			}
			last := m.skipped[len(m.skipped)-1]
			if m.skipped[0].From != noon+10*second || last.To != m.launched[before]-second || len(m.skipped) > 2 {
				t.Errorf("%s after %s: skipped %+v", c, time.Duration(ahead), m.skipped)
			}
		}
	}
}

// TestTheClockGoesBack from where it was right: nothing is launched again, and
// it goes on where it was.
func TestTheClockGoesBack(t *testing.T) {
	for _, back := range []int64{second, hour, year} {
		m := start(t, everySecond(t, Latest), noon)
		m.run(noon, 10)
		n := len(m.launched)
		m.run(noon+9*second-back, 1)
		if len(m.launched) != n || m.last.Ahead != time.Duration(back) || m.last.Wake != noon+10*second || len(m.skipped) > 0 {
			t.Errorf("%s back: %d launches more, %+v, %+v", time.Duration(back), len(m.launched)-n, m.last, m.skipped)
		}
		if m.run(noon+10*second, 5); len(m.launched) != n+5 {
			t.Errorf("%s back and on: %d launches more", time.Duration(back), len(m.launched)-n)
		}
	}
}

// TestTheClockComesBack jumps ahead and comes back: the schedule goes on at
// once, and what was launched while the clock was ahead is not launched when
// its time comes.
func TestTheClockComesBack(t *testing.T) {
	for _, ahead := range []int64{2 * hour, year} {
		m := start(t, everySecond(t, Latest), noon)
		m.run(noon, 10)
		m.run(noon+ahead, 5)
		n, front := len(m.launched), m.launched[len(m.launched)-1]
		m.run(noon+15*second, 10)
		if got := m.launched[n:]; len(got) != 9 || got[0] != noon+16*second || m.last.Ahead != 0 {
			t.Errorf("%s: launched %d, %+v", time.Duration(ahead), len(got), m.last)
		}
		m.at(noon + ahead - 90*second)
		n = len(m.launched)
		m.run(noon+ahead-90*second, 200) // the master fails what is launched twice
		if after := m.launched[len(m.launched)-1]; after <= front || len(m.launched)-n < 100 {
			t.Errorf("%s: %s is the last, %d launches", time.Duration(ahead), when(after), len(m.launched)-n)
		}
	}
}

// TestTheClockComesBackTooFar jumps ahead, and comes back to before it left:
// nothing of before is launched again.
func TestTheClockComesBackTooFar(t *testing.T) {
	m := start(t, everySecond(t, Latest), noon)
	m.run(noon, 100)
	m.run(noon+year, 5)
	n := len(m.launched)
	m.run(noon+50*second, 60)
	if got := m.launched[n:]; len(got) != 10 || got[0] != noon+100*second {
		t.Errorf("%d launches", len(got))
	}
}

// TestWakingAmongBarredInstants sleeps, after the clock came back, until the
// midst of what was launched while it was ahead.
func TestWakingAmongBarredInstants(t *testing.T) {
	for o := Allow; o <= Replace; o++ {
		d := everySecond(t, All)
		d.Overlap = o
		m := start(t, d, noon)
		m.run(noon, 10)
		m.run(noon+day, 30)
		m.run(noon+20*second, 2)
		m.at(noon + 22*second) // and this one runs on
		n := len(m.launched)
		m.at(noon + day + 10*second) // the master fails what is launched twice
		m.run(noon+day+10*second, 60)
		if got := m.launched[n:]; len(got) < 30 || got[len(got)-1] != noon+day+69*second {
			t.Errorf("%s: %d launches", o, len(got))
		}
	}
}

// TestQueuedWhileTheClockWasAhead gives up what waits for another year.
func TestQueuedWhileTheClockWasAhead(t *testing.T) {
	d := each(t, "0 * * * *")
	d.Overlap = QueueOne
	m := start(t, d, noon).at(noon + hour).at(noon + year)
	if m.s.Queued != noon+year {
		t.Fatalf("%+v", m.s)
	}
	m.at(noon + 90*minute).end(Completed).at(noon + 91*minute).at(noon + 2*hour)
	if m.s.Queued != 0 || !slices.Equal(m.launched, []int64{noon + hour, noon + 2*hour}) {
		t.Errorf("%+v, %s", m.s, m.story())
	}
}

// TestTwoJumps comes back from a jump, jumps further, and comes back again. Both
// are barred, and what lies between them is launched when its time comes.
func TestTwoJumps(t *testing.T) {
	m := start(t, everySecond(t, Latest), noon)
	m.run(noon, 5)
	m.run(noon+2*hour, 5)
	m.run(noon+10*second, 5)
	m.run(noon+9*hour, 5)
	m.run(noon+20*second, 5)
	if b := m.s.Barred; b.len() != 2 || b[0].To != noon+2*hour+4*second || b[1].To != noon+9*hour+4*second {
		t.Errorf("barred %+v", b)
	}
	for _, at := range []int64{2*hour - 2*minute, 2*hour + 4*second, 5 * hour, 9*hour - 2*minute, 9*hour + 4*second} {
		n := len(m.launched)
		m.run(noon+at, 70) // the master fails what is launched twice
		if got := len(m.launched) - n; got < 50 {
			t.Errorf("%d launches from %s on", got, time.Duration(at))
		}
	}
	if m.last.Wake > m.now+second {
		t.Errorf("it does not go on: %+v", m.last)
	}
}

// TestJumpsAheadToManyPlaces: what is barred is bounded, and never too little.
func TestJumpsAheadToManyPlaces(t *testing.T) {
	m := start(t, everySecond(t, Latest), noon)
	for i, ahead := range []int64{hour, 3 * hour, 8 * hour, 5 * hour, day, 2 * hour, year, 4 * hour} {
		m.run(noon+ahead, 3)
		m.run(noon+int64(10+10*i)*second, 3)
		for j := range m.s.Barred.len() - 1 {
			if m.s.Barred[j].To >= m.s.Barred[j+1].From {
				t.Fatalf("barred %+v", m.s.Barred)
			}
		}
	}
	if b := m.s.Barred; b.len() != maxBars || b[3].From < noon+year-2*minute {
		t.Errorf("barred %+v", b)
	}
	for ahead := hour - 2*minute; ahead < 9*hour; ahead += 30 * minute {
		m.run(noon+ahead, 130) // the master fails what is launched twice
	}
	if n := m.s.Barred.len(); n == 0 || m.last.Ahead != 0 {
		t.Errorf("%d stretches are barred, %+v", n, m.last)
	}
}

func TestReset(t *testing.T) {
	m := start(t, everySecond(t, All), noon)
	m.at(noon + 2*year)
	m.s = Reset(m.d.Table, m.s, noon)
	if m.run(noon+second, 3); len(m.launched) < 4 || m.launched[len(m.launched)-1] != noon+3*second {
		t.Errorf("%d launches, %+v", len(m.launched), m.s)
	}
}

// TestEditWhileTheClockIsAhead wants no old instant of the new times when the
// clock comes back.
func TestEditWhileTheClockIsAhead(t *testing.T) {
	m := start(t, each(t, "0 * * * *"), noon)
	m.at(noon + hour).end(Completed)
	m.at(noon + 30*day).end(Completed)
	m.now = noon + 90*minute
	m.edit(func(d *Definition) { d.Table = table(t, "*/5 * * * *", "") })
	n := len(m.launched)
	m.at(noon + 91*minute).at(noon + 95*minute)
	if got := m.launched[n:]; !slices.Equal(got, []int64{noon + 95*minute}) {
		t.Errorf("launched %v", got)
	}

	// With a jitter, instants before the edit come up after it.
	d := each(t, "0 * * * *")
	for d.Jitter = time.Hour; d.Offset() < 15*time.Minute || d.Offset() > 20*time.Minute; {
		d.UUID[0]++
	}
	m = start(t, d, noon).at(noon + 30*day).end(Completed)
	m.now = noon + 90*minute
	m.edit(func(d *Definition) { d.Table = table(t, "*/5 * * * *", "") })
	n = len(m.launched)
	m.at(noon + 91*minute).at(noon + 109*minute)
	if len(m.launched) != n {
		t.Errorf("launched %v", m.launched[n:])
	}
	if m.at(noon + 115*minute); len(m.launched) != n+1 || m.launched[n] != noon+95*minute {
		t.Errorf("launched %v", m.launched[n:])
	}
}

// random is a definition and its moods.
func random(t *rapid.T, tb testing.TB) *Definition {
	spec := rapid.SampledFrom([]string{"*/5 * * * *", "@every 30s", "30 2 * * *", "* * * * * *", "0 * * * *", "0,20 1-3 * * *", "0 9 * * MON"}).Draw(t, "spec")
	zone := rapid.SampledFrom([]string{"", "America/New_York", "Australia/Lord_Howe"}).Draw(t, "zone")
	d := &Definition{
		Table: table(tb, spec, zone), UUID: [16]byte{rapid.Byte().Draw(t, "uuid")},
		Overlap: Overlap(rapid.IntRange(0, 3).Draw(t, "overlap")), CatchUp: CatchUp(rapid.IntRange(0, 2).Draw(t, "catch-up")),
		Window: time.Duration(rapid.Int64Range(10, 7200).Draw(t, "window")) * time.Second, Count: rapid.IntRange(1, 20).Draw(t, "count"),
		PauseOnFailure: rapid.Bool().Draw(t, "pause on failure"),
	}
	if rapid.Bool().Draw(t, "jittered") {
		d.Jitter = time.Duration(rapid.Int64Range(0, 600).Draw(t, "jitter")) * time.Second
	}
	if rapid.Bool().Draw(t, "with deadline") {
		d.Deadline = time.Duration(rapid.Int64Range(1, 3600).Draw(t, "deadline")) * time.Second
	}
	if rapid.IntRange(0, 3).Draw(t, "most") == 0 {
		d.MaxLaunches = uint64(rapid.IntRange(1, 30).Draw(t, "launches"))
	}
	return d
}

// TestLife lives with a schedule: time goes on, masters crash, tasks end, users
// edit, clocks jump. The master checks each decision; without jumps and edits
// of times, every instant up to the watermark is launched, waiting or skipped,
// and no other is.
func TestLife(t *testing.T) {
	for range 5 { // a hundred lives take some ms
		rapid.Check(t, func(r *rapid.T) { live(t, r) })
	}
}

func live(t *testing.T, r *rapid.T) {
	d := random(r, t)
	if err := d.Check(); err != nil {
		r.Fatal(err)
	}
	begin := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC).UnixNano() + rapid.Int64Range(0, 30*day).Draw(r, "begin")
	m := &master{t: r, d: d, s: Create(d.Table, begin, 0), now: begin}
	m.crash = func() bool { return rapid.IntRange(0, 9).Draw(r, "crash") == 0 }
	jumps := rapid.Bool().Draw(r, "jumps")
	whole := true
	m.at(begin)
	for range rapid.IntRange(1, 40).Draw(r, "steps") {
		switch rapid.IntRange(0, 9).Draw(r, "step") {
		case 0, 1, 2:
			if wake := m.last.Wake; wake != clock.Never && wake > m.now && wake < m.now+14*day {
				m.at(wake)
			}
		case 3:
			m.at(m.now + rapid.Int64Range(1, 100*second).Draw(r, "on"))
		case 4:
			m.at(m.now + rapid.Int64Range(1, 5*hour).Draw(r, "later"))
		case 5, 6:
			if m.s.Last.Status == Running {
				m.end(Status(rapid.IntRange(int(Completed), int(NotEnqueued)).Draw(r, "status"))).at(m.now)
			}
		case 7:
			m.edit(func(d *Definition) { d.Paused = !d.Paused }).at(m.now)
		case 8:
			m.edit(func(d *Definition) {
				change(r, d)
				if rapid.IntRange(0, 4).Draw(r, "times") == 0 {
					whole = false
					d.Table = table(t, rapid.SampledFrom([]string{"*/7 * * * *", "@every 45s", "0 * * * *"}).Draw(r, "spec"), "")
				}
			})
			m.at(m.now)
		case 9:
			if jumps {
				whole = false
				m.at(m.now + rapid.Int64Range(-2*day, 2*day).Draw(r, "jump"))
			} else {
				m.s = Reset(m.d.Table, m.s, m.now)
				m.at(m.now)
			}
		}
	}
	if whole {
		m.complete(begin)
	}
}

// change gives a schedule other policies, and the same times.
func change(r *rapid.T, d *Definition) {
	seconds := func(lo, hi int64) time.Duration {
		return time.Duration(rapid.Int64Range(lo, hi).Draw(r, "seconds")) * time.Second
	}
	switch rapid.IntRange(0, 6).Draw(r, "change") {
	case 0:
		d.Overlap = Overlap(rapid.IntRange(0, 3).Draw(r, "overlap"))
	case 1:
		d.CatchUp = CatchUp(rapid.IntRange(0, 2).Draw(r, "catch-up"))
	case 2:
		d.Jitter = seconds(0, 6000)
	case 3:
		d.Window = seconds(10, 7200)
	case 4:
		d.Deadline = seconds(0, 7200)
	case 5:
		d.MaxLaunches = uint64(rapid.IntRange(0, 30).Draw(r, "launches"))
	case 6:
		d.PauseOnFailure = !d.PauseOnFailure
	}
}

// complete checks that launches and skips are all instants up to the
// watermark, each once.
func (m *master) complete(begin int64) {
	m.t.Helper()
	all := slices.Clone(m.skipped)
	for _, l := range m.launched {
		all = append(all, Skipped{From: l, To: l})
	}
	if m.s.Queued != 0 {
		all = append(all, Skipped{From: m.s.Queued, To: m.s.Queued})
	}
	slices.SortFunc(all, func(a, b Skipped) int { return int(min(max(a.From-b.From, -1), 1)) })
	at := begin
	for _, s := range all {
		if next, ok := m.d.Table.Next(at); !ok || next != s.From {
			m.t.Fatalf("after %s comes %s, but %s is next: %+v\n%s", when(at), when(s.From), when(next), s, m.list(all))
		}
		at = s.To
	}
	if next, ok := m.d.Table.Next(at); ok && next <= m.s.Watermark {
		m.t.Fatalf("nothing is said of %s; the watermark is %s\n%s", when(next), when(m.s.Watermark), m.list(all))
	}
}

func (m *master) list(all []Skipped) string {
	var out []string
	for _, s := range all[max(0, len(all)-20):] {
		out = append(out, s.Reason.String()+" "+when(s.From)+" to "+when(s.To))
	}
	return strings.Join(out, "\n")
}

// BenchmarkDecide is a decision of a master that wakes for a launch.
func BenchmarkDecide(b *testing.B) {
	d := each(b, "30 2 * * *")
	d.Table = table(b, "30 2 * * *", "America/New_York")
	d.Overlap = Skip
	s := Create(d.Table, noon, 0)
	at, _ := d.Table.Next(noon)
	for b.Loop() {
		if !Decide(d, s, at).Launch {
			b.Fatal("nothing is launched")
		}
	}
}

// BenchmarkDecideAfterAYear is a decision of a one-second schedule after a year.
func BenchmarkDecideAfterAYear(b *testing.B) {
	for _, c := range []CatchUp{None, Latest, All} {
		b.Run(c.String(), func(b *testing.B) {
			d := everySecond(b, c)
			s := Create(d.Table, noon, 0)
			for b.Loop() {
				if !Decide(d, s, noon+year).Launch {
					b.Fatal("nothing is launched")
				}
			}
		})
	}
}
