package cron

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/policy"
)

// kind is what an entry of the history is about: a nornv1.LaunchKind.
type kind byte

const (
	launched   = kind(nornv1.LaunchKind_LAUNCH_KIND_LAUNCH)
	skipped    = kind(nornv1.LaunchKind_LAUNCH_KIND_SKIP)
	triggered  = kind(nornv1.LaunchKind_LAUNCH_KIND_TRIGGER)
	backfilled = kind(nornv1.LaunchKind_LAUNCH_KIND_BACKFILL)
)

// entry is one of the history. Times are wall ns, 0 for none.
type entry struct {
	kind     kind
	status   policy.Status
	reason   policy.Reason
	instant  int64 // of a skip: the first
	to       int64 // of a skip: the last
	count    uint64
	begun    int64
	enqueued int64
	finished int64
	late     int64 // ns
	task     id.ID // of kind 0; that of a launch follows from its instant
	note     string
}

// live tells whether its task may be there and unfinished.
func (e *entry) live() bool {
	return e.kind != skipped && (e.status == policy.Open || e.status == policy.Running)
}

// record is what is committed about a schedule beside its definition.
//
// Invariant: what encode has written decode reads to the same record, and records of version 1
// as well (state_test.go): the register keeps them while the program is updated.
//
// Invariant: of the launches by the timetable only the last may be [policy.Open]: policy.Decide
// begins none before that one has ended or runs.
type record struct {
	policy policy.State
	// generation of the register that the state was decided in. Whoever finds
	// another one has a register that was restored: see policy.Restore.
	generation uint64
	// replaced is the launch whose task is cancelled before the open one is
	// enqueued, 0 for none.
	replaced int64
	skipped  uint64 // instants
	failed   uint64 // launches whose task failed or was not enqueued
	history  []entry
}

// recordVersion begins each record. One of version 1 has no coarse entries.
const recordVersion = 2

// Flags of an entry: which of its fields are not 0.
const (
	hasSkip = 1 << iota
	hasBegun
	hasEnqueued
	hasFinished
	hasTask
	hasNote
	// coarse says that its instants are full seconds and its other times full
	// microseconds, and written as such: a history is most of what a schedule
	// takes in memory, and this makes it half as long.
	coarse
)

// maxNote bounds the note of an entry in bytes.
const maxNote = 200

// encode writes a record for the register, which keeps so many bytes of a schedule
// and refuses what has more: the oldest of a history with long notes are forgotten
// then, or the schedule would never go on.
func (r *record) encode() []byte {
	b := r.bytes()
	for len(b) > register.MaxScheduleState && len(r.history) > 0 {
		r.history = slices.Delete(r.history, 0, 1+len(r.history)/16)
		b = r.bytes()
	}
	return b
}

// encodeWithin is encode in a register that is nearly full: of the history no more stays
// than takes so many bytes, but for the newest entry.
func (r *record) encodeWithin(most int) []byte {
	b := r.encode()
	for len(b) > most && len(r.history) > 1 {
		r.history = slices.Delete(r.history, 0, 1)
		b = r.bytes()
	}
	return b
}

func (r *record) bytes() []byte {
	var w wire.Writer
	w.Byte(recordVersion)
	w.Bytes(r.policy.Append(nil))
	w.Uint(r.generation)
	signed(&w, r.replaced)
	w.Uint(r.skipped)
	w.Uint(r.failed)
	w.Uint(uint64(len(r.history)))
	last := int64(0)
	for i := range r.history {
		r.history[i].encode(&w, last)
		last = r.history[i].instant
	}
	return w.B
}

// signed writes a number that may be negative: zigzag, as protobuf does.
func signed(w *wire.Writer, v int64) { w.Uint(uint64(v)<<1 ^ uint64(v>>63)) }

func readSigned(r *wire.Reader) int64 {
	v := r.Uint()
	return int64(v>>1) ^ -int64(v&1)
}

