package terms

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// SettingsHelp explains what [Settings] reads, for --help.
const SettingsHelp = `  max-attempts=25           attempts before a task is dead
  retry-initial=1s          delay after the first failure
  retry-max=1h              longest delay
  retry-multiplier=2        factor between delays, 1 to 1000
  retry-jitter=0.2          random share of a delay, up to 1
  lease=30s                 of claims that ask for none, 1s to 24h
  retention=24h             how long completed and cancelled tasks are kept
  retention-policy=delete   what happens to them then: delete, archive or keep
  dead-retention=30d        dead tasks go after so long (0: they stay)
  max-tasks=1000000         about how many tasks are not finished; beyond,
                            enqueues are refused (0: no limit)
  note=TEXT                 for other operators

Durations are 500ms, 90s, 2h, 7d. key= goes back to the server's configuration.
The retry policy is that of tasks that bring none, fixed when they are enqueued.`

// setting is one name that [Settings] knows.
type setting struct {
	name string
	// field is the path in [nornv1.QueueSettings].
	field string
	// set reads a value.
	set func(s *nornv1.QueueSettings, value string) error
	// show gives the value back; "" when it is not set.
	show func(s *nornv1.QueueSettings) string
}

// settings are in the order of the help.
func settings() []setting {
	return []setting{
		{"max-attempts", "retry.max_attempts", func(s *nornv1.QueueSettings, v string) (err error) {
			n, err := whole(v, 32, 1)
			s.Retry.MaxAttempts = uint32(n)
			return err
		}, func(s *nornv1.QueueSettings) string { return showWhole(uint64(s.GetRetry().GetMaxAttempts())) }},
		{"retry-initial", "retry.initial_seconds", func(s *nornv1.QueueSettings, v string) (err error) {
			s.Retry.InitialSeconds, err = seconds(v)
			return err
		}, func(s *nornv1.QueueSettings) string { return showSeconds(s.GetRetry().GetInitialSeconds()) }},
		{"retry-max", "retry.max_seconds", func(s *nornv1.QueueSettings, v string) (err error) {
			s.Retry.MaxSeconds, err = seconds(v)
			return err
		}, func(s *nornv1.QueueSettings) string { return showSeconds(s.GetRetry().GetMaxSeconds()) }},
		{"retry-multiplier", "retry.multiplier", func(s *nornv1.QueueSettings, v string) (err error) {
			s.Retry.Multiplier, err = fraction(v, 1, 1000)
			return err
		}, func(s *nornv1.QueueSettings) string { return showFraction(s.GetRetry().GetMultiplier()) }},
		{"retry-jitter", "retry.jitter", func(s *nornv1.QueueSettings, v string) (err error) {
			s.Retry.Jitter, err = fraction(v, 0.001, 1)
			return err
		}, func(s *nornv1.QueueSettings) string { return showFraction(s.GetRetry().GetJitter()) }},
		{"lease", "lease_seconds", func(s *nornv1.QueueSettings, v string) (err error) {
			s.LeaseSeconds, err = seconds(v)
			return err
		}, func(s *nornv1.QueueSettings) string { return showSeconds(s.GetLeaseSeconds()) }},
		{"retention", "retention_seconds", func(s *nornv1.QueueSettings, v string) (err error) {
			s.RetentionSeconds, err = seconds(v)
			return err
		}, func(s *nornv1.QueueSettings) string { return showSeconds(s.GetRetentionSeconds()) }},
		{"retention-policy", "retention", setRetention, func(s *nornv1.QueueSettings) string {
			if s.GetRetention() == nornv1.Retention_RETENTION_UNSPECIFIED {
				return ""
			}
			return jsonform.EnumName(s.GetRetention())
		}},
		{"dead-retention", "dead_retention_seconds", func(s *nornv1.QueueSettings, v string) error {
			d, err := Duration(v)
			s.DeadRetentionSeconds = d.Seconds()
			return err
		}, func(s *nornv1.QueueSettings) string { return showSeconds(s.GetDeadRetentionSeconds()) }},
		{"max-tasks", "max_tasks", func(s *nornv1.QueueSettings, v string) (err error) {
			s.MaxTasks, err = whole(v, 63, 0)
			return err
		}, func(s *nornv1.QueueSettings) string { return showWhole(s.GetMaxTasks()) }},
		{"note", "note", func(s *nornv1.QueueSettings, v string) error {
			if s.Note = v; !utf8.ValidString(v) {
				return errors.New("the text is not UTF-8")
			}
			return nil
		}, (*nornv1.QueueSettings).GetNote},
	}
}

