package session

import (
	"fmt"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// dispatcherToWire gives the wire's form of a message to a worker, nil for others.
func dispatcherToWire(body Body) *nornv1.DispatcherMessage {
	w := &nornv1.DispatcherMessage{}
	switch b := body.(type) {
	case *HeartbeatReply:
		w.Body = &nornv1.DispatcherMessage_HeartbeatReply{HeartbeatReply: heartbeatReplyToWire(b)}
	case *Renewed:
		w.Body = &nornv1.DispatcherMessage_Renewed{Renewed: &nornv1.SessionRenewed{
			Echo: b.Echo, Renewals: each(b.Items, func(r Renewal) *nornv1.SessionRenewal {
				return &nornv1.SessionRenewal{Claim: claimToWire(r.Claim), LeaseSeconds: r.Lease.Seconds(), Lost: nornv1.SessionCause(r.Lost)}
			}),
		}}
	case *GetRunningTasks:
		w.Body = &nornv1.DispatcherMessage_GetRunningTasks{GetRunningTasks: &nornv1.SessionGetRunningTasks{Request: b.Request}}
	case *RunTask:
		w.Body = &nornv1.DispatcherMessage_RunTask{RunTask: &nornv1.SessionRunTask{
			Push: b.Push, Check: b.Check, Echo: b.Echo, WaitedSeconds: b.Waited.Seconds(), Grant: b.Grant,
		}}
	case *Notify:
		w.Body = &nornv1.DispatcherMessage_Notify{Notify: &nornv1.SessionNotify{
			Seq: b.Seq, Claims: each(b.Claims, func(q Question) *nornv1.SessionQuestion {
				return &nornv1.SessionQuestion{Claim: claimToWire(q.Claim), LeaseSeconds: q.Lease.Seconds()}
			}),
		}}
	case *KillTask:
		w.Body = &nornv1.DispatcherMessage_KillTask{KillTask: &nornv1.SessionKillTask{
			Claim: claimToWire(b.Claim), LeaseSeconds: b.Lease.Seconds(), Cause: nornv1.SessionCause(b.Cause),
		}}
	case *StatusAck:
		w.Body = &nornv1.DispatcherMessage_StatusAck{StatusAck: &nornv1.SessionStatusAck{Claim: claimToWire(b.Claim), Lost: b.Lost, State: b.State}}
	case *Suicide:
		w.Body = &nornv1.DispatcherMessage_Suicide{Suicide: &nornv1.SessionSuicide{Reason: text(b.Reason), Final: b.Final}}
	case *GetLogLines:
		w.Body = &nornv1.DispatcherMessage_GetLogLines{GetLogLines: &nornv1.SessionGetLogLines{
			Request: b.Request, Claim: claimToWire(b.Claim), After: b.After, Limit: uint32(max(0, b.Limit)),
		}}
	case *LeaveAck:
		w.Body = &nornv1.DispatcherMessage_LeaveAck{LeaveAck: &nornv1.SessionLeaveAck{}}
	default:
		return nil
	}
	return w
}

func heartbeatReplyToWire(b *HeartbeatReply) *nornv1.SessionHeartbeatReply {
	return &nornv1.SessionHeartbeatReply{
		Echo: b.Echo, Version: b.Version, Refused: nornv1.SessionRefusal(b.Refused), Text: text(b.Text), Good: b.Good,
		Timeouts: timeoutsToWire(b.Timeouts), Checked: b.Checked, Set: setToWire(b.Set), Drain: b.Drain,
		Stop: each(b.Cancelled, func(s Stop) *nornv1.SessionStop {
			return &nornv1.SessionStop{Claim: claimToWire(s.Claim), Cause: nornv1.SessionCause(s.Cause)}
		}),
	}
}

// dispatcherFromWire is the inverse; nil for what is not known. A worker trusts its
// node as far as counting goes, but a message about no claim at all is ErrWire.
func dispatcherFromWire(w *nornv1.DispatcherMessage) (Body, error) {
	var bad error
	claim := func(c *nornv1.ClaimRef) Claim {
		if err := proto.CheckClaimRef(c); err != nil && bad == nil {
			bad = fmt.Errorf("%w: %s", ErrWire, err.Message)
		}
		return claimFromWire(c)
	}
	var body Body
	switch b := w.GetBody().(type) {
	case *nornv1.DispatcherMessage_HeartbeatReply:
		r := b.HeartbeatReply
		body = &HeartbeatReply{
			Echo: r.GetEcho(), Version: r.GetVersion(), Refused: Refusal(enum(r.GetRefused())), Text: r.GetText(), Good: r.GetGood(),
			Timeouts: timeoutsFromWire(r.GetTimeouts()), Checked: r.GetChecked(), Set: setFromWire(r.GetSet()), Drain: r.GetDrain(),
			Cancelled: each(r.GetStop(), func(s *nornv1.SessionStop) Stop {
				return Stop{Claim: claim(s.GetClaim()), Cause: Cause(enum(s.GetCause()))}
			}),
		}
	case *nornv1.DispatcherMessage_Renewed:
		body = &Renewed{Echo: b.Renewed.GetEcho(), Items: each(b.Renewed.GetRenewals(), func(r *nornv1.SessionRenewal) Renewal {
			return Renewal{Claim: claim(r.GetClaim()), Lease: seconds(r.GetLeaseSeconds()), Lost: Cause(enum(r.GetLost()))}
		})}
	case *nornv1.DispatcherMessage_GetRunningTasks:
		body = &GetRunningTasks{Request: b.GetRunningTasks.GetRequest()}
	case *nornv1.DispatcherMessage_RunTask:
		return runTaskFromWire(b.RunTask)
	case *nornv1.DispatcherMessage_Notify:
		body = &Notify{Seq: b.Notify.GetSeq(), Claims: each(b.Notify.GetClaims(), func(q *nornv1.SessionQuestion) Question {
			return Question{Claim: claim(q.GetClaim()), Lease: seconds(q.GetLeaseSeconds())}
		})}
	case *nornv1.DispatcherMessage_KillTask:
		k := b.KillTask
		body = &KillTask{Claim: claim(k.GetClaim()), Lease: seconds(k.GetLeaseSeconds()), Cause: Cause(enum(k.GetCause()))}
	case *nornv1.DispatcherMessage_StatusAck:
		body = &StatusAck{Claim: claim(b.StatusAck.GetClaim()), Lost: b.StatusAck.GetLost(), State: b.StatusAck.GetState()}
	case *nornv1.DispatcherMessage_Suicide:
		body = &Suicide{Reason: b.Suicide.GetReason(), Final: b.Suicide.GetFinal()}
	case *nornv1.DispatcherMessage_GetLogLines:
		q := b.GetLogLines
		body = &GetLogLines{Request: q.GetRequest(), Claim: claim(q.GetClaim()), After: q.GetAfter(), Limit: int(min(q.GetLimit(), 1<<20))}
	case *nornv1.DispatcherMessage_LeaveAck:
		body = &LeaveAck{}
	}
	return body, bad
}

// runTaskFromWire takes task, queue, token and lease from the grant.
func runTaskFromWire(r *nornv1.SessionRunTask) (Body, error) {
	t := &RunTask{
		Push: r.GetPush(), Check: r.GetCheck(), Echo: r.GetEcho(), Waited: seconds(r.GetWaitedSeconds()),
		Queue: HealthQueue, Grant: r.GetGrant(),
	}
	if t.Check != 0 {
		return t, nil
	}
	task, err := id.Parse(r.GetGrant().GetTask().GetId())
	if err != nil {
		return nil, fmt.Errorf("%w: a grant without a task: %w", ErrWire, err)
	}
	t.Claim = Claim{Task: task, Token: r.GetGrant().GetToken()}
	t.Queue = r.GetGrant().GetTask().GetQueue()
	t.Lease = seconds(r.GetGrant().GetLeaseSeconds())
	return t, nil
}
