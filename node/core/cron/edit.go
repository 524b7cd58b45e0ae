package cron

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/policy"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Errors of edits.
var (
	// ErrNotFound is returned when there is no schedule of the name.
	ErrNotFound = errors.New("there is no such schedule")
	// ErrExists is returned when there is one, and none was expected.
	ErrExists = errors.New("the schedule is there already")
	// ErrVersion is returned when it has another version than was asked for.
	ErrVersion = errors.New("the schedule has another version")
	// ErrInvalid is returned when a schedule breaks a rule.
	ErrInvalid = errors.New("invalid schedule")
)

// Editor works out what an edit makes of a schedule. It changes nothing: the
// change is to be committed, and worked out anew where somebody else was first.
type Editor struct {
	Zones      *schedule.Zones
	Generation uint64 // of the register
	Now        int64  // wall ns
	MaxPayload int    // bytes
	// UUID draws the UUID of a new schedule.
	UUID func() [16]byte
	// Maker is whose rights the launches need of what is put or resumed; nil: nobody's.
	Maker *nornv1.ScheduleMaker
}

// Edit is what comes of an edit.
type Edit struct {
	// Change is to be committed; nil when there is nothing to change.
	Change *register.ScheduleChange
	// Record is the schedule as it is then, or as it was of one that goes.
	Record  *register.Schedule
	Created bool
	Before  *nornv1.ScheduleSpec // nil of a new one
	// Reread says that it was set before by other rules, which gave its
	// specification other instants.
	Reread bool
}

// current reads a schedule that is to be edited; rec may be nil or deleted.
func (e *Editor) current(rec *register.Schedule, version uint64) (l loaded, r record, err error) {
	if rec == nil || len(rec.Definition) == 0 {
		return l, r, ErrNotFound
	}
	if l, err = load(e.Zones, rec.Definition); errors.Is(err, ErrDamaged) {
		return l, r, err
	} else if err != nil {
		l.policy.Table = nil // of another tz database: it can be edited all the same
	}
	if r, err = decode(rec.State); err != nil {
		return l, r, err
	}
	if have := l.wire.GetVersion(); version != 0 && version != have {
		return l, r, fmt.Errorf("%w: %d, not %d", ErrVersion, have, version)
	}
	return l, r, nil
}

