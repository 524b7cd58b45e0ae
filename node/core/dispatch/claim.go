package dispatch

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Claim answers a claim request: with what was granted to the same request
// before, with the best tasks ready now, or by making it wait.
//
// It returns the reply or the error where it can be said at once. It returns neither where the
// answer comes later through [round.Writer]: the grant waits for its majority, the request was
// sent to another leader, or it waits for work. Refusals: UNAVAILABLE without a leader in
// reach, OVERLOADED without room for claims or waits, INVALID for what no retry would mend.
func (c *Machine) Claim(now clock.Time, r *message.Request, m *nornv1.ClaimRequest) (gproto.Message, *proto.Error) {
	w, err := newClaimRequest(r, m, c.Node.Lease(m.GetQueues()))
	if err != nil {
		return nil, err
	}
	if !w.routed {
		if err := c.Node.Foreign(w.ask.Session, w.ask.By); err != nil {
			return nil, err
		}
	}
	c.Index.came++
	w.Number = c.Index.came
	if !w.routed {
		c.abandoned.name(now, w)
		m.Unanswered = nil // whoever this is forwarded to is told
	}
	switch {
	case c.abandoned.has(w.key()):
		return nil, refusal.Abandoned()
	case len(w.names) == 0: // it has said all it had to say
		return &nornv1.ClaimReply{}, nil
	}
	old, twice := c.remote.withdraw(w.key())
	if parked := c.Index.withdraw(w.key()); parked != nil {
		old, twice = parked.from, true
	}
	if twice {
		c.twice(old)
	}
	for _, w := range c.offers.recall(func(o *claimRequest) bool { return o.key() == w.key() && o.key().Named() }) {
		c.twice(w.from)
	}
	if c.repeat(now, w) {
		return nil, nil
	}
	if e := cmp.Or(c.unled(w), c.crammed(w.names)); e != nil {
		return nil, e
	}
	for _, name := range w.names {
		c.Index.asks(now, name)
	}
	if !w.prompt && c.probes.hold(now, r, m, w) {
		return nil, nil
	}
	c.pursue(now, w)
	if w.routed {
		c.gossip.served(now, c.Routes.Peer(w.from.Conn), w)
	}
	if !w.routed || c.remote.many(w) { // of others' tasks who has few of its own need not know
		c.gossip.renew(now, w.names)
	}
	return nil, nil
}

// twice sends a claim request away that came again: the two together must not
// get more than one may have. Mostly the client has given that connection up, but
// a frame that was late on its way may be the one that nobody waits for.
func (c *Machine) twice(old message.Origin) {
	c.Round.Refuse(old, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE,
		"the same claim request came again over another connection, and is answered there; ask again if this one still matters").Again(time.Millisecond))
}

// pursue grants what is there, here or elsewhere, or makes a request wait.
// The checks stand in this order because each one is cheaper and more final than the next:
// given up, closed, too late, without a majority for too long, declined, granted or sent, and
// only then a place in the line.
func (c *Machine) pursue(now clock.Time, w *claimRequest) {
	if c.abandoned.has(w.key()) {
		c.Round.Refuse(w.from, refusal.Abandoned())
		return
	}
	if c.closed != nil {
		c.Round.Refuse(w.from, c.closed)
		return
	}
	if w.deadline != 0 && w.deadline <= now.Mono { // what it was granted or asked for before took too long
		c.giveUp(now, w)
		return
	}
	if w.failedQuorum && max(w.Until, w.received+int64(GrantPatience)) <= now.Mono {
		c.giveUp(now, w)
		return
	}
	if c.remote.declines(w) {
		a := answer(w, time.Duration(now.Mono-w.received), nil, nil)
		a.Declined, a.After = true, c.Round.After(0) // nothing is written for it
		c.Round.Answer(a)
		return
	}
	if c.remote.claim(now, w) {
		return
	}
	switch patient := !w.prompt && w.received+int64(GrantPatience) > now.Mono; {
	case w.Until <= now.Mono && patient && c.Leases.Hidden(w.names, c.Index.paused):
		w.failedQuorum, w.fails = true, 0 // nothing is sent meanwhile
		c.pause(now, w)
		return
	case w.Until <= now.Mono:
		c.giveUp(now, w)
		return
	}
	if e := c.RoomToWait(w.from.Conn, w.bytes, w.tenant); e != nil {
		c.Round.Refuse(w.from, e)
		return
	}
	again := *w // the queues may still list it as one that was sent elsewhere
	again.tried, again.done = nil, false
	c.Index.park(&again)
}

