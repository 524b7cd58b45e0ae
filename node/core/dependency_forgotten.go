package core

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

	gproto "google.golang.org/protobuf/proto"
)

// forgottenDependencies cancels tasks that wait for what can never be completed any more: a
// dependency that is older than gc-grace, so that nobody can enqueue it, and that
// nobody knows (design 8). [edges.admit] refuses that where the dependency is
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
// were off for longer than what it needs is kept for them ([references]): it was completed,
// collected and forgotten, and nobody is left who could say how it ended. From when on an
// ID is old depends on its kind ([madeBy]). On one node, where nothing that a task waits
// for is forgotten, such a task waits on.
type forgottenDependencies struct {
	l      *edges
	at     int64 // mono ns of the next step
	next   look  // where it goes on
	missed map[id.ID]*missed
}

// missed is a dependency that may be forgotten.
type missed struct {
	tasks   []id.ID // that wait for it
	all     bool    // it came of age while they waited: all are asked, not only a majority
	unheard int     // how often those who were asked did not know it
	asked   bool    // there is no answer yet
}

const (
	// horizonEvery is the pause between two looks through all waiting tasks, and
	// between two questions about one dependency: longer than most changes of a
	// cohort take to be known.
	horizonEvery = 10 * time.Second
	// horizonMissing is how often nobody may know a dependency before it counts as
	// forgotten: an answer may be of a replica that is none any more.
	horizonMissing = 3
	// maxMissed bounds the dependencies asked about at a time. Each has at most
	// the tasks of one look, [watchStep].
	maxMissed = 64
)

func newForgottenDependencies(l *edges) *forgottenDependencies {
	return &forgottenDependencies{l: l, at: clock.Never, missed: make(map[id.ID]*missed)}
}

// work takes one step when it is time.
func (h *forgottenDependencies) work(now clock.Time) {
	switch {
	case h.l.c.view.Alone: // everything is judged when it is let in
		h.at = clock.Never
		clear(h.missed)
		return
	case h.at == clock.Never:
		h.at = now.Mono + int64(horizonEvery)
		return
	case now.Mono < h.at:
		return
	}
	h.at = now.Mono + int64(horizonEvery)
	if len(h.missed) == 0 && !h.scan(now) && len(h.missed) == 0 {
		h.at = now.Mono + int64(watchEvery) // there is more to look at
	}
	for _, dependency := range slices.SortedFunc(maps.Keys(h.missed), id.ID.Compare) {
		if s := h.missed[dependency]; !s.asked {
			s.asked = true
			h.seek(now, dependency, s)
		}
	}
}

// scan goes on through the waiting tasks that this node decides about, up to some
// number, and tells whether it came to the end.
func (h *forgottenDependencies) scan(now clock.Time) (through bool) {
	c := h.l.c
	for left := watchStep; ; {
		if c.vnodes.See(h.next.partition).Leading() != 0 {
			pairs := vnode.Waiting(c.round.Tx, h.next.partition, h.next.task, h.next.dependency, left)
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
		h.next = look{partition: (h.next.partition + 1) % ring.Partition(len(c.view.Cells))}
		if h.next.partition == 0 {
			return true
		}
	}
}

// suspect has a dependency asked about if it may be forgotten; false when there
// are too many of them now.
func (h *forgottenDependencies) suspect(now clock.Time, pair vnode.Pair) bool {
	beyond, old := h.beyond(now, pair.Task, pair.Dependency)
	if !beyond {
		return true
	}
	s := h.missed[pair.Dependency]
	if s == nil {
		if len(h.missed) >= maxMissed {
			return false
		}
		s = &missed{all: true}
		h.missed[pair.Dependency] = s
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

// beyond tells whether a dependency of a waiting task may be forgotten, as far as is
// known here: nobody can enqueue it by now, by any clock. old: nor could anybody when the
// task was let in.
func (h *forgottenDependencies) beyond(now clock.Time, task, dependency id.ID) (beyond, old bool) {
	c, grace := h.l.c, int64(h.l.c.cfg.GCGrace)
	made, ok := madeBy(dependency)
	if !ok || now.Wall-made <= grace || vnode.Known(c.round.Tx, h.l.c.vnode(dependency).Partition, dependency) {
		return false, false
	}
	t, err := vnode.LoadTask(c.round.Tx, c.vnode(task).Partition, task)
	if !c.round.Check(err) || !t.Waiting() || t.Finished() {
		return false, false
	}
	old = max(t.Admission(), t.RequeuedAt())-made > grace
	by := min(now.Wall, c.standing.Clocks.Wall(now)) // a clock that is ahead makes nothing old
	return old || by-made > grace+3*int64(c.cfg.Eta), old
}

// seek asks a majority of a dependency's cohort for it, or all: each acknowledged task
// that is not forgotten is found there.
func (h *forgottenDependencies) seek(now clock.Time, dependency id.ID, s *missed) {
	c := h.l.c
	m := &nornv1.GetRequest{Id: dependency.Bytes(), Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_QUORUM}}
	if s.all {
		m.Consistency.Level = nornv1.ReadLevel_READ_LEVEL_ALL
	}
	one := items{n: 1, task: func(int) []byte { return m.GetId() }, join: &whole{}}
	c.routes.do(now, c.crons.origin(nornv1.Method_METHOD_GET), one, m, func(now clock.Time, _ gproto.Message, err *proto.Error) {
		if h.missed[dependency] != s {
			return
		}
		s.asked = false
		if err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			delete(h.missed, dependency) // it is known, or nobody answers: it comes round again
			return
		}
		if s.unheard++; s.unheard < horizonMissing {
			return
		}
		delete(h.missed, dependency)
		for _, task := range s.tasks {
			h.conclude(now, task, dependency, s.all)
		}
	})
}

// conclude cancels a task if everything is still as it was; all: all were asked.
func (h *forgottenDependencies) conclude(now clock.Time, task, dependency id.ID, all bool) {
	v := h.l.c.vnode(task)
	if v.Leading() == 0 || !slices.Contains(vnode.Blockers(h.l.c.round.Tx, v.Partition, task), dependency) {
		return
	}
	if beyond, old := h.beyond(now, task, dependency); !beyond || !old && !all {
		return
	}
	h.l.fail(now, v, task, dependency)
}
