package cron

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/policy"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Limits and defaults of schedules, beside those of packages schedule and
// policy.
const (
	// MaxPayload is the longest payload of a schedule's task in bytes: it is in
	// the register, on every node.
	MaxPayload = 128 << 10
	// DefaultCount is how many missed instants are caught up.
	DefaultCount = 10
	// DefaultHistory and MaxHistory are how many entries a history keeps.
	DefaultHistory = 20
	MaxHistory     = 500
)

// Names of the headers that each task of a schedule gets.
const (
	HeaderSchedule = "norn-schedule"
	HeaderInstant  = "norn-instant"
)

// ErrDamaged is returned when a record of the register is not one of a
// schedule.
var ErrDamaged = errors.New("cron: damaged record of a schedule")

// loaded is a definition that was read and compiled.
type loaded struct {
	wire   *nornv1.ScheduleDefinition
	spec   schedule.Spec
	policy policy.Definition
}

// load reads a definition from the register.
func load(zones *schedule.Zones, b []byte) (loaded, error) {
	d, err := wireOf(b)
	if err != nil {
		return loaded{}, err
	}
	l := loaded{wire: d}
	l.policy, l.spec, err = compile(zones, d)
	return l, err
}

// wireOf reads a definition as it is stored.
func wireOf(b []byte) (*nornv1.ScheduleDefinition, error) {
	d := &nornv1.ScheduleDefinition{}
	err := gproto.Unmarshal(b, d)
	if d.Spec == nil {
		d.Spec, d.SpecApart = d.GetSpecApart(), nil
	}
	if err != nil || len(d.GetUuid()) != 16 || d.GetSpec() == nil {
		return nil, ErrDamaged
	}
	return d, nil
}

// readingOf is by which rules a definition is read.
func readingOf(d *nornv1.ScheduleDefinition) schedule.Reading {
	return schedule.Reading(min(d.GetReading(), math.MaxUint8))
}

// compile makes what decides of a definition.
func compile(zones *schedule.Zones, d *nornv1.ScheduleDefinition) (p policy.Definition, spec schedule.Spec, err error) {
	s := d.GetSpec()
	p = policy.Definition{
		UUID: [16]byte(d.GetUuid()), Version: d.GetVersion(),
		Overlap: policy.Overlap(s.GetOverlap()), CatchUp: policy.CatchUp(s.GetCatchUp()),
		Window: proto.Seconds(s.GetCatchUpWindowSeconds()), Count: int(s.GetCatchUpCount()),
		Jitter: proto.Seconds(s.GetJitterSeconds()), Deadline: proto.Seconds(s.GetDeadlineSeconds()),
		MaxLaunches: s.GetMaxLaunches(), Paused: s.GetPaused(), PauseOnFailure: s.GetPauseOnFailure(),
	}
	if p.Window == 0 {
		p.Window = policy.DefaultWindow
	}
	if p.Count == 0 {
		p.Count = DefaultCount
	}
	if p.Start, err = wall("start", s.GetStart()); err != nil {
		return p, spec, err
	}
	if p.End, err = wall("end", s.GetEnd()); err != nil {
		return p, spec, err
	}
	if spec, err = readingOf(d).Parse(s.GetCron()); err != nil {
		return p, spec, fmt.Errorf("cron: %w", err)
	}
	zone, err := spec.LoadZone(zones, s.GetTimeZone())
	if err != nil {
		return p, spec, fmt.Errorf("time_zone: %w", err)
	}
	if p.Table, err = spec.Compile(p.UUID, zone); err != nil {
		return p, spec, fmt.Errorf("cron: %w", err)
	}
	return p, spec, p.Check()
}

// sameByFirst tells whether a build that knows only the first rules finds the
// instants of a definition.
func sameByFirst(d *nornv1.ScheduleDefinition, table *schedule.Timetable) bool {
	if readingOf(d) == schedule.FirstReading {
		return true
	}
	first, err := schedule.FirstReading.Parse(d.GetSpec().GetCron())
	if err != nil {
		return false
	}
	same, err := first.Compile([16]byte(d.GetUuid()), table.Zone())
	return err == nil && same.Equal(table)
}

