package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxSpec is the longest specification in bytes: six lists of all values of
// their fields take less.
const MaxSpec = 1024

// Limits of @every. Below a second there are queues; what is due less than once
// in a search is never seen.
const (
	MinEvery = time.Second
	MaxEvery = Horizon
)

// Reading is by which rules a specification is read. A stored schedule keeps its
// own until it is set again, so that all masters agree on its instants.
type Reading uint8

// Readings.
const (
	// FirstReading: a day field says nothing where it has a `*` without a step, so
	// `*/2` is given. There is no L, W or #. A step may leave one value, where a range
	// has no more.
	FirstReading Reading = iota
	// Current is cron(5)'s: a day field that begins with `*`, also `*/2`, is a star,
	// and a day must match both fields unless neither is one.
	Current
)

// ErrReading is returned when a specification is to be read by rules that this
// build does not know.
var ErrReading = errors.New("schedule: the specification is read by rules that this build does not know; a newer one does")

// Spec is a specification as it was written. The zero Spec is not valid.
type Spec struct {
	text   string
	zone   string
	by     Reading
	every  time.Duration // over 0: fields are not used
	five   bool          // without a field of seconds
	fields [fieldCount]field
}

// String is the text that was read.
func (s Spec) String() string { return s.text }

// ZoneName is the time zone that CRON_TZ= names, "" without one.
func (s Spec) ZoneName() string { return s.zone }

// Every is the period of an @every specification, 0 of others.
func (s Spec) Every() time.Duration { return s.every }

// LoadZone gives the zone of a schedule: the one that CRON_TZ= names, else tz,
// else UTC. Both may name the same; two zones, and an unknown one in CRON_TZ=,
// are a [*SpecError]. An unknown tz returns ErrZone.
func (s Spec) LoadZone(z *Zones, tz string) (*Zone, error) {
	if s.zone == "" {
		return z.Load(tz)
	}
	w := split(s.text)[0]
	if tz != "" && tz != s.zone {
		return nil, fault(s.text, "", w.from, w.to, "the schedule's time zone is %s already; a schedule has one", quoted(tz))
	}
	zone, err := z.Load(s.zone)
	if err == nil {
		return zone, nil
	}
	bad := fault(s.text, "", w.from, w.to, "%s", strings.TrimPrefix(err.Error(), "schedule: "))
	bad.Cause = ErrZone
	return nil, bad
}

// Picks tells whether the specification has a `?`, so that its instants depend
// on the UUID of its schedule.
func (s Spec) Picks() bool {
	for _, f := range s.fields {
		for _, it := range f.items {
			if it.pick {
				return true
			}
		}
	}
	return false
}

// macros are short forms and what they stand for, in alphabetical order.
func macros() (names []string, meaning map[string]string) {
	names = []string{"@annually", "@daily", "@every", "@hourly", "@midnight", "@monthly", "@weekly", "@yearly"}
	return names, map[string]string{
		"@annually": "0 0 1 1 *", "@yearly": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}
}

// Parse reads a new specification, by the rules that hold now.
func Parse(text string) (Spec, error) { return Current.Parse(text) }

// Parse reads a specification. Errors are [*SpecError]s, or ErrReading. Whether the
// zone of CRON_TZ= is known is not checked here: see [Zones.Load].
func (by Reading) Parse(text string) (Spec, error) {
	if by > Current {
		return Spec{}, fmt.Errorf("%w (%d)", ErrReading, by)
	}
	if len(text) > MaxSpec {
		return Spec{}, fault(text[:1], "", 0, 1, "%d bytes are over the limit of %d", len(text), MaxSpec)
	}
	s := Spec{text: text, by: by}
	words := split(text)
	if len(words) > 0 {
		name, zone, ok := strings.Cut(text[words[0].from:words[0].to], "=")
		if ok && (name == "CRON_TZ" || name == "TZ") {
			if zone == "" {
				return Spec{}, fault(text, "", words[0].from, words[0].to, "a time zone is missing after %s=", name)
			}
			s.zone, words = zone, words[1:]
		}
	}
	if len(words) == 0 {
		return Spec{}, fault(text, "", len(text), len(text), "there are no fields; write minute hour day-of-month month day-of-week, such as 30 2 * * *")
	}
	if text[words[0].from] == '@' {
		return s.short(words)
	}
	read, err := s.read(text, words)
	var bad *SpecError
	if errors.As(err, &bad) {
		bad.Reason += foreignHint(text, words)
	}
	return read, err
}

