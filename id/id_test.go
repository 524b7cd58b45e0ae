package id

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/ksuid"
	"pgregory.net/rapid"
)

// lastText is the text of twenty bytes 0xff: what sorts after it does not fit.
const lastText = "aWgEPTl1tmebfsQzFP4bxwgy80V"

func drawID(t *rapid.T, name string) ID {
	return ID(rapid.SliceOfN(rapid.Byte(), Size, Size).Draw(t, name))
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := drawID(t, "id")
		text, err := i.MarshalText()
		if err != nil || string(text) != i.String() || len(text) != TextSize {
			t.Fatalf("%x: text %q, string %q, %v", i, text, i, err)
		}
		if got, err := Parse(i.String()); err != nil || got != i {
			t.Fatalf("%s came back as %s, %v", i, got, err)
		}
		if got, err := FromBytes(i.Bytes()); err != nil || got != i {
			t.Fatalf("%x came back as %x, %v", i, got, err)
		}
	})
}

func TestIsAValidKSUID(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)
	i := NewGenerator(7, func() uint64 { return 9 }).Next(at.UnixNano())
	k, err := ksuid.Parse(i.String())
	if err != nil || ID(k) != i {
		t.Fatalf("ksuid reads %s as %s, %v", i, k, err)
	}
	if !k.Time().Equal(at.Truncate(time.Second)) {
		t.Errorf("ksuid reads the time as %v, want %v", k.Time(), at)
	}
}

// Binary and text order agree (design 3).
func TestTextOrderIsBinaryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawID(t, "a")
		b := drawID(t, "b")
		copy(b[:], a[:rapid.IntRange(0, Size).Draw(t, "common")])
		if got, want := strings.Compare(a.String(), b.String()), a.Compare(b); got != want {
			t.Fatalf("%s and %s: text order %d, binary order %d", a, b, got, want)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	last := ID(slices.Repeat([]byte{0xff}, Size))
	if last.String() != lastText {
		t.Fatalf("the last ID is %s, not %s", last, lastText)
	}
	if got, err := Parse(lastText); err != nil || got != last {
		t.Errorf("the last ID: %s, %v", got, err)
	}
	for _, s := range []string{
		"", "0", strings.Repeat("0", 26), strings.Repeat("0", 28),
		"aWgEPTl1tmebfsQzFP4bxwgy80W", "zzzzzzzzzzzzzzzzzzzzzzzzzzz", "b00000000000000000000000000",
		strings.Repeat("0", 26) + " ", strings.Repeat("0", 26) + "-", strings.Repeat("0", 26) + "\x00",
		strings.Repeat("0", 25) + "é", strings.Repeat("0", 26) + "\xff",
	} {
		kept := ID{1}
		if got, err := Parse(s); !errors.Is(err, ErrMalformed) || !got.IsZero() {
			t.Errorf("%q was read as %s, %v", s, got, err)
		}
		if err := kept.UnmarshalText([]byte(s)); !errors.Is(err, ErrMalformed) || kept != (ID{1}) {
			t.Errorf("%q was read into %s, %v", s, kept, err)
		}
	}
	for _, n := range []int{0, 19, 21} {
		if got, err := FromBytes(make([]byte, n)); !errors.Is(err, ErrMalformed) || !got.IsZero() {
			t.Errorf("%d bytes were read as %s, %v", n, got, err)
		}
	}
}

// TestParseNewRefusesZero: in a task it would stand for no ID.
func TestParseNewRefusesZero(t *testing.T) {
	if got, err := ParseNew(lastText); err != nil || got.String() != lastText {
		t.Errorf("the last ID: %s, %v", got, err)
	}
	for _, s := range []string{strings.Repeat("0", 27), "short"} {
		if got, err := ParseNew(s); !errors.Is(err, ErrMalformed) || !got.IsZero() {
			t.Errorf("%q was read as %s, %v", s, got, err)
		}
	}
}

func TestJSON(t *testing.T) {
	i := ID{1, 2, 3}
	b, err := json.Marshal(map[ID]ID{i: i})
	if err != nil {
		t.Fatal(err)
	}
	var back map[ID]ID
	if err := json.Unmarshal(b, &back); err != nil || back[i] != i {
		t.Errorf("%s came back as %v, %v", b, back, err)
	}
}

func TestTimeAndKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wall := rapid.Int64Range(firstNanos, lastNanos).Draw(t, "wall")
		k := Kind(rapid.IntRange(0, 3).Draw(t, "kind"))
		var i ID
		o := OrderOf(wall, k)
		copy(i[:], o[:])
		if i.Nanos() != wall || i.Time().UnixNano() != wall || i.Kind() != k || i.Order() != o {
			t.Fatalf("%d of kind %d: %d, %v, kind %d", wall, k, i.Nanos(), i.Time(), i.Kind())
		}
	})
}

func TestOrderOfIsTheOrderOfTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(firstNanos, lastNanos-1).Draw(t, "a")
		b := rapid.Int64Range(a+1, lastNanos).Draw(t, "b")
		x, y := OrderOf(a, KindSystem), OrderOf(b, KindTask)
		if slices.Compare(x[:], y[:]) >= 0 {
			t.Fatalf("%d sorts as %x, later %d as %x", a, x, b, y)
		}
	})
}

func TestTimesOutOfRangeAreHeld(t *testing.T) {
	for wall, want := range map[int64]int64{
		math.MinInt64: firstNanos, -1: firstNanos, 0: firstNanos, firstNanos - 1: firstNanos,
		lastNanos + 1: lastNanos, math.MaxInt64: lastNanos,
	} {
		o := OrderOf(wall, KindKey)
		i := ID(append(o[:], make([]byte, 12)...))
		if i.Nanos() != want || i.Kind() != KindKey {
			t.Errorf("%d became %d of kind %d, want %d", wall, i.Nanos(), i.Kind(), want)
		}
	}
	if got := time.Unix(0, lastNanos).UTC().Format(time.DateOnly); got != "2150-06-19" {
		t.Errorf("IDs end on %s; the package comment says otherwise", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(strings.Repeat("0", TextSize))
	f.Add(lastText)
	f.Add("aWgEPTl1tmebfsQzFP4bxwgy80W")
	f.Add("0ujtsYcgvSTl8PAuAdqWYSMnLOv")
	f.Add("0ujtsYcgvSTl8PAuAdqWYSMnLO\xc3")
	f.Fuzz(func(t *testing.T, s string) {
		i, err := Parse(s)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || !i.IsZero() {
				t.Errorf("%q: %s, %v", s, i, err)
			}
			return
		}
		if i.String() != s {
			t.Errorf("%q is read as %x, whose text is %s", s, i, i)
		}
	})
}

func BenchmarkString(b *testing.B) {
	i := ID{1, 2, 3, 4, 5, 6, 7, 8, 9}
	b.ReportAllocs()
	for b.Loop() {
		_ = i.String()
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Parse("0ujtsYcgvSTl8PAuAdqWYSMnLOv")
	}
}
