package router

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

const (
	// ForwardTimeout is how long the part of another node is waited for, beyond
	// what the request asks for itself.
	ForwardTimeout = 5 * time.Second
	// StatusTimeout is how long the other nodes are waited for where what they say is nice to have,
	// and is asked for when things go wrong.
	StatusTimeout = time.Second
	// MaxWaiting bounds the requests that wait for other nodes.
	MaxWaiting = 1 << 16
)

// Machine sends requests where they can be answered: any node takes any request
// (design 7.3), facts are written by the members of their cohorts, and what only
// a leader decides is decided by it.
type Machine struct {
	Env
	// Invariant: conns is the inverse of peers, and nobody is ever taken out: a peer's number
	// is in requests that wait, and names the same peer as long as this process lives (Audit).
	peers  []register.Member          // by connection
	conns  map[register.Member]uint64 // back
	number uint64
	// Invariant: each request in of is in byTime, and has its parts in parts; no other one has.
	parts  map[uint64]*leg
	byTime call.ByTime[*Scatter]
	// Invariant: held counts byTime by connection, and has no connection with none.
	held map[uint64]int

	abandonedLegs abandonedLegs
}

// New makes a machine that waits for nothing.
func New(env Env) *Machine {
	return &Machine{Env: env, conns: make(map[register.Member]uint64), parts: make(map[uint64]*leg), held: make(map[uint64]int)}
}

// Leader is who grants the claims of a partition.
func (r *Machine) Leader(p ring.Partition) (register.Member, bool) {
	m, ok := placement.Leading(&r.View.Cells[p])
	return m, ok && r.View.Serves(m) && r.Standing.Disk.Stands(m)
}

// Leads tells whether a partition's claims are handed out, as far as this node can see: the
// register names a leader also where that one may lead no more, as for the want of a majority.
func (r *Machine) Leads(p ring.Partition) bool {
	if m, ok := r.Leader(p); ok && m == r.Self {
		return r.Partitions.See(p).Leading() != 0
	}
	return r.Takes(p)
}

// Led tells whether some partition has a leader in reach.
func (r *Machine) Led() bool {
	for p := range r.View.Cells {
		if r.Leads(ring.Partition(p)) {
			return true
		}
	}
	return false
}

// Keeper is who writes a partition's facts: this node if it keeps them.
func (r *Machine) Keeper(p ring.Partition) (register.Member, bool) {
	if slices.Contains(r.View.Cells[p].Cohort, r.Self) {
		return r.Self, true
	}
	return r.Reader(p)
}

// Reader is who knows a partition best: its leader, who knows the claims, or
// else a member of its cohort that is up.
func (r *Machine) Reader(p ring.Partition) (register.Member, bool) {
	if m, ok := r.Leader(p); ok {
		return m, true
	}
	cohort := r.View.Cells[p].Cohort
	if slices.Contains(cohort, r.Self) {
		return r.Self, true
	}
	for _, m := range cohort {
		if r.View.Serves(m) {
			return m, true
		}
	}
	return register.Member{}, false
}

// Conn is the number under which a peer's requests go.
func (r *Machine) Conn(m register.Member) uint64 {
	n, ok := r.conns[m]
	if !ok {
		n = message.PeerConns | uint64(len(r.peers))
		r.peers, r.conns[m] = append(r.peers, m), n
	}
	return n
}

// Partition is that of a task; false: it is no ID.
func (r *Machine) Partition(task []byte) (ring.Partition, bool) {
	if len(task) != id.Size {
		return 0, false // refused where it is handled
	}
	return ring.Of(id.ID(task), len(r.View.Cells)), true
}

// Pass sends a request that is about one task to who knows it best.
func (r *Machine) Pass(now clock.Time, q *message.Request, task []byte, wait time.Duration) bool {
	p, ok := r.Partition(task)
	if !ok {
		return false
	}
	to, ok := r.Reader(p)
	switch {
	case !ok:
		r.Round.Refuse(q.From, refusal.Unreachable(p))
		return true
	case to == r.Self:
		return false
	}
	g := r.Gather(now, q, &Whole{}, wait)
	r.Forward(now, g, to, nil, q.Body, nil)
	return true
}