// word is a word of a text, in bytes.
type word struct{ from, to int }

// split finds the words between blanks and tabs.
func split(text string) (out []word) {
	for i := 0; i < len(text); i++ {
		if text[i] == ' ' || text[i] == '\t' {
			continue
		}
		w := word{from: i}
		for i < len(text) && text[i] != ' ' && text[i] != '\t' {
			i++
		}
		w.to = i
		out = append(out, w)
	}
	return out
}

// short reads @daily and the like.
func (s Spec) short(words []word) (Spec, error) {
	w, last := words[0], words[len(words)-1]
	name := s.text[w.from:w.to]
	names, meaning := macros()
	switch {
	case name == "@every" && len(words) == 2:
		return s.period(words[1])
	case name == "@every":
		return Spec{}, fault(s.text, "", w.from, last.to, "@every takes one duration, such as @every 90s")
	case meaning[name] == "" && name == "@reboot":
		return Spec{}, fault(s.text, "", w.from, w.to, "a cluster does not reboot; enqueue the task where the event is")
	case meaning[name] == "":
		return Spec{}, fault(s.text, "", w.from, w.to, "%s is none of %s%s", quoted(name), strings.Join(names, ", "), nearest(name, names))
	case len(words) > 1:
		return Spec{}, fault(s.text, "", words[1].from, last.to, "nothing follows %s", name)
	}
	stands, err := s.read(meaning[name], split(meaning[name]))
	stands.text = s.text
	return stands, err
}

// period reads the duration of @every.
func (s Spec) period(w word) (Spec, error) {
	text := s.text[w.from:w.to]
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok && err != nil {
		if n, ok := digits(days); ok {
			d, err = time.Duration(n)*24*time.Hour, nil
		}
	}
	switch {
	case err != nil:
		return Spec{}, fault(s.text, "@every", w.from, w.to, "%s is not a duration such as 90s, 15m, 2h30m or 7d", quoted(text))
	case d < MinEvery:
		return Spec{}, fault(s.text, "@every", w.from, w.to, "%s is under the limit of %s", quoted(text), MinEvery)
	case d > MaxEvery:
		return Spec{}, fault(s.text, "@every", w.from, w.to, "%s is over the limit of %d days", quoted(text), MaxEvery/(24*time.Hour))
	case d%time.Second != 0:
		return Spec{}, fault(s.text, "@every", w.from, w.to, "%s is not a number of full seconds", quoted(text))
	}
	s.every = d
	return s, nil
}

// read reads five or six fields.
func (s Spec) read(text string, words []word) (Spec, error) {
	const forms = "minute hour day-of-month month day-of-week, or six with seconds first"
	first := second
	switch n := len(words); {
	case n < fieldCount-1:
		return Spec{}, fault(text, "", len(strings.TrimRight(text, " \t")), len(text), "%d fields are too few; write %s", n, forms)
	case n == fieldCount-1:
		first, s.five = minute, true
		s.fields[second] = field{items: []item{{step: 1}}}
	case n > fieldCount:
		return Spec{}, fault(text, "", words[fieldCount].from, words[n-1].to, "%d fields are too many; write %s", n, forms)
	}
	all := kinds()
	for i, w := range words {
		var err error
		if s.fields[first+i], err = (reader{text, all[first+i], s.by}).read(w.from, w.to); err != nil {
			return Spec{}, err
		}
	}
	return s, nil
}
