package core

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/round"
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
	call.Deadline // it is not in byTime while it reads
	from          message.Origin
	task          id.ID
	req           *nornv1.LogRequest
	tenant        string // prefix of its sender's; empty: there is none
	unsure        bool   // the others did not tell whether they know the task, or the update to go on from
	reading       bool   // a read is under way
	again         bool   // a fact came in during that read
	at            int    // its place among those of its task
}

// followers are the waiting log requests by task, by origin and by time. Its
// methods give the reads that must run. None of them costs more with many
// followers than a few steps in a heap.
type followers struct {
	partitions int
	arrived    uint64
	byTask     map[id.ID][]*logWait
	byConn     map[uint64]map[uint64]*logWait
	byTime     call.ByTime[*logWait]
	count      int
	tenants    *quota.Machine
	round      *round.Writer
}

func newFollowers(partitions int, tenants *quota.Machine, w *round.Writer) *followers {
	return &followers{partitions: partitions, tenants: tenants, round: w, byTask: make(map[id.ID][]*logWait), byConn: make(map[uint64]map[uint64]*logWait)}
}

// Count is how many wait.
func (l *followers) Count() int { return l.count }

// Of is how many requests of a connection wait.
func (l *followers) Of(conn uint64) int { return len(l.byConn[conn]) }

// Conns are the connections of those that wait.
func (l *followers) Conns() iter.Seq[uint64] { return maps.Keys(l.byConn) }

// SendAway refuses the newest request of a connection that does not read.
func (l *followers) SendAway(conn uint64, why *proto.Error) bool {
	w := call.Latest(l.byConn[conn], func(w *logWait) bool { return !w.reading })
	if w == nil {
		return false
	}
	l.drop(w)
	l.round.Refuse(w.from, why)
	return true
}

// next is the first deadline.
func (l *followers) next() int64 { return l.byTime.Next() }

// of gives the request of an origin, or nil.
func (l *followers) of(o message.Origin) *logWait { return l.byConn[o.Conn][o.Request] }

// add starts a waiting log request.
func (l *followers) add(w *logWait) message.Read {
	if old := l.of(w.from); old != nil {
		l.drop(old) // a client that uses a number twice
	}
	l.arrived++
	w.Number, w.at = l.arrived, len(l.byTask[w.task])
	l.byTask[w.task] = append(l.byTask[w.task], w)
	if l.byConn[w.from.Conn] == nil {
		l.byConn[w.from.Conn] = make(map[uint64]*logWait)
	}
	l.byConn[w.from.Conn][w.from.Request] = w
	l.count++
	l.tenants.Waits(w.tenant, true)
	return l.read(w, true)
}

// wake hears that a task has a new fact.
func (l *followers) wake(task id.ID) (reads []message.Read) {
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
func (l *followers) timeouts(now clock.Time) (reads []message.Read) {
	for l.next() <= now.Mono {
		w := l.byTime[0]
		l.drop(w)
		reads = append(reads, l.read(w, false))
	}
	return reads
}

// drop forgets a log request.
func (l *followers) drop(w *logWait) {
	l.count--
	l.tenants.Waits(w.tenant, false)
	delete(l.byConn[w.from.Conn], w.from.Request)
	if len(l.byConn[w.from.Conn]) == 0 {
		delete(l.byConn, w.from.Conn)
	}
	all := l.byTask[w.task]
	last := len(all) - 1
	all[w.at] = all[last]
	all[w.at].at = w.at
	all[last] = nil
	if l.byTask[w.task] = all[:last]; last == 0 {
		delete(l.byTask, w.task)
	}
	l.idle(w, false)
}

// idle puts a request among those that wait for their time, or takes it out.
func (l *followers) idle(w *logWait, in bool) {
	switch {
	case in && !w.Waits():
		l.byTime.Add(w)
	case !in && w.Waits():
		l.byTime.Remove(w)
	}
}

// all gives the requests of some connections, by arrival.
func (l *followers) all(conns iter.Seq[uint64]) (out []*logWait) {
	for conn := range conns {
		// Any order: they are sorted.
		for _, w := range l.byConn[conn] {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b *logWait) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// read makes a read of the log. With waits set an empty page is held back
// until there is something.
func (l *followers) read(w *logWait, waits bool) message.Read {
	w.reading, w.again = true, false
	l.idle(w, false)
	p, m, task := ring.Of(w.task, l.partitions), w.req, w.task
	return message.Read{From: w.from, Waits: waits,
		Func: func(view store.View, _ clock.Time) (gproto.Message, *proto.Error, error) {
			d, err := vnode.ReadTask(view, p, task, vnode.ReadOptions{NoClaims: true, NoLog: true})
			if err != nil {
				return nil, nil, err
			}
			if d.Task.Enqueued == nil && d.Task.Outcome() == crdt.StateUnknown {
				return nil, refusal.NoTaskUnless(task, w.unsure), nil
			}
			if w.unsure && m.GetAfter() && m.GetAfterSeq() < math.MaxUint64 && !d.Task.Collected() && !vnode.Shows(view, p, task, m.GetAfterToken(), m.GetAfterSeq()) {
				return nil, refusal.LogBehind(task, m), nil
			}
			reply, err := query.LogPage(view, p, d, m)
			if err != nil {
				return nil, nil, err
			}
			if waits && len(reply.Updates) == 0 && !d.Task.Finished() {
				return nil, nil, nil
			}
			return reply, nil, nil
		}}
}

// moved sends those away who follow tasks that others keep now: nothing new comes here
// any more, and what there is will be deleted, after which the task would not be known.
// Whoever reads now hears of it when that is done.
func (l *followers) moved(c *Core) {
	for _, w := range l.all(maps.Keys(l.byConn)) {
		if !w.reading && c.view.Elsewhere(ring.Of(w.task, l.partitions)) {
			l.leave(c, w)
		}
	}
}

// leave has a client ask again, somebody else.
func (l *followers) leave(c *Core, w *logWait) {
	l.drop(w)
	e := c.transfer.Gone(ring.Of(w.task, l.partitions))
	e.Guarantee = "replicas read"
	c.round.Refuse(w.from, e)
}

// readDone hears that a read has run. An empty one is repeated when a fact has
// come in meanwhile, and answered when its request is no longer wanted.
func (c *Core) readDone(e message.ReadDone) {
	w := c.logs.of(e.From)
	switch {
	case w == nil && e.Empty: // the node stops, or its sender has cancelled it
		c.round.Refuse(e.From, cmp.Or(c.closed, refusal.Cancelled()))
	case w == nil:
	case !e.Empty:
		c.logs.drop(w)
	case c.view.Elsewhere(ring.Of(w.task, len(c.view.Cells))):
		c.logs.leave(c, w)
	default:
		w.reading = false
		if w.again {
			c.round.Ready.Reads = append(c.round.Ready.Reads, c.logs.read(w, true))
			return
		}
		c.logs.idle(w, true)
	}
}
