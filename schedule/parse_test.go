package schedule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

var noUUID [16]byte

func compile(t testing.TB, text, zone string) *Timetable {
	t.Helper()
	return compileAs(t, text, zone, noUUID)
}

func compileAs(t testing.TB, text, zone string, uuid [16]byte) *Timetable {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zones(t).Load(zone)
	if err != nil {
		t.Fatal(err)
	}
	tt, err := s.Compile(uuid, z)
	if err != nil {
		t.Fatal(err)
	}
	return tt
}

// shared holds one *Zones for tests, which do not run at the same time.
var shared *Zones

func zones(testing.TB) *Zones {
	if shared == nil {
		shared = NewZones()
	}
	return shared
}

func bitsOf(values ...int) (set uint64) {
	for _, v := range values {
		set |= 1 << v
	}
	return set
}

func upTo(lo, hi int) (set uint64) {
	for v := lo; v <= hi; v++ {
		set |= 1 << v
	}
	return set
}

func TestParse(t *testing.T) {
	every := upTo(0, 59)
	for _, tc := range []struct {
		text    string
		want    [fieldCount]uint64
		either  bool
		elapsed bool
	}{
		{"* * * * *", [...]uint64{1, every, upTo(0, 23), upTo(1, 31), upTo(1, 12), upTo(0, 6)}, false, true},
		{"*/15 * * * * *", [...]uint64{bitsOf(0, 15, 30, 45), every, upTo(0, 23), upTo(1, 31), upTo(1, 12), upTo(0, 6)}, false, true},
		{"30 2 * * *", [...]uint64{1, bitsOf(30), bitsOf(2), upTo(1, 31), upTo(1, 12), upTo(0, 6)}, false, false},
		{"\t05,7-9  */6 1-31/10 jan,Mar-MAY mon-FRI ", [...]uint64{1, bitsOf(5, 7, 8, 9), bitsOf(0, 6, 12, 18), bitsOf(1, 11, 21, 31), bitsOf(1, 3, 4, 5), bitsOf(1, 2, 3, 4, 5)}, true, true},
		{"5/15 0-23 * * *", [...]uint64{1, bitsOf(5, 20, 35, 50), upTo(0, 23), upTo(1, 31), upTo(1, 12), upTo(0, 6)}, false, false},
		{"0 0 30 * SAT", [...]uint64{1, 1, 1, bitsOf(30), upTo(1, 12), bitsOf(6)}, true, false}, // every Saturday and on the 30th (G1)
		{"0 0 */2 * 1", [...]uint64{1, 1, 1, bitsOf(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), upTo(1, 12), bitsOf(1)}, false, false},
		{"0 0 * * FRI-SUN", [...]uint64{1, 1, 1, upTo(1, 31), upTo(1, 12), bitsOf(0, 5, 6)}, false, false},
		{"0 0 * * 7", [...]uint64{1, 1, 1, upTo(1, 31), upTo(1, 12), bitsOf(0)}, false, false},
		{"0 0 * * 5-7", [...]uint64{1, 1, 1, upTo(1, 31), upTo(1, 12), bitsOf(0, 5, 6)}, false, false},
		{"0 0 * * 1/2", [...]uint64{1, 1, 1, upTo(1, 31), upTo(1, 12), bitsOf(1, 3, 5)}, false, false},
		{"@yearly", [...]uint64{1, 1, 1, bitsOf(1), bitsOf(1), upTo(0, 6)}, false, false},
		{"@annually", [...]uint64{1, 1, 1, bitsOf(1), bitsOf(1), upTo(0, 6)}, false, false},
		{"@monthly", [...]uint64{1, 1, 1, bitsOf(1), upTo(1, 12), upTo(0, 6)}, false, false},
		{"@weekly", [...]uint64{1, 1, 1, upTo(1, 31), upTo(1, 12), bitsOf(0)}, false, false},
		{"@daily", [...]uint64{1, 1, 1, upTo(1, 31), upTo(1, 12), upTo(0, 6)}, false, false},
		{"@midnight", [...]uint64{1, 1, 1, upTo(1, 31), upTo(1, 12), upTo(0, 6)}, false, false},
		{"@hourly", [...]uint64{1, 1, upTo(0, 23), upTo(1, 31), upTo(1, 12), upTo(0, 6)}, false, true},
	} {
		c := compile(t, tc.text, "")
		got := [fieldCount]uint64{c.calendar.second, c.calendar.minute, uint64(c.calendar.hour), uint64(c.calendar.dom), uint64(c.calendar.month), uint64(c.calendar.dow)}
		if got != tc.want || c.calendar.either != tc.either || c.Elapsed() != tc.elapsed {
			t.Errorf("%q: %x, either %t, elapsed %t; want %x, %t, %t", tc.text, got, c.calendar.either, c.Elapsed(), tc.want, tc.either, tc.elapsed)
		}
	}
}

