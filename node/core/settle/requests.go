package settle

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/away"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// led refuses a request that only a leader decides while nobody leads here: whether the claims hold is not known yet, and saying
// that they are lost would end good work.
func (s *Machine) led() *proto.Error {
	if s.Partitions.Led() > 0 {
		return nil // the others are refused one by one
	}
	return refusal.Leaderless(s.Partitions.See(0))
}

// lost says why a token does not hold its task any more.
//
// Invariant: CLAIM_LOST ends the work of a worker that may be right, so it is said only where
// this node leads and nobody else can have led since the lease ended; else the answer asks to
// try again (design 7.3).
func (s *Machine) lost(task id.ID, token uint64, err error) *proto.Error {
	v := s.Partitions.Use(ring.Of(task, len(s.View.Cells)))
	switch {
	case v.Leading() == 0:
		return refusal.Leaderless(v) // whether it is lost is not known here
	case token>>32 > v.Leading() && !s.View.Alone:
		return refusal.LaterEpoch(v, token)
	}
	if errors.Is(err, vnode.ErrDamaged) {
		s.Round.Check(err)
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "%v", err)
	}
	// Another node may lead by now and have renewed it under the same token: that it is over
	// is certain once a majority has said since its end that nobody else leads.
	if at, held := vnode.LapsedAt(v, task, token); held && at <= s.Round.Now.Mono && !s.Leases.ConfirmedSince(v.Partition, at) {
		s.Leases.Confirm(v.Partition)
		return refusal.LeaseInDoubt(v, token)
	}
	d, err := vnode.ReadTask(s.Round.Tx, ring.Of(task, len(s.View.Cells)), task, vnode.ReadOptions{NoLog: true})
	if !s.Round.Check(err) {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "%v", err)
	}
	if d.Task.Collected() {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "claim %d on task %s is lost: the task is %s, and has been collected", token, task, d.State)
	}
	if d.Task.Enqueued == nil {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "task %s is not known here", task)
	}
	why := "no such claim was made"
	for i := range d.Claims {
		r := &d.Claims[i]
		switch {
		case r.Token > token:
			why = "a newer claim has superseded it"
		case r.Token != token:
		case r.Outcome == claim.Active:
			why = "its lease has run out"
		case r.Outcome == claim.Expired:
			why = "its lease ran out"
		case r.Outcome == claim.Released:
			why = "it was released"
		case r.Outcome == claim.Failed:
			why = "its failure was recorded"
		default:
			why = "the task is finished"
		}
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "claim %d on task %s is lost: %s (the task is %s)", token, task, why, d.State)
}

// others refuses what a principal or a session says of a claim that another one holds.
func (s *Machine) others(task id.ID, token uint64, by []byte, worker, principal string) *proto.Error {
	v := s.Partitions.Use(ring.Of(task, len(s.View.Cells)))
	r := vnode.EntryOf(v, task).Of(token)
	had := claim.Record{} // of one that has ended: to say so again is its principal's too
	if r != nil {
		had = r.Record
	} else if principal != "" {
		had = vnode.Ended(v, s.Round.Tx, task, token)
	}
	if !s.Leases.Owns(&had, principal) {
		return notTheirs(task, token, principal)
	}
	if len(by) == 0 || r == nil || bytes.Equal(r.Session[:], by) && (worker == "" || r.Worker == worker) {
		return nil
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "claim %d on task %s is not of this session, but of %q: only that one may renew it, fail it or give it back", token, task, r.Worker)
}

func notTheirs(task id.ID, token uint64, principal string) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "claim %d on task %s is not %s's: only who has claimed a task renews it, fails it, gives it back or adds to its log; to complete it takes the verb work on its queue", token, task, principal)
}