// tick is the unit of an entry's times but for its instants, ns.
const tick = int64(time.Microsecond)

// coarse tells whether the entry can be written that way: by the differences that
// are written, because those of times that are far apart overflow.
func (e *entry) coarse(last int64) bool {
	second := int64(time.Second)
	return (e.instant-last)%second == 0 && (e.kind != skipped || (e.to-e.instant)%second == 0) &&
		(!e.hasBegun() || (e.begun-e.instant)%tick == 0 && (e.late-(e.begun-e.instant))%tick == 0) &&
		(e.enqueued == 0 || (e.enqueued-e.begun)%tick == 0) && (e.finished == 0 || (e.finished-e.begun)%tick == 0)
}

// hasBegun tells whether there is something to write of its begin. One that is late
// is late, whether it has begun or not.
func (e *entry) hasBegun() bool { return e.begun != 0 || e.late != 0 }

// units are those of instants and of other times in ns.
func units(flags byte) (instants, times int64) {
	if flags&coarse != 0 {
		return int64(time.Second), tick
	}
	return 1, 1
}

// encode writes an entry; last is the instant of the one before, because they
// are near each other.
func (e *entry) encode(w *wire.Writer, last int64) {
	flags := byte(0)
	for i, has := range []bool{e.kind == skipped, e.hasBegun(), e.enqueued != 0, e.finished != 0, e.task != id.ID{}, e.note != "", e.coarse(last)} {
		if has {
			flags |= 1 << i
		}
	}
	instants, times := units(flags)
	w.Byte(byte(e.kind))
	w.Byte(flags)
	signed(w, (e.instant-last)/instants)
	if flags&hasSkip != 0 {
		w.Byte(byte(e.reason))
		signed(w, (e.to-e.instant)/instants)
		w.Uint(e.count)
	} else {
		w.Byte(byte(e.status))
	}
	if flags&hasBegun != 0 {
		signed(w, (e.begun-e.instant)/times)
		late := e.late
		if flags&coarse != 0 { // without jitter that is what it is late by
			late -= e.begun - e.instant
		}
		signed(w, late/times)
	}
	if flags&hasEnqueued != 0 {
		signed(w, (e.enqueued-e.begun)/times)
	}
	if flags&hasFinished != 0 {
		signed(w, (e.finished-e.begun)/times)
	}
	if flags&hasTask != 0 {
		w.Fixed(e.task[:])
	}
	if flags&hasNote != 0 {
		w.String(e.note)
	}
}

func readEntry(r *wire.Reader, last int64) (e entry) {
	e.kind = kind(r.Byte())
	flags := r.Byte()
	instants, times := units(flags)
	e.instant = last + readSigned(r)*instants
	if flags&hasSkip != 0 {
		e.reason = policy.Reason(r.Byte())
		e.to = e.instant + readSigned(r)*instants
		e.count = r.Uint()
	} else if e.status = policy.Status(r.Byte()); e.status > policy.Unknown {
		r.Fail()
	}
	if flags&hasBegun != 0 {
		e.begun = e.instant + readSigned(r)*times
		if e.late = readSigned(r) * times; flags&coarse != 0 {
			e.late += e.begun - e.instant
		}
	}
	if flags&hasEnqueued != 0 {
		e.enqueued = e.begun + readSigned(r)*times
	}
	if flags&hasFinished != 0 {
		e.finished = e.begun + readSigned(r)*times
	}
	if flags&hasTask != 0 {
		r.Fixed(e.task[:])
	}
	if flags&hasNote != 0 {
		e.note = r.String(maxNote)
	}
	if e.kind < launched || e.kind > backfilled || (e.kind == skipped) != (flags&hasSkip != 0) || e.reason > policy.Limit {
		r.Fail()
	}
	return e
}

