package check

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the oracle's zones are not this machine's

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/robfig/cron/v3"
)

// Invariants of schedules (I12).
const (
	CronDoubled = "a launch is one task"
	CronStray   = "only instants of the schedule are launched"
	CronMissed  = "each instant is launched, or skipped with a reason"
	CronLate    = "a healthy cluster launches in time"
)

// CronSchedule is what was seen of one schedule in the end. Times are wall ns.
type CronSchedule struct {
	Name, Spec string
	// UUID is the schedule's, where a name is made again; it is not judged.
	UUID string
	// Asked is when its creation was asked for: nothing up to it is its own.
	// Created is when that was acknowledged, Ended when its end was asked for:
	// instants between are expected.
	Asked, Created, Ended int64
	// Launches are the tasks that there are of it.
	Launches []CronLaunch
	// Skips are the instants that its history says were not launched, and those
	// of launches that could not be enqueued.
	Skips []CronSkip
	// Forgotten is up to which instant the history may have been forgotten.
	Forgotten int64
	// Overlap says what happens to an instant while a task before still runs. It is
	// judged by the work on the tasks.
	Overlap nornv1.Overlap

	doubts []doubt // launches that are said not to have been enqueued
}

// doubt is a launch that is said not to have been enqueued, and when it was begun, wall ns.
type doubt struct{ instant, begun int64 }

// CronLaunch is a task of a schedule.
type CronLaunch struct {
	Instant int64
	Task    string
	// Begun is when the history says that it was begun; 0: it does not say.
	Begun int64
	// Work is what workers did with it, wall ns; it counts where Overlap does.
	Work Work
}

// CronSkip is a range of instants, both ends included.
type CronSkip struct {
	From, To int64
	Reason   string
}

// CronOptions are what schedules are judged by.
type CronOptions struct {
	// Healthy are the stretches in which nothing was wrong, and had not been for
	// as long as a new master needs.
	Healthy []CronSkip
	// Deadline is how late a launch may be begun in them, and Limit at any time.
	Deadline, Limit time.Duration
	// Knows is how long after it was acknowledged a master may not know of the end
	// of a task in them, and Skew how far its clock may be from that of who asked.
	Knows, Skew time.Duration
}

// Cron judges schedules by an oracle of their instants that shares nothing with
// the code under test. It finds all that is wrong, up to 20 findings.
func Cron(all []CronSchedule, o CronOptions) (found []Violation) {
	for i := range all {
		j := cronJudge{s: &all[i], o: &o}
		if err := j.judge(); err != nil {
			j.wrong(CronStray, 0, "schedule %s: %v", j.s.Name, err)
		}
		if found = append(found, j.found...); len(found) >= 20 {
			break
		}
	}
	return found
}

type cronJudge struct {
	s     *CronSchedule
	o     *CronOptions
	found []Violation
}

func (j *cronJudge) wrong(invariant string, at int64, format string, args ...any) {
	if len(j.found) < 20 {
		j.found = append(j.found, Violation{Invariant: invariant, At: at, Text: fmt.Sprintf(format, args...)})
	}
}

func clockText(wall int64) string { return time.Unix(0, wall).UTC().Format("15:04:05.000") }

func (j *cronJudge) judge() error {
	s := j.s
	next, err := Oracle(s.Spec)
	if err != nil {
		return err
	}
	slices.SortFunc(s.Launches, func(a, b CronLaunch) int { return int(min(1, max(-1, a.Instant-b.Instant))) })
	at := make(map[int64]*CronLaunch, len(s.Launches))
	for i := range s.Launches {
		l := &s.Launches[i]
		if other := at[l.Instant]; other != nil {
			j.wrong(CronDoubled, l.Instant, "schedule %s: tasks %s and %s are both of %s", s.Name, other.Task, l.Task, clockText(l.Instant))
		}
		at[l.Instant] = l
		switch {
		case next(l.Instant-1) != l.Instant:
			j.wrong(CronStray, l.Instant, "schedule %s (%s): %s is no instant of it, and has task %s", s.Name, s.Spec, clockText(l.Instant), l.Task)
		case l.Instant <= s.Asked:
			j.wrong(CronStray, l.Instant, "schedule %s: %s was launched, and the schedule asked for at %s", s.Name, clockText(l.Instant), clockText(s.Asked))
		}
		j.lateness(l)
	}
	j.apart()
	for instant := next(s.Created); instant < s.Ended; instant = next(instant) {
		if at[instant] == nil {
			j.missing(instant)
		}
	}
	return nil
}

// lateness judges a launch by when it was begun.
func (j *cronJudge) lateness(l *CronLaunch) {
	late, free := time.Duration(l.Begun-l.Instant), j.free(l)
	switch {
	case l.Begun == 0:
	case j.healthy(l.Instant, l.Begun) && free != 0 && time.Duration(l.Begun-free) > j.o.Deadline:
		late = time.Duration(l.Begun - free)
		j.wrong(CronLate, l.Instant, "schedule %s: %s was begun %s late, and nothing was wrong", j.s.Name, clockText(l.Instant), late)
	case late > j.o.Limit:
		j.wrong(CronLate, l.Instant, "schedule %s: %s was begun %s late, over its window", j.s.Name, clockText(l.Instant), late)
	}
}