// writer refuses updates of a claim that is not their sender's. A node that does not know the
// claim takes them of those who may work on all queues, as it takes completions (docs/contributors/adr/0011).
func (s *Machine) writer(task id.ID, token uint64, q *message.Request) *proto.Error {
	if q.By == "" {
		return nil
	}
	v := s.Partitions.See(ring.Of(task, len(s.View.Cells)))
	r := vnode.Ended(v, s.Round.Tx, task, token)
	if held := vnode.EntryOf(v, task).Of(token); held != nil {
		r = held.Record
	}
	switch {
	case !s.Leases.Owns(&r, q.By):
		return notTheirs(task, token, q.By)
	case r.Token == 0 && q.Scope != nil:
		return s.lost(task, token, nil)
	}
	return nil
}

// claimed is the task that somebody says to hold, who is neither another principal nor another
// one's session.
// It returns INVALID_ARGUMENT for what is no claim, CLAIM_LOST for one of another.
func (s *Machine) claimed(ref *nornv1.ClaimRef, principal string) (id.ID, *proto.Error) {
	task, bad := convert.TaskRef(ref.GetId(), ref.GetToken())
	if bad == nil {
		bad = s.others(task, ref.GetToken(), ref.GetSession(), ref.GetWorker(), principal)
	}
	return task, bad
}

// onceDecided answers when all proposals are decided; undo takes back what the answer says of
// one that no majority has.
//
// Invariant: what a proposal says is in the answer only if a majority of the cohort has it, and
// this node's own part is on its disk ([round.Writer.After]): a lease that is told and not held
// by a majority could be granted to a second worker by the next leader.
func (s *Machine) onceDecided(now clock.Time, from message.Origin, pledges []*lease.Proposal, reply gproto.Message, undo func(int, *nornv1.Error)) (gproto.Message, *proto.Error) {
	round := s.Round.This()
	waits := s.Pending.Open(waiting.Majority, from, func(why *proto.Error) {
		if why != nil {
			s.Round.Refuse(from, refusal.GivenUp())
		}
	})
	s.Leases.Await(now, pledges, func(clock.Time) {
		if !waits.Close() {
			return // its sender has given it up
		}
		for i, pl := range pledges {
			if pl != nil && pl.Failed() {
				undo(i, refusal.NoMajority(pl.Partition).Proto())
			}
		}
		s.Round.Answer(message.Reply{To: from, Message: reply, After: s.Round.After(round)})
	})
	return nil, nil
}

// StateOf is the state of a task whose claim is lost.
func (s *Machine) StateOf(task id.ID) nornv1.State {
	d, err := vnode.ReadTask(s.Round.Tx, ring.Of(task, len(s.View.Cells)), task, vnode.ReadOptions{NoClaims: true, NoLog: true})
	if !s.Round.Check(err) {
		return nornv1.State_STATE_UNSPECIFIED
	}
	return nornv1.State(d.State)
}

// Renew has claims last longer.
// Each is judged for itself; the answer waits for the slowest of their partitions. A new lease
// begins now, not at the end of the one before; without lease_seconds it is as long as that.
func (s *Machine) Renew(now clock.Time, q *message.Request, m *nornv1.RenewRequest) (gproto.Message, *proto.Error) {
	if err := convert.CheckBatch(len(m.GetClaims())); err != nil {
		return nil, err
	}
	length, err := proto.CheckLease(m.GetLeaseSeconds(), 0)
	if err = cmp.Or(err, s.led()); err != nil {
		return nil, err
	}
	reply := &nornv1.RenewReply{}
	pledges := make([]*lease.Proposal, len(m.GetClaims()))
	for i, ref := range m.GetClaims() {
		res := &nornv1.RenewResult{}
		reply.Results = append(reply.Results, res)
		task, bad := s.claimed(ref, q.By)
		if bad != nil {
			res.Error = bad.Proto()
			continue
		}
		v := s.Partitions.Use(ring.Of(task, len(s.View.Cells)))
		if !s.Standing.May(v.Partition, standing.Renew) && v.Leading() != 0 {
			res.Error = refusal.ClockInDoubt(v).Proto()
			continue
		}
		r, err := v.Renew(s.Round.Tx, task, ref.GetToken(), length, now)
		if err != nil {
			res.Error = s.lost(task, ref.GetToken(), err).Proto()
			res.State = s.StateOf(task)
			continue
		}
		s.Renewed++
		res.Claim, res.LeaseSeconds = convert.Claim(&r), r.Lease.Seconds()
		pledges[i] = s.Leases.Propose(v.Partition, task, &r, false)
		if s.Policy.UnfencedRenewal {
			pledges[i] = nil
		}
	}
	return s.onceDecided(now, q.From, pledges, reply, func(i int, e *nornv1.Error) {
		reply.Results[i].Claim, reply.Results[i].LeaseSeconds, reply.Results[i].Error = nil, 0, e
	})
}

