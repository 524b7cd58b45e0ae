package terms

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

var now = time.Date(2030, 2, 3, 4, 5, 6, 0, time.UTC)

func TestFilter(t *testing.T) {
	date := time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		texts []string
		n     int
		want  client.Filter
	}{
		{nil, 0, client.Filter{}},
		{[]string{"", " "}, 0, client.Filter{}},
		{[]string{"queue=mail,state=dead,error=timeout,older-than=2h"}, 4, client.Filter{
			Queue: "mail", States: []nornv1.State{6}, ErrorContains: "timeout", CreatedBefore: now.Add(-2 * time.Hour)}},
		{[]string{"state=dead,state=cancelled", "state=dead"}, 3, client.Filter{States: []nornv1.State{6, 7}}},
		{[]string{`error=a\, b=c\\d`, "header.x.y=a=b, attempts=3"}, 3, client.Filter{
			ErrorContains: `a, b=c\d`, Headers: map[string]string{"x.y": "a=b"}, MinAttempts: 3}},
		{[]string{"created-before=2030-01-31,created-after=2030-01-31T02:00:00+02:00"}, 2, client.Filter{CreatedBefore: date, CreatedAfter: date}},
		{[]string{"finished-before=2030-01-31,finished-after=2030-01-31,key=k 1,worker=w"}, 4, client.Filter{
			FinishedBefore: date, FinishedAfter: date, Key: "k 1", Worker: "w"}},
		{[]string{"after=" + id.ID{7}.String()}, 1, client.Filter{DependsOn: id.ID{7}}},
		{[]string{`kind=send\, now,tag=vip`, "tag=eu"}, 3, client.Filter{Kind: "send, now", Tags: []string{"vip", "eu"}}},
		{[]string{`payload~a=b\, c ,payload.user.id=7`, "payload.a=x=y"}, 3, client.Filter{
			PayloadContains: "a=b, c ", PayloadPaths: map[string]string{"user.id": "7", "a": "x=y"}}},
		{[]string{"header.empty="}, 1, client.Filter{Headers: map[string]string{"empty": ""}}},
	} {
		got, n, err := Filter(tt.texts, now)
		got.CreatedAfter = got.CreatedAfter.UTC()
		if tt.want.CreatedAfter.IsZero() {
			got.CreatedAfter = time.Time{}
		}
		if err != nil || n != tt.n || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %+v, %d, %v", tt.texts, got, n, err)
		}
	}
}

func TestBadFilters(t *testing.T) {
	for text, want := range map[string]string{
		"queue":                   `"queue" is not name=value`,
		"=x":                      "is not name=value",
		"queue=a,":                `"" is not name=value`,
		"queue=":                  "queue has no value",
		"queue=no good":           "is not [a-zA-Z0-9]",
		"queue=a,queue=b":         "queue is there twice",
		"header.a=1,header.a=2":   "header.a is there twice",
		"header.=1":               "unknown term",
		"stat=dead":               `unknown term "stat"; the nearest is "state"`,
		"olderthan=2h":            `the nearest is "older-than"`,
		"created_before=2h":       `the nearest is "created-before"`,
		"state=Dead":              `state: "Dead" is not waiting, scheduled, ready, claimed, completed, dead or cancelled`,
		"state=unspecified":       "is not waiting",
		"older-than=2":            "not a duration such as",
		"older-than=-2h":          "not a duration such as",
		"created-before=tomorrow": `created-before: "tomorrow" is not a time such as`,
		"attempts=-1":             "is not a number of attempts",
		"attempts=many":           "is not a number of attempts",
		"older-than=2h,created-before=2030-01-31": "give one",
	} {
		if _, n, err := Filter([]string{text}, now); err == nil || !strings.Contains(err.Error(), want) || n != 0 {
			t.Errorf("%q: %d, %v, want %q", text, n, err, want)
		}
	}
}