// unled refuses a claim request when nobody in reach hands out any: that there is
// nothing to do would be the wrong answer. It gives nil when somebody does.
func (c *Machine) unled(w *claimRequest) *proto.Error {
	switch {
	case c.Partitions.Led() != 0 || !c.View.Alone && !w.routed && c.Routes.Led():
		return nil
	case c.View.Alone || w.routed:
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no partition has a leader here yet; try again").Keeping("exclusive claims").Again(50 * time.Millisecond)
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE,
		"no leader of any partition is in reach, and this node may lead none without a majority of its cohort: nothing is handed out, enqueues are taken all the same; try again, or look at `norn cluster status`").Keeping("exclusive claims").Again(200 * time.Millisecond)
}

// crammed refuses a claim request while as many tasks are under a claim here as may be, of a
// tenant or of all. It gives nil when there is room.
func (c *Machine) crammed(names []string) *proto.Error {
	for _, name := range names {
		if t := c.Index.tenants.Of(name); t != nil {
			if e := t.Claim(c.Index.tenants.Claimed(t.Prefix)); e != nil {
				return e
			}
		}
	}
	n := c.Partitions.Claimed()
	if n < c.MaxClaims {
		return nil
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d tasks are under a claim, the limit of this node (max-claims); complete or release some", n).Again(time.Second)
}

// giveUp answers a claim request whose wait is over without anything. That there is
// nothing is said only when that is so.
func (c *Machine) giveUp(now clock.Time, w *claimRequest) {
	e := c.unled(w)
	if w.routed {
		e = nil
	}
	if doubt := c.remote.doubt(w); doubt != nil {
		e = doubt
	}
	q, _, _ := c.Index.best(w)
	if q != nil && e == nil {
		e = c.crammed(w.names) // or it would have been granted that
	}
	if e == nil && (w.failedQuorum && q != nil || c.Leases.Hidden(w.names, c.Index.paused)) {
		e = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE,
			"there is work, but no majority of its partition's replicas has taken the claim in time: nothing is handed out, what was tried is taken back; try again, or look at `norn cluster status`").Keeping("exclusive claims").Again(100 * time.Millisecond)
	}
	if e != nil {
		c.Round.Refuse(w.from, e)
		return
	}
	c.Round.Answer(answer(w, time.Duration(now.Mono-w.received), nil, nil))
}

// GrantPatience is for how long a claim request that does not wait is tried again: once
// more after a message that was lost. Then it is told that there is no majority.
const GrantPatience = 2 * lease.Timeout

// grantClaims is how many of the claims before it a grant tells of, the newest: reading all
// made a claim dearer with each one that its task had had.
const grantClaims = 16

// What requests that wait may take in memory: each about so much, and all
// together, because one may name a thousand queues.
const (
	waiterBytes  = 256
	maxWaitBytes = 128 << 20
)

