package schedule

import (
	"archive/zip"
	_ "embed" // the tz database
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// ZonesVersion is the release of the tz database in this package, for a cluster
// to commit as a setting: masters with another one would not agree on instants.
const ZonesVersion = "2025c"

// zoneinfo is lib/time/zoneinfo.zip of Go 1.26: the compiled tz database, which
// is in the public domain. It is read from here and not by time.LoadLocation,
// which asks the machine's files first: two masters could disagree.
//
//go:embed zoneinfo.zip
var zoneinfo string

// maxZoneFile is more than any file of the tz database takes (Dublin: 3.5 KB).
const maxZoneFile = 64 << 10

// Zones reads time zones and keeps those it has read. One goroutine may use it
// at a time.
type Zones struct {
	files  map[string]*zip.File
	names  []string // sorted
	loaded map[string]*Zone
	err    error
}

// NewZones opens the tz database.
func NewZones() *Zones {
	z := &Zones{files: map[string]*zip.File{}, loaded: map[string]*Zone{}}
	r, err := zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		z.err = fmt.Errorf("schedule: the tz database: %w", err)
		return z
	}
	for _, f := range r.File {
		if !strings.HasSuffix(f.Name, "/") {
			z.files[f.Name] = f
			z.names = append(z.names, f.Name)
		}
	}
	slices.Sort(z.names)
	return z
}

// Names gives the names of all zones, sorted.
func (z *Zones) Names() []string { return slices.Clone(z.names) }

// Load gives the zone of a name such as Europe/Berlin; "" is UTC. Other names
// return ErrZone with the nearest one.
func (z *Zones) Load(name string) (*Zone, error) {
	if name == "" {
		name = "UTC"
	}
	if zone := z.loaded[name]; zone != nil {
		return zone, nil
	}
	f := z.files[name]
	switch {
	case z.err != nil:
		return nil, z.err
	case name == "Local":
		return nil, fmt.Errorf("%w Local: it would be another one on each node", ErrZone)
	case f == nil:
		return nil, fmt.Errorf("%w %s%s", ErrZone, quoted(name), nearest(name, z.names))
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("schedule: the tz database: %s: %w", name, err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxZoneFile))
	if err != nil {
		return nil, fmt.Errorf("schedule: the tz database: %s: %w", name, err)
	}
	loc, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("schedule: the tz database: %s: %w", name, err)
	}
	zone := newZone(name, loc)
	z.loaded[name] = zone
	return zone, nil
}

// Zone is a time zone. It does not change, so any number may use it.
type Zone struct {
	name string
	loc  *time.Location
	// changes are the offsets and since when they hold, from the beginning of
	// time; neighbours differ.
	changes []change
}

// change is an offset in seconds and the second it begins at.
type change struct {
	at  int64
	off int32
}

// Bounds of instants in seconds: what wall ns can tell.
const (
	earliest = math.MinInt64 / nanos
	latest   = math.MaxInt64 / nanos
)

// newZone lists all changes of a zone: about 600 of 16 bytes for one that still
// changes, and looked up in a tenth of the time that package time takes.
func newZone(name string, loc *time.Location) *Zone {
	z := &Zone{name: name, loc: loc}
	for t := int64(earliest); t < latest; {
		in := time.Unix(t, 0).In(loc)
		if _, off := in.Zone(); len(z.changes) == 0 || z.changes[len(z.changes)-1].off != int32(off) {
			z.changes = append(z.changes, change{t, int32(off)})
		}
		_, end := in.ZoneBounds()
		if end.IsZero() {
			break
		}
		next := end.Unix()
		if next <= t {
			// On 31 December of leap years ZoneBounds ends before it begins (Go 1.26
			// takes all years for 365 days); no zone changes on that day.
			next = (floorDiv(t, daySeconds) + 1) * daySeconds
		}
		t = next
	}
	z.changes[0].at = -always
	return z
}

// Name is the name that the zone was loaded by.
func (z *Zone) Name() string { return z.name }

// Location is the zone for package time.
func (z *Zone) Location() *time.Location { return z.loc }

// Bounds of what zones do. Offsets are within maxOffset of UTC (Alaska and
// Manila had 15 h and 16 h before they changed sides of the date line), and a
// stretch that ended lookBack ago has shown nothing later than now.
const (
	maxOffset = 16 * 3600
	lookBack  = 2 * maxOffset
	// always is before and after all instants, and far from overflow.
	always = math.MaxInt64 / 4
)

// stretch is a time of one offset: instants from start up to but not including
// end, all in seconds.
type stretch struct{ start, end, off int64 }

// at gives the stretch around an instant.
func (z *Zone) at(t int64) stretch {
	lo, hi := 0, len(z.changes) // changes[lo] is not after t, changes[hi] is
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; z.changes[mid].at <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	s := stretch{start: z.changes[lo].at, end: always, off: int64(z.changes[lo].off)}
	if hi < len(z.changes) {
		s.end = z.changes[hi].at
	}
	return s
}

// shown is the latest civil second that clocks of the zone have shown up to an
// instant: in the second pass of an overlap, the end of the first.
func (z *Zone) shown(t int64) int64 {
	s := z.at(t)
	most := t + s.off
	for s.start > t-lookBack {
		s = z.at(s.start - 1)
		most = max(most, s.end-1+s.off)
	}
	return most
}

// first is the first instant at which clocks of the zone show a civil second,
// or one after it: for a time in a gap, the jump. It never decreases as the
// civil second grows.
func (z *Zone) first(civil int64) int64 {
	t := civil - maxOffset
	for {
		s := z.at(t)
		if at := max(t, civil-s.off); at < s.end {
			return at
		}
		t = s.end
	}
}

// First is the first instant at which clocks of a place show what a time reads, in whatever
// zone it does, or more: for one that they leave out the jump, and for one that comes twice
// the first. So a date begins with its first second, also where it has no midnight.
func First(reading time.Time, loc *time.Location) time.Time {
	_, off := reading.Zone()
	z, civil := newZone(loc.String(), loc), reading.Unix()+int64(off)
	at := z.first(civil)
	if at+z.at(at).off != civil { // the jump is a full second
		return time.Unix(at, 0).In(loc)
	}
	return time.Unix(at, int64(reading.Nanosecond())).In(loc)
}

// lacks tells whether the zone never had the date of a civil second, whose
// first instant is at: the clock went past the whole day.
func (z *Zone) lacks(civil, at int64) bool {
	s := z.at(at)
	if at+s.off == civil || s.start != at {
		return false
	}
	day := floorDiv(civil, daySeconds)
	return floorDiv(at+s.off, daySeconds) != day && floorDiv(z.shown(at-1), daySeconds) != day
}