func TestParseRest(t *testing.T) {
	s, err := Parse(" CRON_TZ=Europe/Berlin  @every 1h30m")
	if err != nil || s.ZoneName() != "Europe/Berlin" || s.Every().String() != "1h30m0s" || s.String() != " CRON_TZ=Europe/Berlin  @every 1h30m" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := Parse("TZ=UTC @every 7d"); err != nil || s.ZoneName() != "UTC" || s.Every().Hours() != 168 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := (Spec{}).Compile(noUUID, nil); !errors.Is(err, ErrSpec) {
		t.Errorf("a Spec that was not parsed: %v", err)
	}
}

// Long because: it is a table.
// TestErrorsPointAtTheField marks each mistake and wants the marks back.
func TestErrorsPointAtTheField(t *testing.T) {
	for _, tc := range []struct {
		text, marks, says string
	}{
		{"61 * * * *", "^^", `minute field, column 1: "61" is not from 0 to 59`},
		{"0 24 * * *", "  ^^", `hour field, column 3: "24" is not from 0 to 23`},
		{"0 0 0 * *", "    ^", `day-of-month field, column 5: "0" is not from 1 to 31`},
		{"0 0 1 13 *", "      ^^", `month field, column 7: "13" is not from 1 to 12`},
		{"0 0 * * 8", "        ^", `day-of-week field, column 9: "8" is not from 0 to 7`},
		{"60 0 0 * * *", "^^", `second field, column 1`},
		{"0 0 * * MOM", "        ^^^", "did you mean MON?"},
		{"0 0 * SPE *", "      ^^^", "did you mean SEP?"},
		{"0 0 * MON *", "      ^^^", `"MON" is a day of the week`},
		{"0 0 * * MAY", "        ^^^", `"MAY" is a month`},
		{"0 x * * *", "  ^", `"x" is not a number from 0 to 23`},
		{"0 1-x * * *", "    ^", `hour field, column 5: "x" is not a number`},
		{"1,2,,3 * * * *", "    ^", "a value is missing before or after a comma"},
		{", * * * *", "^", "a value is missing"},
		{"1, * * * *", "  ^", "a value is missing"},
		{"*/0 * * * *", "  ^", "a step of 0 never ends"},
		{"*/x * * * *", "  ^", `"x" is not a step`},
		{"*/ * * * *", " ^", "a step is missing after /"},
		{"*/60 * * * *", "  ^^", "a step of 60 leaves one of the 60 values"},
		{"-5 * * * *", "^", "a value is missing"},
		{"5- * * * *", "  ^", "a value is missing"},
		{"0 22-2 * * *", "  ^^^^", "is two ranges: 22-23,0-2"},
		{"0 0 * * SAT-MON", "        ^^^^^^^", "is two ranges: SAT-6,0-MON"},
		{"1-2-3 * * * *", "  ^^^", `"2-3" is not a number`},
		{"?(3) * * * *", "^^^^", "a range such as ?(0-59)"},
		{"?(0-99) * * * *", "    ^^", `"99" is not from 0 to 59`},
		{"?? * * * *", "^^", "is not ? or a range"},
		{"?-5 * * * *", "^^^", "is not ? or a range"},
		{"0 ?(5-2) * * *", "    ^^^", "the range ends before it begins"},
		{"H * * * *", "^", "any value is written ?"},
		{"51-51/9 * * * *", "      ^", "a step of 9 says nothing where 51 is the only value"},
		{"0 L * * *", "  ^", "L, LW and 15W are for day-of-month"},
		{"0 0 L-3 * *", "    ^^^", "L is the last day of the month"},
		{"0 0 L/2 * *", "    ^^^", "without a step"},
		{"0 0 WL * *", "    ^^", "LW the last one from Monday to Friday"},
		{"0 0 1-5W * *", "    ^^^^", "15W the one of these nearest"},
		{"0 0 32W * *", "    ^^", `"32" is not from 1 to 31`},
		{"0 0 FRI#2 * *", "    ^^^^^", "# is for day-of-week"},
		{"0 0 * * L", "        ^", "the last Friday of a month is FRI#L"},
		{"0 0 * * 5L", "        ^^", "the last Friday of a month is FRI#L"},
		{"0 0 * * 5#6", "          ^", `"6" is not a number from 1 to 5, or L for the last`},
		{"0 0 * * 5#0", "          ^", "is not a number from 1 to 5"},
		{"0 0 * * MON-FRI#2", "        ^^^^^^^", "is not one weekday before #"},
		{"0 0 * * 8#2", "        ^", "is not one weekday before #"},
		{"0 0 * * ?#2", "        ^", "is not one weekday before #"},
		{"0 0 * *", "       ^", "4 fields are too few"},
		{"0 0 * * * * 2030 x", "            ^^^^^^", "8 fields are too many"},
		{"", "^", "there are no fields"},
		{"  ", "  ^", "there are no fields"},
		{"CRON_TZ=UTC", "           ^", "there are no fields"},
		{"TZ= * * * * *", "^^^", "a time zone is missing after TZ="},
		{"TZ=UTC 61 * * * *", "       ^^", "minute field, column 8"},
		{"@dialy", "^^^^^^", "did you mean @daily?"},
		{"@reboot", "^^^^^^^", "a cluster does not reboot"},
		{"@daily 5", "       ^", "nothing follows @daily"},
		{"@every", "^^^^^^", "@every takes one duration"},
		{"@every 5", "       ^", `"5" is not a duration`},
		{"@every 1 h", "^^^^^^^^^^", "@every takes one duration"},
		{"@every 500ms", "       ^^^^^", "is under the limit of 1s"},
		{"@every -1h", "       ^^^", "is under the limit of 1s"},
		{"@every 1500ms", "       ^^^^^^", "is not a number of full seconds"},
		{"@every 999999h", "       ^^^^^^^", "is over the limit of 14640 days"},
		{"ü é * * *", "^", `"ü" is not a number`},
		{"0 üé * * *", "  ^^", "hour field, column 3"},
		{"0\t61\t* * *", "  ^^", `"61" is not from 0 to 23`},
		{"9999999999999999999999 * * * *", "^^^^^^^^^^^^^^^^^^^^^^", "is not a number"},
	} {
		_, err := Parse(tc.text)
		var bad *SpecError
		if !errors.As(err, &bad) || !errors.Is(err, ErrSpec) {
			t.Errorf("%q: %v", tc.text, err)
			continue
		}
		line, marks, _ := strings.Cut(bad.Pointer(), "\n")
		if marks != tc.marks || !strings.Contains(err.Error(), tc.says) || line != strings.ReplaceAll(tc.text, "\t", " ") {
			t.Errorf("%q:\n%s\n%v\nwant %q and %q", tc.text, bad.Pointer(), err, tc.marks, tc.says)
		}
	}
}

