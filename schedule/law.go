package schedule

import (
	"math/bits"
	"strconv"
	"strings"
)

// law says which days an item names where they depend on the month.
type law uint8

const (
	plainly     law = iota // lo, lo+step, …
	lastDay                // L: the last day of the month
	lastWorkday            // LW: the last one from Monday to Friday
	nearWorkday            // 15W: the one of those nearest to day lo of the month
	nth                    // FRI#2: weekday lo for the step-th time in the month
	nthLast                // FRI#L: weekday lo for the last time in the month
)

// maxNth is how often a weekday can be in a month.
const maxNth = 5

// lawText is an item as it is written, with numbers for names.
func (it item) lawText() string {
	n := strconv.Itoa(it.lo)
	switch it.law {
	case lastDay:
		return "L"
	case lastWorkday:
		return "LW"
	case nearWorkday:
		return n + "W"
	case nth:
		return n + "#" + strconv.Itoa(it.step)
	}
	return n + "#L"
}

// lawful are the days of laws, as sets of bits.
type lawful struct {
	last, lastWork bool
	near           uint32           // days of the month that a workday is to be near to
	nth            [1 + maxNth]byte // weekdays: the last ones of the month, the first ones, the second ones, …
}

// add takes an item in.
func (l *lawful) add(it item) {
	switch it.law {
	case lastDay:
		l.last = true
	case lastWorkday:
		l.lastWork = true
	case nearWorkday:
		l.near |= 1 << it.lo
	case nth:
		l.nth[it.step] |= 1 << (it.lo % 7)
	case nthLast:
		l.nth[0] |= 1 << (it.lo % 7)
	}
}

// ofMonth are the days of L, LW and 15W in a month of n days whose first is a weekday.
func (l *lawful) ofMonth(weekday uint, n int) (set uint64) {
	if l.last {
		set |= 1 << n
	}
	if l.lastWork {
		set |= 1 << workday(weekday, n, n)
	}
	for near := l.near; near != 0; near &= near - 1 {
		if d := bits.TrailingZeros32(near); d <= n { // a month without the day has none near it
			set |= 1 << workday(weekday, n, d)
		}
	}
	return set
}

// workday is the day from Monday to Friday that is nearest to day d of the same month:
// for a Saturday the day before and for a Sunday the day after, where the month has it.
func workday(weekday uint, n, d int) int {
	switch (int(weekday) + d - 1) % 7 {
	case 6: // Saturday
		if d == 1 {
			return d + 2
		}
		return d - 1
	case 0: // Sunday
		if d == n {
			return d - 2
		}
		return d + 1
	}
	return d
}

// ofWeek are the days of FRI#2 and FRI#L in a month of n days whose first is a weekday.
func (l *lawful) ofWeek(weekday uint, n int) (set uint64) {
	for k := 1; k <= maxNth; k++ {
		set |= turned(l.nth[k], weekday) << (7*(k-1) + 1)
	}
	return set | turned(l.nth[0], (weekday+uint(n)-7)%7)<<(n-6) // its last seven days
}

// lawful reads text[from:to] if it names days by a law.
func (r reader) lawful(from, to int) (it item, ok bool, err error) {
	text := r.text[from:to]
	switch {
	case r.by == FirstReading: // which knows none
	case r.kind.name == "day-of-month":
		return r.lawOfMonth(text, from, to)
	case r.kind.name == "day-of-week":
		return r.lawOfWeek(text, from, to)
	}
	return item{}, false, nil
}

func (r reader) lawOfMonth(text string, from, to int) (it item, ok bool, err error) {
	low := lowered(text)
	day, near := strings.CutSuffix(low, "w")
	_, numbered := digits(day)
	switch {
	case low == "l":
		return item{law: lastDay}, true, nil
	case low == "lw":
		return item{law: lastWorkday}, true, nil
	case near && numbered:
		it = item{law: nearWorkday}
		it.lo, err = r.value(from, to-1)
		return it, err == nil, err
	case strings.ContainsAny(low, "lw") && strings.Trim(low, "lw-/0123456789") == "":
		return item{}, false, r.fault(from, to, "%s is not known; L is the last day of the month, LW the last one from Monday to Friday,"+
			" 15W the one of these nearest to the 15th, all without a step or a range", quoted(text))
	}
	return item{}, false, nil
}

func (r reader) lawOfWeek(text string, from, to int) (it item, ok bool, err error) {
	day, which, ok := strings.Cut(text, "#")
	low := lowered(text)
	last, ends := strings.CutSuffix(low, "l")
	switch {
	case !ok && low == "l":
		return item{}, false, r.fault(from, to, "L alone is for day-of-month; the last Friday of a month is FRI#L")
	case !ok && ends && r.isDay(last):
		return item{}, false, r.fault(from, to, "%s is not known; the last Friday of a month is FRI#L", quoted(text))
	case !ok:
		return item{}, false, nil
	case !r.isDay(day):
		return item{}, false, r.fault(from, from+len(day), "%s is not one weekday before #, such as FRI#2 or FRI#L", quoted(day))
	}
	if it.lo, err = r.value(from, from+len(day)); err != nil {
		return item{}, false, err
	}
	if alike(which, "L") {
		it.law = nthLast
		return it, true, nil
	}
	it.law = nth
	if it.step, ok = digits(which); !ok || it.step < 1 || it.step > maxNth {
		return item{}, false, r.fault(from+len(day)+1, to, "%s is not a number from 1 to %d, or L for the last", quoted(which), maxNth)
	}
	return it, true, nil
}

// isDay tells whether a text is a value of the field.
func (r reader) isDay(text string) bool {
	if n, ok := digits(text); ok {
		return n <= r.kind.hi
	}
	for _, name := range r.kind.aliases {
		if alike(text, name) {
			return true
		}
	}
	return false
}
