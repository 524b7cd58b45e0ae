package terms

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/schedule"
)

// split cuts at commas; \, is a comma and \\ a backslash.
func split(s string) []string {
	var out []string
	var term strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == ',' || s[i+1] == '\\'):
			i++
			term.WriteByte(s[i])
		case s[i] == ',':
			out = append(out, term.String())
			term.Reset()
		default:
			term.WriteByte(s[i])
		}
	}
	return append(out, term.String())
}

// cut reads name=value.
func cut(term string) (name, value string, err error) {
	name, value, ok := strings.Cut(term, "=")
	if name = strings.TrimSpace(name); !ok || name == "" {
		return "", "", fmt.Errorf("%q is not name=value", term)
	}
	return name, value, nil
}

// unknown is the error for a name that is none of the known ones.
func unknown(what, name string, known []string) error {
	return fmt.Errorf("unknown %s %q; the nearest is %q (known: %s)", what, name, config.Nearest(name, known), strings.Join(known, ", "))
}

var days = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)d(.*)$`)

// Duration reads a duration that is not negative, with days too: 500ms, 90s,
// 2h, 7d, 1d12h.
func Duration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration such as 500ms, 90s, 2h or 7d", s)
	whole, rest := time.Duration(0), s
	if m := days.FindStringSubmatch(s); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n > 100*365 {
			return 0, bad
		}
		whole, rest = time.Duration(n*float64(24*time.Hour)), m[2]
		if rest == "" {
			return whole, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || whole > math.MaxInt64-d {
		return 0, bad
	}
	return whole + d, nil
}

// instant reads a time: RFC 3339, or the beginning of a date in a zone.
func instant(s string, zone func() *time.Location) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t, err = time.Parse(time.DateOnly, s)
		t = schedule.First(t, zone())
	}
	if err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2030-01-31T15:04:05Z, or a date such as 2030-01-31", s)
}