func TestNeverDueIsFoundWhenCompiled(t *testing.T) {
	for _, tc := range []struct {
		text   string
		column int
	}{{"0 0 31 2 *", 5}, {"0 0 30 2 *", 5}, {"0 0 31 4,6,9,11 *", 5}, {"0 0 0 31 FEB *", 7}, {"TZ=UTC 0 0 31 2 *", 12}, {"0 0 30W 2 *", 5}, {"0 0 */3 2 FRI#5", 5}, {"0 0 ?(30-31) 2 *", 5}} {
		s, err := Parse(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Compile(noUUID, nil)
		var bad *SpecError
		if !errors.As(err, &bad) || bad.Column != tc.column || bad.Field != "day-of-month" {
			t.Errorf("%q: %v", tc.text, err)
		}
	}
	compile(t, "0 0 29 2 *", "")
	compile(t, "0 0 31 2 MON", "") // Mondays of February
	compile(t, "0 0 * 2 FRI#5", "")
	compile(t, "0 0 29W 2 *", "")
}

func TestLimits(t *testing.T) {
	blank := strings.Repeat(" ", MaxSpec-9)
	if _, err := Parse(blank + "* * * * *"); err != nil {
		t.Errorf("%d bytes: %v", MaxSpec, err)
	}
	if _, err := Parse(blank + " * * * * *"); err == nil || !strings.Contains(err.Error(), "1025 bytes are over the limit of 1024") {
		t.Errorf("%d bytes: %v", MaxSpec+1, err)
	}
	var all []string
	for range 6 {
		all = append(all, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59")
	}
	if n := len(strings.Join(all, " ")); n > MaxSpec+5 {
		t.Errorf("six full lists take %d bytes", n)
	}
}

func TestZones(t *testing.T) {
	z := zones(t)
	if len(z.Names()) < 500 {
		t.Errorf("%d zones", len(z.Names()))
	}
	for name, want := range map[string]string{
		"Europe/Berln": "Europe/Berlin", "europe/berlin": "Europe/Berlin", "America/New York": "America/New_York", "Nowhere/Land": "", "Local": "another one on each node",
		"../../etc/passwd": "", strings.Repeat("x", 5000): "",
	} {
		_, err := z.Load(name)
		if !errors.Is(err, ErrZone) || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%.50q: %v", name, err)
		}
	}
	if a, err := z.Load(""); err != nil || a.Name() != "UTC" || a.Location().String() != "UTC" {
		t.Errorf("no name: %v, %v", a, err)
	}
	a, _ := z.Load("Europe/Berlin")
	if b, _ := z.Load("Europe/Berlin"); a != b {
		t.Error("a zone is read twice")
	}
}

func TestLoadZone(t *testing.T) {
	for _, tc := range []struct{ text, tz, want, marks string }{
		{"@daily", "", "UTC", ""},
		{"@daily", "Asia/Tokyo", "Asia/Tokyo", ""},
		{"TZ=Asia/Tokyo @daily", "", "Asia/Tokyo", ""},
		{"TZ=Asia/Tokyo @daily", "Asia/Tokyo", "Asia/Tokyo", ""},
		{"TZ=Asia/Tokyo @daily", "UTC", "a schedule has one", "^^^^^^^^^^^^^"},
		{" CRON_TZ=Asia/Tokio @daily", "", "did you mean Asia/Tokyo?", " ^^^^^^^^^^^^^^^^^^"},
		{"@daily", "Asia/Tokio", "did you mean Asia/Tokyo?", ""},
	} {
		s, err := Parse(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		zone, err := s.LoadZone(zones(t), tc.tz)
		var bad *SpecError
		switch {
		case err == nil && zone.Name() == tc.want:
		case err == nil || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%q in %q: %v", tc.text, tc.tz, err)
		case errors.As(err, &bad) != (tc.marks != "") || bad != nil && !strings.HasSuffix(bad.Pointer(), "\n"+tc.marks):
			t.Errorf("%q in %q: %#v", tc.text, tc.tz, err)
		case strings.Contains(tc.want, "Tokyo") && !errors.Is(err, ErrZone):
			t.Errorf("%q in %q is no ErrZone: %v", tc.text, tc.tz, err)
		}
	}
}

// TestAPickThatLeavesOneValueCanBeReadAgain: `?(4-7)/3` may pick 5, and there is
// no value three after it.
func TestAPickThatLeavesOneValueCanBeReadAgain(t *testing.T) {
	single := 0
	for i := range 50 {
		uuid := [16]byte{byte(i)}
		s, err := Parse("?(4-7)/3 0 * * *")
		if err != nil {
			t.Fatal(err)
		}
		text := s.Resolve(uuid)
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		zone, err := NewZones().Load("UTC")
		if err != nil {
			t.Fatal(err)
		}
		want, err1 := s.Compile(uuid, zone)
		got, err2 := again.Compile(uuid, zone)
		if err1 != nil || err2 != nil || *got != *want {
			t.Fatalf("%q: %v, %v, %+v and %+v", text, err1, err2, got, want)
		}
		if !strings.ContainsAny(strings.Fields(text)[0], "-/") {
			single++
		}
	}
	if single == 0 || single == 50 {
		t.Fatalf("%d of 50 leave one value", single)
	}
}

// TestAStepInARangeOfOneValueSaysNothing: JAN-JAN/2 is January, and is not shown as
// 1/2, which is every second month from January on.
func TestAStepInARangeOfOneValueSaysNothing(t *testing.T) {
	zone, err := NewZones().Load("UTC")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"? 1 * JAN-JAN/2 *": "1", "? 1 * 3-3/7 SUN": "3", "? 1 * 12/5 *": "12", "? 1 * 3/7 *": "3-12/7",
	} {
		s, err := FirstReading.Parse(text) // it is refused by now
		if err != nil {
			t.Fatal(err)
		}
		shown := s.Resolve(noUUID)
		again, err := Parse(shown)
		if err != nil || strings.Fields(shown)[3] != want {
			t.Fatalf("%q is shown as %q: %v", text, shown, err)
		}
		a, err1 := s.Compile(noUUID, zone)
		b, err2 := again.Compile(noUUID, zone)
		if err1 != nil || err2 != nil || *a != *b {
			t.Errorf("%q and %q differ: %v, %v, %+v and %+v", text, shown, err1, err2, a, b)
		}
	}
}

// FuzzParse wants no panic, errors that point into the text, and instants that
// are what they should be: after, matching, found again from behind.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"* * * * *", "*/5 1-3,7 ? JAN-MAR/2 SUN", "CRON_TZ=Europe/Berlin 0 0 30 2 ? *", "@every 1h", "@daily", "?(0-7)/3 ?/4 ?(1-31) * FRI-SUN",
		"61 * * * *", "0 0 31 2 *", "TZ= 1", "\x00,\xff * * * *", "ü * * * *", "@every 99999999999d", "1-2-3/4/5 * * * *",
		"?(4-7)/3 0 * * *", "*/5 1 ? JAN-JAN/2 SUN", "0 0 L,15W,LW * FRI#2,7#L", "0 0 */2 * MON-FRI", "0 0 31W 2 ſUN",
	} {
		f.Add(s, int64(1_700_000_000_000_000_000))
	}
	zone, err := NewZones().Load("Australia/Lord_Howe")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, after int64) {
		s, err := Parse(text)
		var tt *Timetable
		if err == nil {
			tt, err = s.Compile(noUUID, zone)
		}
		if err != nil {
			var bad *SpecError
			if !errors.As(err, &bad) || bad.Column < 1 || bad.Column > utf8.RuneCountInString(bad.Text)+1 || bad.Width < 1 || bad.Pointer() == "" || len(err.Error()) > 4*MaxSpec {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		checkInstants(t, tt, after)
		again, err := Parse(s.Resolve(noUUID))
		if err != nil {
			t.Fatalf("%q is %q: %v", text, s.Resolve(noUUID), err)
		}
		same, err := again.Compile(noUUID, zone)
		if err != nil || *same != *tt {
			t.Fatalf("%q is %q: %v, %+v and %+v", text, s.Resolve(noUUID), err, same, tt)
		}
	})
}

