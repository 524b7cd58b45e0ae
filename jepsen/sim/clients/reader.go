package clients

import (
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Reader looks at tasks, lists, counts and logs.
type Reader struct {
	*Caller
	stopped bool
	seen    map[id.ID]history.Entry // how far it has read the logs of some tasks; nil: of none
}

func (s *People) newReader() *Reader {
	r := &Reader{Caller: s.NewCaller()}
	r.After(s.About(s.Plan.Work.Think), r.act)
	return r
}

func (r *Reader) act() {
	if r.stopped {
		return
	}
	s := r.S
	next := func() { r.After(r.pause(), r.act) }
	j := s.Board.Some(&s.World)
	switch n := s.Rnd.IntN(10); {
	case j == nil || n == 0:
		r.Count("", next)
	case n == 1:
		r.Count(j.Queue, next)
	case n == 2 && !s.Cannot(history.Explain):
		r.Do(&nornv1.ExplainRequest{Id: j.ID.Bytes()}, 3*time.Second, func(*Answer) { next() })
	case n == 3: // pages of lists cost most of all reads
		m := &nornv1.ListRequest{Limit: uint32(1 + s.Rnd.IntN(20))}
		if s.Chance(0.5) {
			m.Queue = j.Queue
		}
		if s.Chance(0.3) {
			m.States = []nornv1.State{nornv1.State_STATE_COMPLETED, nornv1.State_STATE_READY}
		}
		r.list(m, nil, 1+s.Rnd.IntN(maxPages), next)
	case n <= 6:
		task := j.ID
		if len(s.Board.Hot) > 0 && s.Chance(0.8) {
			task = world.Pick(&s.World, s.Board.Hot)
		}
		r.follow(task, nil, 1+s.Rnd.IntN(5), next)
	default:
		r.Get(j.ID, func(*Answer) { next() })
	}
}

// pause draws the time between two reads. In the calm of a cluster there is not
// much to see, and it may last for minutes.
func (r *Reader) pause() time.Duration {
	mean := r.S.Plan.Work.Think / 2
	if r.S.Healing && r.S.Fleet != nil {
		mean *= 5
	}
	return r.S.About(mean)
}

// Get reads a task. Where it has read the log before, it often asks for as much at least,
// whatever node it talks to now.
func (r *Reader) Get(task id.ID, done func(*Answer)) {
	level := r.S.Consistency()
	if e, ok := r.seen[task]; ok && !r.S.Healing && r.S.Chance(0.7) {
		if level == nil {
			level = &nornv1.Consistency{}
		}
		level.AtLeast, level.AtLeastToken, level.AtLeastSeq = true, e.Token, e.Seq
	}
	r.Do(&nornv1.GetRequest{Id: task.Bytes(), Consistency: level}, 3*time.Second, func(a *Answer) {
		if a.Fine() {
			r.S.Stats[stats.Reads]++
			r.reads(a)
		}
		done(a)
	})
}

// reads notes how far a log was shown.
func (r *Reader) reads(a *Answer) {
	if len(a.End.Items) != 1 {
		return
	}
	if r.seen == nil {
		r.seen = make(map[id.ID]history.Entry)
	}
	if log := a.End.Items[0].Log; len(log) > 0 {
		last, before := log[len(log)-1], r.seen[a.End.Items[0].Task]
		if last.Token > before.Token || last.Token == before.Token && last.Seq > before.Seq {
			r.seen[a.End.Items[0].Task] = last
		}
	}
}

// Count counts the tasks of a queue; "": of all of them.
func (r *Reader) Count(queue string, next func()) {
	r.Do(&nornv1.CountRequest{Queue: queue}, 3*time.Second, func(a *Answer) { next() })
}

// maxPages is how many pages of a list a reader reads at most, with pauses. All of
// them are read in the end.
const maxPages = 4

// list reads pages from a cursor on; one that fails ends it.
func (r *Reader) list(m *nornv1.ListRequest, cursor []byte, pages int, next func()) {
	page := &nornv1.ListRequest{Queue: m.Queue, States: m.States, Limit: m.Limit, Cursor: cursor}
	r.Do(page, 3*time.Second, func(a *Answer) {
		if !a.Fine() {
			next()
			return
		}
		r.S.Stats[stats.Reads]++
		if c := a.Message.(*nornv1.ListReply).GetNextCursor(); len(c) > 0 && pages > 1 {
			r.After(r.pause()/2, func() { r.list(m, c, pages-1, next) })
			return
		}
		next()
	})
}

// follow reads the log of a task as it grows.
func (r *Reader) follow(task id.ID, after *history.Entry, pages int, next func()) {
	s := r.S
	m := &nornv1.LogRequest{Id: task.Bytes(), Limit: uint32(1 + s.Rnd.IntN(4))}
	if s.Chance(0.7) {
		m.WaitSeconds = s.Between(0, 3*time.Second).Seconds()
	}
	if after != nil {
		m.After, m.AfterToken, m.AfterSeq = true, after.Token, after.Seq
	}
	r.Do(m, 6*time.Second, func(a *Answer) {
		if !a.Fine() || pages == 0 {
			next()
			return
		}
		s.Stats[stats.Reads]++
		r.reads(a)
		if log := a.End.Items[0].Log; len(log) > 0 {
			after = &log[len(log)-1]
		}
		if a.End.Items[0].State.Finished() && !a.End.More {
			next()
			return
		}
		r.follow(task, after, pages-1, next)
	})
}

// ListSizes are the sizes of the pages in which everything is read in the end, by one node
// after the other: small and odd ones end in the middle of what nodes tell each other.
var ListSizes = []uint32{250, 7, 33}

// ListAll reads all pages of everything, and begins again when a page fails.
func (r *Reader) ListAll(size uint32, done func()) {
	var next func(cursor []byte)
	next = func(cursor []byte) {
		r.Do(&nornv1.ListRequest{Limit: size, Cursor: cursor}, 3*time.Second, func(a *Answer) {
			if !a.Fine() {
				r.After(time.Second, func() { r.ListAll(size, done) })
				return
			}
			if c := a.Message.(*nornv1.ListReply).GetNextCursor(); len(c) > 0 {
				next(c)
				return
			}
			done()
		})
	}
	next(nil)
}
