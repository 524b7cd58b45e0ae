package terms

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/schedule"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// ScheduleField is one thing that users set of a schedule, in a file or by a
// flag of the same name.
type ScheduleField struct {
	Name string
	// Help is one line, with the form of the value in backquotes.
	Help string
	// Bool says that it is yes or no.
	Bool bool
	// zoned says that a value may be one of the schedule's zone: it is set after that.
	zoned bool
	set   func(s *nornv1.ScheduleSpec, text string) error
	show  func(s *nornv1.ScheduleSpec) string
}

// Set reads a value; "" is the default.
func (f *ScheduleField) Set(s *nornv1.ScheduleSpec, text string) error {
	if err := f.set(s, text); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	return nil
}

// headerPrefix begins the name of a header among the fields that are shown.
const headerPrefix = "header."

// ScheduleFields are all of them but headers, in the order in which they are
// shown.
func ScheduleFields() []ScheduleField {
	task := func(s *nornv1.ScheduleSpec) *nornv1.TaskSpec {
		if s.Task == nil {
			s.Task = &nornv1.TaskSpec{}
		}
		return s.Task
	}
	retry := func(s *nornv1.ScheduleSpec) *nornv1.RetryPolicy {
		if task(s).Retry == nil {
			s.Task.Retry = &nornv1.RetryPolicy{}
		}
		return s.Task.Retry
	}
	fields := []ScheduleField{
		textField("cron", "the `specification`, such as '30 2 * * MON-FRI'", func(s *nornv1.ScheduleSpec) *string { return &s.Cron }),
		textField("tz", "time `zone` such as Europe/Berlin (UTC unless CRON_TZ= names one)", func(s *nornv1.ScheduleSpec) *string { return &s.TimeZone }),
		textField("queue", "`queue` of the tasks", func(s *nornv1.ScheduleSpec) *string { return &task(s).Queue }),
		textField("kind", "`kind` of the tasks: what is to be done", func(s *nornv1.ScheduleSpec) *string { return &task(s).Kind }),
		tagsField(task),
		{Name: "payload", Help: "payload of the tasks", set: func(s *nornv1.ScheduleSpec, v string) error {
			task(s).Payload = []byte(v)
			return nil
		}, show: func(s *nornv1.ScheduleSpec) string { return payloadText(s.GetTask().GetPayload()) }},
		{Name: "priority", Help: "`number`: higher is claimed first", set: func(s *nornv1.ScheduleSpec, v string) error {
			n, err := strconv.ParseInt(orZero(v), 10, 32)
			task(s).Priority = int32(n)
			return badNumber(v, err)
		}, show: func(s *nornv1.ScheduleSpec) string {
			if s.GetTask().GetPriority() == 0 {
				return ""
			}
			return strconv.Itoa(int(s.GetTask().GetPriority()))
		}},
		numberField("max-attempts", "`attempts` before a task is dead (the queue's unless said)", func(s *nornv1.ScheduleSpec) *uint32 { return &retry(s).MaxAttempts }),
		secondsField("retry-initial", "`delay` after the first failure", func(s *nornv1.ScheduleSpec) *float64 { return &retry(s).InitialSeconds }),
		secondsField("retry-max", "longest `delay` between attempts", func(s *nornv1.ScheduleSpec) *float64 { return &retry(s).MaxSeconds }),
		{Name: "overlap", Help: "while the task before runs: `allow`, skip, queue-one or replace", set: func(s *nornv1.ScheduleSpec, v string) error {
			n, err := word("OVERLAP_", v, "allow", nornv1.Overlap_value)
			s.Overlap = nornv1.Overlap(n)
			return err
		}, show: func(s *nornv1.ScheduleSpec) string { return wordOf("OVERLAP_", s.GetOverlap().String()) }},
		{Name: "catch-up", Help: "what was missed: `latest`, none or all", set: func(s *nornv1.ScheduleSpec, v string) error {
			n, err := word("CATCH_UP_", v, "latest", nornv1.CatchUp_value)
			s.CatchUp = nornv1.CatchUp(n)
			return err
		}, show: func(s *nornv1.ScheduleSpec) string { return wordOf("CATCH_UP_", s.GetCatchUp().String()) }},
		secondsField("catch-up-window", "how `late` an instant is launched at all, 10s to 31d (1h)", func(s *nornv1.ScheduleSpec) *float64 { return &s.CatchUpWindowSeconds }),
		numberField("catch-up-count", "how `many` missed instants catch-up all launches (10)", func(s *nornv1.ScheduleSpec) *uint32 { return &s.CatchUpCount }),
		secondsField("jitter", "launch later by one offset up to this `duration`, at most 24h", func(s *nornv1.ScheduleSpec) *float64 { return &s.JitterSeconds }),
		timeField("start", "first `time` that counts: RFC 3339, or a date of the zone", func(s *nornv1.ScheduleSpec) **timestamppb.Timestamp { return &s.Start }),
		timeField("end", "first `time` that no longer does, likewise", func(s *nornv1.ScheduleSpec) **timestamppb.Timestamp { return &s.End }),
		secondsField("deadline", "how `late` a launch may be, also one that waited (the window)", func(s *nornv1.ScheduleSpec) *float64 { return &s.DeadlineSeconds }),
		{Name: "max-launches", Help: "end after so `many` launches", set: func(s *nornv1.ScheduleSpec, v string) error {
			n, err := strconv.ParseUint(orZero(v), 10, 64)
			s.MaxLaunches = n
			return badNumber(v, err)
		}, show: func(s *nornv1.ScheduleSpec) string { return shownNumber(s.GetMaxLaunches()) }},
		numberField("history", "how many `entries` of the history are kept, up to 500 (20)", func(s *nornv1.ScheduleSpec) *uint32 { return &s.History }),
		boolField("pause-on-failure", "a task that has failed pauses the schedule", func(s *nornv1.ScheduleSpec) *bool { return &s.PauseOnFailure }),
		boolField("paused", "launch nothing", func(s *nornv1.ScheduleSpec) *bool { return &s.Paused }),
		textField("owner", "`name` of whoever keeps it in a file: see apply --prune", func(s *nornv1.ScheduleSpec) *string { return &s.Owner }),
		textField("note", "for other people", func(s *nornv1.ScheduleSpec) *string { return &s.Note }),
	}
	return fields
}

