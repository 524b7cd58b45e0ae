package schedule

import (
	"testing"
	"time"
)

// BenchmarkNext is the next instant of typical specifications.
func BenchmarkNext(b *testing.B) {
	begin := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for _, tc := range []struct{ name, spec, zone string }{
		{"minutes-UTC", "*/5 * * * *", ""},
		{"daily-NewYork", "30 2 * * *", "America/New_York"},
		{"weekdays-Berlin", "0 9 * * MON-FRI", "Europe/Berlin"},
		{"hourly-NewYork", "0 * * * *", "America/New_York"},
		{"leapday-NewYork", "0 0 29 2 *", "America/New_York"},
		{"every", "@every 90s", ""},
	} {
		b.Run(tc.name, func(b *testing.B) {
			tt, at := compile(b, tc.spec, tc.zone), begin
			for b.Loop() {
				next, ok := tt.Next(at)
				if at = next; !ok {
					at = begin
				}
			}
		})
	}
}

// BenchmarkInVain searches 40 years for a date that the zone left out once.
func BenchmarkInVain(b *testing.B) {
	tt, begin := compile(b, "0 0 30 2,12 *", "Pacific/Apia"), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	tt.calendar.month = 1 << 2 // 30 February, which Compile would have found
	for b.Loop() {
		if _, ok := tt.Next(begin); ok {
			b.Fatal("it is found")
		}
	}
}

// BenchmarkParse reads and compiles a specification.
func BenchmarkParse(b *testing.B) {
	zone, err := zones(b).Load("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Parse("?/15 9-17 * * MON-FRI")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Compile(noUUID, zone); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad reads a zone that changes twice a year.
func BenchmarkLoad(b *testing.B) {
	z := zones(b)
	for b.Loop() {
		clear(z.loaded)
		if _, err := z.Load("America/New_York"); err != nil {
			b.Fatal(err)
		}
	}
}
