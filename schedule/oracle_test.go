package schedule

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"
)

// oracle is a second implementation, by brute force: a clock that is looked at
// in each step, and remembers what it has shown. It shares the sets of values
// with the timetable, but for days, whose fields it reads anew; package time has the
// zone and the dates.
type oracle struct {
	c        calendar
	elapsed  bool
	dom, dow string
}

func oracleOf(spec string, tt *Timetable) oracle {
	words := strings.Fields(spec)
	return oracle{tt.calendar, tt.elapsed, words[len(words)-3], words[len(words)-1]}
}

// face is a civil time as a clock shows it.
type face struct {
	second, minute, hour, month int
	day                         time.Time
}

func faceOf(t time.Time) face {
	y, mo, d := t.Date()
	h, mi, s := t.Clock()
	return face{s, mi, h, int(mo), time.Date(y, mo, d, 0, 0, 0, 0, time.UTC)}
}

func (o oracle) matches(f face) bool {
	return o.c.month>>f.month&1 != 0 && o.c.hour>>f.hour&1 != 0 && o.c.minute>>f.minute&1 != 0 && o.c.second>>f.second&1 != 0 && daysOf(o.dom, o.dow, f.day)
}

// look is what a clock shows at one step, in seconds: the instant, and the
// civil time as if it were in UTC.
type look struct {
	at, civil int64
	face      face
}

// watch looks at a clock from one instant up to another.
func watch(loc *time.Location, from, to, step int64) (out []look) {
	out = make([]look, 0, (to-from)/step+1)
	for at := from; at < to; at += step {
		_, off := time.Unix(at, 0).In(loc).Zone()
		out = append(out, look{at, at + int64(off), faceOf(time.Unix(at+int64(off), 0).UTC())})
	}
	return out
}

// instants are the steps at which the schedule is due, by the looks from warm
// on: those before only say what was shown.
func (o oracle) instants(looks []look, warm int64, step int64) (out []int64) {
	dates := map[int64]bool{}
	for _, l := range looks {
		dates[floorDiv(l.civil, daySeconds)] = true
	}
	shown := looks[0].civil
	for _, l := range looks[1:] {
		due := o.elapsed && o.matches(l.face)
		for !o.elapsed && shown < l.civil { // each civil time when it is first shown or passed
			if shown += step; shown == l.civil {
				due = due || o.matches(l.face)
			} else {
				due = due || dates[floorDiv(shown, daySeconds)] && o.matches(faceOf(time.Unix(shown, 0).UTC()))
			}
		}
		if due && l.at >= warm {
			out = append(out, l.at)
		}
	}
	return out
}

// specs of the property: every kind of field, hours that changes of clocks hit.
func randomSpec(r *rand.Rand) string {
	choose := func(s ...string) string { return s[r.IntN(len(s))] }
	minute := choose("*", "0", "30", "15", "*/20", "59", "7,52", "0-10/5", strconv.Itoa(r.IntN(60)), strconv.Itoa(r.IntN(60)))
	hour := choose("*", "*", "*/2", "0", "1", "2", "3", "23", "0-3", "22-23,0", "0-23", strconv.Itoa(r.IntN(24)))
	dom := choose("*", "*", "*", "*/2", "1-15", "30,31", "L", "LW", "1W", "15W,L", "31W", strconv.Itoa(1+r.IntN(31)))
	month := choose("*", "*", "*", "*/3", "3,4,10,11", "9-12")
	dow := choose("*", "*", "*", "*/2", "SUN", "MON-FRI", "6,7", "FRI#2", "SUN#L", "SAT#L,MON#5")
	return fmt.Sprintf("%s %s %s %s %s", minute, hour, dom, month, dow)
}

// changesOf are the instants, in seconds, at which a zone changes its offset
// between two years.
func changesOf(z *Zone, from, to int) (out []int64) {
	for _, c := range z.changes {
		if y := time.Unix(c.at, 0).UTC().Year(); from <= y && y < to {
			out = append(out, c.at)
		}
	}
	return out
}