// Whatever stands in a value comes back when its commas and backslashes are
// escaped.
func TestEscapedValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[a,\\=]{1,6}`), 1, 4).Draw(t, "values")
		var terms []string
		for i, v := range values {
			terms = append(terms, "header."+string(rune('a'+i))+"="+strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(v))
		}
		f, n, err := Filter([]string{strings.Join(terms, ",")}, now)
		if err != nil || n != len(values) {
			t.Fatalf("%q: %d, %v", terms, n, err)
		}
		for i, v := range values {
			if got := f.Headers[string(rune('a'+i))]; got != v {
				t.Fatalf("%q became %q", v, got)
			}
		}
	})
}

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for s, want := range map[string]time.Duration{"0": 0, "90s": 90 * time.Second, "7d": 7 * day, "1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour, "500ms": 500 * time.Millisecond} {
		if got, err := Duration(s); got != want || err != nil {
			t.Errorf("%s is %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "d", "5", "-1d", "1d-1h", "1d1d", "9999999d", "one day"} {
		if got, err := Duration(s); err == nil || got != 0 {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func TestSettings(t *testing.T) {
	change, err := Settings([]string{
		"max-attempts=7", "retry-initial=2s", "retry-max=1h30m", "retry-multiplier=1.5", "retry-jitter=0.1", "lease=1m", "retention=7d",
		"retention-policy=archive", "dead-retention=0", "max-tasks=0", "note=a = b, c",
	})
	want := &nornv1.QueueSettings{
		Retry:        &nornv1.RetryPolicy{MaxAttempts: 7, InitialSeconds: 2, MaxSeconds: 5400, Multiplier: 1.5, Jitter: 0.1},
		LeaseSeconds: 60, RetentionSeconds: 7 * 24 * 3600, Retention: nornv1.Retention_RETENTION_ARCHIVE, Note: "a = b, c",
	}
	fields := []string{
		"retry.max_attempts", "retry.initial_seconds", "retry.max_seconds", "retry.multiplier", "retry.jitter", "lease_seconds", "retention_seconds",
		"retention", "dead_retention_seconds", "max_tasks", "note",
	}
	if err != nil || !protobuf.Equal(change.Settings, want) || !slices.Equal(change.Fields, fields) {
		t.Errorf("got %v, %v", change, err)
	}
	change, err = Settings([]string{"note=", "lease="})
	if err != nil || !protobuf.Equal(change.Settings, &nornv1.QueueSettings{Retry: &nornv1.RetryPolicy{}}) || !slices.Equal(change.Fields, []string{"note", "lease_seconds"}) {
		t.Errorf("reset: %v, %v", change, err)
	}
}

// Every field named is one of the message, and what is shown can be read again.
func TestSettingsAreThoseOfTheProtocol(t *testing.T) {
	all := &nornv1.QueueSettings{
		Retry:        &nornv1.RetryPolicy{MaxAttempts: 7, InitialSeconds: 0.5, MaxSeconds: 3600, Multiplier: 1.5, Jitter: 0.1},
		LeaseSeconds: 36005, RetentionSeconds: 7 * 24 * 3600, Retention: nornv1.Retention_RETENTION_KEEP, DeadRetentionSeconds: 90, MaxTasks: 12, Note: "n",
	}
	var args []string
	for _, s := range Show(all, all) {
		if !s.Set || s.Value == "" {
			t.Errorf("%+v", s)
		}
		args = append(args, s.Name+"="+s.Value)
	}
	if len(args) != len(SettingNames()) {
		t.Errorf("shown: %q", args)
	}
	change, err := Settings(args)
	if err != nil || !protobuf.Equal(change.Settings, all) {
		t.Errorf("%q became %v, %v", args, change.Settings, err)
	}
	for _, path := range change.Fields {
		m := all.ProtoReflect().Descriptor()
		for name := range strings.SplitSeq(path, ".") {
			f := m.Fields().ByTextName(name)
			if f == nil {
				t.Fatalf("%s is no field", path)
			}
			m = f.Message()
		}
	}
	for _, s := range Show(all, nil) {
		if s.Set {
			t.Errorf("%s is said to be set", s.Name)
		}
	}
	for _, name := range SettingNames() {
		if !strings.Contains(SettingsHelp, "  "+name+"=") {
			t.Errorf("the help does not explain %s", name)
		}
	}
	for _, name := range filterNames {
		if !strings.Contains(FilterHelp, name+"=") {
			t.Errorf("the help does not explain %s", name)
		}
	}
}

func TestBadSettings(t *testing.T) {
	for arg, want := range map[string]string{
		"lease":                   `"lease" is not name=value`,
		"max-attemps=3":           `unknown setting "max-attemps"; the nearest is "max-attempts"`,
		"max_attempts=3":          `the nearest is "max-attempts"`,
		"paused=true":             "unknown setting",
		"max-attempts=0":          "it must be over 0",
		"max-attempts=4294967296": "is not a whole number from 1 to 4294967295",
		"max-tasks=-1":            "is not a whole number from 0 to 9223372036854775807",
		"lease=0s":                "it must be over 0",
		"lease=1":                 `lease: "1" is not a duration such as`,
		"retry-jitter=1.1":        "is not a number from 0.001 to 1",
		"retry-jitter=NaN":        "is not a number",
		"retry-jitter=0":          "it must be over 0",
		"retry-multiplier=0.5":    "is not a number from 1 to 1000",
		"retention-policy=burn":   `"burn" is not delete, archive or keep`,
	} {
		if _, err := Settings([]string{arg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", arg, err, want)
		}
	}
	if _, err := Settings([]string{"lease=1m", "lease=2m"}); err == nil || !strings.Contains(err.Error(), "lease is there twice") {
		t.Errorf("twice: %v", err)
	}
}

// FuzzTerms: whatever is typed, what is accepted was understood as a whole.
func FuzzTerms(f *testing.F) {
	f.Add("queue=mail,state=dead,older-than=2h")
	f.Add(`error=a\,b,header.x=\\`)
	f.Add("lease=1d12h")
	f.Fuzz(func(t *testing.T, s string) {
		if _, n, err := Filter([]string{s}, now); err == nil && n != len(split(s)) && strings.TrimSpace(s) != "" {
			t.Errorf("%q has %d terms", s, n)
		}
		if change, err := Settings([]string{s}); err == nil && len(change.Fields) != 1 {
			t.Errorf("%q changes %q", s, change.Fields)
		}
		if d, err := Duration(s); err == nil && d < 0 {
			t.Errorf("%q is %v", s, d)
		}
	})
}

// TestANoteIsText: what is not is refused, and not changed into something else.
func TestANoteIsText(t *testing.T) {
	if _, err := Settings([]string{"note=\xff"}); err == nil || err.Error() != "note: the text is not UTF-8" {
		t.Errorf("got %v", err)
	}
	if change, err := Settings([]string{"note=\u00fc\uFFFD"}); err != nil || change.Settings.GetNote() != "\u00fc\uFFFD" {
		t.Errorf("%v, %v", change, err)
	}
}