// Split sends the items of a request to those who can judge them.
//
// It returns false where this node can handle the request as it is. An item without anybody to
// judge it fails by itself, as unreachable; the others go on.
func (r *Machine) Split(now clock.Time, q *message.Request, list List) bool {
	if list.N == 0 || list.N > proto.MaxBatchTasks || r.View.Holder && !list.Led && !list.anyBest() {
		return false // refused here, or answered here
	}
	find := r.Keeper
	if list.Led {
		find = r.Leader
	}
	groups := call.NewGroups()
	lost := make(map[int]ring.Partition) // nobody is there for them
	for i := range list.N {
		to := r.Self
		if p, ok := r.Partition(list.Task(i)); ok {
			if to, ok = find(p); list.Best != nil && list.Best(i) {
				to, ok = r.Reader(p) // of two replicas each would give a key away
			}
			if !ok && list.Hint && q.Scope == nil && !r.View.Deleting(p) {
				to = r.Self // better here than nowhere: its copy is a hint
			} else if !ok {
				lost[i] = p
				continue
			}
		}
		groups.Add(to, i)
	}
	if len(lost) == 0 && len(groups.Order) == 1 && groups.Order[0] == r.Self {
		return false
	}
	if r.Crowds(q.From) {
		r.Round.Refuse(q.From, refusal.Crowded(MaxWaiting))
		return true
	}
	for i, p := range lost { // Any order: each has its place.
		list.Join.Fail([]int{i}, refusal.Unreachable(p))
	}
	g := r.Gather(now, q, list.Join, 0)
	for _, to := range groups.Order {
		idx, body := groups.Of[to], q.Body
		if len(idx) < list.N {
			body = list.Some(idx)
		}
		r.Forward(now, g, to, idx, body, nil)
	}
	r.Finish(g)
	return true
}

// anyBest tells whether some item is better decided by a leader.
func (l *List) anyBest() bool {
	for i := 0; l.Best != nil && i < l.N; i++ {
		if l.Best(i) {
			return true
		}
	}
	return false
}

// Takes tells whether a partition takes enqueues now: a majority of its cohort
// is up and intact, and so is its leader.
func (r *Machine) Takes(p ring.Partition) bool {
	_, ok := r.Leader(p)
	return ok && r.View.Young == 0 && placement.Takes(&r.View.Cells[p], r.Standing.Disk.Stands)
}

// ScatterAll asks one replica of each partition.
func (r *Machine) ScatterAll(now clock.Time, q *message.Request, join Joiner) bool {
	groups, lost := r.Readers()
	switch {
	case lost != nil:
		r.Round.Refuse(q.From, lost)
		return true
	case len(groups.Order) == 1 && groups.Order[0] == r.Self:
		return false
	case r.Crowds(q.From):
		r.Round.Refuse(q.From, refusal.Crowded(MaxWaiting))
		return true
	}
	r.Each(now, r.Gather(now, q, join, 0), groups, q.Body)
	return true
}

// Readers are those who know each partition best, with the partitions. The error is that
// there is nobody for one of them.
func (r *Machine) Readers() (*call.Groups, *proto.Error) {
	groups := call.NewGroups()
	for p := range r.View.Cells {
		to, ok := r.Reader(ring.Partition(p))
		if !ok {
			return nil, refusal.Unreachable(ring.Partition(p))
		}
		groups.Add(to, p)
	}
	return groups, nil
}

// Each asks them.
func (r *Machine) Each(now clock.Time, g *Scatter, who *call.Groups, body gproto.Message) {
	for _, to := range who.Order {
		var only []ring.Partition
		for _, p := range who.Of[to] {
			only = append(only, ring.Partition(p))
		}
		r.Forward(now, g, to, nil, body, only)
	}
}

// Crowds tells whether one more request of a connection may not wait for other nodes.
//
// Connections share [MaxWaiting] by [portion.Fits]: one may have much while few others want
// anything, and less and less as the room fills.
func (r *Machine) Crowds(from message.Origin) bool {
	own := int64(0)
	if from.Conn < message.OwnConns {
		own = int64(r.held[from.Conn])
	}
	return !portion.Fits(MaxWaiting, int64(len(r.byTime)), own, 1)
}

// Do has a list handled wherever its items belong, and hears the answer.
func (r *Machine) Do(now clock.Time, from message.Origin, list List, body gproto.Message, then func(clock.Time, gproto.Message, *proto.Error)) {
	r.DoAs(now, scope.Holder{}, from, list, body, then)
}

// DoAs does the same for somebody.
func (r *Machine) DoAs(now clock.Time, is scope.Holder, from message.Origin, list List, body gproto.Message, then func(clock.Time, gproto.Message, *proto.Error)) {
	if r.Crowds(from) {
		then(now, nil, refusal.Crowded(MaxWaiting))
		return
	}
	g := r.Gather(now, &message.Request{From: from, Body: body, Scope: is.Scope, By: is.By}, list.Join, 0)
	g.Then = func(g *Scatter) {
		m, err := g.Join.Answer()
		then(r.Round.Now, m, err)
	}
	groups, find := call.NewGroups(), r.Keeper
	if list.Find != nil {
		find = list.Find
	}
	for i := range list.N {
		p, ok := r.Partition(list.Task(i))
		to, found := find(p)
		if !ok || !found {
			list.Join.Fail([]int{i}, refusal.Unreachable(p))
			continue
		}
		groups.Add(to, i)
	}
	for _, to := range groups.Order {
		idx, part := groups.Of[to], body
		if len(idx) < list.N {
			part = list.Some(idx)
		}
		r.Forward(now, g, to, idx, part, nil)
	}
	r.Finish(g)
}