// decode reads what encode has written, and returns ErrDamaged for anything
// else.
func decode(b []byte) (r record, err error) {
	rd := wire.NewReader(b)
	if v := rd.Byte(); v == 0 || v > recordVersion {
		return record{}, ErrDamaged
	}
	if r.policy, err = policy.ReadState(rd.Bytes(register.MaxScheduleState)); err != nil {
		return record{}, ErrDamaged
	}
	r.generation, r.replaced = rd.Uint(), readSigned(rd)
	r.skipped, r.failed = rd.Uint(), rd.Uint()
	n := rd.Count(MaxHistory)
	if n > 0 {
		r.history = make([]entry, 0, n+1)
	}
	last := int64(0)
	for range n {
		e := readEntry(rd, last)
		r.history, last = append(r.history, e), e.instant
	}
	if rd.End() != nil {
		return record{}, ErrDamaged
	}
	return r, nil
}

// add appends an entry and forgets the oldest beyond keep.
func (r *record) add(e entry, keep int) {
	r.history = append(r.history, e)
	if over := len(r.history) - keep; over > 0 {
		r.history = slices.Delete(r.history, 0, over)
	}
}

// noted tells whether the history has a task that was launched by hand.
func (r *record) noted(task id.ID) bool {
	return slices.ContainsFunc(r.history, func(e entry) bool { return e.task == task })
}

// keep is how many entries a schedule keeps.
func keep(s *nornv1.ScheduleSpec) int {
	if n := int(s.GetHistory()); n > 0 {
		return n
	}
	return DefaultHistory
}

// maxCounted bounds the instants of one skip that are counted: a year of
// seconds is a skip as well.
const maxCounted = 1000

// skip records instants that are not launched. What continues the last entry is
// added to it, so that a long wait does not push the launches out.
func (r *record) skip(t *schedule.Timetable, s policy.Skipped, keep int) {
	n := uint64(1)
	for at := s.From; at < s.To && n < maxCounted; n++ {
		next, ok := t.Next(at)
		if !ok || next > s.To {
			break
		}
		at = next
	}
	r.skipped += n
	if k := len(r.history) - 1; k >= 0 && r.history[k].kind == skipped && r.history[k].reason == s.Reason && r.history[k].to < s.From {
		r.history[k].to, r.history[k].count = s.To, min(r.history[k].count+n, math.MaxUint32)
		return
	}
	r.add(entry{kind: skipped, reason: s.Reason, instant: s.From, to: s.To, count: n}, keep)
}

// begin records a launch that is committed with this record.
func (r *record) begin(instant, now int64, late time.Duration, keep int) {
	r.add(entry{kind: launched, status: policy.Open, instant: instant, begun: now - now%tick, late: int64(late) - now%tick}, keep)
}

// fact is something that became known of a launch.
type fact struct {
	instant int64 // of a launch
	task    id.ID // of a trigger or a backfill
	status  policy.Status
	at      int64 // wall ns
	note    string
}

// conclude takes in a fact, and tells whether it says anything new.
func (r *record) conclude(f *fact) (changed bool) {
	if f.task == (id.ID{}) {
		after := r.policy.Conclude(f.instant, f.status)
		changed = after != r.policy
		r.policy = after
		if changed && f.status != policy.Open {
			r.replaced = 0
		}
	}
	for i := range r.history {
		e := &r.history[i]
		if e.kind == skipped || e.task != f.task || f.task == (id.ID{}) && (e.kind != launched || e.instant != f.instant) || !e.live() || f.status <= e.status {
			continue
		}
		e.status, changed = f.status, true
		if f.status == policy.Running {
			e.enqueued = f.at - f.at%tick
		} else {
			e.finished = f.at - f.at%tick
		}
		if f.note != "" {
			e.note = cut(f.note)
		}
	}
	if changed && (f.status == policy.Failed || f.status == policy.NotEnqueued) {
		r.failed++
	}
	return changed
}

// cut shortens a note, at a character.
func cut(s string) string {
	if len(s) > maxNote {
		s = s[:maxNote]
	}
	return strings.ToValidUTF8(s, "")
}
