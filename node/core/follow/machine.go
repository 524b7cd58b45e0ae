package follow

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
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/waiting"
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
	waits         *waiting.Wait
}

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Partitions is how many there are.
	Partitions int
	// Gone is that a partition is kept by others now.
	Gone func(p ring.Partition) *proto.Error
}

// Machine has the waiting log requests by task, by origin and by time. None of its methods
// costs more with many requests than a few steps in a heap.
type Machine struct {
	Env
	arrived uint64
	byTask  map[id.ID][]*logWait
	// Invariant: count is how many there are in byConn, and in byTask.
	byConn map[uint64]map[uint64]*logWait
	// Invariant: in byTime are those that do not read.
	byTime call.ByTime[*logWait]
	count  int
	closed *proto.Error // why nothing is read any more; nil: it is
}

// New makes one that nobody has asked anything.
func New(env Env) *Machine {
	return &Machine{Env: env, byTask: make(map[id.ID][]*logWait), byConn: make(map[uint64]map[uint64]*logWait)}
}

// Count is how many wait.
func (l *Machine) Count() int { return l.count }

// Of is how many requests of a connection wait.
func (l *Machine) Of(conn uint64) int { return len(l.byConn[conn]) }

// Conns are the connections of those that wait.
func (l *Machine) Conns() iter.Seq[uint64] { return maps.Keys(l.byConn) }

// SendAway refuses the newest request of a connection that does not read.
func (l *Machine) SendAway(conn uint64, why *proto.Error) bool {
	w := call.Latest(l.byConn[conn], func(w *logWait) bool { return !w.reading })
	if w == nil {
		return false
	}
	l.drop(w)
	l.Round.Refuse(w.from, why)
	return true
}

// Due is the first deadline, mono ns.
func (l *Machine) Due() int64 { return l.byTime.Next() }

// of gives the request of an origin, or nil.
func (l *Machine) of(o message.Origin) *logWait { return l.byConn[o.Conn][o.Request] }

// add starts a waiting log request.
func (l *Machine) add(w *logWait) message.Read {
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
	w.waits = l.Pending.Open(waiting.Log, w.from, func(why *proto.Error) {
		l.drop(w)
		if why != nil && !w.reading { // else its read answers it
			l.Round.Refuse(w.from, why)
		}
	})
	l.count++
	l.Tenants.Waits(w.tenant, true)
	return l.read(w, true)
}

// Wake hears that a task has a new fact.
func (l *Machine) Wake(task id.ID) {
	for _, w := range l.byTask[task] {
		if w.reading {
			w.again = true
			continue
		}
		l.run(l.read(w, true))
	}
}

// Timeouts gives those whose time is over an answer, empty if need be.
func (l *Machine) Timeouts(now clock.Time) {
	for l.Due() <= now.Mono {
		w := l.byTime[0]
		l.drop(w)
		l.run(l.read(w, false))
	}
}

// drop forgets a log request.
func (l *Machine) drop(w *logWait) {
	w.waits.Close()
	l.count--
	l.Tenants.Waits(w.tenant, false)
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
func (l *Machine) idle(w *logWait, in bool) {
	switch {
	case in && !w.Waits():
		l.byTime.Add(w)
	case !in && w.Waits():
		l.byTime.Remove(w)
	}
}

// all gives the requests of some connections, by arrival.
func (l *Machine) all(conns iter.Seq[uint64]) (out []*logWait) {
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
func (l *Machine) read(w *logWait, waits bool) message.Read {
	w.reading, w.again = true, false
	l.idle(w, false)
	p, m, task := ring.Of(w.task, l.Partitions), w.req, w.task
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

// run has a read run at the end of the round.
func (l *Machine) run(r message.Read) { l.Round.Ready.Reads = append(l.Round.Ready.Reads, r) }

// Follow reads a log, or waits until there is something new in it, for as long as its sender
// says; unsure: the others did not tell whether they know the task, or the update to go on from.
// Whether there is room its caller has asked.
func (l *Machine) Follow(now clock.Time, r *message.Request, m *nornv1.LogRequest, task id.ID, unsure bool) {
	wait := proto.Seconds(m.GetWaitSeconds())
	w := &logWait{from: r.From, task: task, tenant: r.Scope.Tenant(), req: m, unsure: unsure, Deadline: call.Deadline{Until: now.Mono + int64(wait)}}
	if r.Deadline != 0 {
		w.Until = min(w.Until, r.Deadline)
	}
	if wait == 0 {
		l.run(l.read(w, false))
		return
	}
	l.run(l.add(w))
}

// Drain has nothing read any more.
func (l *Machine) Drain(why *proto.Error) { l.closed = why }

// Moved sends those away who follow tasks that others keep now: nothing new comes here
// any more, and what there is will be deleted, after which the task would not be known.
// Whoever reads now hears of it when that is done.
func (l *Machine) Moved() {
	for _, w := range l.all(maps.Keys(l.byConn)) {
		if !w.reading && l.View.Elsewhere(ring.Of(w.task, l.Partitions)) {
			l.leave(w)
		}
	}
}

// leave has a client ask again, somebody else.
func (l *Machine) leave(w *logWait) {
	l.drop(w)
	e := l.Gone(ring.Of(w.task, l.Partitions))
	e.Guarantee = "replicas read"
	l.Round.Refuse(w.from, e)
}

// ReadDone hears that a read has run. An empty one is repeated when a fact has
// come in meanwhile, and answered when its request is no longer wanted.
func (l *Machine) ReadDone(e message.ReadDone) {
	w := l.of(e.From)
	switch {
	case w == nil && e.Empty: // the node stops, or its sender has cancelled it
		l.Round.Refuse(e.From, cmp.Or(l.closed, refusal.Cancelled()))
	case w == nil:
	case !e.Empty:
		l.drop(w)
	case l.View.Elsewhere(ring.Of(w.task, l.Partitions)):
		l.leave(w)
	default:
		w.reading = false
		if w.again {
			l.run(l.read(w, true))
			return
		}
		l.idle(w, true)
	}
}
