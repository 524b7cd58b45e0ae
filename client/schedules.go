package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxScheduleBatch is how many changes go in one request, and maxScheduleBytes
// about how long they are: the answer has each schedule as it is and as it was.
const (
	maxScheduleBatch = 500
	maxScheduleBytes = 4 << 20
)

var errNotOneResult = errors.New("the answer is not about one schedule")

// Schedules reads and changes schedules: see [Client.Schedules].
type Schedules struct{ c *Client }

// Schedules gives what a client can do with schedules: what launches tasks at
// instants. Reads and changes are linearizable: they need a majority of the
// register's voters.
func (c *Client) Schedules() Schedules { return Schedules{c} }

// List gives all schedules by name, in pages, without their histories. The
// second value is an error, which ends it.
func (s Schedules) List(ctx context.Context) iter.Seq2[*nornv1.Schedule, error] {
	return func(yield func(*nornv1.Schedule, error) bool) {
		after := ""
		for {
			m, err := s.page(ctx, &nornv1.SchedulesRequest{After: after, Limit: maxScheduleBatch})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, found := range m.GetSchedules() {
				if after = found.GetName(); !yield(found, nil) {
					return
				}
			}
			if !m.GetMore() || len(m.GetSchedules()) == 0 {
				return
			}
		}
	}
}

// Status tells who launches.
func (s Schedules) Status(ctx context.Context) (*nornv1.CronStatus, error) {
	m, err := s.page(ctx, &nornv1.SchedulesRequest{Limit: 1})
	return m.GetStatus(), err
}

// Get reads one schedule with its history, newest first. ErrNotFound: there is
// none of the name.
func (s Schedules) Get(ctx context.Context, name string) (*nornv1.Schedule, error) {
	m, err := s.page(ctx, &nornv1.SchedulesRequest{Names: []string{name}, History: true})
	if err != nil {
		return nil, err
	}
	if len(m.GetSchedules()) != 1 {
		return nil, &Error{Op: "get schedule", Attempts: 1, Err: badAnswer(errNotOneResult)}
	}
	return m.GetSchedules()[0], nil
}

// Next reads the first n instants of a schedule from a time on, by its
// specification, also of one that is paused; fewer when there are no more within 40
// years. A zero time is now. ErrNotFound: there is none of the name.
func (s Schedules) Next(ctx context.Context, name string, from time.Time, n int) ([]*nornv1.Occurrence, error) {
	var all []*nornv1.Occurrence
	for len(all) < n {
		ask := &nornv1.SchedulesRequest{Names: []string{name}, Upcoming: uint32(min(n-len(all), proto.MaxUpcoming))}
		if !from.IsZero() {
			ask.UpcomingFrom = timestamppb.New(from)
		}
		m, err := s.page(ctx, ask)
		if err != nil {
			return nil, err
		}
		if len(m.GetSchedules()) != 1 {
			return nil, &Error{Op: "next of schedule", Attempts: 1, Err: badAnswer(errNotOneResult)}
		}
		some := m.GetSchedules()[0].GetUpcoming()
		all = append(all, some...)
		if len(some) < int(ask.GetUpcoming()) {
			break
		}
		from = some[len(some)-1].GetAt().AsTime().Add(1)
	}
	return all, nil
}

func (s Schedules) page(ctx context.Context, ask *nornv1.SchedulesRequest) (*nornv1.SchedulesReply, error) {
	m := &nornv1.SchedulesReply{}
	return m, s.c.read(ctx, "read schedules", nornv1.Method_METHOD_SCHEDULES, 0, ask, m)
}

// PutOptions are how [Schedules.Put] goes about it.
type PutOptions struct {
	// Create refuses, with ErrAlreadyExists, where there is one.
	Create bool
	// DryRun says what would come of it, and changes nothing.
	DryRun bool
	// KeepPaused leaves a schedule paused that is, whatever the specification
	// says.
	KeepPaused bool
	// IfVersion changes nothing unless the version is this; 0: whatever it is.
	IfVersion uint64
}

