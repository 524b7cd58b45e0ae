package terms

import (
	"slices"
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestScheduleFileTags: bytes that YAML writes as base64 are the bytes, and what is not
// understood is refused.
func TestScheduleFileTags(t *testing.T) {
	const head = "name: a\ncron: '@daily'\nqueue: q\n"
	all, err := ScheduleFile("s.yaml", []byte(head+"payload: !!binary |\n  aGVs\n  bG8A/w==\nheaders: {a: !!binary aGk=, b: 7, c: ~}\nmax-launches: 18446744073709551615\npriority: -3\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := all[0].Spec
	if got := string(s.GetTask().GetPayload()); got != "hello\x00\xff" {
		t.Errorf("the payload is %q", got)
	}
	if h := s.GetTask().GetHeaders(); h["a"] != "hi" || h["b"] != "7" || h["c"] != "" {
		t.Errorf("the headers are %q", h)
	}
	if _, lines := ScheduleLines(s); lines["max-launches"] != "18446744073709551615" || lines["priority"] != "-3" {
		t.Errorf("shown as %q", lines)
	}
	for in, want := range map[string]string{
		"payload: !!binary '***'\n":      "s.yaml:4: payload: !!binary takes base64",
		"payload: !secret x\n":           "s.yaml:4: payload: the tag !secret is not known",
		"headers: {a: !!binary '***'}\n": "s.yaml:4: headers: !!binary takes base64",
	} {
		if _, err := ScheduleFile("s.yaml", []byte(head+in)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

// TestAScheduleHasAKindAndTags: tags are words with commas between them, or a list.
func TestAScheduleHasAKindAndTags(t *testing.T) {
	const head = "name: a\ncron: '@daily'\nqueue: q\nkind: daily-report\n"
	for in, want := range map[string][]string{
		"": nil, "tags: vip\n": {"vip"}, "tags: vip,eu\n": {"vip", "eu"}, "tags: [vip, 'a,b', 7]\n": {"vip", "a,b", "7"}, "tags: ''\n": nil,
	} {
		all, err := ScheduleFile("s.yaml", []byte(head+in))
		if err != nil {
			t.Fatal(err)
		}
		if got := all[0].Spec.GetTask(); got.GetKind() != "daily-report" || !slices.Equal(got.GetTags(), want) {
			t.Errorf("%q: kind %q, tags %q", in, got.GetKind(), got.GetTags())
		}
		if _, lines := ScheduleLines(all[0].Spec); lines["kind"] != "daily-report" || lines["tags"] != strings.Join(want, ",") {
			t.Errorf("%q: shown as %q", in, lines)
		}
	}
	for _, in := range []string{"tags: [a, a]\n", "tags: a,,b\n", "tags: [[a]]\n", "tags: {a: b}\n"} {
		if _, err := ScheduleFile("s.yaml", []byte(head+in)); err == nil || !strings.Contains(err.Error(), "tags: ") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// TestWordsAreOfASCIILetters: ſ and K (Kelvin) are s and k for Unicode, and other letters here.
func TestWordsAreOfASCIILetters(t *testing.T) {
	for v, ok := range map[string]bool{"skip": true, "SKIP": true, "queue_one": true, "Queue-One": true, "ſkip": false, "s\u212aip": false, "": true} {
		_, err := ScheduleFile("s.yaml", []byte("name: a\ncron: '@daily'\nqueue: q\noverlap: '"+v+"'\n"))
		if (err == nil) != ok {
			t.Errorf("overlap %q: %v", v, err)
		}
	}
}

// TestDatesAreOfTheScheduleZone: a schedule that starts on a date starts with that date where
// its clock hangs, wherever in the file that is said.
func TestDatesAreOfTheScheduleZone(t *testing.T) {
	for in, want := range map[string]string{
		"start: 2026-06-01\ntz: America/New_York\ncron: '@daily'\n":           "2026-06-01T04:00:00Z",
		"cron: 'CRON_TZ=Asia/Kathmandu 0 22 * * *'\nstart: 2026-06-01\n":      "2026-05-31T18:15:00Z",
		"cron: '@daily'\nstart: 2026-06-01\n":                                 "2026-06-01T00:00:00Z",
		"tz: America/New_York\nstart: 2026-06-01T00:00:00Z\ncron: '@daily'\n": "2026-06-01T00:00:00Z",
	} {
		all, err := ScheduleFile("s.yaml", []byte("name: a\nqueue: q\n"+in))
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if _, lines := ScheduleLines(all[0].Spec); lines["start"] != want {
			t.Errorf("%q starts at %s, not %s", in, lines["start"], want)
		}
	}
}

// FuzzScheduleFile: whatever a file holds, what is taken from it has a name and a
// line of the file, and what is not is told with the file's name.
func FuzzScheduleFile(f *testing.F) {
	f.Add("name: nightly\ncron: '30 2 * * *'\nqueue: reports\n")
	f.Add("schedules:\n- {name: a, cron: '@every 5m', queue: q, headers: {h: v}}\n- {name: b, cron: '* * * * *', queue: q, paused: true}\n")
	f.Add("---\n# nothing\n---\n- name: a\n- &x [*x]\n")
	f.Add(`[{"name": "a", "name": "b", "cron": 5, "headers": []}]`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ScheduleFile("s.yaml", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "s.yaml") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		lines, names := strings.Count(text, "\n")+strings.Count(text, "\r")+strings.Count(text, "\u0085")+strings.Count(text, "\u2028")+strings.Count(text, "\u2029")+1, map[string]bool{}
		for _, s := range all {
			if s.Name == "" || names[s.Name] || s.Line < 1 || s.Line > lines || s.Spec.GetTask() == nil {
				t.Errorf("%q gives %+v", text, s)
			}
			names[s.Name] = true
		}
	})
}

// TestPayloadsOfOneLengthDiffer: who looks at what a file would change sees that the payload
// does, also where it is no text.
func TestPayloadsOfOneLengthDiffer(t *testing.T) {
	spec := func(payload string) *nornv1.ScheduleSpec {
		return &nornv1.ScheduleSpec{Task: &nornv1.TaskSpec{Payload: []byte(payload)}}
	}
	diff := ScheduleDiff(spec("\xff\x00"), spec("\xff\x01"))
	if len(diff) != 2 || !strings.HasPrefix(diff[0], "- payload: 2 bytes that are no text") || !strings.HasPrefix(diff[1], "+ payload: 2 bytes that are no text") {
		t.Errorf("got %q", diff)
	}
	if diff := ScheduleDiff(spec("\xff\x00"), spec("\xff\x00")); len(diff) != 0 {
		t.Errorf("got %q of the same", diff)
	}
}

// TestRetriesOfProgramsDiffer: a file cannot say all of a retry policy; that it would take
// away what a program has said is a difference, and is shown.
func TestRetriesOfProgramsDiffer(t *testing.T) {
	before := &nornv1.ScheduleSpec{Task: &nornv1.TaskSpec{Queue: "q", Retry: &nornv1.RetryPolicy{Multiplier: 1.5, Jitter: 0.1}}}
	after := &nornv1.ScheduleSpec{Task: &nornv1.TaskSpec{Queue: "q"}}
	if diff := strings.Join(ScheduleDiff(before, after), "; "); diff != "- retry-jitter: 0.1; - retry-multiplier: 1.5" {
		t.Errorf("got %q", diff)
	}
	if diff := ScheduleDiff(after, after); len(diff) != 0 {
		t.Errorf("got %q of the same", diff)
	}
}

// TestADateWithoutMidnight begins where the clock goes on: an hour before, it is the day before.
func TestADateWithoutMidnight(t *testing.T) {
	all, err := ScheduleFile("s.yaml", []byte("name: a\ncron: '@hourly'\nqueue: q\nstart: 2026-03-08\nend: 2026-11-02\ntz: America/Havana\n"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	start, end := all[0].Spec.GetStart().AsTime().Format(time.RFC3339), all[0].Spec.GetEnd().AsTime().Format(time.RFC3339)
	if start != "2026-03-08T05:00:00Z" || end != "2026-11-02T05:00:00Z" {
		t.Errorf("from %s to %s", start, end)
	}
}

// TestCronWithoutQuotes: YAML reads * as an alias and @ not at all, and says so in words
// that nobody understands.
func TestCronWithoutQuotes(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"name: a\ncron: */5 * * * *\nqueue: q\n", "line 2: quote what begins with * or @: cron: '*/5 * * * *'"},
		{"schedules:\n- name: a\n  queue: q\n  cron: @daily # each day\n", "line 4: quote what begins with * or @: cron: '@daily'"},
		{"- cron: * * * * *\r\n  name: a\r\n", "line 1: quote"},
	} {
		_, err := ScheduleFile("s.yaml", []byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.file, err)
		}
	}
	if _, err := ScheduleFile("s.yaml", []byte("\ufeffname: a\ncron: '@daily'\nqueue: q\n")); err != nil {
		t.Errorf("after a byte order mark: %v", err)
	}
}
