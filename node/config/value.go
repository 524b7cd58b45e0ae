package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is a field as text.
type value interface {
	set(text string) error
	text() string
	kind() string
}

// field is a value of a plain Go type.
type field[T any] struct {
	to     *T
	name   string
	parse  func(string) (T, error)
	format func(T) string
}

func (f field[T]) set(text string) error {
	v, err := f.parse(strings.TrimSpace(text))
	if err == nil {
		*f.to = v
	}
	return err
}

func (f field[T]) text() string { return f.format(*f.to) }
func (f field[T]) kind() string { return f.name }

func str(to *string) value {
	same := func(s string) string { return s }
	return field[string]{to, "string", func(s string) (string, error) { return s, nil }, same}
}

// list is texts with commas between them.
func list(to *[]string) value {
	return field[[]string]{to, "list", func(s string) ([]string, error) {
		var out []string
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
		return out, nil
	}, func(all []string) string { return strings.Join(all, ",") }}
}

// prefixes is addresses, and networks as IP/BITS, with commas between.
func prefixes(to *[]netip.Prefix) value {
	return field[[]netip.Prefix]{to, "networks", func(s string) ([]netip.Prefix, error) {
		var out []netip.Prefix
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			ip, err := netip.ParseAddr(part)
			p := netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen())
			if err != nil {
				p, err = netip.ParsePrefix(part)
			}
			if err != nil || ip.Zone() != "" || p.Addr().Is4In6() {
				return nil, fmt.Errorf("%q is no address or network of addresses, such as 10.0.0.5, 10.1.0.0/16 or fd00::/8", part)
			}
			if p != p.Masked() {
				return nil, fmt.Errorf("%q has bits behind its network: write %s, or %s for the one address", part, p.Masked(), p.Addr())
			}
			out = append(out, p)
		}
		return out, nil
	}, func(all []netip.Prefix) string {
		texts := make([]string, len(all))
		for i, p := range all {
			if texts[i] = p.String(); p.IsSingleIP() {
				texts[i] = p.Addr().String()
			}
		}
		return strings.Join(texts, ",")
	}}
}

func word(to *string, words ...string) value {
	return field[string]{to, "string", func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", fmt.Errorf("%q is not one of %s", s, strings.Join(words, ", "))
		}
		return s, nil
	}, func(s string) string { return s }}
}

func integer(to *int) value {
	return field[int]{to, "int", func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		return n, nil
	}, strconv.Itoa}
}

func float(to *float64) value {
	return field[float64]{to, "float", func(s string) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, fmt.Errorf("%q is not a number", s)
		}
		return f, nil
	}, func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }}
}

func boolean(to *bool) value {
	return field[bool]{to, "bool", func(s string) (bool, error) {
		b, err := strconv.ParseBool(s)
		if err != nil {
			return false, fmt.Errorf("%q is not true or false", s)
		}
		return b, nil
	}, strconv.FormatBool}
}

func duration(to *time.Duration) value {
	return field[time.Duration]{to, "duration", func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err == nil {
			return d, nil
		}
		if _, number := strconv.ParseFloat(s, 64); number == nil {
			return 0, fmt.Errorf("%q has no unit; write %ss for seconds", s, s)
		}
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 30s, 5m or 168h", s)
	}, formatDuration}
}

// formatDuration leaves out the zeros that time.Duration.String ends in.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// count is a number of bytes that must fit into an int.
func count(to *int) value {
	return field[int]{to, "size", func(s string) (int, error) {
		n, err := ParseSize(s)
		if err == nil && n > math.MaxInt {
			return 0, fmt.Errorf("%q is too large", s)
		}
		return int(n), err
	}, func(n int) string { return Size(n).String() }}
}

// Space is a number of bytes, or the smaller of that and a share of the volume: "64MiB,10%".
// The share, in percent, is in the bits from 56 on; without one it is the number.
type Space int64

func spaceOf(bytes Size, percent int) Space { return Space(bytes) | Space(percent)<<56 }

func (s Space) bytes() Size { return Size(s & (1<<56 - 1)) }
func (s Space) share() int  { return int(s >> 56) }

// of is the number of bytes on a volume of so many; 0: its size is not known.
func (s Space) of(volume uint64) uint64 {
	if s.share() == 0 || volume == 0 {
		return uint64(s.bytes())
	}
	return min(uint64(s.bytes()), volume/100*uint64(s.share()))
}

func (s *Space) set(text string) error {
	number, percent, two := strings.Cut(text, ",")
	share := 0
	if two {
		n, ok := strings.CutSuffix(strings.TrimSpace(percent), "%")
		var err error
		if share, err = strconv.Atoi(n); !ok || err != nil || share < 1 || share > 99 {
			return fmt.Errorf("%q is not a share of the volume, from 1%% to 99%%", strings.TrimSpace(percent))
		}
	}
	var bytes Size
	if err := bytes.set(number); err != nil {
		return fmt.Errorf("%w, or a size and a share of the volume such as 64MiB,10%%", err)
	}
	if bytes >= 1<<56 {
		return fmt.Errorf("%s is too large", bytes)
	}
	*s = spaceOf(bytes, share)
	return nil
}

func (s *Space) text() string {
	if s.share() == 0 {
		return s.bytes().String()
	}
	return fmt.Sprintf("%s,%d%%", s.bytes(), s.share())
}

func (s *Space) kind() string { return "size" }

// Size is a number of bytes.
type Size int64

func (s *Size) set(text string) error {
	n, err := ParseSize(strings.TrimSpace(text))
	if err == nil {
		*s = n
	}
	return err
}

func (s *Size) text() string { return s.String() }
func (s *Size) kind() string { return "size" }

// unit is a suffix of sizes.
type unit struct {
	name  string
	bytes int64
}

// units are tried in this order: "B" ends the others too.
func units() []unit {
	return []unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
	}
}

// ParseSize reads a number of bytes, or a number with a unit: KiB, MiB, GiB,
// TiB, KB, MB, GB, TB, B. It must be whole, and not negative.
func ParseSize(s string) (Size, error) {
	bytes, number := int64(1), s
	for _, u := range units() {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			bytes, number = u.bytes, strings.TrimSpace(n)
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/bytes {
		return 0, fmt.Errorf("%q is not a size such as 65536, 64KiB, 16MiB or 1GiB", s)
	}
	return Size(n * bytes), nil
}

// String uses the largest unit in which the size is whole.
func (s Size) String() string {
	name, bytes := "B", int64(1)
	for _, u := range units()[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			name, bytes = u.name, u.bytes
		}
	}
	if bytes == 1 {
		return strconv.FormatInt(int64(s), 10)
	}
	return strconv.FormatInt(int64(s)/bytes, 10) + name
}
