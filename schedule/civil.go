package schedule

import "math/bits"

const daySeconds = 24 * 60 * 60

// calendar is which civil times match, as sets of bits.
type calendar struct {
	second, minute uint64
	hour, dom      uint32
	month          uint16
	dow            uint8
	either         bool // day-of-month or day-of-week, instead of both
	laws           lawful
}

// civilDate gives the date of a day counted from 1970-01-01, by the
// proleptic Gregorian calendar (Hinnant, "chrono-compatible low-level date
// algorithms").
func civilDate(day int64) (y int64, m, d int) {
	z := day + 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = int(doy - (153*mp+2)/5 + 1)
	m = int(mp + 3)
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

// dayOf is the inverse of civilDate.
func dayOf(y int64, m, d int) int64 {
	if m <= 2 {
		y--
		m += 12
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := int64((153*(m-3)+2)/5 + d - 1)
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

func monthDays(y int64, m int) int {
	switch m {
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// floorDiv is a/b towards minus infinity, for b over 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// days is the set of days of a month that match: bit d is day d.
func (c *calendar) days(y int64, m int) uint64 {
	if c.month>>m&1 == 0 {
		return 0
	}
	n := monthDays(y, m)
	weekday := uint((dayOf(y, m, 1)%7 + 11) % 7) // of day 1; 1970-01-01 was a Thursday
	week := turned(c.dow, weekday)
	byWeek := (week | week<<7 | week<<14 | week<<21 | week<<28) << 1
	byMonth := uint64(c.dom)
	if c.laws != (lawful{}) {
		byMonth |= c.laws.ofMonth(weekday, n)
		byWeek |= c.laws.ofWeek(weekday, n)
	}
	set := byWeek & byMonth
	if c.either {
		set = byWeek | byMonth
	}
	return set & (1<<(n+1) - 2)
}

// turned is a set of weekdays as days that follow one: bit 0 is the day that falls
// on the weekday, bit 6 the sixth after it.
func turned(week uint8, weekday uint) uint64 {
	w := uint64(week)
	return (w>>weekday | w<<(7-weekday)) & 0x7f
}

// nextDay is the first matching day from a day on, and before a limit.
func (c *calendar) nextDay(day, limit int64) (int64, bool) {
	y, m, d := civilDate(day)
	for {
		if set := c.days(y, m) >> d << d; set != 0 {
			day = dayOf(y, m, bits.TrailingZeros64(set))
			return day, day < limit
		}
		d = 1
		if m++; m > 12 {
			y, m = y+1, 1
		}
		if dayOf(y, m, 1) >= limit {
			return 0, false
		}
	}
}

// prevDay is the last matching day up to a day, and after a limit.
func (c *calendar) prevDay(day, limit int64) (int64, bool) {
	y, m, d := civilDate(day)
	for {
		if set := c.days(y, m) & (1<<(d+1) - 1); set != 0 {
			day = dayOf(y, m, 63-bits.LeadingZeros64(set))
			return day, day > limit
		}
		if m--; m < 1 {
			y, m = y-1, 12
		}
		d = 31
		if dayOf(y, m, monthDays(y, m)) <= limit {
			return 0, false
		}
	}
}

// next is the first civil second from one on that matches, and whether there
// is one before a limit.
func (c *calendar) next(civil, limit int64) (int64, bool) {
	day := floorDiv(civil, daySeconds)
	first, ok := c.nextDay(day, floorDiv(limit, daySeconds)+1)
	if !ok {
		return 0, false
	}
	at := int64(-1)
	if first == day {
		at = c.nextTime(civil - day*daySeconds)
	}
	if at < 0 {
		if first == day {
			if first, ok = c.nextDay(day+1, floorDiv(limit, daySeconds)+1); !ok {
				return 0, false
			}
		}
		at = c.nextTime(0)
	}
	at += first * daySeconds
	return at, at < limit
}

// prev is the last civil second up to one that matches, and whether there is
// one after a limit.
func (c *calendar) prev(civil, limit int64) (int64, bool) {
	day := floorDiv(civil, daySeconds)
	last, ok := c.prevDay(day, floorDiv(limit, daySeconds)-1)
	if !ok {
		return 0, false
	}
	at := int64(-1)
	if last == day {
		at = c.prevTime(civil - day*daySeconds)
	}
	if at < 0 {
		if last == day {
			if last, ok = c.prevDay(day-1, floorDiv(limit, daySeconds)-1); !ok {
				return 0, false
			}
		}
		at = c.prevTime(daySeconds - 1)
	}
	at += last * daySeconds
	return at, at > limit
}

// nextTime is the first matching second of a day from one on, -1 when the day
// has none left.
func (c *calendar) nextTime(from int64) int64 {
	h, m, s := from/3600, from/60%60, from%60
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if set := c.second >> s << s; set != 0 {
				return h*3600 + m*60 + int64(bits.TrailingZeros64(set))
			}
		}
		if set := c.minute >> (m + 1) << (m + 1); set != 0 {
			return h*3600 + int64(bits.TrailingZeros64(set))*60 + int64(bits.TrailingZeros64(c.second))
		}
	}
	set := c.hour >> (h + 1) << (h + 1)
	if set == 0 {
		return -1
	}
	return int64(bits.TrailingZeros32(set))*3600 + int64(bits.TrailingZeros64(c.minute))*60 + int64(bits.TrailingZeros64(c.second))
}

// prevTime is the last matching second of a day up to one, -1 when the day has
// none before.
func (c *calendar) prevTime(to int64) int64 {
	top := func(set uint64) int64 { return int64(63 - bits.LeadingZeros64(set)) }
	h, m, s := to/3600, to/60%60, to%60
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if set := c.second & (1<<(s+1) - 1); set != 0 {
				return h*3600 + m*60 + top(set)
			}
		}
		if set := c.minute & (1<<m - 1); set != 0 {
			return h*3600 + top(set)*60 + top(c.second)
		}
	}
	set := c.hour & (1<<h - 1)
	if set == 0 {
		return -1
	}
	return top(uint64(set))*3600 + top(c.minute)*60 + top(c.second)
}
