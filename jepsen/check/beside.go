package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// CronBeside is the invariant of schedules whose tasks do not run beside each
// other (I12).
const CronBeside = "tasks of a schedule do not overlap"

// CronQueued is the reason of an instant that waits still.
const CronQueued = "waits"

// Work is what is known from a history of the work on one task, ns of true time.
type Work struct {
	Runs []Window // in which a worker believed in a claim
	// Asked is when somebody first asked to end it, and Done when its end was
	// first acknowledged by a majority; 0: nobody has, or it is not known.
	Asked, Done int64
}

// Works gives the work on each task of a history.
func Works(events []*history.Event) map[id.ID]Work {
	l := NewLedger(LedgerOptions{})
	for _, e := range events {
		l.Add(e)
	}
	out := make(map[id.ID]Work, len(l.order))
	for _, a := range l.order {
		var w Work
		for _, g := range a.grants {
			if end := g.until(); end > g.back {
				w.Runs = append(w.Runs, Window{g.back, end})
			}
		}
		for _, x := range a.ends {
			if x.f == history.Release { // it goes on
				continue
			}
			if w.Asked == 0 || x.call < w.Asked {
				w.Asked = x.call
			}
			if x.done && !x.weak && x.f != history.FailTask && (w.Done == 0 || x.back < w.Done) {
				w.Done = x.back
			}
		}
		out[a.id] = w
	}
	return out
}

// apart holds a schedule to its policy of overlap: where tasks are not to run
// beside each other, none is begun before somebody has asked for the end of those
// before, and none is worked on beside another one of which that is so. Who still
// works then holds up nobody: its lease had lapsed, somebody else has ended the
// task, and it has not heard yet. Neither does a launch that is said not to have
// been enqueued, though there is its task.
func (j *cronJudge) apart() {
	s := j.s
	if s.Overlap == nornv1.Overlap_OVERLAP_ALLOW {
		return
	}
	type run struct {
		Window
		of *CronLaunch
	}
	var runs []run
	var before *CronLaunch // whose end was asked for last
	for i := range s.Launches {
		l := &s.Launches[i]
		if s.doubtful(l) {
			continue
		}
		for _, w := range l.Work.Runs {
			if end := l.Work.Asked; end != 0 {
				w.To = min(w.To, end)
			}
			if w.From < w.To {
				runs = append(runs, run{w, l})
			}
		}
		if before != nil && l.Begun != 0 && (before.Work.Asked == 0 || l.Begun < before.Work.Asked-int64(j.o.Skew)) {
			j.wrong(CronBeside, l.Instant, "schedule %s (%v): %s was begun at %s, and nobody had asked for the end of task %s of %s", s.Name, s.Overlap,
				clockText(l.Instant), clockText(l.Begun), before.Task, clockText(before.Instant))
		}
		if before == nil || before.Work.Asked != 0 && (l.Work.Asked == 0 || l.Work.Asked > before.Work.Asked) {
			before = l
		}
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.From, b.From) })
	for i := range runs[min(1, len(runs)):] {
		a, b := &runs[i], &runs[i+1]
		if a.of != b.of && b.From < a.To {
			j.wrong(CronBeside, b.of.Instant, "schedule %s (%v): task %s of %s runs from %s on, and task %s of %s until %s", s.Name, s.Overlap,
				b.of.Task, clockText(b.of.Instant), clockText(b.From), a.of.Task, clockText(a.of.Instant), clockText(a.To))
		}
		if a.To > b.To { // it runs on
			*b = run{Window{b.From, a.To}, a.of}
		}
	}
}