// Put makes a schedule, or gives it another definition.
func (e *Editor) Put(name string, rec *register.Schedule, version uint64, p *nornv1.PutSchedule) (Edit, error) {
	spec := gproto.CloneOf(p.GetSpec())
	if err := check(name, spec, e.MaxPayload); err != nil {
		return Edit{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	l, r, err := e.current(rec, version)
	switch {
	case errors.Is(err, ErrNotFound) && version == 0:
		return e.create(name, rec, spec)
	case err != nil:
		return Edit{}, err
	case p.GetCreate():
		return Edit{}, ErrExists
	}
	if p.GetKeepPaused() {
		spec.Paused = l.wire.GetSpec().GetPaused()
		if spec.Paused {
			spec.Note = l.wire.GetSpec().GetNote()
		}
	}
	return e.replace(name, rec, &l, &r, spec, uint32(schedule.Current))
}

func (e *Editor) create(name string, rec *register.Schedule, spec *nornv1.ScheduleSpec) (Edit, error) {
	uuid, now := e.UUID(), timestamppb.New(time.Unix(0, e.Now))
	d := &nornv1.ScheduleDefinition{Uuid: uuid[:], Version: 1, Created: now, Changed: now, Spec: spec, Reading: uint32(schedule.Current), Maker: e.Maker}
	p, _, err := compile(e.Zones, d)
	if err != nil {
		return Edit{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	change := register.ScheduleChange{Name: name}
	predecessor := int64(0)
	if rec != nil {
		change.Old = rec.Revision
		if old, err := decode(rec.State); err == nil {
			predecessor = old.policy.Watermark
		}
	}
	r := record{policy: policy.Create(p.Table, e.Now, predecessor), generation: e.Generation}
	return e.edit(change, rec, d, p.Table, &r, nil)
}

// replace gives a schedule another specification, to be read by some rules.
func (e *Editor) replace(name string, rec *register.Schedule, l *loaded, r *record, spec *nornv1.ScheduleSpec, reading uint32) (Edit, error) {
	before := l.wire.GetSpec()
	same := gproto.Equal(before, spec)
	if same && reading == l.wire.GetReading() {
		return Edit{Record: rec, Before: before}, nil
	}
	d := gproto.CloneOf(l.wire) // with what a newer node has written there
	d.Version, d.Changed, d.Spec, d.Reading = d.GetVersion()+1, timestamppb.New(time.Unix(0, e.Now)), spec, reading
	if !spec.GetPaused() { // who only pauses it answers for nothing that it launches
		d.Maker = e.Maker
	}
	p, _, err := compile(e.Zones, d)
	if err != nil {
		return Edit{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	reread := false
	if reading != l.wire.GetReading() && before.GetCron() == spec.GetCron() && before.GetTimeZone() == spec.GetTimeZone() {
		reread = l.policy.Table == nil || !l.policy.Table.Equal(p.Table)
	}
	if same && !reread { // the rules make no difference to it
		return Edit{Record: rec, Before: before}, nil
	}
	after, skips := policy.Edit(&l.policy, &p, r.policy, e.Now)
	r.policy = after
	for _, s := range skips {
		r.skip(l.policy.Table, s, keep(spec))
	}
	edit, err := e.edit(register.ScheduleChange{Name: name, Old: rec.Revision}, rec, d, p.Table, r, before)
	edit.Reread = reread
	return edit, err
}

// edit completes an edit.
func (e *Editor) edit(c register.ScheduleChange, rec *register.Schedule, d *nornv1.ScheduleDefinition, table *schedule.Timetable, r *record, before *nornv1.ScheduleSpec) (Edit, error) {
	var err error
	if c.Definition, err = pack(d, table); err != nil {
		return Edit{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	c.State = r.encode()
	revision := uint64(0)
	if rec != nil {
		revision = rec.Revision
	}
	return Edit{
		Change: &c, Created: before == nil, Before: before,
		Record: &register.Schedule{Name: c.Name, Revision: revision, Definition: c.Definition, State: c.State},
	}, nil
}

// Pause pauses a schedule or resumes it.
func (e *Editor) Pause(name string, rec *register.Schedule, version uint64, p *nornv1.PauseSchedule) (Edit, error) {
	l, r, err := e.current(rec, version)
	if err != nil {
		return Edit{}, err
	}
	spec := gproto.CloneOf(l.wire.GetSpec())
	if spec.Paused = p.GetPaused(); !spec.Paused || p.GetNote() != "" { // else why it is paused stays, or what was noted before
		spec.Note = p.GetNote()
	}
	if err := checkNote(spec); err != nil { // the rest is as it was, whatever limits are by now
		return Edit{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !p.GetFromNow() || l.policy.Table == nil {
		return e.replace(name, rec, &l, &r, spec, l.wire.GetReading())
	}
	edit, err := e.replace(name, rec, &l, &r, spec, l.wire.GetReading())
	if err != nil {
		return Edit{}, err
	}
	if edit.Change == nil {
		edit.Change = &register.ScheduleChange{Name: name, Old: rec.Revision}
	}
	r.policy = policy.Reset(l.policy.Table, r.policy, e.Now)
	edit.Change.State = r.encode()
	edit.Record = &register.Schedule{Name: name, Revision: rec.Revision, Definition: edit.Record.Definition, State: edit.Change.State}
	return edit, nil
}

// Delete forgets a schedule. Its watermark stays for a while: one that is made
// again under its name launches nothing that this one did.
func (e *Editor) Delete(name string, rec *register.Schedule, version uint64, uuid string) (Edit, error) {
	l, r, err := e.current(rec, version)
	if uuid != "" && (errors.Is(err, ErrNotFound) || err == nil && register.UUID(l.policy.UUID).String() != uuid) {
		return Edit{}, nil
	}
	if err != nil {
		return Edit{}, err
	}
	left := record{policy: policy.State{Watermark: max(r.policy.Watermark, e.Now)}, generation: e.Generation}
	return Edit{
		Change: &register.ScheduleChange{Name: name, Old: rec.Revision, Definition: []byte{}, State: left.encode()},
		Record: rec, Before: l.wire.GetSpec(),
	}, nil
}

// ByHand is what a user asks for beside the instants.
type ByHand struct {
	Tasks    []*nornv1.TaskSpec
	instants []int64
	backfill bool
}

// Trigger is the task that launches now: at the time of its ID, which the client
// has made before the first send, so that a repeated request asks for the same.
func (e *Editor) Trigger(name string, rec *register.Schedule, version uint64, task id.ID) (ByHand, error) {
	l, _, err := e.current(rec, version)
	if err != nil {
		return ByHand{}, err
	}
	t := l.wire.GetSpec().GetTask()
	dress(t, name, task.Nanos())
	t.Id = task.Bytes()
	return ByHand{Tasks: []*nornv1.TaskSpec{t}, instants: []int64{task.Nanos()}}, nil
}

// MaxBackfill is how many instants one backfill launches.
const MaxBackfill = 1000

// maxBackfillBytes bounds the request that they are, with their headers: it may go to
// another node, in one frame. dressBytes is what a launch has more than the task of its
// schedule: its ID, the name and the instant.
const maxBackfillBytes, dressBytes = proto.MaxFrame - 1<<16, 512

// Backfill are the tasks of the instants from one up to another. Their IDs
// follow from the seed.
func (e *Editor) Backfill(name string, rec *register.Schedule, version uint64, b *nornv1.BackfillSchedule) (ByHand, error) {
	l, _, err := e.current(rec, version)
	if err != nil {
		return ByHand{}, err
	}
	from, err := wall("from", b.GetFrom())
	to, bad := wall("to", b.GetTo())
	switch {
	case err != nil || bad != nil:
		return ByHand{}, fmt.Errorf("%w: %w", ErrInvalid, errors.Join(err, bad))
	case from == 0 || to <= from:
		return ByHand{}, fmt.Errorf("%w: a backfill goes from one time up to a later one", ErrInvalid)
	case l.policy.Table == nil:
		return ByHand{}, fmt.Errorf("%w: its specification cannot be read here", ErrInvalid)
	case len(b.GetSeed()) != id.Size:
		return ByHand{}, fmt.Errorf("%w: seed: it has %d bytes, not %d", ErrInvalid, len(b.GetSeed()), id.Size)
	}
	h, most := ByHand{backfill: true}, MaxBackfill
	if size := proto.SpecBytes(l.wire.GetSpec().GetTask()); size > 0 {
		most = min(most, proto.MaxBatchBytes/size) // they are one request
	}
	most = min(most, maxBackfillBytes/(gproto.Size(l.wire.GetSpec().GetTask())+dressBytes))
	for at := from - 1; ; {
		next, ok := l.policy.Table.Next(at)
		if !ok || next >= to {
			return h, nil
		}
		if at = next; len(h.Tasks) >= most {
			return ByHand{}, fmt.Errorf("%w: there are over %d instants; backfill in pieces", ErrInvalid, most)
		}
		t := gproto.CloneOf(l.wire.GetSpec().GetTask())
		dress(t, name, at)
		t.Id = id.Derived(id.ID(b.GetSeed()), uint64(len(h.Tasks))).Bytes()
		h.Tasks, h.instants = append(h.Tasks, t), append(h.instants, at)
	}
}

// Settle leaves of what was asked for what is enqueued, and returns the first of
// the errors, which are by task, nil for one that is enqueued. A task that is taken
// by another spec is enqueued where the history says so: the request came again
// after the schedule was edited.
func (e *Editor) Settle(rec *register.Schedule, h *ByHand, errs []*proto.Error) (bad *proto.Error) {
	_, r, err := e.current(rec, 0)
	kept := ByHand{backfill: h.backfill}
	for i, t := range h.Tasks {
		failed := errs[i]
		if failed != nil && failed.Kind == nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS && err == nil && r.noted(id.ID(t.GetId())) {
			failed = nil
		}
		if failed == nil {
			kept.Tasks, kept.instants = append(kept.Tasks, t), append(kept.instants, h.instants[i])
		} else if bad == nil {
			bad = failed
		}
	}
	*h = kept
	return bad
}

// Done records in the history what was launched by hand; nil when it is there
// already, as far as a history reaches.
func (e *Editor) Done(name string, rec *register.Schedule, h *ByHand) *register.ScheduleChange {
	l, r, err := e.current(rec, 0)
	if err != nil {
		return nil
	}
	k, n := triggered, keep(l.wire.GetSpec())
	if h.backfill {
		k = backfilled
	}
	changed := false
	for i := max(0, len(h.Tasks)-n); i < len(h.Tasks); i++ { // those before would be forgotten at once
		task := id.ID(h.Tasks[i].GetId())
		if r.noted(task) {
			continue
		}
		r.add(entry{kind: k, status: policy.Running, instant: h.instants[i], begun: e.Now, enqueued: e.Now, task: task}, n)
		changed = true
	}
	if !changed {
		return nil
	}
	return &register.ScheduleChange{Name: name, Old: rec.Revision, State: r.encode()}
}
