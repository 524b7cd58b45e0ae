package schedule

import (
	"strconv"
	"strings"
)

// Fields, in the order of six-field specifications.
const (
	second = iota
	minute
	hour
	dayOfMonth
	month
	dayOfWeek
	fieldCount
)

// kind is what a field can hold.
type kind struct {
	name    string
	lo, hi  int
	pickHi  int      // the highest value `?` picks by itself
	aliases []string // of lo, lo+1, …
}

// maxPickedDay is the last day of the month that a bare `?` picks: every month
// has it, so that what is to run monthly does.
const maxPickedDay = 28

func kinds() [fieldCount]kind {
	return [fieldCount]kind{
		second:     {name: "second", lo: 0, hi: 59, pickHi: 59},
		minute:     {name: "minute", lo: 0, hi: 59, pickHi: 59},
		hour:       {name: "hour", lo: 0, hi: 23, pickHi: 23},
		dayOfMonth: {name: "day-of-month", lo: 1, hi: 31, pickHi: maxPickedDay},
		month:      {name: "month", lo: 1, hi: 12, pickHi: 12, aliases: monthNames()},
		dayOfWeek:  {name: "day-of-week", lo: 0, hi: 7, pickHi: 6, aliases: dayNames()}, // 7 is Sunday too
	}
}

func monthNames() []string {
	return []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
}

