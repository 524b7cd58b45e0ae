package dependency

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/schedule/policy"
	"github.com/norn-dev/norn/vnode"
)

// Forgotten cancels tasks that wait for what can never be completed any more: a
// dependency that is older than gc-grace, so that nobody can enqueue it, and that
// nobody knows (design 8). [Machine.Admit] refuses that where the dependency is
// kept; a node that keeps only the task cannot tell, takes it, and its leader
// finds out here.
//
// The rule is that of admit, whatever the task's policy: how the dependency ended
// cannot be told, so that it is neither taken for completed nor for failed. But
// here it is a majority of the dependency's cohort that must not know it, several
// times: one replica may lack what the others have.
//
// A dependency may have come of age while the task waited. Then it may have been
// acknowledged with fewer copies than a majority, and those be with a member that is
// switched off: all of its cohort must not know it. So it is where all who keep the task
// were off for longer than what it needs is kept for them ([References]): it was completed,
// collected and forgotten, and nobody is left who could say how it ended. From when on an
// ID is old depends on its kind ([madeBy]). On one node, where nothing that a task waits
// for is forgotten, such a task waits on.
type Forgotten struct {
	m    *Machine
	next look // where it goes on

	// At is when it takes its next step, mono ns.
	At int64
	// Missed are the dependencies that may be forgotten.
	// Invariant: there are at most [MaxMissed] (Audit).
	Missed map[id.ID]*missed
}

// missed is a dependency that may be forgotten.
type missed struct {
	tasks   []id.ID // that wait for it
	all     bool    // it came of age while they waited: all are asked, not only a majority
	unheard int     // how often those who were asked did not know it
	asked   bool    // there is no answer yet
}

const (
	// SearchEvery is the pause between two looks through all waiting tasks, and
	// between two questions about one dependency: longer than most changes of a
	// cohort take to be known.
	SearchEvery = 10 * time.Second
	// SearchTimes is how often nobody may know a dependency before it counts as
	// forgotten: an answer may be of a replica that is none any more.
	SearchTimes = 3
	// MaxMissed bounds the dependencies asked about at a time. Each has at most
	// the tasks of one look, [watchStep].
	MaxMissed = 64
)

// newForgotten makes a search that begins [SearchEvery] after the node has company.
func newForgotten(m *Machine) *Forgotten {
	return &Forgotten{m: m, At: clock.Never, Missed: make(map[id.ID]*missed)}
}

// Work takes one step when it is time.
func (h *Forgotten) Work(now clock.Time) {
	switch {
	case h.m.View.Alone: // everything is judged when it is let in
		h.At = clock.Never
		clear(h.Missed)
		return
	case h.At == clock.Never:
		h.At = now.Mono + int64(SearchEvery)
		return
	case now.Mono < h.At:
		return
	}
	h.At = now.Mono + int64(SearchEvery)
	if len(h.Missed) == 0 && !h.scan(now) && len(h.Missed) == 0 {
		h.At = now.Mono + int64(WatchEvery) // there is more to look at
	}
	for _, dependency := range slices.SortedFunc(maps.Keys(h.Missed), id.ID.Compare) {
		if s := h.Missed[dependency]; !s.asked {
			s.asked = true
			h.seek(now, dependency, s)
		}
	}
}

// scan goes on through the waiting tasks that this node decides about, up to some
// number, and tells whether it came to the end.
//
// The place where it goes on is in memory: a restart begins with the first partition, and loses
// a turn.
func (h *Forgotten) scan(now clock.Time) (through bool) {
	c := h.m
	for left := watchStep; ; {
		if c.Partitions.See(h.next.partition).Leading() != 0 {
			pairs := vnode.Waiting(c.Round.Tx, h.next.partition, h.next.task, h.next.dependency, left)
			for _, pair := range pairs {
				if !h.suspect(now, pair) {
					return false // it goes on with this one
				}
				h.next.task, h.next.dependency = pair.Task, pair.Dependency
			}
			if left -= len(pairs); left == 0 {
				return false
			}
		}
		h.next = look{partition: (h.next.partition + 1) % ring.Partition(len(c.View.Cells))}
		if h.next.partition == 0 {
			return true
		}
	}
}

// suspect has a dependency asked about if it may be forgotten; false when there
// are too many of them now.
func (h *Forgotten) suspect(now clock.Time, pair vnode.Pair) bool {
	beyond, old := h.Beyond(now, pair.Task, pair.Dependency)
	if !beyond {
		return true
	}
	s := h.Missed[pair.Dependency]
	if s == nil {
		if len(h.Missed) >= MaxMissed {
			return false
		}
		s = &missed{all: true}
		h.Missed[pair.Dependency] = s
	}
	s.all = s.all && !old // the others come round again
	s.tasks = append(s.tasks, pair.Task)
	return true
}

// madeBy is the latest time, wall ns, at which a task of some ID is made: an SDK sends one
// under the time in it, a launch is begun as late as a schedule may say, and a key with a
// window has one until the window is over, of which the ID tells the beginning. ok: there is
// such a time. A key without a window may have any of its IDs again.
func madeBy(task id.ID) (wall int64, ok bool) {
	switch at := task.Nanos(); task.Kind() {
	case id.KindTask:
		return at, true
	case id.KindLaunch:
		return at + int64(policy.MaxWindow+policy.MaxJitter), true
	case id.KindKey:
		return at + int64(proto.MaxKeyWindow), task.Order() != id.OrderOf(0, id.KindKey)
	}
	return 0, false
}

// Beyond tells whether a dependency of a waiting task may be forgotten, as far as is
// known here: nobody can enqueue it by now, by any clock. old: nor could anybody when the
// task was let in.
func (h *Forgotten) Beyond(now clock.Time, task, dependency id.ID) (beyond, old bool) {
	c, grace := h.m, int64(h.m.GCGrace)
	made, ok := madeBy(dependency)
	if !ok || now.Wall-made <= grace || vnode.Known(c.Round.Tx, h.m.vnode(dependency).Partition, dependency) {
		return false, false
	}
	t, err := vnode.LoadTask(c.Round.Tx, c.vnode(task).Partition, task)
	if !c.Round.Check(err) || !t.Waiting() || t.Finished() {
		return false, false
	}
	old = max(t.Admission(), t.RequeuedAt())-made > grace
	by := min(now.Wall, c.Times.Wall(now)) // a clock that is ahead makes nothing old
	return old || by-made > grace+3*int64(c.Eta), old
}

// seek asks a majority of a dependency's cohort for it, or all: each acknowledged task
// that is not forgotten is found there.
func (h *Forgotten) seek(now clock.Time, dependency id.ID, s *missed) {
	h.m.Routes.Find(now, dependency, s.all, func(now clock.Time, err *proto.Error) {
		if h.Missed[dependency] != s {
			return
		}
		s.asked = false
		if err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			delete(h.Missed, dependency) // it is known, or nobody answers: it comes round again
			return
		}
		if s.unheard++; s.unheard < SearchTimes {
			return
		}
		delete(h.Missed, dependency)
		for _, task := range s.tasks {
			h.Conclude(now, task, dependency, s.all)
		}
	})
}

// Conclude cancels a task if everything is still as it was; all: all were asked.
func (h *Forgotten) Conclude(now clock.Time, task, dependency id.ID, all bool) {
	v := h.m.vnode(task)
	if v.Leading() == 0 || !slices.Contains(vnode.Blockers(h.m.Round.Tx, v.Partition, task), dependency) {
		return
	}
	if beyond, old := h.Beyond(now, task, dependency); !beyond || !old && !all {
		return
	}
	h.m.fail(now, v, task, dependency)
}