// newClaimRequest checks a claim request.
//
// usual is the lease of the queues' settings, for requests that name none. Limits:
// [proto.MaxClaimQueues] names, [proto.MaxBatchTasks] tasks. The wait counts from when this
// node received the request; a deadline of the client shortens it.
func newClaimRequest(r *message.Request, m *nornv1.ClaimRequest, usual time.Duration) (*claimRequest, *proto.Error) {
	if n := len(m.GetQueues()); n == 0 && len(m.GetUnanswered()) == 0 || n > proto.MaxClaimQueues {
		return nil, proto.Invalid("a claim names %d queues, not 1 to %d", n, proto.MaxClaimQueues)
	}
	for _, q := range m.GetQueues() {
		if err := proto.CheckQueue(q); err != nil {
			return nil, err
		}
	}
	if m.GetMaxTasks() > proto.MaxBatchTasks {
		return nil, proto.Invalid("max_tasks is %d, over the limit of %d", m.GetMaxTasks(), proto.MaxBatchTasks)
	}
	length, err := proto.CheckLease(m.GetLeaseSeconds(), usual)
	if err != nil {
		return nil, err
	}
	if len(m.GetWorker()) > proto.MaxWorkerName {
		return nil, proto.Invalid("the worker's name has %d bytes, over the limit of %d", len(m.GetWorker()), proto.MaxWorkerName)
	}
	if n := len(m.GetSession()); n != 0 && n != 16 {
		return nil, proto.Invalid("session has %d bytes, not 16", n)
	}
	if err := cmp.Or(convert.CheckUnanswered(m), convert.CheckWait(m)); err != nil {
		return nil, err
	}
	wait := proto.Seconds(m.GetWaitSeconds())
	w := &claimRequest{from: r.From, received: r.Received, Deadline: call.Deadline{Until: r.Received + int64(wait)}, max: max(1, int(m.GetMaxTasks()))}
	w.tenant = r.Scope.Tenant()
	w.body, w.routed, w.mayDecline, w.parks, w.prompt = m, r.Routed, r.Choosy, wait > 0, r.Prompt
	w.ask = vnode.Ask{Worker: m.GetWorker(), Request: m.GetRequestNo(), Lease: length, Log: proto.MaxUpdatesInList, Claims: grantClaims, By: r.By}
	copy(w.ask.Session[:], m.GetSession())
	w.names = slices.Compact(slices.Sorted(slices.Values(m.GetQueues())))
	for _, name := range w.names {
		w.bytes += len(name) + waiterBytes/4
	}
	w.bytes += waiterBytes
	if r.Deadline != 0 {
		w.deadline, w.Until = r.Deadline, min(w.Until, r.Deadline) // who has given up must not be granted anything
	}
	return w, nil
}

// repeat answers a request that was granted something before. The claims are
// renewed first, so that the worker's deadline may count from this request
// (design 7.3): the answer leaves after the renewals are durable.
//
// With a cohort of several members it repeats only grants of its own epoch. A grant of a leader
// before it may have been taken back by that leader, with the word of it still under way: the
// model found two workers with one task that way (docs/contributors/model.md, mutant
// RepeatOfBefore).
func (c *Machine) repeat(now clock.Time, w *claimRequest) bool {
	var grants []*nornv1.Grant
	var refs []message.GrantRef
	var pledges []*lease.Proposal
	all := c.Index.granted(w)
	for _, g := range all {
		if v := c.Partitions.Use(g.Partition); !c.Standing.May(g.Partition, standing.Renew) && v.Leading() != 0 {
			c.Round.Refuse(w.from, refusal.ClockInDoubt(v)) // it gets all of them when it asks again
			return true
		}
	}
	for _, g := range all {
		if len(grants) == w.max {
			break
		}
		v := c.Partitions.Use(g.Partition)
		if (c.Leases.Shared(g.Partition) || c.View.Company()) && g.Token>>32 != v.Leading() && !c.Policy.RepeatOfBefore {
			continue // the leader that granted it may have taken it back, or be about to (docs/contributors/model.md)
		}
		if held := vnode.EntryOf(v, g.Task).Of(g.Token); held != nil && !c.Leases.Owns(&held.Record, w.ask.By) {
			continue
		}
		r, err := v.Renew(c.Round.Tx, g.Task, g.Token, w.ask.Lease, now)
		if err != nil {
			continue
		}
		pledges = append(pledges, c.Leases.Propose(g.Partition, g.Task, &r, false))
		d, err := vnode.ReadTask(c.Round.Tx, g.Partition, g.Task, vnode.ReadOptions{Claims: grantClaims, Until: g.Token})
		if !c.Round.Check(err) {
			return true
		}
		grants, refs = append(grants, convert.Grant(d, c.Eta, 0)), append(refs, g)
	}
	if len(grants) == 0 || c.Policy.GrantedAgain {
		return false
	}
	number := c.Index.answered(w.key(), refs)
	offer{c, w, grants, refs, pledges, time.Duration(now.Mono - w.received), number, c.Round.This(), nil}.await(now)
	return true
}

