package cron

import (
	"fmt"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/policy"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// QueueOf is the queue of a schedule's tasks; empty where it cannot be read.
func QueueOf(rec *register.Schedule) string {
	d, err := wireOf(rec.Definition)
	if err != nil {
		return ""
	}
	return d.GetSpec().GetTask().GetQueue()
}

// Show is a schedule as clients see it at now, in wall ns; nil of one that is
// deleted.
func Show(zones *schedule.Zones, cluster [16]byte, rec *register.Schedule, now int64, history bool) *nornv1.Schedule {
	if rec == nil || len(rec.Definition) == 0 {
		return nil
	}
	l, err := load(zones, rec.Definition)
	if l.wire == nil {
		return &nornv1.Schedule{Name: rec.Name, Problem: ErrDamaged.Error()}
	}
	s := &nornv1.Schedule{
		Name: rec.Name, Uuid: register.UUID(l.policy.UUID).String(), Version: l.wire.GetVersion(),
		Created: l.wire.GetCreated(), Changed: l.wire.GetChanged(), Spec: l.wire.GetSpec(), Reading: l.wire.GetReading(), MadeBy: l.wire.GetMaker().GetName(),
	}
	r, damaged := decode(rec.State)
	if damaged != nil {
		err = damaged
	}
	if err != nil {
		s.Problem = fmt.Sprintf("it is not launched: %v", err)
		return s
	}
	if l.spec.Picks() {
		s.Resolved = l.spec.Resolve(l.policy.UUID)
	}
	s.Warnings = append(l.spec.Warnings(), endWarning(&l, &r)...)
	s.Launches, s.Skipped, s.Failed = r.policy.Launches, r.skipped, r.failed
	v := view{cluster, l.policy.UUID}
	v.future(s, &l.policy, &r, now)
	for i := len(r.history) - 1; i >= 0; i-- {
		e := &r.history[i]
		if e.live() {
			s.Running++
		}
		if e.kind == launched && e.instant == r.policy.Last.Instant && s.Last == nil {
			s.Last = v.launch(e)
		}
		if history {
			s.History = append(s.History, v.launch(e))
		}
	}
	if last := &r.policy.Last; s.Last == nil && last.Status != policy.NoLaunch { // the history has forgotten it
		late := max(0, last.Begun-last.Instant-int64(l.policy.Offset()))
		s.Last = v.launch(&entry{kind: launched, instant: last.Instant, begun: last.Begun, status: last.Status, late: late})
		if last.Status.Live() {
			s.Running++
		}
	}
	return s
}

// endWarning says that an end came before the first instant when it was set.
func endWarning(l *loaded, r *record) []string {
	d, set := &l.policy, l.wire.GetChanged().AsTime().UnixNano()
	if d.End == 0 || d.End <= set && r.policy.Launches > 0 { // it has ended, and was paused or the like since
		return nil
	}
	first, ok := d.Table.Next(max(d.Start-1, set))
	if !ok || first < d.End {
		return nil
	}
	clock := func(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339) }
	return []string{fmt.Sprintf("it ends at %s, before its first instant at %s: nothing is launched", clock(d.End), clock(first))}
}

// UpcomingFrom is the time from which instants are asked for, in wall ns: now
// unless it is said.
func UpcomingFrom(t *timestamppb.Timestamp, now int64) (int64, error) {
	from, err := wall("upcoming_from", t)
	if from == 0 {
		from = now
	}
	return from, err
}

// Upcoming are the first n instants from a time on, in wall ns, by the
// specification of a schedule: whatever is launched of them. There are none of one
// that is deleted or cannot be read.
func Upcoming(zones *schedule.Zones, rec *register.Schedule, from int64, n int) (all []*nornv1.Occurrence) {
	if rec == nil || len(rec.Definition) == 0 || n == 0 {
		return nil
	}
	l, err := load(zones, rec.Definition)
	if err != nil {
		return nil
	}
	for at := max(from, l.policy.Start) - 1; len(all) < n; {
		next, ok := l.policy.Table.Next(at)
		if !ok || l.policy.End != 0 && next >= l.policy.End {
			break
		}
		o := l.policy.Table.Describe(next)
		all = append(all, &nornv1.Occurrence{At: instantOf(next), Local: o.Local(), Offset: schedule.OffsetText(o.Offset), Note: o.Note()})
		at = next
	}
	return all
}

// view shows one schedule.
type view struct{ cluster, uuid [16]byte }

// future fills what is to come.
func (v view) future(s *nornv1.Schedule, def *policy.Definition, r *record, now int64) {
	open := r.policy.Last.Status == policy.Open
	if open { // what comes after it
		r.policy.Last.Status = policy.Running
		defer func() { r.policy.Last.Status = policy.Open }()
	}
	d := policy.Decide(def, r.policy, now)
	s.Queued = instantOf(r.policy.Queued)
	s.Ended, s.AheadSeconds = d.Ended, d.Ahead.Seconds()
	next := d.Next
	if d.Launch { // it is due: the decision is past it
		next = d.Instant
	}
	if next == clock.Never || def.Paused {
		return
	}
	at := next + int64(def.Offset())
	s.Next, s.NextLaunch = instantOf(next), instantOf(at)
	if late := now - at; late > 0 && !open {
		s.OverdueSeconds = time.Duration(late).Seconds()
	}
}

// launch is an entry of the history.
func (v view) launch(e *entry) *nornv1.Launch {
	l := &nornv1.Launch{
		Kind: nornv1.LaunchKind(e.kind), Instant: instantOf(e.instant), Count: 1, Note: e.note,
		Status: nornv1.LaunchStatus(e.status), Begun: instantOf(e.begun), Enqueued: instantOf(e.enqueued),
		Finished: instantOf(e.finished), LateSeconds: time.Duration(e.late).Seconds(),
	}
	switch {
	case e.kind == skipped:
		l.To, l.Count, l.Reason = instantOf(e.to), uint32(e.count), nornv1.SkipReason(e.reason)
	case e.kind == launched:
		l.TaskId = id.Launch(v.cluster, v.uuid, e.instant).String()
	default:
		l.TaskId = e.task.String()
	}
	return l
}

// instantOf is a time on the wire; 0 is none.
func instantOf(wall int64) *timestamppb.Timestamp {
	if wall == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, wall))
}
