package session

import (
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// workerToWire gives the wire's form of a message of a worker, nil for others.
func workerToWire(m Message) *nornv1.WorkerMessage {
	w := &nornv1.WorkerMessage{}
	switch b := m.Body.(type) {
	case *Heartbeat:
		w.Body = &nornv1.WorkerMessage_Heartbeat{Heartbeat: heartbeatToWire(m.Stamp, b)}
	case *RunningTasks:
		w.Body = &nornv1.WorkerMessage_RunningTasks{RunningTasks: &nornv1.SessionRunningTasks{
			Request: b.Request, Held: each(b.Held, func(h Held) *nornv1.SessionHeld {
				return &nornv1.SessionHeld{Claim: claimToWire(h.Claim), Queue: text(h.Queue), LeaseSeconds: h.Lease.Seconds(), Ended: h.Ended}
			}),
		}}
	case *RunReply:
		w.Body = &nornv1.WorkerMessage_RunReply{RunReply: &nornv1.SessionRunReply{
			Push: b.Push, Claim: claimToWire(b.Claim), Refused: nornv1.SessionRefusal(b.Refused),
		}}
	case *NotifyReply:
		w.Body = &nornv1.WorkerMessage_NotifyReply{NotifyReply: &nornv1.SessionNotifyReply{Seq: b.Seq, Ended: claimsToWire(b.Ended)}}
	case *UpdateStatus:
		w.Body = &nornv1.WorkerMessage_UpdateStatus{UpdateStatus: statusToWire(b)}
	case *LogLines:
		w.Body = &nornv1.WorkerMessage_LogLines{LogLines: &nornv1.SessionLogLines{
			Request: b.Request, Claim: claimToWire(b.Claim), First: b.First, Known: b.Known, Ended: b.Ended,
			Lines: each(b.Lines, func(l string) []byte { return []byte(l) }),
		}}
	case *Leave:
		w.Body = &nornv1.WorkerMessage_Leave{Leave: &nornv1.SessionLeave{Dying: b.Dying}}
	default:
		return nil
	}
	return w
}

// workerFromWire is the inverse, for what was checked; nil for what is not known.
func workerFromWire(w *nornv1.WorkerMessage) Body {
	switch b := w.GetBody().(type) {
	case *nornv1.WorkerMessage_Heartbeat:
		return heartbeatFromWire(b.Heartbeat)
	case *nornv1.WorkerMessage_RunningTasks:
		return &RunningTasks{Request: b.RunningTasks.GetRequest(), Held: each(b.RunningTasks.GetHeld(), func(h *nornv1.SessionHeld) Held {
			return Held{Claim: claimFromWire(h.GetClaim()), Queue: h.GetQueue(), Lease: seconds(h.GetLeaseSeconds()), Ended: h.GetEnded()}
		})}
	case *nornv1.WorkerMessage_RunReply:
		r := b.RunReply
		return &RunReply{Push: r.GetPush(), Claim: claimFromWire(r.GetClaim()), Refused: Refusal(enum(r.GetRefused()))}
	case *nornv1.WorkerMessage_NotifyReply:
		return &NotifyReply{Seq: b.NotifyReply.GetSeq(), Ended: claimsFromWire(b.NotifyReply.GetEnded())}
	case *nornv1.WorkerMessage_UpdateStatus:
		return statusFromWire(b.UpdateStatus)
	case *nornv1.WorkerMessage_LogLines:
		l := b.LogLines
		return &LogLines{
			Request: l.GetRequest(), Claim: claimFromWire(l.GetClaim()), First: l.GetFirst(), Known: l.GetKnown(), Ended: l.GetEnded(),
			Lines: each(l.GetLines(), func(l []byte) string { return string(l) }),
		}
	case *nornv1.WorkerMessage_Leave:
		return &Leave{Dying: b.Leave.GetDying()}
	}
	return nil
}

func heartbeatToWire(stamp int64, b *Heartbeat) *nornv1.SessionHeartbeat {
	return &nornv1.SessionHeartbeat{
		Stamp: stamp, Name: text(b.Identity.Name), Machine: text(b.Identity.Machine), Lock: text(b.Identity.Lock),
		StartedAt: timeToWire(b.Identity.Started), MinVersion: b.MinVersion, MaxVersion: b.MaxVersion,
		Slots: uint32(b.Capacity.Slots), Prefetch: uint32(b.Capacity.Prefetch), Queues: queuesToWire(b.Capacity.Queues),
		Timeouts: timeoutsToWire(b.Timeouts), StopSeconds: b.Stop.Seconds(), GraceSeconds: b.Grace.Seconds(), Settled: b.Settled, Draining: b.Draining,
		Checked: b.Checked, Set: setToWire(b.Set), Claims: claimsToWire(b.Claims), LeaseSeconds: b.Capacity.Lease.Seconds(),
		Trouble: proto.Tail(text(b.Trouble), proto.MaxReasonBytes), Resting: b.Resting,
	}
}

func heartbeatFromWire(h *nornv1.SessionHeartbeat) *Heartbeat {
	return &Heartbeat{
		Identity: Identity{
			Name: h.GetName(), Machine: h.GetMachine(), Lock: h.GetLock(), Started: timeFromWire(h.GetStartedAt()),
		},
		MinVersion: h.GetMinVersion(), MaxVersion: h.GetMaxVersion(),
		Capacity: Capacity{Slots: int(h.GetSlots()), Prefetch: int(h.GetPrefetch()), Queues: queuesFromWire(h.GetQueues()), Lease: seconds(h.GetLeaseSeconds())},
		Timeouts: timeoutsFromWire(h.GetTimeouts()), Stop: seconds(h.GetStopSeconds()), Grace: seconds(h.GetGraceSeconds()),
		Settled: h.GetSettled(), Draining: h.GetDraining(), Checked: h.GetChecked(), Set: setFromWire(h.GetSet()),
		Claims: claimsFromWire(h.GetClaims()), Trouble: h.GetTrouble(), Resting: h.GetResting(),
	}
}

func queuesToWire(all []QueueSlots) []*nornv1.SessionQueue {
	return each(all, func(q QueueSlots) *nornv1.SessionQueue {
		return &nornv1.SessionQueue{Queue: text(q.Queue), Slots: uint32(q.Slots), Weight: uint32(q.Weight)}
	})
}

func queuesFromWire(all []*nornv1.SessionQueue) []QueueSlots {
	return each(all, func(q *nornv1.SessionQueue) QueueSlots {
		return QueueSlots{Queue: q.GetQueue(), Slots: int(q.GetSlots()), Weight: int(q.GetWeight())}
	})
}

func statusToWire(b *UpdateStatus) *nornv1.SessionUpdateStatus {
	u := &nornv1.SessionUpdateStatus{
		Check: b.Check, Kind: nornv1.SessionEndKind(b.End.Kind), Seq: b.End.Seq, AutoSeq: b.End.AutoSeq, Result: b.End.Result,
		Error: proto.Tail(b.End.Error, proto.MaxErrorBytes), RetryAt: timeToWire(b.End.RetryAt), RetryInSeconds: b.End.RetryIn.Seconds(), Uncounted: b.End.Uncounted, Discard: b.End.Discard,
		Further: b.End.Further,
	}
	if b.End.Kind != EndChecked {
		u.Claim = claimToWire(b.Claim)
	}
	return u
}

func statusFromWire(u *nornv1.SessionUpdateStatus) *UpdateStatus {
	return &UpdateStatus{Claim: claimFromWire(u.GetClaim()), Check: u.GetCheck(), End: End{
		Kind: EndKind(enum(u.GetKind())), Seq: u.GetSeq(), AutoSeq: u.GetAutoSeq(), Result: u.GetResult(), Error: u.GetError(),
		RetryAt: timeFromWire(u.GetRetryAt()), RetryIn: seconds(u.GetRetryInSeconds()), Uncounted: u.GetUncounted(), Discard: u.GetDiscard(),
		Further: u.GetFurther(),
	}}
}