func dayNames() []string { return []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"} }

// item is one of a list: the values lo, lo+step, … up to hi. With pick, the
// first is chosen by hash: among all of lo..hi when step is 0, else among the
// first step values. With a law it is days that depend on the month: see law.
type item struct {
	lo, hi, step int
	pick, star   bool
	law          law
}

// field is one field as it was written.
type field struct {
	items []item
	star  bool // it has a `*`: the hour follows elapsed time
	free  bool // of a day: it is a star, and does not make the other field a choice
}

// reader reads the items of one field.
type reader struct {
	text string // the whole specification
	kind kind
	by   Reading
}

func (r reader) fault(from, to int, format string, args ...any) error {
	return fault(r.text, r.kind.name, from, to, format, args...)
}

// read reads text[from:to].
func (r reader) read(from, to int) (field, error) {
	var f field
	for {
		end := to
		if i := strings.IndexByte(r.text[from:to], ','); i >= 0 {
			end = from + i
		}
		if from == end {
			return field{}, r.fault(from, from+1, "a value is missing before or after a comma")
		}
		it, err := r.item(from, end)
		if err != nil {
			return field{}, err
		}
		f.items = append(f.items, it)
		f.star = f.star || it.star
		switch {
		case r.by == FirstReading:
			f.free = f.free || it.star && it.step == 1
		case len(f.items) == 1:
			f.free = it.star
		}
		if end == to {
			return f, nil
		}
		from = end + 1
	}
}

// item reads one item of a list.
func (r reader) item(from, to int) (it item, err error) {
	if it, ok, err := r.lawful(from, to); ok || err != nil {
		return it, err
	}
	base, step := to, 0
	if i := strings.IndexByte(r.text[from:to], '/'); i >= 0 {
		base = from + i
		if step, err = r.step(base+1, to); err != nil {
			return item{}, err
		}
	}
	switch text := r.text[from:base]; {
	case text == "*":
		it = item{lo: r.kind.lo, hi: r.top(), step: max(step, 1), star: true}
	case strings.HasPrefix(text, "?"):
		it, err = r.pick(from, base, step)
	default:
		it, err = r.span(from, base)
		if it.lo == it.hi && step > 0 && !strings.Contains(text, "-") {
			it.hi = max(r.top(), it.lo) // 5/15 is 5-59/15
		}
		if it.step = max(step, 1); it.lo == it.hi {
			it.step = 1 // of a stored JAN-JAN/2, which is JAN: 1/2 would be every second month
		}
	}
	if err != nil {
		return item{}, err
	}
	switch n := it.hi - it.lo + 1; {
	case step < n || step <= 1:
	case n > 1:
		return item{}, r.fault(base+1, to, "a step of %d leaves one of the %d values from %d to %d; write the value instead", step, n, it.lo, it.hi)
	case r.by != FirstReading:
		return item{}, r.fault(base+1, to, "a step of %d says nothing where %d is the only value; write the value alone", step, it.lo)
	}
	return it, nil
}

// top is the highest value that is not another name of one before.
func (r reader) top() int {
	if r.kind.name == "day-of-week" {
		return 6
	}
	return r.kind.hi
}

func (r reader) step(from, to int) (int, error) {
	n, ok := digits(r.text[from:to])
	switch {
	case from == to:
		return 0, r.fault(from-1, from, "a step is missing after /")
	case !ok:
		return 0, r.fault(from, to, "%s is not a step, a number from 1", quoted(r.text[from:to]))
	case n == 0:
		return 0, r.fault(from, to, "a step of 0 never ends; the smallest is 1")
	}
	return n, nil
}

// pick reads `?` or `?(a-b)`.
func (r reader) pick(from, to, step int) (item, error) {
	it := item{lo: r.kind.lo, hi: r.kind.pickHi, step: step, pick: true}
	rest := r.text[from+1 : to]
	if rest == "" {
		if step > 0 {
			it.hi = r.top()
		}
		return it, nil
	}
	if len(rest) < 2 || rest[0] != '(' || rest[len(rest)-1] != ')' || !strings.Contains(rest, "-") {
		return item{}, r.fault(from, to, "%s is not ? or a range such as ?(%d-%d)", quoted(r.text[from:to]), r.kind.lo, r.top())
	}
	in, err := r.span(from+2, to-1)
	if err != nil {
		return item{}, err
	}
	it.lo, it.hi = in.lo, in.hi
	return it, nil
}

// span reads a value or a range.
func (r reader) span(from, to int) (item, error) {
	cut := strings.IndexByte(r.text[from:to], '-')
	if cut < 0 {
		v, err := r.value(from, to)
		return item{lo: v, hi: v}, err
	}
	lo, err := r.value(from, from+cut)
	if err != nil {
		return item{}, err
	}
	hi, err := r.value(from+cut+1, to)
	if err != nil {
		return item{}, err
	}
	if hi == 0 && lo > 0 && r.kind.name == "day-of-week" {
		hi = 7 // FRI-SUN
	}
	if lo > hi {
		a, b := r.text[from:from+cut], r.text[from+cut+1:to]
		if lo > r.top() {
			return item{}, r.fault(from, to, "the range ends before it begins; 7 is Sunday as 0 is, and first in a range: %d-%s", r.kind.lo, b)
		}
		return item{}, r.fault(from, to, "the range ends before it begins; over the end and on is two ranges: %s-%d,%d-%s", a, r.top(), r.kind.lo, b)
	}
	return item{lo: lo, hi: hi}, nil
}

// value reads a number or a name.
func (r reader) value(from, to int) (int, error) {
	text := r.text[from:to]
	n, ok := digits(text)
	switch {
	case text == "":
		return 0, r.fault(from, from+1, "a value is missing")
	case ok && n >= r.kind.lo && n <= r.kind.hi:
		return n, nil
	case ok && n >= 1970 && n <= 2199:
		return 0, r.fault(from, to, "%s is not from %d to %d; years are not known here", quoted(text), r.kind.lo, r.kind.hi)
	case ok:
		return 0, r.fault(from, to, "%s is not from %d to %d", quoted(text), r.kind.lo, r.kind.hi)
	}
	for i, name := range r.kind.aliases {
		if alike(text, name) {
			return r.kind.lo + i, nil
		}
	}
	return 0, r.fault(from, to, "%s%s", r.stranger(text), nearest(text, r.kind.aliases))
}

// stranger says what a text is that is no value of the field.
func (r reader) stranger(text string) string {
	for i, other := range [][]string{monthNames(), dayNames()} {
		for _, name := range other {
			if alike(text, name) && len(r.kind.aliases) != len(other) {
				return quoted(text) + " is a " + [2]string{"month", "day of the week"}[i]
			}
		}
	}
	what := " is not a number from " + strconv.Itoa(r.kind.lo) + " to " + strconv.Itoa(r.kind.hi)
	if len(r.kind.aliases) > 0 {
		what += " or a name such as " + r.kind.aliases[1]
	}
	switch {
	case text == "H" || text == "~":
		what += "; any value is written ?"
	case strings.Contains(text, "#"):
		what += "; # is for day-of-week, such as FRI#2"
	case len(text) <= 4 && strings.Trim(lowered(text), "lw0123456789") == "":
		what += "; L, LW and 15W are for day-of-month, and FRI#L for day-of-week"
	}
	return quoted(text) + what
}

// digits reads a number of at most four digits: no field needs more.
func digits(s string) (int, bool) {
	if s == "" || len(s) > 4 {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// lowered is a text with its ASCII letters in lower case. Unicode would take ſ for s.
func lowered(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, text)
}

// alike tells whether two texts differ at most in the case of ASCII letters.
func alike(a, b string) bool { return len(a) == len(b) && lowered(a) == lowered(b) }

// quoted shows text from outside, not too much of it.
func quoted(s string) string {
	if len(s) > maxNear {
		s = s[:maxNear] + "…"
	}
	return strconv.Quote(s)
}