// grant claims up to w.max of the best tasks over the waiter's queues and
// answers. It tells whether there was one.
//
// It takes the best task again for each one that it grants, as the first grant changes what is
// best. It ends at max tasks, at the node's limit of claims, or at [proto.MaxGrantBytes] of
// payload.
func (c *Machine) grant(now clock.Time, w *claimRequest) bool {
	var grants []*nornv1.Grant
	var refs []message.GrantRef
	var pledges []*lease.Proposal
	size := 0
	free := c.MaxClaims - c.Partitions.Claimed()
	if free <= 0 {
		c.limited = true
	}
granting:
	for len(grants) < min(w.max, free) && size < proto.MaxGrantBytes {
		w.now = now.Mono
		q, p, rank := c.Index.best(w)
		if q == nil {
			break
		}
		v := c.Partitions.Use(ring.Partition(p))
		passed := c.remote.passed(q.name, rank)
		ask := w.ask
		if _, head, _ := q.heads.Best(); head != rank { // what is better is kept from it
			at := *rank
			ask.Rank = &at
		}
		d, err := v.Grant(c.Round.Tx, q.name, ask, now)
		switch {
		case errors.Is(err, vnode.ErrExhausted):
			c.Node.StepDown(ring.Partition(p)) // and be elected again, for a new epoch
			continue
		case errors.Is(err, vnode.ErrNothing) && ask.Rank != nil:
			break granting // it has just gone; others may have what is better
		case errors.Is(err, vnode.ErrNothing):
			q.heads.Set(p, nil)
			continue
		case !c.Round.Check(err):
			return true
		}
		c.RankErrors.add(passed)
		c.Waits.Add(now, d)
		decided.Tell(c.Round, message.DecidedClaimed, message.Decided{Queue: q.name, Kind: proto.KindOf(d.Task.Enqueued.Further), Wait: decided.Waited(now, d)})
		r := &d.Claims[len(d.Claims)-1]
		ref := message.GrantRef{Partition: ring.Partition(p), Task: d.Task.ID, Token: r.Token, Ask: w.key()}
		c.Index.remember(ref)
		g := convert.Grant(d, c.Eta, proto.MaxUpdatesInList)
		grants, refs = append(grants, g), append(refs, ref)
		pledges = append(pledges, c.Leases.Propose(ring.Partition(p), d.Task.ID, r, false))
		size += gproto.Size(g)
	}
	if len(grants) == 0 {
		return false
	}
	c.Claimed += uint64(len(grants))
	number := c.Index.answered(w.key(), refs)
	offer{c, w, grants, refs, pledges, time.Duration(now.Mono - w.received), number, c.Round.This(), nil}.await(now)
	return true
}

// answer is the reply to a claim request that was held for so long before it was
// granted anything.
func answer(w *claimRequest, waited time.Duration, grants []*nornv1.Grant, refs []message.GrantRef) message.Reply {
	return message.Reply{
		To: w.from, Grants: refs,
		Message: &nornv1.ClaimReply{Grants: grants, WaitedSeconds: waited.Seconds()},
	}
}

// Undelivered frees the tasks of a reply that surely never left, unless the
// same grants were sent again: the request may have been repeated over another
// connection while the first one was dying.
func (c *Machine) Undelivered(now clock.Time, grants []message.GrantRef) {
	grants = c.Routes.Undelivered(grants)
	if len(grants) == 0 || !c.Index.unheard(grants[0]) {
		return
	}
	for _, g := range grants {
		c.Leases.TakeBack(now, g)
	}
}