// Update adds to the log of a task.
// All of a request have one time; after the first that has no room none is taken, so that a log
// has no gap in the middle of a request.
func (s *Machine) Update(now clock.Time, r *message.Request, m *nornv1.UpdateRequest) (gproto.Message, *proto.Error) {
	task, bad := convert.ClaimRef(m.GetId(), m.GetToken())
	bad = cmp.Or(bad, convert.CheckBatch(1+len(m.GetMore())), s.Replication.Writes.Check(m.GetDurability()))
	all := []crdt.Update{{Seq: m.GetSeq(), Data: m.GetData()}}
	for _, more := range m.GetMore() {
		all = append(all, crdt.Update{Seq: more.GetSeq(), Data: more.GetData()})
	}
	for i := range all {
		if len(all[i].Data) > proto.MaxUpdateBytes && bad == nil {
			bad = proto.Invalid("update %d has %d bytes, over the limit of %d", all[i].Seq, len(all[i].Data), proto.MaxUpdateBytes)
		}
		var of gproto.Message = m
		if i > 0 {
			of = m.GetMore()[i-1]
		}
		if bad == nil {
			all[i].Further, bad = convert.UnknownUpTo(of, proto.MaxUpdateBytes-len(all[i].Data), "update")
		}
	}
	if bad == nil {
		bad = s.writer(task, m.GetToken(), r)
	}
	if bad != nil {
		return nil, bad
	}
	reply, at := &nornv1.WriteReply{}, s.Standing.Clocks.Stamp(now, task)
	var full *nornv1.Error // of an update before
	for _, u := range all {
		u.Token, u.At, u.Output = m.GetToken(), at, m.GetOutput()
		res, f := &nornv1.WriteResult{}, u.Fact(task)
		if res.Error = s.full(f, m.GetLast(), full); res.Error != nil {
			full = res.Error
		} else {
			s.Add(now, task, f, &s.Updated, res)
		}
		reply.Results = append(reply.Results, res)
	}
	return reply, nil
}

// full refuses an update that the log of its task has no room for, or that comes behind one.
// What is there already may come again, and what others have taken is kept: they have
// counted it.
func (s *Machine) full(f crdt.Fact, last bool, before *nornv1.Error) *nornv1.Error {
	p := ring.Of(f.Task, len(s.View.Cells))
	n := vnode.LogOf(s.Round.Tx, p, f.Task)
	updates, size := uint64(proto.MaxLogUpdates), uint64(proto.MaxLogBytes)
	if last {
		updates, size = updates+proto.MaxLastUpdates, size+proto.MaxLastBytes
	}
	if before == nil && n.Updates < updates && n.Bytes+uint64(len(f.Body)) <= size {
		return nil
	}
	if _, there := vnode.FactOf(s.Round.Tx, p, f.Task, f.Key); there {
		return nil
	}
	if before != nil {
		return before
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT,
		"the log of task %s is full: it has %d updates with %d bytes, the limits are %d and %d; store what is more elsewhere", f.Task, n.Updates, n.Bytes, updates, size).ForGood().Proto()
}

// MaxSame is how often a request may complete one task: under as many tokens as it was
// granted, and for each the task with its completions is read.
const MaxSame = 64

