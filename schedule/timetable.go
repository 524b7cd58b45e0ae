package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Horizon is how far a search looks: 40 years. A 29 February on a given day of
// the week can be 40 years away, across 2100.
const Horizon = 40 * 366 * 24 * time.Hour

// Timetable is a specification with all its values picked, in a zone. It does
// not change, so any number may use it.
type Timetable struct {
	calendar calendar
	every    int64 // seconds, 0 for fields
	// elapsed: the hour is written with `*`, so instants follow the clock through
	// gaps and overlaps; otherwise each civil time has one instant.
	elapsed bool
	zone    *Zone
}

// Compile makes the timetable of a schedule: uuid picks the values of `?`, zone
// is where its clock hangs, nil for UTC. A specification that is never due
// returns ErrSpec.
func (s Spec) Compile(uuid [16]byte, zone *Zone) (*Timetable, error) {
	if zone == nil {
		zone = newZone("UTC", time.UTC)
	}
	t := &Timetable{every: int64(s.every / time.Second), zone: zone}
	if t.every > 0 {
		return t, nil
	}
	var sets [fieldCount]uint64
	for i, k := range kinds() {
		if len(s.fields[i].items) == 0 {
			return nil, fault(s.text, "", 0, 0, "it was not parsed")
		}
		for _, it := range s.fields[i].items {
			if it.law != plainly {
				t.calendar.laws.add(it)
				continue
			}
			sets[i] |= it.set(uuid, k.name)
		}
	}
	dow := sets[dayOfWeek]
	dow = (dow | dow>>7) & 0x7f // 7 is Sunday
	t.calendar = calendar{
		second: sets[second], minute: sets[minute], hour: uint32(sets[hour]), dom: uint32(sets[dayOfMonth]),
		month: uint16(sets[month]), dow: uint8(dow), either: s.either(), laws: t.calendar.laws,
	}
	t.elapsed = s.fields[hour].star
	if err := s.checkDays(&t.calendar, uuid); err != nil {
		return nil, err
	}
	return t, nil
}

// either tells whether a day is to match one of its two fields, instead of both.
func (s Spec) either() bool {
	return s.every == 0 && !s.fields[dayOfMonth].free && !s.fields[dayOfWeek].free
}

// checkDays refuses what no month has, such as 31 2. Months come again after 400
// years; one of the first twelve has what most specifications say.
func (s Spec) checkDays(c *calendar, uuid [16]byte) error {
	for y := int64(2000); y < 2400; y++ {
		for m := 1; m <= 12; m++ {
			if c.days(y, m) != 0 {
				return nil
			}
		}
	}
	picked := ""
	if s.Picks() {
		picked = ": ? picked " + s.Resolve(uuid)
	}
	words := split(s.text) // the last three are day-of-month, month, day-of-week
	w := words[len(words)-3]
	return fault(s.text, kinds()[dayOfMonth].name, w.from, w.to, "no month of the specification has such a day, so it is never due%s", picked)
}

// set is the values of an item as bits.
func (it item) set(uuid [16]byte, name string) (set uint64) {
	it = it.picked(uuid, name)
	for v := it.lo; v <= it.hi; v += it.step {
		set |= 1 << v
	}
	return set
}

// picked is the item with the value that its `?` picks.
func (it item) picked(uuid [16]byte, name string) item {
	if !it.pick {
		return it
	}
	n := it.hi - it.lo + 1
	if it.step > 0 {
		n = min(n, it.step)
	}
	it.lo += pick(uuid, name, n)
	if it.step == 0 || it.lo+it.step > it.hi { // one value is left: a step beside it would not be read
		it.hi, it.step = it.lo, 1
	}
	it.pick = false
	return it
}

// String is an item without `?`, as it is written.
func (it item) String() string {
	text := strconv.Itoa(it.lo)
	switch {
	case it.law != plainly:
		return it.lawText()
	case it.star:
		text = "*"
	case it.hi != it.lo:
		text += "-" + strconv.Itoa(it.hi)
	}
	if it.step > 1 {
		text += "/" + strconv.Itoa(it.step)
	}
	return text
}

// Resolve writes the specification with the values that uuid picks for `?`, as
// five or six fields with numbers for names. What has no `?` is as it was
// written.
func (s Spec) Resolve(uuid [16]byte) string {
	if !s.Picks() {
		return s.text
	}
	var out []string
	if s.zone != "" {
		out = append(out, "CRON_TZ="+s.zone)
	}
	for i, k := range kinds() {
		if i == second && s.five {
			continue
		}
		var list []string
		for _, it := range s.fields[i].items {
			list = append(list, it.picked(uuid, k.name).String())
		}
		out = append(out, strings.Join(list, ","))
	}
	return strings.Join(out, " ")
}

