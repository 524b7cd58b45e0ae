package sim

import (
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// reader looks at tasks, lists, counts and logs.
type reader struct {
	*caller
	stopped bool
	seen    map[id.ID]history.Entry // how far it has read the logs of some tasks; nil: of none
}

func (s *sim) newReader() *reader {
	r := &reader{caller: s.newCaller()}
	r.after(s.About(s.plan.Work.Think), r.act)
	return r
}

func (r *reader) act() {
	if r.stopped {
		return
	}
	s := r.s
	next := func() { r.after(r.pause(), r.act) }
	j := s.board.some(&s.World)
	switch n := s.Rnd.IntN(10); {
	case j == nil || n == 0:
		r.count("", next)
	case n == 1:
		r.count(j.queue, next)
	case n == 2 && !s.cannot(history.Explain):
		r.do(&nornv1.ExplainRequest{Id: j.id.Bytes()}, 3*time.Second, func(*answer) { next() })
	case n == 3: // pages of lists cost most of all reads
		m := &nornv1.ListRequest{Limit: uint32(1 + s.Rnd.IntN(20))}
		if s.Chance(0.5) {
			m.Queue = j.queue
		}
		if s.Chance(0.3) {
			m.States = []nornv1.State{nornv1.State_STATE_COMPLETED, nornv1.State_STATE_READY}
		}
		r.list(m, nil, 1+s.Rnd.IntN(maxPages), next)
	case n <= 6:
		task := j.id
		if len(s.board.hot) > 0 && s.Chance(0.8) {
			task = world.Pick(&s.World, s.board.hot)
		}
		r.follow(task, nil, 1+s.Rnd.IntN(5), next)
	default:
		r.get(j.id, func(*answer) { next() })
	}
}

// pause draws the time between two reads. In the calm of a cluster there is not
// much to see, and it may last for minutes.
func (r *reader) pause() time.Duration {
	mean := r.s.plan.Work.Think / 2
	if r.s.healing && r.s.fleet != nil {
		mean *= 5
	}
	return r.s.About(mean)
}

// get reads a task. Where it has read the log before, it often asks for as much at least,
// whatever node it talks to now.
func (r *reader) get(task id.ID, done func(*answer)) {
	level := r.s.consistency()
	if e, ok := r.seen[task]; ok && !r.s.healing && r.s.Chance(0.7) {
		if level == nil {
			level = &nornv1.Consistency{}
		}
		level.AtLeast, level.AtLeastToken, level.AtLeastSeq = true, e.Token, e.Seq
	}
	r.do(&nornv1.GetRequest{Id: task.Bytes(), Consistency: level}, 3*time.Second, func(a *answer) {
		if a.fine() {
			r.s.stats[stats.Reads]++
			r.reads(a)
		}
		done(a)
	})
}

// reads notes how far a log was shown.
func (r *reader) reads(a *answer) {
	if len(a.end.Items) != 1 {
		return
	}
	if r.seen == nil {
		r.seen = make(map[id.ID]history.Entry)
	}
	if log := a.end.Items[0].Log; len(log) > 0 {
		last, before := log[len(log)-1], r.seen[a.end.Items[0].Task]
		if last.Token > before.Token || last.Token == before.Token && last.Seq > before.Seq {
			r.seen[a.end.Items[0].Task] = last
		}
	}
}

func (r *reader) count(queue string, next func()) {
	r.do(&nornv1.CountRequest{Queue: queue}, 3*time.Second, func(a *answer) { next() })
}

// maxPages is how many pages of a list a reader reads at most, with pauses. All of
// them are read in the end.
const maxPages = 4

// list reads pages from a cursor on; one that fails ends it.
func (r *reader) list(m *nornv1.ListRequest, cursor []byte, pages int, next func()) {
	page := &nornv1.ListRequest{Queue: m.Queue, States: m.States, Limit: m.Limit, Cursor: cursor}
	r.do(page, 3*time.Second, func(a *answer) {
		if !a.fine() {
			next()
			return
		}
		r.s.stats[stats.Reads]++
		if c := a.message.(*nornv1.ListReply).GetNextCursor(); len(c) > 0 && pages > 1 {
			r.after(r.pause()/2, func() { r.list(m, c, pages-1, next) })
			return
		}
		next()
	})
}

// follow reads the log of a task as it grows.
func (r *reader) follow(task id.ID, after *history.Entry, pages int, next func()) {
	s := r.s
	m := &nornv1.LogRequest{Id: task.Bytes(), Limit: uint32(1 + s.Rnd.IntN(4))}
	if s.Chance(0.7) {
		m.WaitSeconds = s.Between(0, 3*time.Second).Seconds()
	}
	if after != nil {
		m.After, m.AfterToken, m.AfterSeq = true, after.Token, after.Seq
	}
	r.do(m, 6*time.Second, func(a *answer) {
		if !a.fine() || pages == 0 {
			next()
			return
		}
		s.stats[stats.Reads]++
		r.reads(a)
		if log := a.end.Items[0].Log; len(log) > 0 {
			after = &log[len(log)-1]
		}
		if a.end.Items[0].State.Finished() && !a.end.More {
			next()
			return
		}
		r.follow(task, after, pages-1, next)
	})
}

// listSizes are the sizes of the pages in which everything is read in the end, by one node
// after the other: small and odd ones end in the middle of what nodes tell each other.
var listSizes = []uint32{250, 7, 33}

// listAll reads all pages of everything, and begins again when a page fails.
func (r *reader) listAll(size uint32, done func()) {
	var next func(cursor []byte)
	next = func(cursor []byte) {
		r.do(&nornv1.ListRequest{Limit: size, Cursor: cursor}, 3*time.Second, func(a *answer) {
			if !a.fine() {
				r.after(time.Second, func() { r.listAll(size, done) })
				return
			}
			if c := a.message.(*nornv1.ListReply).GetNextCursor(); len(c) > 0 {
				next(c)
				return
			}
			done()
		})
	}
	next(nil)
}