// Complete takes the results of tasks, whoever has them.
// They need no claim that is known here: see the table of the package. Their time is this node's
// ([standing.Clocks.Stamp]), whatever the worker's clock shows.
func (s *Machine) Complete(now clock.Time, r *message.Request, m *nornv1.CompleteRequest) (gproto.Message, *proto.Error) {
	if err := cmp.Or(convert.CheckBatch(len(m.GetCompletions())), s.Replication.Writes.CheckEnd(m.GetDurability())); err != nil {
		return nil, err
	}
	n := len(m.GetCompletions())
	results := make([]nornv1.WriteResult, n)
	reply := &nornv1.WriteReply{Results: make([]*nornv1.WriteResult, n)}
	ofTask := make(map[string]int)
	for i, done := range m.GetCompletions() {
		res := &results[i]
		reply.Results[i] = res
		task, bad := convert.ClaimRef(done.GetId(), done.GetToken())
		if bad == nil && len(done.GetResult()) > proto.MaxUpdateBytes {
			bad = proto.Invalid("the result has %d bytes, over the limit of %d", len(done.GetResult()), proto.MaxUpdateBytes)
		}
		var extra []byte
		if bad == nil {
			extra, bad = convert.UnknownUpTo(done, proto.MaxUpdateBytes-len(done.GetResult()), "result")
		}
		if n > MaxSame {
			if ofTask[string(done.GetId())]++; ofTask[string(done.GetId())] > MaxSame && bad == nil {
				bad = proto.Invalid("the request completes task %s more than %d times; once is enough", task, MaxSame)
			}
		}
		if bad != nil {
			res.Error = bad.Proto()
			continue
		}
		f := crdt.Completed{Token: done.GetToken(), Seq: done.GetSeq(), At: s.Standing.Clocks.Stamp(now, task), Result: done.GetResult(), Further: s.run(task, done.GetToken(), r.By, extra)}
		if done.GetAutoSeq() {
			f.Seq = vnode.NextSeq(s.Round.Tx, ring.Of(task, len(s.View.Cells)), task, f.Token)
		}
		s.Sessions.Tells(done.GetSession())
		end, was := s.endBefore(now, task, done.GetToken()), s.Completed
		s.Add(now, task, f.Fact(task), &s.Completed, res)
		s.Sessions.Tells(nil)
		if s.Completed > was {
			decided.Tell(s.Round, message.DecidedCompleted, end)
		}
	}
	return reply, nil
}

// run adds to further fields who has had a claim, where that is known here, and who completes
// the task, where that is somebody else. They are valid until the next call.
func (s *Machine) run(task id.ID, token uint64, by string, further []byte) []byte {
	run := crdt.Run{Completer: by}
	if r := vnode.EntryOf(s.Partitions.See(ring.Of(task, len(s.View.Cells))), task).Of(token); r != nil {
		run.Worker, run.Start, run.Principal = r.Worker, r.Start, r.Principal
	}
	if run.Completer == run.Principal {
		run.Completer = ""
	}
	if run == (crdt.Run{}) {
		return crdt.WithoutRun(further)
	}
	space := &s.space
	*space = crdt.AppendRun((*space)[:0], further, run)
	return *space
}

// UnheardOf tells whether a task may have been finished and forgotten: it is old enough,
// or its ID does not say how old it is, and neither a fact of it nor this claim is here.
func (s *Machine) UnheardOf(now clock.Time, task id.ID, token uint64) bool {
	p := ring.Of(task, len(s.View.Cells))
	return s.Standing.Clocks.Wall(now)-task.Nanos() > int64(s.GCGrace) && !vnode.Known(s.Round.Tx, p, task) &&
		len(vnode.Unheld(s.Partitions.See(p), lease.Releases([]message.GrantRef{{Partition: p, Task: task, Token: token}}))) > 0
}