// healthy tells whether nothing was wrong at an instant and, where a launch may
// wait for another one's end, until it was begun.
func (j *cronJudge) healthy(instant, begun int64) bool {
	until := instant
	if j.s.Overlap == nornv1.Overlap_OVERLAP_QUEUE_ONE {
		until = max(instant, begun)
	}
	return slices.ContainsFunc(j.o.Healthy, func(h CronSkip) bool { return h.From <= instant && until <= h.To })
}

// missing judges an instant without a task.
func (j *cronJudge) missing(instant int64) {
	begun := int64(0)
	for _, d := range j.s.doubts { // one that waited may have come to its turn when all was paused
		if d.instant == instant {
			begun = d.begun
		}
	}
	if j.healthy(instant, begun) && !j.held(instant) {
		j.wrong(CronMissed, instant, "schedule %s: %s was not launched, and nothing was wrong", j.s.Name, clockText(instant))
		return
	}
	told := slices.ContainsFunc(j.s.Skips, func(k CronSkip) bool { return k.From <= instant && instant <= k.To })
	if !told && instant > j.s.Forgotten {
		j.wrong(CronMissed, instant, "schedule %s: %s was neither launched nor is it said to be skipped", j.s.Name, clockText(instant))
	}
}

// Oracle gives the first instant of a specification after another, in UTC, by a
// library that has nothing to do with package schedule. @every counts from the
// Unix epoch, as docs/reference/schedule-syntax.md says.
func Oracle(spec string) (func(after int64) int64, error) {
	if text, ok := cutEvery(spec); ok {
		d, err := time.ParseDuration(text)
		if err != nil || d < time.Second {
			return nil, fmt.Errorf("oracle: %q: %w", spec, err)
		}
		return func(after int64) int64 { return (after/int64(d) + 1) * int64(d) }, nil
	}
	parsed, err := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	return func(after int64) int64 {
		t := parsed.Next(time.Unix(0, after).UTC())
		if t.IsZero() {
			return math.MaxInt64
		}
		return t.UnixNano()
	}, nil
}

// Picked writes numbers for each ? of a specification, by docs/reference/schedule-syntax.md and
// with nothing of package schedule: for a library that knows ? as something else.
func Picked(spec, uuid string) (string, error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(raw) != 16 {
		return "", fmt.Errorf("oracle: UUID %q", uuid)
	}
	words := strings.Fields(spec)
	names := []string{"second", "minute", "hour", "day-of-month", "month", "day-of-week"}
	ranges := [][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 28}, {1, 12}, {0, 6}}
	first := 0
	if strings.Contains(words[0], "TZ=") {
		first = 1
	}
	skip := len(names) - (len(words) - first) // 1: there is no field of seconds
	for i := range words {
		f := i - first + skip
		if f < 0 || f >= len(names) || !strings.Contains(words[i], "?") {
			continue
		}
		parts := strings.Split(words[i], ",")
		for k, part := range parts {
			if parts[k], err = pickedItem(part, raw, names[f], ranges[f]); err != nil {
				return "", err
			}
		}
		words[i] = strings.Join(parts, ",")
	}
	return strings.Join(words, " "), nil
}

// pickedItem does so for an item of a list: ?, ?(a-b), ?/n or ?(a-b)/n.
func pickedItem(item string, uuid []byte, field string, within [2]int) (string, error) {
	rest, ok := strings.CutPrefix(item, "?")
	if !ok {
		return item, nil
	}
	lo, hi, step := within[0], within[1], 0
	if strings.HasPrefix(rest, "(") {
		if _, err := fmt.Sscanf(rest, "(%d-%d)", &lo, &hi); err != nil {
			return "", fmt.Errorf("oracle: %q: %w", item, err)
		}
		_, rest, _ = strings.Cut(rest, ")")
	}
	n := hi - lo + 1
	if rest != "" {
		if _, err := fmt.Sscanf(rest, "/%d", &step); err != nil {
			return "", fmt.Errorf("oracle: %q: %w", item, err)
		}
		n = min(n, step)
	}
	sum := sha256.Sum256(slices.Concat([]byte("norn schedule ?"), uuid, []byte(field)))
	v := new(big.Int).SetBytes(sum[:8])
	v.Rsh(v.Mul(v, big.NewInt(int64(n))), 64)
	lo += int(v.Int64())
	if step == 0 {
		return fmt.Sprint(lo), nil
	}
	return fmt.Sprintf("%d-%d/%d", lo, hi, step), nil
}

func cutEvery(spec string) (string, bool) {
	const every = "@every "
	if len(spec) > len(every) && spec[:len(every)] == every {
		return spec[len(every):], true
	}
	return "", false
}

// Told takes over what an entry of a history says was not launched.
func (s *CronSchedule) Told(l *nornv1.Launch) {
	at := l.GetInstant().AsTime().UnixNano()
	switch {
	case l.GetKind() == nornv1.LaunchKind_LAUNCH_KIND_SKIP:
		s.Skips = append(s.Skips, CronSkip{From: at, To: l.GetTo().AsTime().UnixNano(), Reason: l.GetReason().String()})
	case l.GetKind() == nornv1.LaunchKind_LAUNCH_KIND_LAUNCH && l.GetStatus() == nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED:
		s.Skips = append(s.Skips, CronSkip{From: at, To: at, Reason: l.GetNote()})
		s.doubts = append(s.doubts, doubt{at, l.GetBegun().AsTime().UnixNano()})
	}
}