func tagsField(task func(*nornv1.ScheduleSpec) *nornv1.TaskSpec) ScheduleField {
	return ScheduleField{Name: "tags", Help: "`words` to find the tasks by, with commas between them", set: func(s *nornv1.ScheduleSpec, v string) error {
		task(s).Tags = nil
		if v != "" {
			s.Task.Tags = strings.Split(v, ",")
		}
		return orNil(proto.CheckTags(s.Task.Tags))
	}, show: func(s *nornv1.ScheduleSpec) string { return strings.Join(s.GetTask().GetTags(), ",") }}
}

func textField(name, help string, at func(*nornv1.ScheduleSpec) *string) ScheduleField {
	return ScheduleField{Name: name, Help: help, set: func(s *nornv1.ScheduleSpec, v string) error {
		*at(s) = v
		return nil
	}, show: func(s *nornv1.ScheduleSpec) string { return *at(s) }}
}

func numberField(name, help string, at func(*nornv1.ScheduleSpec) *uint32) ScheduleField {
	return ScheduleField{Name: name, Help: help, set: func(s *nornv1.ScheduleSpec, v string) error {
		n, err := strconv.ParseUint(orZero(v), 10, 32)
		*at(s) = uint32(n)
		return badNumber(v, err)
	}, show: func(s *nornv1.ScheduleSpec) string { return shownNumber(uint64(*at(s))) }}
}

func secondsField(name, help string, at func(*nornv1.ScheduleSpec) *float64) ScheduleField {
	return ScheduleField{Name: name, Help: help, set: func(s *nornv1.ScheduleSpec, v string) error {
		if v == "" {
			*at(s) = 0
			return nil
		}
		d, err := Duration(v)
		*at(s) = d.Seconds()
		return err
	}, show: func(s *nornv1.ScheduleSpec) string {
		if *at(s) == 0 {
			return ""
		}
		return time.Duration(*at(s) * float64(time.Second)).String()
	}}
}

func timeField(name, help string, at func(*nornv1.ScheduleSpec) **timestamppb.Timestamp) ScheduleField {
	return ScheduleField{Name: name, Help: help, zoned: true, set: func(s *nornv1.ScheduleSpec, v string) error {
		if v == "" {
			*at(s) = nil
			return nil
		}
		t, err := instant(v, func() *time.Location { return zoneOf(s) })
		*at(s) = timestamppb.New(t)
		return err
	}, show: func(s *nornv1.ScheduleSpec) string {
		if *at(s) == nil {
			return ""
		}
		return (*at(s)).AsTime().Format(time.RFC3339Nano)
	}}
}

// zoneOf is where the clock of a schedule hangs; UTC while it names no zone that there is,
// which is told where the whole of it is checked.
func zoneOf(s *nornv1.ScheduleSpec) *time.Location {
	spec, err := schedule.Parse(s.GetCron())
	if err != nil {
		return time.UTC
	}
	zone, err := spec.LoadZone(schedule.NewZones(), s.GetTimeZone())
	if err != nil {
		return time.UTC
	}
	return zone.Location()
}