// pick chooses one of n values for a field of a schedule: the first 64 bits of
// SHA-256 over a label, the UUID and the name of the field, scaled to n
// (Lemire, "Fast Random Integer Generation in an Interval"). It is part of the
// contract: another choice would move every launch.
func pick(uuid [16]byte, name string, n int) int {
	sum := sha256.Sum256(append(append([]byte("norn schedule ?"), uuid[:]...), name...))
	hi, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), uint64(n))
	return int(hi)
}

// Zone is the zone of the timetable.
func (t *Timetable) Zone() *Zone { return t.zone }

// Elapsed tells whether instants follow elapsed time: @every, and hours written
// with `*`. Otherwise each civil time has at most one instant.
func (t *Timetable) Elapsed() bool { return t.every > 0 || t.elapsed }

const (
	nanos   = int64(time.Second)
	horizon = int64(Horizon / time.Second)
)

// instant is a number of seconds as wall ns, and whether it can be told.
func instant(seconds int64, ok bool) (int64, bool) {
	if !ok || seconds > math.MaxInt64/nanos || seconds < math.MinInt64/nanos {
		return 0, false
	}
	return seconds * nanos, true
}

// Next is the first instant after one, in wall ns; false when there is none
// within the Horizon or before the year 2262.
func (t *Timetable) Next(after int64) (int64, bool) {
	return t.NextUnshown(after, math.MinInt64)
}

// NextUnshown is Next without civil times up to shown, which have been launched
// under another tz database: no local date is launched twice (design 10).
// Timetables that follow elapsed time name instants, and ignore it.
func (t *Timetable) NextUnshown(after, shown int64) (int64, bool) {
	s := floorDiv(after, nanos)
	switch {
	case t.every > 0:
		return instant((floorDiv(s, t.every)+1)*t.every, true)
	case t.elapsed:
		return instant(t.nextReading(s+1, s+horizon))
	}
	_, at, ok := t.nextSlot(max(t.zone.shown(s), shown)+1, s+horizon)
	return instant(at, ok)
}

// Last is the last instant up to one, in wall ns; false when there is none
// within the Horizon or after the year 1677.
func (t *Timetable) Last(upTo int64) (int64, bool) {
	s := floorDiv(upTo, nanos)
	switch {
	case t.every > 0:
		return instant(floorDiv(s, t.every)*t.every, true)
	case t.elapsed:
		return instant(t.lastReading(s, s-horizon))
	}
	return instant(t.lastSlot(t.zone.shown(s), s-horizon))
}

// Count is how many instants lie after one and up to another, counted up to a
// limit: its cost is that of as many calls of Next.
func (t *Timetable) Count(after, upTo int64, limit int) int {
	n := 0
	for n < limit {
		at, ok := t.Next(after)
		if !ok || at > upTo {
			break
		}
		n, after = n+1, at
	}
	return n
}

// Shown is the latest civil second that clocks of the zone have shown up to an
// instant in wall ns.
func (t *Timetable) Shown(at int64) int64 { return t.zone.shown(floorDiv(at, nanos)) }

// nextReading is the first second from one on, before a limit, at which the
// clock shows a matching time.
func (t *Timetable) nextReading(from, limit int64) (int64, bool) {
	for from < limit {
		s := t.zone.at(from)
		civil, ok := t.calendar.next(from+s.off, min(s.end, limit)+s.off)
		if ok {
			return civil - s.off, true
		}
		from = s.end
	}
	return 0, false
}

// lastReading is the last second up to one, after a limit, at which the clock
// shows a matching time.
func (t *Timetable) lastReading(upTo, limit int64) (int64, bool) {
	for upTo > limit {
		s := t.zone.at(upTo)
		civil, ok := t.calendar.prev(upTo+s.off, max(s.start-1, limit)+s.off)
		if ok {
			return civil - s.off, true
		}
		upTo = s.start - 1
	}
	return 0, false
}

// nextSlot is the first civil time from one on that matches and whose date the
// zone has, and its instant.
func (t *Timetable) nextSlot(from, limit int64) (civil, at int64, ok bool) {
	for {
		if civil, ok = t.calendar.next(from, limit); !ok {
			return 0, 0, false
		}
		at = t.zone.first(civil)
		if !t.zone.lacks(civil, at) {
			return civil, at, true
		}
		from = (floorDiv(civil, daySeconds) + 1) * daySeconds
	}
}

// lastSlot is the instant of the last civil time up to one that matches and
// whose date the zone has.
func (t *Timetable) lastSlot(upTo, limit int64) (int64, bool) {
	for {
		civil, ok := t.calendar.prev(upTo, limit)
		if !ok {
			return 0, false
		}
		at := t.zone.first(civil)
		if !t.zone.lacks(civil, at) {
			return at, true
		}
		upTo = floorDiv(civil, daySeconds)*daySeconds - 1
	}
}

// Equal tells whether two timetables have the same instants for the same
// reason: values and name of the zone.
func (t *Timetable) Equal(o *Timetable) bool {
	return t.calendar == o.calendar && t.every == o.every && t.elapsed == o.elapsed && t.zone.name == o.zone.name
}
