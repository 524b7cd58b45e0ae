package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// logWait is a log request that waits for something new. It reads, and when it
// has found nothing it reads again once a fact of its task has come in, even
// one that came in while it was reading: no wake-up is lost.
type logWait struct {
	from    Origin
	task    id.ID
	req     *nornv1.LogRequest
	until   int64 // mono ns
	reading bool  // a read is under way
	again   bool  // a fact came in during that read
}

// followers are the waiting log requests by task and by origin. Its methods
// give the reads that must run.
type followers struct {
	partitions int
	byTask     map[id.ID][]*logWait
	byFrom     map[requestKey]*logWait
	order      []*logWait // by arrival
}

func newFollowers(partitions int) *followers {
	return &followers{partitions: partitions, byTask: make(map[id.ID][]*logWait), byFrom: make(map[requestKey]*logWait)}
}

// next is the first deadline. Followers are few, so a walk will do.
func (l *followers) next() int64 {
	first := clock.Never
	for _, w := range l.order {
		if !w.reading {
			first = min(first, w.until)
		}
	}
	return first
}

// add starts a waiting log request.
func (l *followers) add(w *logWait) Read {
	l.byTask[w.task] = append(l.byTask[w.task], w)
	l.byFrom[w.from.key()] = w
	l.order = append(l.order, w)
	return l.read(w, true)
}

// wake hears that a task has a new fact.
func (l *followers) wake(task id.ID) (reads []Read) {
	for _, w := range l.byTask[task] {
		if w.reading {
			w.again = true
			continue
		}
		reads = append(reads, l.read(w, true))
	}
	return reads
}

// timeouts gives those whose time is over an answer, empty if need be.
func (l *followers) timeouts(now clock.Time) (reads []Read) {
	if l.next() > now.Mono {
		return nil
	}
	for _, w := range slices.Clone(l.order) {
		if w.until <= now.Mono && !w.reading {
			reads = append(reads, l.read(w, false))
			l.drop(w)
		}
	}
	return reads
}

// drop forgets a log request.
func (l *followers) drop(w *logWait) {
	is := func(x *logWait) bool { return x == w }
	delete(l.byFrom, w.from.key())
	l.order = slices.DeleteFunc(l.order, is)
	if l.byTask[w.task] = slices.DeleteFunc(l.byTask[w.task], is); len(l.byTask[w.task]) == 0 {
		delete(l.byTask, w.task)
	}
}

// read makes a read of the log. With waits set an empty page is held back
// until there is something.
func (l *followers) read(w *logWait, waits bool) Read {
	w.reading, w.again = true, false
	p, m, task := ring.Of(w.task, l.partitions), w.req, w.task
	return Read{From: w.from, Waits: waits,
		run: func(view store.View, _ clock.Time) (gproto.Message, *proto.Error, error) {
			d, err := vnode.ReadTask(view, p, task, vnode.ReadOptions{NoClaims: true})
			if err != nil {
				return nil, nil, err
			}
			if d.Task.Enqueued == nil && d.Task.Outcome() == crdt.StateUnknown {
				return nil, notFound(task), nil
			}
			reply := logPage(d, m)
			if waits && len(reply.Updates) == 0 && !d.Task.Finished() {
				return nil, nil, nil
			}
			return reply, nil, nil
		}}
}

// readDone hears that a read has run. An empty one is repeated when a fact has
// come in meanwhile, and answered when its request is no longer wanted.
func (c *Core) readDone(e ReadDone) {
	w := c.logs.byFrom[e.From.key()]
	switch {
	case w == nil && e.Empty:
		c.refuse(e.From, cancelled())
	case w == nil:
	case !e.Empty:
		c.logs.drop(w)
	default:
		w.reading = false
		if w.again {
			c.ready.Reads = append(c.ready.Reads, c.logs.read(w, true))
		}
	}
}