// Add stores a fact that any node may write and says what it has bought.
//
// Errors in res: UNAVAILABLE while the partition is being deleted or the task has not come here
// yet, NOT_FOUND where it may have been forgotten, CLAIM_LOST where it was collected with
// another end, INTERNAL for a damaged store.
func (s *Machine) Add(now clock.Time, task id.ID, f crdt.Fact, counter *uint64, res *nornv1.WriteResult) {
	p := ring.Of(task, len(s.View.Cells))
	if e := s.Transfer.Refuses(p); e != nil {
		res.Error = e.Proto()
		return
	}
	if s.UnheardOf(now, task, f.Key.A) {
		res.Error = refusal.NoTask(task).Proto() // it may have been finished and forgotten
		if v := s.Partitions.See(p); v.Leading() == 0 && !s.View.Alone {
			res.Error = refusal.Leaderless(v).Proto() // or it has not come here yet
		}
		return
	}
	added, err := s.Partitions.Use(p).Add(s.Round.Tx, f, now)
	if !s.Round.Check(err) {
		res.Error = proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "%v", err).Proto()
		return
	}
	if added.Collected != crdt.StateUnknown && (f.Key.Kind != crdt.KindCompleted || added.Collected != crdt.StateCompleted) {
		res.State = nornv1.State(added.Collected)
		res.Error = proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "task %s was %s and has been collected; this is not kept", task, added.Collected).Proto()
		return
	}
	if added.Clash {
		s.Clashes.Add(task, 1)
	}
	existed := added.Existed || added.Collected != crdt.StateUnknown
	if !existed {
		*counter++
	}
	res.Receipt = &nornv1.Receipt{}
	s.Replication.Writes.Bought(res, res.Receipt, task, existed, f.Key)
}

// Bought fills the receipt of a decision that was accepted.
func (s *Machine) Bought(res *nornv1.WriteResult, task id.ID, existed bool) {
	s.Replication.Writes.Bought(res, res.Receipt, task, existed, crdt.Key{})
}

// Fail ends attempts that have failed.
func (s *Machine) Fail(now clock.Time, r *message.Request, m *nornv1.FailRequest) (gproto.Message, *proto.Error) {
	if err := cmp.Or(convert.CheckBatch(len(m.GetFailures())), s.led()); err != nil {
		return nil, err
	}
	reply := &nornv1.WriteReply{}
	for _, f := range m.GetFailures() {
		res := &nornv1.WriteResult{}
		reply.Results = append(reply.Results, res)
		if err := s.failOne(now, f, r.By, res); err != nil {
			res.Error = err.Proto()
		}
	}
	return reply, nil
}

// failOne ends one attempt. Where the failure brings no time, the task's retry policy says when
// the next one is. Only the first failure of a token counts: a repeated one is answered with what
// the task is by then.
func (s *Machine) failOne(now clock.Time, f *nornv1.Failure, principal string, res *nornv1.WriteResult) *proto.Error {
	task, bad := convert.TaskRef(f.GetId(), f.GetToken())
	if bad != nil {
		return bad
	}
	extra, bad := convert.UnknownUpTo(f, proto.MaxErrorBytes, "failure")
	if bad != nil {
		return bad
	}
	what := vnode.Failure{Token: f.GetToken(), Error: proto.Tail(f.GetError(), proto.MaxErrorBytes-len(extra)), Counted: !f.GetUncounted(), Discard: f.GetDiscard(), Further: extra}
	if ts := f.GetRetryAt(); ts != nil {
		if !ts.IsValid() || ts.Seconds < 0 || ts.AsTime().Year() > 2200 {
			return proto.Invalid("retry_at is not a time between 1970 and 2200")
		}
		what.RetryAt = ts.AsTime().UnixNano()
	}
	if bad := proto.CheckRetryIn(f.GetRetryInSeconds()); bad != nil {
		return bad
	}
	if in := proto.Seconds(f.GetRetryInSeconds()); in > 0 {
		what.RetryAt = now.Wall + int64(in) // whatever the client's clock shows
	}
	if !proto.Within(f.GetAtLeastSeconds(), proto.MaxRetryDelay) {
		return proto.Invalid("at_least_seconds of %v is outside 0 to a year", f.GetAtLeastSeconds())
	}
	what.AtLeast = proto.Seconds(f.GetAtLeastSeconds())
	if !proto.Within(f.GetKeepAwaySeconds(), away.Longest) {
		return proto.Invalid("keep_away_seconds of %v is outside 0 to an hour", f.GetKeepAwaySeconds())
	}
	if bad := s.others(task, f.GetToken(), f.GetSession(), f.GetWorker(), principal); bad != nil {
		return bad
	}
	v := s.Partitions.Use(ring.Of(task, len(s.View.Cells)))
	s.Sessions.Tells(f.GetSession())
	defer s.Sessions.Tells(nil)
	end := s.endBefore(now, task, f.GetToken())
	if r := vnode.EntryOf(v, task).Of(f.GetToken()); r != nil { // before it is ready again
		s.Index.KeepAway(now, &r.Record, task, proto.Seconds(f.GetKeepAwaySeconds()))
	}
	state, existed, err := v.Fail(s.Round.Tx, task, what, now)
	if err != nil {
		return s.lost(task, f.GetToken(), err)
	}
	if !existed {
		s.Failed++
		decided.End(s.Round, message.DecidedFailed, end, state)
	}
	res.State, res.Receipt = nornv1.State(state), &nornv1.Receipt{}
	s.Replication.Writes.Bought(res, res.Receipt, task, existed, crdt.Key{Kind: crdt.KindFailed, A: f.GetToken()})
	return nil
}