// Put makes a schedule, or gives the one of its name another specification. The
// same again changes nothing, so it may be repeated.
func (s Schedules) Put(ctx context.Context, name string, spec *nornv1.ScheduleSpec, o PutOptions) (*nornv1.ScheduleResult, error) {
	return s.one(ctx, "put schedule", putChange(name, spec, o))
}

func putChange(name string, spec *nornv1.ScheduleSpec, o PutOptions) *nornv1.ScheduleChange {
	return &nornv1.ScheduleChange{Name: name, IfVersion: o.IfVersion, Action: &nornv1.ScheduleChange_Put{
		Put: &nornv1.PutSchedule{Spec: spec, Create: o.Create, DryRun: o.DryRun, KeepPaused: o.KeepPaused},
	}}
}

// NamedSpec is a schedule that is to be.
type NamedSpec struct {
	Name string
	Spec *nornv1.ScheduleSpec
	// Options are how it is put.
	Options PutOptions
}

// PutMany is Put for many schedules, each decided for itself: the results are in
// the same order, with an Error where one was refused. An error of the call says
// that those from the first missing result on are unknown.
func (s Schedules) PutMany(ctx context.Context, all []NamedSpec) (results []*nornv1.ScheduleResult, err error) {
	for len(all) > 0 {
		ask, size := &nornv1.ChangeSchedulesRequest{}, 0
		for len(all) > 0 && len(ask.GetChanges()) < maxScheduleBatch && size < maxScheduleBytes {
			c := putChange(all[0].Name, all[0].Spec, all[0].Options)
			ask.Changes, all = append(ask.Changes, c), all[1:]
			size += protobuf.Size(c)
		}
		some, err := s.putAll(ctx, ask)
		results = append(results, some...)
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// putAll makes changes until each is decided. An answer tells of only so much: what an
// OVERLOADED says that it has no room for was not made, and is asked for again.
func (s Schedules) putAll(ctx context.Context, ask *nornv1.ChangeSchedulesRequest) ([]*nornv1.ScheduleResult, error) {
	const op = "put schedules"
	m, err := s.change(ctx, op, ask)
	if err != nil {
		return nil, err
	}
	results := m.GetResults()
	for sent := len(results); ; {
		var open []int
		more := &nornv1.ChangeSchedulesRequest{}
		for i, r := range results {
			if e := r.GetError(); e.GetKind() == nornv1.ErrorKind_ERROR_KIND_OVERLOADED && !e.GetLasting() {
				open, more.Changes = append(open, i), append(more.Changes, ask.GetChanges()[i])
			}
		}
		if len(open) == 0 || len(open) == sent { // it is for something else
			return results, nil
		}
		if m, err = s.change(ctx, op, more); err != nil {
			return results[:open[0]], err
		}
		for k, i := range open {
			results[i] = m.GetResults()[k]
		}
		sent = len(open)
	}
}

// Delete forgets the schedule that has the name now, with its history. Tasks that
// were launched stay. One that is made under the name later is left alone, however
// late a node carries this out.
func (s Schedules) Delete(ctx context.Context, name string) error {
	ctx, cancel := s.c.bounded(ctx, 0)
	defer cancel()
	m, err := s.page(ctx, &nornv1.SchedulesRequest{Names: []string{name}})
	if err != nil {
		return err
	}
	if len(m.GetSchedules()) != 1 {
		return &Error{Op: "delete schedule", Attempts: 1, Err: badAnswer(errNotOneResult)}
	}
	_, err = s.one(ctx, "delete schedule", &nornv1.ScheduleChange{Name: name, Action: &nornv1.ScheduleChange_Delete{
		Delete: &nornv1.DeleteSchedule{Uuid: m.GetSchedules()[0].GetUuid()},
	}})
	return err
}

// DeleteAsRead forgets a schedule as it was read. One that was changed since
// or made anew is left alone.
func (s Schedules) DeleteAsRead(ctx context.Context, read *nornv1.Schedule) error {
	_, err := s.one(ctx, "delete schedule", &nornv1.ScheduleChange{Name: read.GetName(), IfVersion: read.GetVersion(), Action: &nornv1.ScheduleChange_Delete{
		Delete: &nornv1.DeleteSchedule{Uuid: read.GetUuid()},
	}})
	return err
}

// Pause keeps a schedule from launching; a note, unless it is "", tells others why. What comes
// due meanwhile is skipped.
func (s Schedules) Pause(ctx context.Context, name, note string) (*nornv1.Schedule, error) {
	return s.pause(ctx, "pause schedule", name, &nornv1.PauseSchedule{Paused: true, Note: note})
}

// Resume ends a pause, and takes the note away.
func (s Schedules) Resume(ctx context.Context, name string) (*nornv1.Schedule, error) {
	return s.pause(ctx, "resume schedule", name, &nornv1.PauseSchedule{})
}

// Reset resumes a schedule that waits for the clock, because that was ahead:
// instants from now on are launched, also those that may have been.
func (s Schedules) Reset(ctx context.Context, name string) (*nornv1.Schedule, error) {
	return s.pause(ctx, "reset schedule", name, &nornv1.PauseSchedule{FromNow: true})
}

func (s Schedules) pause(ctx context.Context, op, name string, p *nornv1.PauseSchedule) (*nornv1.Schedule, error) {
	res, err := s.one(ctx, op, &nornv1.ScheduleChange{Name: name, Action: &nornv1.ScheduleChange_Pause{Pause: p}})
	return res.GetSchedule(), err
}

// Trigger launches a task of the schedule now, whatever its policies say. The
// ID of the task is in the result.
func (s Schedules) Trigger(ctx context.Context, name string) (*nornv1.ScheduleResult, error) {
	ctx, cancel := s.c.bounded(ctx, 0)
	defer cancel()
	if err := s.c.connect(ctx, "trigger schedule"); err != nil { // an ID in a partition that takes tasks
		return nil, err
	}
	return s.one(ctx, "trigger schedule", &nornv1.ScheduleChange{Name: name, Action: &nornv1.ScheduleChange_Trigger{
		Trigger: &nornv1.TriggerSchedule{TaskId: s.c.NewID().Bytes()},
	}})
}

// Backfill launches a task for each instant from one time up to another, not
// included: up to 1,000. The IDs of the tasks are in the result; with dryRun
// nothing is launched.
func (s Schedules) Backfill(ctx context.Context, name string, from, to time.Time, dryRun bool) (*nornv1.ScheduleResult, error) {
	return s.one(ctx, "backfill schedule", &nornv1.ScheduleChange{Name: name, Action: &nornv1.ScheduleChange_Backfill{
		Backfill: &nornv1.BackfillSchedule{From: timestamppb.New(from), To: timestamppb.New(to), Seed: s.c.NewID().Bytes(), DryRun: dryRun},
	}})
}

// one asks for one change.
func (s Schedules) one(ctx context.Context, op string, c *nornv1.ScheduleChange) (*nornv1.ScheduleResult, error) {
	m, err := s.change(ctx, op, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{c}})
	if err != nil {
		return nil, err
	}
	if bad := m.GetResults()[0].GetError(); bad != nil {
		return nil, &Error{Op: op, Attempts: 1, Unknown: bad.GetEffect() == nornv1.Effect_EFFECT_UNKNOWN, Err: proto.FromProto(bad)}
	}
	return m.GetResults()[0], nil
}

func (s Schedules) change(ctx context.Context, op string, ask *nornv1.ChangeSchedulesRequest) (*nornv1.ChangeSchedulesReply, error) {
	m := &nornv1.ChangeSchedulesReply{}
	r := &request{
		op: op, method: uint16(nornv1.Method_METHOD_CHANGE_SCHEDULES), body: message{m: ask}, write: true,
		decode: func(flags uint16, b []byte) error { return decodeInto(flags, b, m) },
	}
	err := s.c.do(ctx, r)
	for _, x := range m.GetResults() {
		// A repeated change that finds its own version, or its own schedule, may have
		// been made.
		if e := x.GetError(); e != nil && r.maybe && e.GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			e.Effect = nornv1.Effect_EFFECT_UNKNOWN
		}
	}
	if err == nil && len(m.GetResults()) != len(ask.GetChanges()) {
		err = &Error{Op: op, Attempts: 1, Unknown: true, Err: badAnswer(errNotOneResult)}
	}
	return m, err
}
