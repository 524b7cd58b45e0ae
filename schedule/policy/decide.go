package policy

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
)

// Reason says why instants were skipped.
type Reason uint8

// Reasons.
const (
	_          Reason = iota
	Missed            // the catch-up policy leaves them out
	TooLate           // later than the window or the deadline
	Overlapped        // the task before still ran
	Paused            // the schedule was paused
	Edited            // an edit came before the launch
	InDoubt           // a restore does not know whether they were launched
	Limit             // the schedule had made all its launches
)

// Skipped is a range of instants that were not launched: all of the schedule
// from From to To, in wall ns.
type Skipped struct {
	From, To int64
	Reason   Reason
}

// Decision is what to do about a schedule.
type Decision struct {
	// After is the state to commit; Changed tells whether it differs from the
	// one before. Nothing else of the decision may be done unless the commit has
	// succeeded.
	After   State
	Changed bool
	// Launch asks to launch Instant, Late after it was to be, and Replace to
	// cancel the task of Replaced first.
	Launch   bool
	Instant  int64
	Late     time.Duration
	Replace  bool
	Replaced int64
	// Skips are what is decided not to be launched, oldest first; at most five.
	Skips []Skipped
	// Conclude asks to finish the open launch of Instant; nothing else is decided
	// before.
	Conclude bool
	// Pause asks to pause the schedule, because its last task has failed.
	Pause bool
	// Ended says that there will be no launch any more.
	Ended bool
	// Next is the next instant, clock.Never for none; its launch comes later by
	// the jitter.
	Next int64
	// Wake is the wall ns at which to decide again, at the latest; clock.Never
	// when only the end of a task or an edit changes anything.
	Wake int64
	// Ahead is how far the watermark is ahead of the clock: nothing is launched
	// until the clock has passed it. Over a second or two, tell the operator.
	Ahead time.Duration
}

// Decide decides about a schedule at now, in wall ns. The definition must pass
// Check.
func Decide(d *Definition, s State, now int64) Decision {
	m := moment{course: course{d: d, s: s}, before: s, now: now, due: minus(now, d.Offset())}
	m.out.Next = clock.Never
	switch {
	case s.Last.Status == Open && !mutant.OpenForgotten.On():
		m.out.Conclude, m.out.Instant = true, s.Last.Instant
		return m.finish(clock.Never)
	case d.Paused:
		return m.finish(clock.Never)
	case d.PauseOnFailure && s.Last.Status == Failed && !s.Last.Handled:
		m.s.Last.Handled, m.out.Pause = true, true
		return m.finish(clock.Never)
	case d.madeAll(&s):
		m.out.Ended = true
		m.dropQueued(Limit)
		return m.finish(clock.Never)
	}
	m.rewind()
	if m.waiting() || m.fresh() {
		return m.finish(now) // once the launch is concluded
	}
	return m.finish(m.wake())
}

// moment is a decision in the making.
type moment struct {
	course
	before State
	now    int64
	due    int64 // the latest instant that may be launched now: the jitter is taken off
	out    Decision
}

func (m *moment) finish(wake int64) Decision {
	after := m.s.Watermark
	if m.d.Paused {
		after = max(after, m.due) // what came due is going to be skipped
	}
	if next, ok := m.next(after); ok && !m.out.Ended {
		m.out.Next = next
	}
	m.out.Wake, m.out.After, m.out.Changed = wake, m.s, m.s != m.before
	m.out.Ahead = max(0, time.Duration(m.s.Watermark-max(m.now, 0)))
	return m.out
}

// wake is when something comes due, or what waits becomes too late.
func (m *moment) wake() int64 {
	wake := clock.Never
	if next, ok := m.next(m.s.Watermark); ok {
		wake = plus(next, m.d.Offset())
	} else {
		m.out.Ended = m.s.Queued == 0
	}
	if m.s.Queued != 0 {
		at := plus(m.s.Queued, m.d.Offset())
		if m.s.Queued <= m.due {
			at = plus(at, m.d.limit()+1)
		}
		wake = min(wake, at)
	}
	return wake
}

// rewind takes the watermark back to now when the clock has come back from a
// jump ahead. What may have been launched meanwhile is barred; what the jump
// left out had no launch, and gets it when its time comes.
func (m *moment) rewind() {
	g := m.s.Gap
	if g.empty() || m.due >= minus(g.To, Grace) || mutant.NoRewind.On() {
		return
	}
	if bar := (Span{g.To, m.s.Watermark}); bar.From <= bar.To && !mutant.NoBars.On() {
		m.s.Barred = m.s.Barred.with(bar, g.From)
	}
	m.s.Gap = Span{}
	m.decided(max(g.From, m.due))
	if m.s.Queued > m.due {
		m.dropQueued(Missed)
	}
}