func boolField(name, help string, at func(*nornv1.ScheduleSpec) *bool) ScheduleField {
	return ScheduleField{Name: name, Help: help, Bool: true, set: func(s *nornv1.ScheduleSpec, v string) error {
		b, err := strconv.ParseBool(v)
		if *at(s) = b; err != nil && v != "" {
			return fmt.Errorf("%q is neither true nor false", v)
		}
		return nil
	}, show: func(s *nornv1.ScheduleSpec) string {
		if *at(s) {
			return "true"
		}
		return ""
	}}
}

func orZero(v string) string {
	if v == "" {
		return "0"
	}
	return v
}

func badNumber(v string, err error) error {
	if err != nil {
		return fmt.Errorf("%q is not a number in range", v)
	}
	return nil
}

func shownNumber(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func payloadText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	sum := sha256.Sum256(b) // so that another one of the same length looks different
	return fmt.Sprintf("%d bytes that are no text (SHA-256 %x…)", len(b), sum[:6])
}

// word reads the value of an enum as users write it.
func word(prefix, v, def string, values map[string]int32) (int32, error) {
	if v == "" {
		v = def
	}
	said := strings.ReplaceAll(v, "_", "-")
	var known []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		w := wordOf(prefix, name)
		if len(w) == len(said) && strings.EqualFold(w, said) { // of one length: ſkip is not skip
			return values[name], nil
		}
		known = append(known, w)
	}
	return 0, fmt.Errorf("%q is none of %s", v, strings.Join(known, ", "))
}

func wordOf(prefix, name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, prefix), "_", "-"))
}

// ScheduleLines are the fields that are set, by name.
func ScheduleLines(s *nornv1.ScheduleSpec) (names []string, values map[string]string) {
	values = make(map[string]string)
	if s == nil {
		return nil, values
	}
	defer TidySchedule(s) // looking at a field makes what it is in
	for _, f := range ScheduleFields() {
		if v := f.show(s); v != "" {
			names, values[f.Name] = append(names, f.Name), v
		}
	}
	// Flags and files do not say these, programs do: who puts a schedule back from a file has
	// to see that they go.
	for _, f := range []struct {
		name  string
		value float64
	}{{"retry-multiplier", s.GetTask().GetRetry().GetMultiplier()}, {"retry-jitter", s.GetTask().GetRetry().GetJitter()}} {
		if f.value != 0 {
			names, values[f.name] = append(names, f.name), strconv.FormatFloat(f.value, 'g', -1, 64)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.GetTask().GetHeaders())) {
		names, values[headerPrefix+k] = append(names, headerPrefix+k), s.GetTask().GetHeaders()[k]
	}
	return names, values
}

// ScheduleDiff are the lines by which two specifications differ: "- name: value"
// of the first and "+ name: value" of the second.
func ScheduleDiff(before, after *nornv1.ScheduleSpec) (out []string) {
	oldNames, old := ScheduleLines(before)
	newNames, fresh := ScheduleLines(after)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(oldNames, newNames)))) {
		a, had := old[name]
		b, has := fresh[name]
		if had && a != b || had && !has {
			out = append(out, fmt.Sprintf("- %s: %s", name, oneLine(a)))
		}
		if has && a != b || has && !had {
			out = append(out, fmt.Sprintf("+ %s: %s", name, oneLine(b)))
		}
	}
	return out
}

func oneLine(s string) string {
	if strings.ContainsAny(s, "\n\r\t") {
		return strconv.Quote(s)
	}
	return s
}

// SetHeader reads a header as name=value.
func SetHeader(s *nornv1.ScheduleSpec, text string) error {
	k, v, ok := strings.Cut(text, "=")
	if !ok || k == "" {
		return fmt.Errorf("header: %q is not name=value", text)
	}
	if s.Task == nil {
		s.Task = &nornv1.TaskSpec{}
	}
	if s.Task.Headers == nil {
		s.Task.Headers = make(map[string]string)
	}
	s.Task.Headers[k] = v
	return nil
}

// TidySchedule takes out what says nothing: an empty retry policy.
func TidySchedule(s *nornv1.ScheduleSpec) {
	if r := s.GetTask().GetRetry(); r != nil && r.MaxAttempts == 0 && r.InitialSeconds == 0 && r.MaxSeconds == 0 && r.Multiplier == 0 && r.Jitter == 0 {
		s.Task.Retry = nil
	}
}

// errNoSchedules is the answer to a file that has none.
var errNoSchedules = errors.New("there is no schedule in it; write `schedules:` and a list, each with name, cron and queue")