// TestOffsetsAreThoseOfPackageTime looks at each zone at random, on last
// days of leap years, and at every change.
func TestOffsetsAreThoseOfPackageTime(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	z := zones(t)
	for _, name := range z.Names() {
		zone, err := z.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for day := range int64(100) {
			at := (day-30)*4*365*daySeconds + r.Int64N(365*daySeconds)
			if day%5 == 0 { // the last day of leap years
				at = time.Date(int(1904+day*4/5), 12, 31, r.IntN(24), r.IntN(60), 0, 0, time.UTC).Unix()
			}
			if _, want := time.Unix(at, 0).In(zone.Location()).Zone(); zone.at(at).off != int64(want) {
				t.Fatalf("%s at %s: %d, want %d", name, time.Unix(at, 0).UTC(), zone.at(at).off, want)
			}
		}
		for _, c := range zone.changes[1:] {
			_, before := time.Unix(c.at-1, 0).In(zone.Location()).Zone()
			if _, after := time.Unix(c.at, 0).In(zone.Location()).Zone(); before == after || int64(before) != zone.at(c.at-1).off || int64(after) != zone.at(c.at).off {
				t.Fatalf("%s changes at %s from %d to %d", name, time.Unix(c.at, 0).UTC(), before, after)
			}
		}
		if n := len(zone.changes); n > 1000 {
			t.Errorf("%s changes %d times", name, n)
		}
	}
}

// TestEveryZone compares each zone around changes of its clock, minute by
// minute, with the oracle. NORN_TEST_ZONES=all takes every change from 1850 to
// 2100 with many specifications, second by second where clocks kept local mean
// time (half an hour); otherwise it is one change of each zone.
func TestEveryZone(t *testing.T) {
	whole := os.Getenv("NORN_TEST_ZONES") == "all"
	r := rand.New(rand.NewPCG(7, 11))
	z := zones(t)
	windows, compared, same := 0, 0, map[string]bool{}
	for _, name := range z.Names() {
		zone, err := z.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if key := fmt.Sprint(zone.changes); same[key] {
			continue // another name of a zone before
		} else {
			same[key] = true
		}
		at, count := changesOf(zone, 1850, 2100), 12
		calm := time.Date(2000+r.IntN(80), 6, 15, 12, 0, 0, 0, time.UTC).Unix()
		if !whole {
			count = 3
			if n := len(at); n > 0 {
				at = at[n-1-r.IntN(min(n, 180)):][:1]
			}
		}
		if whole || r.IntN(10) == 0 {
			at = append(at, calm)
		}
		for _, change := range at {
			n := compareAround(t, r, zone, change, count, whole)
			windows, compared = windows+1, compared+n
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d names of %d zones, %d windows, %d instants compared", len(z.Names()), len(same), windows, compared)
	if windows < len(same)-50 || len(same) < 300 || compared < 10*windows {
		t.Errorf("%d windows, %d instants: not much was compared", windows, compared)
	}
}

// compareAround compares instants within 18 hours of a change with the
// oracle, and gives how many there were.
func compareAround(t *testing.T, r *rand.Rand, zone *Zone, change int64, specs int, whole bool) int {
	t.Helper()
	const around, warmUp = 18 * 3600, 26 * 3600
	from, to := floorDiv(change-around-warmUp, 60)*60, change+around
	step := int64(60)
	for _, at := range []int64{from, change - 1, change, to} {
		if zone.at(at).off%60 != 0 {
			step = 1 // clocks of local mean time: their minutes are not ours
		}
	}
	if step == 1 && !whole {
		return 0
	}
	looks, warm := watch(zone.Location(), from, to, step), change-around
	n := 0
	for range specs {
		spec := randomSpec(r)
		tt := compile(t, spec, zone.Name())
		want := oracleOf(spec, tt).instants(looks, warm, step)
		var got []int64
		for at := warm*nanos - 1; ; {
			next, ok := tt.Next(at)
			if !ok || next >= to*nanos {
				break
			}
			later := next + r.Int64N(30*nanos)
			if following, ok := tt.Next(next); ok {
				later = min(later, following-1)
			}
			if last, ok := tt.Last(later); !ok || last != next {
				t.Errorf("%s in %s: Last finds %s, not %s", spec, zone.Name(), time.Unix(0, last).UTC(), time.Unix(0, next).UTC())
			}
			got, at = append(got, next/nanos), next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s in %s around %s:\n got %v\nwant %v", spec, zone.Name(), time.Unix(change, 0).UTC(), texts(got), texts(want))
		}
		probe(t, r, tt, want, warm, to)
		n += len(got)
	}
	return n
}

// probe asks at any time, also in second passes, where no instant of a fixed
// time leads.
func probe(t *testing.T, r *rand.Rand, tt *Timetable, want []int64, from, to int64) {
	t.Helper()
	for range 20 {
		at := from*nanos + r.Int64N((to-from)*nanos)
		i, exact := slices.BinarySearch(want, floorDiv(at, nanos))
		if exact {
			i++
		}
		if next, ok := tt.Next(at); i < len(want) && (!ok || next != want[i]*nanos) || i == len(want) && ok && next < to*nanos {
			t.Errorf("after %s: %s, of %v", time.Unix(0, at).UTC(), time.Unix(0, next).UTC(), texts(want))
		}
		if last, ok := tt.Last(at); i > 0 && (!ok || last != want[i-1]*nanos) || i == 0 && ok && last >= from*nanos {
			t.Errorf("up to %s: %s, of %v", time.Unix(0, at).UTC(), time.Unix(0, last).UTC(), texts(want))
		}
	}
}

func texts(at []int64) (out []string) {
	for _, a := range at[:min(len(at), 40)] {
		out = append(out, time.Unix(a, 0).UTC().Format("01-02T15:04:05Z"))
	}
	return out
}

// TestAgainstRobfigInUTC compares with an established library where it is
// right: in UTC, and by the first reading, which is its own.
func TestAgainstRobfigInUTC(t *testing.T) {
	zone, err := zones(t).Load("UTC")
	if err != nil {
		t.Fatal(err)
	}
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	rapid.Check(t, func(t *rapid.T) {
		spec := ""
		for i, k := range kinds() {
			if i == dayOfWeek {
				k.hi = 6 // it knows no 7
			}
			spec += drawField(t, k) + " "
		}
		from := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "from"), rapid.Int64Range(0, nanos-1).Draw(t, "ns")).UTC()
		theirs, err := parser.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		s, err := FirstReading.Parse(spec)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := s.Compile(noUUID, zone)
		if err != nil {
			if next := theirs.Next(from); !next.IsZero() {
				t.Fatalf("%s: %v, but %s", spec, err, next)
			}
			return
		}
		for range 10 {
			want := theirs.Next(from)
			got, ok := ours.Next(from.UnixNano())
			if want.IsZero() { // it looks five years ahead
				if ok && got < from.AddDate(5, 0, 0).UnixNano() {
					t.Fatalf("%s after %s: %s, not found by the other", spec, from, time.Unix(0, got).UTC())
				}
				return
			}
			if !ok || got != want.UnixNano() {
				t.Fatalf("%s after %s: %s, want %s", spec, from, time.Unix(0, got).UTC(), want)
			}
			from = want
		}
	})
}