// Release gives claims back.
// A release counts as no attempt. It is answered once a majority has it, because the next
// leader would otherwise find the claim with its lease still running, and leave the task alone
// until that is over.
func (s *Machine) Release(now clock.Time, q *message.Request, m *nornv1.ReleaseRequest) (gproto.Message, *proto.Error) {
	if err := cmp.Or(convert.CheckBatch(len(m.GetClaims())), s.led()); err != nil {
		return nil, err
	}
	reply := &nornv1.WriteReply{}
	pledges := make([]*lease.Proposal, len(m.GetClaims()))
	for i, ref := range m.GetClaims() {
		res := &nornv1.WriteResult{}
		reply.Results = append(reply.Results, res)
		task, bad := s.claimed(ref, q.By)
		if bad != nil {
			res.Error = bad.Proto()
			continue
		}
		v := s.Partitions.Use(ring.Of(task, len(s.View.Cells)))
		s.Sessions.Tells(ref.GetSession())
		existed, err := v.Release(s.Round.Tx, task, ref.GetToken(), now)
		s.Sessions.Tells(nil)
		if err != nil {
			res.Error = s.lost(task, ref.GetToken(), err).Proto()
			continue
		}
		if !existed {
			s.Released++
		}
		res.Receipt = &nornv1.Receipt{}
		convert.FillReceipt(res.Receipt, task, v.Partition, existed)
		pledges[i] = s.Leases.Propose(v.Partition, task, &claim.Record{Token: ref.GetToken(), Outcome: claim.Released}, true)
	}
	return s.onceDecided(now, q.From, pledges, reply, func(i int, e *nornv1.Error) {
		reply.Results[i].Receipt, reply.Results[i].Error = nil, e
	})
}

// endBefore is what is known of a task before a claim of it ends. A task under none here is read:
// its claim is another node's, or was none.
func (s *Machine) endBefore(now clock.Time, task id.ID, token uint64) message.Decided {
	v := s.Partitions.Use(ring.Of(task, len(s.View.Cells)))
	if e := vnode.EntryOf(v, task); e != nil && e.Known() {
		r := &claim.Record{}
		if h := e.Of(token); h != nil {
			r = &h.Record
		}
		return decided.OfClaim(now, &e.Brief, r)
	}
	t, err := vnode.LoadTask(s.Round.Tx, ring.Of(task, len(s.View.Cells)), task)
	if err != nil || t.Enqueued == nil { // who decides finds the damage
		return message.Decided{Run: decided.Unknown, Age: decided.Unknown}
	}
	return decided.WithoutClaim(now, t)
}
