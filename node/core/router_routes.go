package core

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/history"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

const (
	// forwardTimeout is how long the part of another node is waited for, beyond
	// what the request asks for itself.
	forwardTimeout = 5 * time.Second
	// maxGathers bounds the requests that wait for other nodes.
	maxGathers = 1 << 16
)

// routes sends requests where they can be answered: any node takes any request
// (design 7.3), facts are written by the members of their cohorts, and what only
// a leader decides is decided by it.
type routes struct {
	c      *Core
	peers  []register.Member          // by connection
	conns  map[register.Member]uint64 // back
	number uint64
	parts  map[uint64]*leg
	byTime call.ByTime[*scatterRequest]
	of     map[message.Origin]*scatterRequest
	held   map[uint64]int // of byTime, by connection

	abandonedLegs abandonedLegs
}

func newRoutes(c *Core) *routes {
	return &routes{c: c, conns: make(map[register.Member]uint64), parts: make(map[uint64]*leg), of: make(map[message.Origin]*scatterRequest), held: make(map[uint64]int)}
}

// leader is who grants the claims of a partition.
func (r *routes) leader(p ring.Partition) (register.Member, bool) {
	m, ok := placement.Leading(&r.c.view.Cells[p])
	return m, ok && r.c.view.Serves(m) && r.c.standing.Disk.Stands(m)
}

// leads tells whether a partition's claims are handed out, as far as this node can see: the
// register names a leader also where that one may lead no more, as for the want of a majority.
func (r *routes) leads(p ring.Partition) bool {
	if m, ok := r.leader(p); ok && m == r.c.cfg.Self {
		return r.c.vnodes.See(p).Leading() != 0
	}
	return r.takes(p)
}

// led tells whether some partition has a leader in reach.
func led(r *routes) bool {
	for p := range r.c.view.Cells {
		if r.leads(ring.Partition(p)) {
			return true
		}
	}
	return false
}

// keeper is who writes a partition's facts: this node if it keeps them.
func (r *routes) keeper(p ring.Partition) (register.Member, bool) {
	if slices.Contains(r.c.view.Cells[p].Cohort, r.c.cfg.Self) {
		return r.c.cfg.Self, true
	}
	return r.reader(p)
}

// reader is who knows a partition best: its leader, who knows the claims, or
// else a member of its cohort that is up.
func (r *routes) reader(p ring.Partition) (register.Member, bool) {
	if m, ok := r.leader(p); ok {
		return m, true
	}
	cohort := r.c.view.Cells[p].Cohort
	if slices.Contains(cohort, r.c.cfg.Self) {
		return r.c.cfg.Self, true
	}
	for _, m := range cohort {
		if r.c.view.Serves(m) {
			return m, true
		}
	}
	return register.Member{}, false
}

// conn is the number under which a peer's requests go.
func (r *routes) conn(m register.Member) uint64 {
	n, ok := r.conns[m]
	if !ok {
		n = message.PeerConns | uint64(len(r.peers))
		r.peers, r.conns[m] = append(r.peers, m), n
	}
	return n
}

func (r *routes) partition(task []byte) (ring.Partition, bool) {
	if len(task) != id.Size {
		return 0, false // refused where it is handled
	}
	return ring.Of(id.ID(task), len(r.c.view.Cells)), true
}

// request handles one request, or sends it on its way to where it can be
// handled, and holds its answer back while it waits for copies.
func (c *Core) request(now clock.Time, r *message.Request) {
	if r.Deadline != 0 && r.Deadline <= now.Mono { // before others are given what is left of it
		c.taken++
		c.round.Refuse(r.From, proto.Refused(nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED, "the request's deadline passed before it was looked at"))
		return
	}
	if c.view.Joined && c.closed == nil && c.routes.take(now, r) {
		return
	}
	if r.Scope != nil && c.view.Joined && c.closed == nil {
		known := scope.Known{View: c.round.Tx, Vnodes: c.vnodes, Partitions: len(c.view.Cells)}
		refused, left, err := scope.Judge(known, r)
		if !c.round.Check(err) || c.fetches.readBeforeDecide(now, r, refused) {
			return
		}
		if refused != nil && r.Unsure { // which has come out only now
			if refused, left, err = scope.Judge(known, r); !c.round.Check(err) {
				return
			}
		}
		if refused != nil {
			list, many := itemsOf(c, now, r.Body)
			if !many || list.n != len(refused) {
				c.round.Refuse(r.From, refused[0])
				return
			}
			g := c.routes.gather(now, r, list.join, 0)
			for i, e := range refused {
				if e != nil {
					list.join.(denier).deny(i, e)
				}
			}
			if g.scope = nil; len(left) > 0 {
				c.routes.forward(now, g, c.cfg.Self, left, list.some(left), nil)
			}
			c.routes.finish(g)
			return
		}
	}
	first := len(c.round.Ready.Replies)
	c.quorumWrites.newly = id.ID{} // what is stored between requests is bought by none
	m, err := c.handle(now, r)
	c.round.Done(r.From, m, err)
	c.quorumWrites.awaitCopies(now, r, first)
}