// checkInstants holds for any timetable and instant.
func checkInstants(t *testing.T, tt *Timetable, after int64) {
	t.Helper()
	next, ok := tt.Next(after)
	if !ok {
		return
	}
	if next <= after || next%nanos != 0 {
		t.Fatalf("%d comes after %d", next, after)
	}
	if last, ok := tt.Last(next); !ok || last != next {
		t.Fatalf("Last(%d) is %d, %t", next, last, ok)
	}
	if last, ok := tt.Last(next - 1); ok && last > after {
		t.Fatalf("Next(%d) is %d and leaves out %d", after, next, last)
	}
	if o := tt.Describe(next); o.At != next || o.Wanted > o.Civil {
		t.Fatalf("Describe(%d): %+v", next, o)
	}
}

// TestAdviceIsTaken: a range over the end is refused with what to write, in every field and
// with every value.
func TestAdviceIsTaken(t *testing.T) {
	for field, bounds := range [][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}} {
		for lo := bounds[0]; lo <= bounds[1]; lo++ {
			for hi := bounds[0]; hi < lo; hi++ {
				words := strings.Fields("0 0 0 1 1 *")
				words[field] = fmt.Sprintf("%d-%d", lo, hi)
				_, err := Parse(strings.Join(words, " "))
				if err == nil { // FRI-SUN
					continue
				}
				text := err.Error()
				words[field] = text[strings.LastIndex(text, ": ")+2:]
				if _, again := Parse(strings.Join(words, " ")); again != nil {
					t.Fatalf("%v\n%s: %v", err, words[field], again)
				}
			}
		}
	}
}