// SettingNames are the names that [Settings] knows.
func SettingNames() []string {
	var out []string
	for _, s := range settings() {
		out = append(out, s.name)
	}
	return out
}

// Settings reads key=value terms, one in each argument. An empty value sets the
// server's configuration again.
func Settings(args []string) (client.QueueChange, error) {
	change := client.QueueChange{Settings: &nornv1.QueueSettings{Retry: &nornv1.RetryPolicy{}}}
	known := settings()
	seen := make(map[string]bool)
	for _, arg := range args {
		name, value, err := cut(arg)
		if err != nil {
			return change, err
		}
		s := find(known, name)
		switch {
		case s == nil:
			return change, unknown("setting", name, SettingNames())
		case seen[name]:
			return change, fmt.Errorf("%s is there twice", name)
		}
		seen[name] = true
		change.Fields = append(change.Fields, s.field)
		if value == "" {
			continue
		}
		if err := s.set(change.Settings, value); err != nil {
			return change, fmt.Errorf("%s: %w", name, err)
		}
	}
	return change, nil
}

func find(known []setting, name string) *setting {
	for i := range known {
		if known[i].name == name {
			return &known[i]
		}
	}
	return nil
}

// Shown is one setting with its value as [Settings] reads it.
type Shown struct {
	// Name is the setting's.
	Name string
	// Value is what holds; "" when there is none.
	Value string
	// Set tells whether it was set for the queue.
	Set bool
}

// Show gives the settings of a queue: what holds, and what of it was set.
func Show(effective, set *nornv1.QueueSettings) []Shown {
	var out []Shown
	for _, s := range settings() {
		shown := Shown{Name: s.name, Value: s.show(effective), Set: s.show(set) != ""}
		if shown.Set && shown.Value == "" {
			shown.Value = s.show(set)
		}
		out = append(out, shown)
	}
	return out
}

func setRetention(s *nornv1.QueueSettings, v string) error {
	for r := nornv1.Retention_RETENTION_DELETE; r <= nornv1.Retention_RETENTION_KEEP; r++ {
		if jsonform.EnumName(r) == v {
			s.Retention = r
			return nil
		}
	}
	return fmt.Errorf("%q is not delete, archive or keep", v)
}

// errZero is returned for a 0 where it would mean the server's configuration,
// which nobody expects of it.
var errZero = errors.New("it must be over 0; nothing after the = means the server's configuration")

func seconds(v string) (float64, error) {
	d, err := Duration(v)
	if err == nil && d == 0 {
		err = errZero
	}
	return d.Seconds(), err
}

func whole(v string, bits int, least uint64) (uint64, error) {
	n, err := strconv.ParseUint(v, 10, bits)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number from %d to %d", v, least, uint64(1)<<bits-1)
	case n < least:
		return 0, errZero
	}
	return n, nil
}

func fraction(v string, least, most float64) (float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	switch {
	case err != nil || !(f >= 0 && f <= most) || f > 0 && f < least:
		return 0, fmt.Errorf("%q is not a number from %v to %v", v, least, most)
	case f == 0:
		return 0, errZero
	}
	return f, nil
}

func showWhole(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

func showFraction(f float64) string {
	if f == 0 {
		return ""
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// showSeconds is a duration without the zeros that Go puts after it.
func showSeconds(s float64) string {
	if s <= 0 {
		return ""
	}
	const day = 24 * 60 * 60
	if whole := int64(s); float64(whole) == s && whole%day == 0 {
		return fmt.Sprintf("%dd", whole/day)
	}
	text := proto.Seconds(s).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