// denier is a [joiner] that takes the answer to one item by itself.
type denier interface{ deny(i int, err *proto.Error) }

func (r *results[M, R]) deny(i int, err *proto.Error) { r.all[i] = r.failed(err.Proto()) }

// take sends a request on its way, and tells whether it did: else this node
// answers all of it.
func (r *routes) take(now clock.Time, q *message.Request) bool {
	if r.c.view.Alone || q.Routed {
		return false
	}
	if m, adds := q.Body.(*nornv1.EnqueueRequest); adds && ((enqueuing{Core: r.c}).shut(q.From) || convert.CheckTasks(m.GetTasks()) != nil) {
		return false // refused as a whole: so that the client asks another node, or because of what its parts have together
	}
	if list, ok := itemsOf(r.c, now, q.Body); ok {
		switch q.Body.(type) {
		case *nornv1.UpdateRequest: // whose claim it is is known best to the leader
			if q.By != "" {
				list.best = func(int) bool { return true }
			}
		case *nornv1.CancelRequest: // the way that it goes is not to tell whether there is a task
			if q.Scope != nil {
				list.best = func(int) bool { return true }
			}
		}
		return r.split(now, q, list)
	}
	switch m := q.Body.(type) {
	case *nornv1.GetRequest:
		return r.pass(now, q, m.GetId(), 0)
	case *nornv1.ExplainRequest:
		return explaining(r, now, q, m)
	case *nornv1.LogRequest:
		wait := proto.Seconds(m.GetWaitSeconds())
		return convert.CheckWait(m) == nil && r.pass(now, q, m.GetId(), wait) // or nobody could be asked for as long
	case *nornv1.KeyRequest:
		return r.pass(now, q, keyHome(r.c, now, m.GetQueue(), m.GetKey(), m.GetWindowSeconds()), 0)
	case *nornv1.RestoreRequest:
		return r.pass(now, q, m.GetTasks()[:min(len(m.GetTasks()), id.Size)], 0) // all are of one partition, or it is refused
	case *nornv1.BackupRequest:
		who, join, ask := backups{r.c}.asked(m)
		if who == nil || crowds(r, q.From) {
			return false
		}
		g := r.gather(now, q, join, 0)
		g.then = backups{r.c}.joined(q, join)
		r.each(now, g, who, ask)
		r.finish(g)
		return true
	case *nornv1.ListRequest:
		return r.scatter(now, q, &query.Lists{Limit: int(m.GetLimit())})
	case *nornv1.CountRequest:
		return r.scatter(now, q, &query.Counts{})
	case *nornv1.QueuesRequest:
		return r.scatter(now, q, r.c.queues.join(m))
	case *nornv1.StatusRequest:
		return r.statuses(now, q, m)
	case *nornv1.HistoryRequest:
		whole, err := history.Check(m, now.Wall)
		if err != nil || crowds(r, q.From) {
			return false // refused there, or this node answers for itself
		}
		g := r.gather(now, q, &histories{most: int(whole.GetBusiest())}, statusTimeout-forwardTimeout)
		for _, node := range append(r.others(), r.c.cfg.Self) {
			r.forward(now, g, node, nil, whole, nil)
		}
		r.finish(g)
		return true
	}
	return false
}

// pass sends a request that is about one task to who knows it best.
func (r *routes) pass(now clock.Time, q *message.Request, task []byte, wait time.Duration) bool {
	p, ok := r.partition(task)
	if !ok {
		return false
	}
	to, ok := r.reader(p)
	switch {
	case !ok:
		r.c.round.Refuse(q.From, refusal.Unreachable(p))
		return true
	case to == r.c.cfg.Self:
		return false
	}
	g := r.gather(now, q, &whole{}, wait)
	r.forward(now, g, to, nil, q.Body, nil)
	return true
}