// held tells whether an instant was rightly left out, though nothing was wrong,
// because a task before ran: with skip one that was launched before and had not
// ended long ago; where one waits only if one was waiting already.
func (j *cronJudge) held(instant int64) bool {
	s := j.s
	if !slices.ContainsFunc(s.Skips, func(k CronSkip) bool { return k.has(instant) && k.Reason == overlapped }) {
		return j.waits(instant)
	}
	before := s.Launches[:s.before(instant)]
	switch s.Overlap {
	case nornv1.Overlap_OVERLAP_SKIP:
		// The one before the last counts where the last came late.
		return slices.ContainsFunc(before[max(0, len(before)-2):], func(l CronLaunch) bool {
			return l.Begun <= instant+int64(j.o.Skew) && (l.Work.Done == 0 || l.Work.Done >= instant-int64(j.o.Knows))
		})
	case nornv1.Overlap_OVERLAP_QUEUE_ONE:
		return slices.ContainsFunc(before, func(l CronLaunch) bool { return l.Begun == 0 || instant <= l.Begun+int64(j.o.Skew) }) ||
			slices.ContainsFunc(s.doubts, func(d doubt) bool { return d.instant < instant && instant <= d.begun+int64(j.o.Skew) }) ||
			slices.ContainsFunc(s.Skips, func(k CronSkip) bool { return k.From < instant && j.waits(k.From) })
	}
	return false
}

// waits tells whether an instant waited for a task that had not ended when
// everything was paused.
func (j *cronJudge) waits(instant int64) bool {
	s := j.s
	n := len(s.Launches)
	if s.Overlap != nornv1.Overlap_OVERLAP_QUEUE_ONE || n == 0 || s.before(instant) < n {
		return false
	}
	last := &s.Launches[n-1]
	return (last.Work.Done == 0 || last.Work.Done > s.Ended-int64(j.o.Knows)) && slices.ContainsFunc(s.Skips, func(k CronSkip) bool {
		return k.has(instant) && (k.Reason == CronQueued || k.Reason == nornv1.SkipReason_SKIP_REASON_PAUSED.String())
	})
}

// overlapped is the reason of an instant that was skipped because a task before
// ran.
var overlapped = nornv1.SkipReason_SKIP_REASON_OVERLAP.String()

func (k *CronSkip) has(instant int64) bool { return k.From <= instant && instant <= k.To }

// doubtful tells whether the history says that a launch could not be enqueued.
func (s *CronSchedule) doubtful(l *CronLaunch) bool {
	return slices.ContainsFunc(s.doubts, func(d doubt) bool { return d.instant == l.Instant })
}

// before gives how many launches there are of earlier instants.
func (s *CronSchedule) before(instant int64) int {
	n, _ := slices.BinarySearchFunc(s.Launches, instant, func(l CronLaunch, at int64) int { return cmp.Compare(l.Instant, at) })
	return n
}

// free is when a launch need not wait any more: at its instant or, where one
// waits, once the one before has ended; 0: that is not known.
func (j *cronJudge) free(l *CronLaunch) int64 {
	n := j.s.before(l.Instant)
	if j.s.Overlap != nornv1.Overlap_OVERLAP_QUEUE_ONE || n == 0 {
		return l.Instant
	}
	if done := j.s.Launches[n-1].Work.Done; done != 0 {
		return max(l.Instant, done)
	}
	return 0
}

// Overlaps is how often policies of overlap had something to decide.
type Overlaps struct {
	Beside  int // launches while another task was not finished: allowed
	Skipped int // entries of histories of instants that were skipped for it
	Waited  int // launches that waited
}

// CronOverlaps counts them.
func CronOverlaps(all []CronSchedule) (n Overlaps) {
	for i := range all {
		s := &all[i]
		for k := range s.Launches {
			l := &s.Launches[k]
			switch {
			case s.Overlap == nornv1.Overlap_OVERLAP_ALLOW && l.Begun != 0 && slices.ContainsFunc(s.Launches[:k], func(b CronLaunch) bool { return b.Work.Done > l.Begun }):
				n.Beside++
			case s.Overlap == nornv1.Overlap_OVERLAP_QUEUE_ONE && l.Begun > l.Instant+int64(time.Second/4):
				n.Waited++
			}
		}
		for _, k := range s.Skips {
			if k.Reason == overlapped {
				n.Skipped++
			}
		}
	}
	return n
}