// drawField draws a field that both know.
func drawField(t *rapid.T, k kind) string {
	value := func() int { return rapid.IntRange(k.lo, k.hi).Draw(t, k.name) }
	out := ""
	for i := range rapid.IntRange(1, 3).Draw(t, "items") {
		if i > 0 {
			out += ","
		}
		a, b := value(), value()
		a, b = min(a, b), max(a, b)
		switch rapid.IntRange(0, 5).Draw(t, "form") {
		case 0:
			out += "*"
		case 1:
			out += fmt.Sprintf("*/%d", rapid.IntRange(1, k.hi-k.lo).Draw(t, "step"))
		case 2:
			out += fmt.Sprintf("%d-%d", a, b)
		case 3:
			out += fmt.Sprintf("%d-%d/%d", a, b, rapid.IntRange(1, max(1, b-a)).Draw(t, "step"))
		default:
			out += strconv.Itoa(a)
		}
	}
	return out
}

// TestAnotherDatabase changes the rules of a zone between two instants, by
// taking another zone's: no local time is launched a second time, nor one
// before it, and nothing goes back in time.
func TestAnotherDatabase(t *testing.T) {
	z := zones(t)
	names := z.Names()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		spec, err := Parse(randomSpec(r))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2020+r.IntN(60), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), r.IntN(60), 0, 0, time.UTC).UnixNano()
		shown, last := int64(0), int64(0)
		for range 6 {
			zone, err := z.Load(names[r.IntN(len(names))])
			if err != nil {
				t.Fatal(err)
			}
			tt, err := spec.Compile(noUUID, zone)
			if err != nil || tt.Elapsed() {
				return
			}
			for range r.IntN(40) {
				next, ok := tt.NextUnshown(at, shown)
				if !ok {
					return
				}
				wanted := tt.Describe(next).Wanted
				if next <= at || wanted <= last || wanted <= shown {
					t.Fatalf("%s in %s: %s is launched after %s, at %s", spec, zone.Name(), civil(wanted), civil(last), time.Unix(0, next).UTC())
				}
				at, last, shown = next, wanted, max(shown, tt.Shown(next))
			}
		}
	})
}
