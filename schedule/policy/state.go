package policy

import (
	"math"

	"github.com/norn-dev/norn/schedule"
)

// Status is where the launch of an instant stands.
type Status uint8

// Statuses.
const (
	NoLaunch    Status = iota
	Open               // begun; whether the task is enqueued is not known
	Running            // enqueued and not finished, or not known to be
	Completed          // the task was completed
	Failed             // the task is dead
	Cancelled          // the task was cancelled
	NotEnqueued        // the attempt was made and failed (G14, G20)
	Unknown            // the task is finished and forgotten, or lost: how it ended is not known any more
)

// Live tells whether the task may be there and unfinished.
func (s Status) Live() bool { return s == Open || s == Running }

// Run is the last launch of a schedule.
type Run struct {
	Instant int64 // wall ns; with the schedule's UUID it names the task
	Begun   int64 // wall ns of the master that began it
	Status  Status
	// Handled says that a failure has paused the schedule already, or does not: it was
	// resumed since, or only then were failures to pause it.
	Handled bool
}

// Span is a range of instants in wall ns, both ends included; the zero Span is
// empty.
type Span struct{ From, To int64 }

func (s Span) empty() bool              { return s == Span{} }
func (s Span) holds(instant int64) bool { return !s.empty() && s.From <= instant && instant <= s.To }

// State is what is committed about a schedule. States can be compared with ==.
type State struct {
	// Watermark is the instant, in wall ns, up to which everything is decided.
	Watermark int64
	// Shown is the latest civil second that the schedule's zone had shown at the
	// watermark: if the tz database changes, no local time up to it comes again.
	Shown int64
	// Last is the last launch.
	Last Run
	// Queued is the instant that waits for the task of the last one, 0 for none.
	Queued int64
	// Launches is how many launches were begun.
	Launches uint64
	// Gap is what the last decision after a long time left out: from the watermark
	// before up to the first instant it considered. Nothing between was launched,
	// so if it was the clock that jumped, and it comes back, the watermark can
	// too.
	Gap Span
	// Barred are instants ahead of the watermark that may have been launched
	// while the clock was ahead: they are decided.
	Barred Bars
}

// Create is the state of a new schedule. Instants up to now are not its own;
// nor are those up to the watermark of the schedule that had its name before,
// which is 0 when there was none.
func Create(table *schedule.Timetable, now, predecessor int64) State {
	s := State{Watermark: max(now, predecessor)}
	s.Shown = table.Shown(s.Watermark)
	return s
}

// Conclude is the state after something became known of the launch of an
// instant: the end of an open one, or the fate of its task. What is older than
// the last launch, or less than is known, changes nothing.
func (s State) Conclude(instant int64, status Status) State {
	if s.Last.Instant == instant && s.Last.Status.Live() && status > s.Last.Status {
		s.Last.Status = status
	}
	return s
}

// Edit is the state after a definition took the place of another at now, and
// what is skipped by that: instants that came due during a pause that ends, or
// after all launches had been made where there are to be more, and old instants
// that had not been launched when times changed, also the one that waits. A
// definition before without a timetable could not be read: nothing of it is known
// that could be skipped but for that one.
func Edit(before, after *Definition, s State, now int64) (State, []Skipped) {
	var skips []Skipped
	moved := before.Table == nil || !before.sameTimes(after)
	if moved && s.Queued != 0 {
		skips = append(skips, Skipped{From: s.Queued, To: s.Queued, Reason: Edited})
		s.Queued = 0
	}
	if after.Offset() > before.Offset() {
		s.Gap = Span{} // what may be launched goes back by this, and not because the clock does
	}
	resumed := before.Paused && !after.Paused
	asked := after.PauseOnFailure && !before.PauseOnFailure
	if (resumed || asked) && s.Last.Status == Failed {
		s.Last.Handled = true // who asks for either knows of that, or there would be a pause at once
	}
	if before.Table == nil {
		s = s.upTo(now)
		s.Shown = after.Table.Shown(s.Watermark)
		return s, skips
	}
	more := before.madeAll(&s) && !after.madeAll(&s)
	if !resumed && !moved && !more {
		return s, nil
	}
	upTo := now
	if !moved {
		upTo = minus(now, before.Offset()) // what the jitter still holds back is not due
	}
	reason := Edited
	switch {
	case before.Paused:
		reason = Paused
	case before.madeAll(&s):
		reason = Limit
	}
	c := course{d: before, s: s}
	if first, ok := c.next(s.Watermark); ok && first <= upTo {
		last, _ := c.last(upTo)
		skips = append(skips, Skipped{From: first, To: last, Reason: reason})
	}
	return s.upTo(upTo).showing(after.Table, before.Table), skips
}

