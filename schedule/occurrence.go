package schedule

import (
	"fmt"
	"time"
)

// Passage says how an instant and its civil time meet.
type Passage uint8

// Passages.
const (
	// Plain is a civil time that comes once.
	Plain Passage = iota
	// Jumped is the instant of a jump over the civil time that was wanted.
	Jumped
	// FirstPass is a civil time that will come again, because the clock is going
	// to be set back.
	FirstPass
	// SecondPass is one that has come before.
	SecondPass
)

// Occurrence is one instant with what clocks of its zone show.
type Occurrence struct {
	// At is the instant in wall ns.
	At int64
	// Civil is the civil second that clocks show at it.
	Civil int64
	// Wanted is the civil second of the specification: before Civil when Passage
	// is Jumped, else Civil.
	Wanted int64
	// Offset is how far clocks are ahead of UTC, in seconds, and Before how far
	// they were at the occurrence before.
	Offset, Before int64
	// Zone is the zone's abbreviation, such as CEST.
	Zone string
	// Passage says whether a change of the clock is near.
	Passage Passage
	// Lacking is a matching civil second, since the occurrence before, of a date
	// that the zone does not have; HasLacking tells whether there is one.
	Lacking    int64
	HasLacking bool
}

// Describe tells about an instant that Next or Last gave.
func (t *Timetable) Describe(at int64) Occurrence {
	second := floorDiv(at, nanos)
	now := t.zone.at(second)
	civil := second + now.off
	name, _ := time.Unix(second, 0).In(t.zone.loc).Zone()
	o := Occurrence{At: at, Civil: civil, Wanted: civil, Offset: now.off, Before: now.off, Zone: name}
	last, ok := t.Last(at - 1)
	if ok {
		o.Before = t.zone.at(floorDiv(last, nanos)).off
	}
	if t.every > 0 {
		return o
	}
	if !t.elapsed {
		if wanted, _, found := t.nextSlot(t.zone.shown(second-1)+1, civil+1); found {
			o.Wanted = wanted
		}
		if ok {
			o.Lacking, o.HasLacking = t.lacking(t.zone.shown(floorDiv(last, nanos))+1, o.Wanted)
		}
	}
	switch {
	case o.Wanted < civil:
		o.Passage = Jumped
	case t.zone.shown(second-1) >= civil:
		o.Passage = SecondPass
	case t.zone.again(civil, now):
		o.Passage = FirstPass
	}
	return o
}

// lacking is the first matching civil second from one on, up to another, whose
// date the zone does not have.
func (t *Timetable) lacking(from, to int64) (int64, bool) {
	for {
		civil, ok := t.calendar.next(from, to)
		if !ok {
			return 0, false
		}
		if t.zone.lacks(civil, t.zone.first(civil)) {
			return civil, true
		}
		from = (floorDiv(civil, daySeconds) + 1) * daySeconds
	}
}

// again tells whether a civil second is shown once more after a stretch.
func (z *Zone) again(civil int64, s stretch) bool {
	for t := s.end; t < civil+lookBack; {
		next := z.at(t)
		if next.start+next.off <= civil && civil < next.end+next.off {
			return true
		}
		t = next.end
	}
	return false
}

// Time is the instant in its zone.
func (o Occurrence) Time() time.Time {
	return time.Unix(0, o.At).In(time.FixedZone(o.Zone, int(o.Offset)))
}

// Local is the civil time of the occurrence, such as 2026-03-29T03:00:00.
func (o Occurrence) Local() string { return o.Time().Format("2006-01-02T15:04:05") }

// Note says in words what is special about the occurrence, "" when nothing is.
func (o Occurrence) Note() string {
	note := ""
	add := func(format string, args ...any) {
		if note != "" {
			note += "; "
		}
		note += fmt.Sprintf(format, args...)
	}
	if o.HasLacking {
		add("the zone has no %s, so that date has no launch", civil(o.Lacking).Format(time.DateOnly))
	}
	if o.Before != o.Offset {
		add("the offset was %s before", OffsetText(o.Before))
	}
	switch o.Passage {
	case Jumped:
		add("the clock leaves out %s; this is the jump", clockText(o.Wanted))
	case FirstPass:
		add("%s comes twice; this is the first", clockText(o.Civil))
	case SecondPass:
		add("%s comes twice; this is the second", clockText(o.Civil))
	}
	return note
}

// civil is a civil second for package time.
func civil(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

// clockText is the time of day of a civil second, without seconds when they
// are 0.
func clockText(seconds int64) string {
	if seconds%60 == 0 {
		return civil(seconds).Format("15:04")
	}
	return civil(seconds).Format(time.TimeOnly)
}

// OffsetText writes an offset as +01:00, with seconds when it has some.
func OffsetText(seconds int64) string {
	sign := '+'
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	text := fmt.Sprintf("%c%02d:%02d", sign, seconds/3600, seconds/60%60)
	if seconds%60 != 0 {
		text += fmt.Sprintf(":%02d", seconds%60)
	}
	return text
}