// skip records instants that are not launched.
func (m *moment) skip(from, to int64, r Reason) {
	if from <= to {
		m.out.Skips = append(m.out.Skips, Skipped{from, to, r})
	}
}

// decided moves the watermark.
func (m *moment) decided(upTo int64) {
	m.s.Watermark, m.s.Shown = upTo, m.d.Table.Shown(upTo)
}

// launch begins an instant.
func (m *moment) launch(instant int64) {
	m.out.Launch, m.out.Instant = true, instant
	m.out.Late = time.Duration(m.due - instant)
	if m.s.Last.Status.Live() && m.d.Overlap == Replace {
		m.out.Replace, m.out.Replaced = true, m.s.Last.Instant
	}
	m.s.Last = Run{Instant: instant, Begun: m.now, Status: Open}
	m.s.Launches++
}

// dropQueued skips the instant that waits.
func (m *moment) dropQueued(r Reason) {
	if m.s.Queued != 0 {
		m.skip(m.s.Queued, m.s.Queued, r)
		m.s.Queued = 0
	}
}

// waiting looks at the instant that waits, and tells whether it is launched.
func (m *moment) waiting() bool {
	queued, live := m.s.Queued, m.s.Last.Status.Live()
	switch {
	case queued == 0 || queued > m.due:
	case queued < minus(m.due, m.d.limit()):
		m.dropQueued(TooLate)
	case live && m.d.Overlap == QueueOne:
	case live && m.d.Overlap == Skip: // the policy was changed
		m.dropQueued(Overlapped)
	default:
		m.s.Queued = 0
		m.launch(queued)
		return true
	}
	return false
}

// fresh looks at the instants since the watermark, and tells whether one is
// launched.
func (m *moment) fresh() bool {
	first, ok := m.next(m.s.Watermark)
	if !ok || first > m.due {
		return false
	}
	newest, _ := m.last(m.due)
	from, launch := m.choose(first, newest)
	m.passOver(first, newest, from, launch)
	if !launch {
		m.decided(newest)
		return false
	}
	if !m.s.Last.Status.Live() || m.d.Overlap == Allow {
		m.decided(from)
		m.launch(from)
		return true
	}
	rest, more := m.next(from)
	m.decided(newest)
	switch {
	case m.d.Overlap == Replace: // a backlog would only cancel itself
		if newest > from {
			before, _ := m.last(newest - 1)
			m.skip(from, before, Overlapped)
		}
		m.launch(newest)
		return true
	case m.d.Overlap == QueueOne && m.s.Queued == 0:
		m.s.Queued = from
		if more && rest <= newest {
			m.skip(rest, newest, Overlapped)
		}
	default:
		m.skip(from, newest, Overlapped)
	}
	return false
}

// choose gives the earliest of the due instants that is to be launched, and
// whether there is one.
func (m *moment) choose(first, newest int64) (int64, bool) {
	oldest := minus(m.due, m.d.limit())
	onTime := minus(m.due, min(Grace, m.d.limit()))
	from := onTime
	switch {
	case m.d.CatchUp == Latest && newest < onTime:
		from = max(newest, oldest)
	case m.d.CatchUp == All:
		from = oldest
		if missed, ok := m.last(onTime - 1); ok && missed >= first {
			from = max(oldest, m.back(missed, m.d.Count-1))
		}
	}
	at, ok := m.next(max(m.s.Watermark, from-1))
	return at, ok && at <= newest
}

// back is the instant so many steps before one, or the first there is.
func (m *moment) back(at int64, steps int) int64 {
	for range steps {
		before, ok := m.last(at - 1)
		if !ok || before <= m.s.Watermark {
			break
		}
		at = before
	}
	return at
}

// passOver skips what comes before the instant from which on there are
// launches, or all when there is none, and remembers the gap.
func (m *moment) passOver(first, newest, from int64, launch bool) {
	end := newest // the last that is passed over
	if launch {
		if from <= first {
			return
		}
		end, _ = m.last(from - 1)
	}
	if end-m.s.Watermark > int64(Grace) {
		m.s.Gap = Span{m.s.Watermark, end + 1}
	}
	oldest := minus(m.due, m.d.limit())
	if first < oldest {
		late, _ := m.last(min(end, oldest-1))
		m.skip(first, late, TooLate)
		if next, ok := m.next(late); ok && next <= end {
			m.skip(next, end, Missed)
		}
		return
	}
	m.skip(first, end, Missed)
}