// wall is a bound of instants in wall ns, 0 for none.
func wall(name string, t *timestamppb.Timestamp) (int64, error) {
	if t == nil {
		return 0, nil
	}
	if !t.IsValid() || t.Seconds <= 0 || t.Seconds > math.MaxInt64/int64(time.Second)-1 {
		return 0, fmt.Errorf("%s is not a time between 1970 and 2262", name)
	}
	return t.AsTime().UnixNano(), nil
}

// seconds says whether a duration on the wire can be one.
func seconds(name string, v float64, most time.Duration) error {
	if !(v >= 0 && v <= most.Seconds()) {
		return fmt.Errorf("%s of %v s is not from 0 to %s", name, v, most)
	}
	return nil
}

// check judges what a user wants of a schedule, but for what compile finds. maxPayload is the
// server's limit in bytes.
func check(name string, s *nornv1.ScheduleSpec, maxPayload int) error {
	t := s.GetTask()
	switch {
	case s == nil:
		return errors.New("there is no specification")
	case t == nil || t.GetQueue() == "":
		return errors.New("the task needs a queue")
	case len(t.GetId()) > 0, t.GetKey() != "", t.GetNotBefore() != nil, t.GetDelaySeconds() != 0, len(t.GetDependencies()) > 0, t.GetKeyWindowSeconds() != 0:
		return errors.New("a task of a schedule has no id, key, not_before, delay_seconds or dependencies of its own")
	case t.GetHeaders()[HeaderSchedule] != "" || t.GetHeaders()[HeaderInstant] != "":
		return fmt.Errorf("the headers %s and %s are set for each launch", HeaderSchedule, HeaderInstant)
	case s.GetOwner() != "" && proto.CheckQueue(s.GetOwner()) != nil:
		return fmt.Errorf("the owner %.140q is not a name: [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}", s.GetOwner())
	case s.GetHistory() > MaxHistory:
		return fmt.Errorf("a history of %d entries is over the limit of %d", s.GetHistory(), MaxHistory)
	case s.GetOverlap() < 0 || s.GetOverlap() > nornv1.Overlap_OVERLAP_REPLACE:
		return fmt.Errorf("overlap has the unknown value %d", s.GetOverlap())
	case s.GetCatchUp() < 0 || s.GetCatchUp() > nornv1.CatchUp_CATCH_UP_ALL:
		return fmt.Errorf("catch_up has the unknown value %d", s.GetCatchUp())
	}
	full := gproto.CloneOf(t)
	dress(full, name, 0) // each launch has to be one that a queue takes
	if err := proto.CheckSpec(full, min(maxPayload, MaxPayload)); err != nil {
		return errors.New(err.Message)
	}
	return errors.Join(
		checkNote(s),
		seconds("catch_up_window", s.GetCatchUpWindowSeconds(), policy.MaxWindow),
		seconds("jitter", s.GetJitterSeconds(), policy.MaxJitter),
		seconds("deadline", s.GetDeadlineSeconds(), policy.MaxWindow),
	)
}

func checkNote(s *nornv1.ScheduleSpec) error {
	if n := len(s.GetNote()); n > proto.MaxNoteBytes {
		return fmt.Errorf("the note has %d bytes, over the limit of %d", n, proto.MaxNoteBytes)
	}
	return nil
}

// dress gives a task of a schedule its headers.
func dress(t *nornv1.TaskSpec, name string, instant int64) {
	if t.Headers == nil {
		t.Headers = make(map[string]string, 2)
	}
	t.Headers[HeaderSchedule] = name
	t.Headers[HeaderInstant] = time.Unix(0, instant).UTC().Format(time.RFC3339)
}

// pack writes a definition for the register, whose timetable is at hand. Equal ones
// give equal bytes.
func pack(d *nornv1.ScheduleDefinition, table *schedule.Timetable) ([]byte, error) {
	if !sameByFirst(d, table) {
		d = gproto.CloneOf(d)
		d.Spec, d.SpecApart = nil, d.GetSpec()
	}
	b, err := gproto.MarshalOptions{Deterministic: true}.Marshal(d)
	if err == nil && len(b) > register.MaxDefinition {
		err = fmt.Errorf("the schedule takes %d bytes, over the limit of %d; store the payload elsewhere", len(b), register.MaxDefinition)
	}
	return b, err
}