// split sends the items of a request to those who can judge them.
func (r *routes) split(now clock.Time, q *message.Request, list items) bool {
	if list.n == 0 || list.n > proto.MaxBatchTasks || r.c.view.Holder && !list.led && !list.anyBest() {
		return false // refused here, or answered here
	}
	find := r.keeper
	if list.led {
		find = r.leader
	}
	groups := call.NewGroups()
	lost := make(map[int]ring.Partition) // nobody is there for them
	for i := range list.n {
		to := r.c.cfg.Self
		if p, ok := r.partition(list.task(i)); ok {
			if to, ok = find(p); list.best != nil && list.best(i) {
				to, ok = r.reader(p) // of two replicas each would give a key away
			}
			if !ok && list.hint && q.Scope == nil && !r.c.view.Deleting(p) {
				to = r.c.cfg.Self // better here than nowhere: see [quorumWrites]
			} else if !ok {
				lost[i] = p
				continue
			}
		}
		groups.Add(to, i)
	}
	if len(lost) == 0 && len(groups.Order) == 1 && groups.Order[0] == r.c.cfg.Self {
		return false
	}
	if crowds(r, q.From) {
		r.c.round.Refuse(q.From, refusal.Crowded(maxGathers))
		return true
	}
	for i, p := range lost { // Any order: each has its place.
		list.join.Fail([]int{i}, refusal.Unreachable(p))
	}
	g := r.gather(now, q, list.join, 0)
	for _, to := range groups.Order {
		idx, body := groups.Of[to], q.Body
		if len(idx) < list.n {
			body = list.some(idx)
		}
		r.forward(now, g, to, idx, body, nil)
	}
	r.finish(g)
	return true
}

// anyBest tells whether some item is better decided by a leader.
func (l *items) anyBest() bool {
	for i := 0; l.best != nil && i < l.n; i++ {
		if l.best(i) {
			return true
		}
	}
	return false
}

// takes tells whether a partition takes enqueues now: a majority of its cohort
// is up and intact, and so is its leader.
func (r *routes) takes(p ring.Partition) bool {
	_, ok := r.leader(p)
	return ok && r.c.young == 0 && placement.Takes(&r.c.view.Cells[p], r.c.standing.Disk.Stands)
}

// copies is how many members of a partition's cohort are in reach, with copies that count.
func (r *routes) copies(p ring.Partition) (n int) {
	for _, m := range r.c.view.Cells[p].Cohort {
		if r.c.standing.Disk.Stands(m) {
			n++
		}
	}
	return n
}

// scatter asks one replica of each partition.
func (r *routes) scatter(now clock.Time, q *message.Request, join joiner) bool {
	groups, lost := r.readers()
	switch {
	case lost != nil:
		r.c.round.Refuse(q.From, lost)
		return true
	case len(groups.Order) == 1 && groups.Order[0] == r.c.cfg.Self:
		return false
	case crowds(r, q.From):
		r.c.round.Refuse(q.From, refusal.Crowded(maxGathers))
		return true
	}
	r.each(now, r.gather(now, q, join, 0), groups, q.Body)
	return true
}

// readers are those who know each partition best, with the partitions. The error is that
// there is nobody for one of them.
func (r *routes) readers() (*call.Groups, *proto.Error) {
	groups := call.NewGroups()
	for p := range r.c.view.Cells {
		to, ok := r.reader(ring.Partition(p))
		if !ok {
			return nil, refusal.Unreachable(ring.Partition(p))
		}
		groups.Add(to, p)
	}
	return groups, nil
}

// each asks them.
func (r *routes) each(now clock.Time, g *scatterRequest, who *call.Groups, body gproto.Message) {
	for _, to := range who.Order {
		var only []ring.Partition
		for _, p := range who.Of[to] {
			only = append(only, ring.Partition(p))
		}
		r.forward(now, g, to, nil, body, only)
	}
}

// others are the other nodes that are up.
func (r *routes) others() []register.Member {
	return view.MembersOf(r.c.view.Alive())
}

// crowds tells whether one more request of a connection may not wait for other nodes.
func crowds(r *routes, from message.Origin) bool {
	own := int64(0)
	if from.Conn < message.OwnConns {
		own = int64(r.held[from.Conn])
	}
	return !portion.Fits(maxGathers, int64(len(r.byTime)), own, 1)
}