// Restore is the state after a restore from a snapshot at now: launches made
// since the snapshot are not known, so nothing up to now is launched, and one
// that was open is in doubt (design 10; G33).
func Restore(d *Definition, s State, now int64) (State, []Skipped) {
	var skips []Skipped
	if s.Last.Status == Open {
		skips = append(skips, Skipped{From: s.Last.Instant, To: s.Last.Instant, Reason: InDoubt})
		s.Last.Status = NotEnqueued
	}
	if s.Queued != 0 {
		skips = append(skips, Skipped{From: s.Queued, To: s.Queued, Reason: InDoubt})
		s.Queued = 0
	}
	c := course{d: d, s: s}
	if first, ok := c.next(s.Watermark); ok && first <= now {
		last, _ := c.last(now)
		skips = append(skips, Skipped{From: first, To: last, Reason: InDoubt})
	}
	return s.upTo(now).showing(d.Table, d.Table), skips
}

// Reset is the state after an operator has said that the clock was ahead and
// that instants from now on were not launched, or may be again: a watermark
// ahead of now is now. One that is not stays: what is due since, or held back by the
// jitter, has had no launch. An instant that waits ahead of now is one of those: it
// would be launched when its time comes, and then decided again.
func Reset(table *schedule.Timetable, s State, now int64) State {
	s.Gap, s.Barred = Span{}, Bars{}
	if s.Watermark > now {
		s.Watermark, s.Shown = now, table.Shown(now)
	}
	if s.Queued > now {
		s.Queued = 0
	}
	return s
}

// upTo is the state with everything decided up to an instant, also if the
// watermark should go back.
func (s State) upTo(instant int64) State {
	s.Watermark = max(s.Watermark, instant)
	if !s.Gap.empty() && instant < s.Gap.To {
		s.Gap.From = max(s.Gap.From, instant)
	}
	return s
}

// showing is the state with what clocks have shown at its watermark. What they had shown
// before in the same zone stays shown: another tz database may have set them back since.
func (s State) showing(table, before *schedule.Timetable) State {
	shown := table.Shown(s.Watermark)
	if table.Zone().Name() == before.Zone().Name() {
		shown = max(shown, s.Shown)
	}
	s.Shown = shown
	return s
}

// course is the instants of a schedule that are not decided.
type course struct {
	d *Definition
	s State
}

// next is the first instant after one that counts.
func (c course) next(after int64) (int64, bool) {
	if c.d.Start != 0 {
		after = max(after, c.d.Start-1)
	}
	at, ok := c.d.Table.NextUnshown(after, c.s.Shown)
	for range c.s.Barred { // each is left once
		bar, barred := c.s.Barred.at(at)
		if !ok || !barred {
			break
		}
		at, ok = c.d.Table.NextUnshown(bar.To, c.s.Shown)
	}
	return at, ok && (c.d.End == 0 || at < c.d.End)
}

// last is the last instant up to one; it may be before the watermark.
func (c course) last(upTo int64) (int64, bool) {
	if c.d.End != 0 {
		upTo = min(upTo, c.d.End-1)
	}
	at, ok := c.d.Table.Last(upTo)
	for range c.s.Barred {
		bar, barred := c.s.Barred.at(at)
		if !ok || !barred {
			break
		}
		at, ok = c.d.Table.Last(minus(bar.From, int64(1)))
	}
	return at, ok
}

// minus is a time before another, held at the beginning of time.
func minus[D ~int64](at int64, d D) int64 {
	if at < math.MinInt64+int64(d) {
		return math.MinInt64
	}
	return at - int64(d)
}

// plus is a time after another, held at the end of time.
func plus[D ~int64](at int64, d D) int64 {
	if at > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return at + int64(d)
}
