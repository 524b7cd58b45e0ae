package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Size is a number of bytes: 16MiB, 512KiB, 1GiB or a plain number.
type Size int64

var units = []struct {
	name string
	size Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String gives the size in the largest unit that fits.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return "0"
}

// Set parses a size.
func (s *Size) Set(text string) error {
	number, unit := text, Size(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = strings.TrimSpace(n), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/int64(unit) {
		return fmt.Errorf("%q is not a size such as 16MiB, 512KiB or 4096", text)
	}
	*s = Size(n) * unit
	return nil
}

// Type names the kind of value in help texts.
func (*Size) Type() string { return "size" }

// The other kinds of values, each a pflag.Value over a field.
type (
	textValue     struct{ to *string }
	intValue      struct{ to *int }
	floatValue    struct{ to *float64 }
	durationValue struct{ to *time.Duration }
)

var _ = []pflag.Value{(*Size)(nil), textValue{}, intValue{}, floatValue{}, durationValue{}}

func (v textValue) String() string     { return *v.to }
func (v textValue) Set(s string) error { *v.to = s; return nil }
func (textValue) Type() string         { return "string" }

func (v intValue) String() string { return strconv.Itoa(*v.to) }
func (v intValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", s)
	}
	*v.to = n
	return nil
}
func (intValue) Type() string { return "int" }

func (v floatValue) String() string { return strconv.FormatFloat(*v.to, 'g', -1, 64) }
func (v floatValue) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n != n {
		return fmt.Errorf("%q is not a number", s)
	}
	*v.to = n
	return nil
}
func (floatValue) Type() string { return "float" }

func (v durationValue) String() string { return shortDuration(*v.to) }
func (v durationValue) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 30s, 5m or 168h", s)
	}
	*v.to = d
	return nil
}
func (durationValue) Type() string { return "duration" }

// shortDuration leaves out the zero parts that Duration.String appends.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
