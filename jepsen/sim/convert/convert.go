package convert

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
)

// MethodOf is the method of a request, which decides how urgent it is.
func MethodOf(m gproto.Message) nornv1.Method {
	switch m.(type) {
	case *nornv1.EnqueueRequest:
		return nornv1.Method_METHOD_ENQUEUE
	case *nornv1.ClaimRequest:
		return nornv1.Method_METHOD_CLAIM
	case *nornv1.RenewRequest:
		return nornv1.Method_METHOD_RENEW
	case *nornv1.UpdateRequest:
		return nornv1.Method_METHOD_UPDATE
	case *nornv1.CompleteRequest:
		return nornv1.Method_METHOD_COMPLETE
	case *nornv1.WorkRequest:
		return nornv1.Method_METHOD_WORK
	case *nornv1.FailRequest:
		return nornv1.Method_METHOD_FAIL
	case *nornv1.ReleaseRequest:
		return nornv1.Method_METHOD_RELEASE
	case *nornv1.CancelRequest:
		return nornv1.Method_METHOD_CANCEL
	case *nornv1.RetryRequest:
		return nornv1.Method_METHOD_RETRY
	case *nornv1.SetQueueRequest:
		return nornv1.Method_METHOD_SET_QUEUE
	case *nornv1.SchedulesRequest:
		return nornv1.Method_METHOD_SCHEDULES
	case *nornv1.ChangeSchedulesRequest:
		return nornv1.Method_METHOD_CHANGE_SCHEDULES
	case *nornv1.SessionRequest:
		return nornv1.Method_METHOD_SESSION
	case *nornv1.BackupRequest:
		return nornv1.Method_METHOD_BACKUP
	case *nornv1.RestoreRequest:
		return nornv1.Method_METHOD_RESTORE
	}
	return nornv1.Method_METHOD_GET
}

// Urgent methods keep or free work and go first, as in package node.
func Urgent(m nornv1.Method) bool {
	switch m {
	case nornv1.Method_METHOD_RENEW, nornv1.Method_METHOD_COMPLETE, nornv1.Method_METHOD_FAIL, nornv1.Method_METHOD_RELEASE:
		return true
	}
	return false
}

// Kind is the kind of an error as a history has it.
func Kind(k nornv1.ErrorKind) string { return strings.TrimPrefix(k.String(), "ERROR_KIND_") }

// State is a task's state as a history has it.
func State(s nornv1.State) history.State {
	if s == 0 {
		return ""
	}
	return history.State(strings.ToLower(strings.TrimPrefix(s.String(), "STATE_")))
}

func states(from []nornv1.State) (to []history.State) {
	for _, s := range from {
		to = append(to, State(s))
	}
	return to
}

// IDOf reads an ID of the protocol; the zero ID where it is none.
func IDOf(b []byte) id.ID {
	i, _ := id.FromBytes(b) // the zero ID for none
	return i
}

// Parse reads an ID from its text; the zero ID where it is none.
func Parse(text string) id.ID {
	i, _ := id.Parse(text) // the zero ID for what is none: the checker will say so
	return i
}

func policy(p nornv1.DependencyFailure) string {
	switch p {
	case nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN:
		return "run"
	case nornv1.DependencyFailure_DEPENDENCY_FAILURE_WAIT:
		return "wait"
	}
	return ""
}

// specOf is a spec as a client asks for it.
func specOf(t *nornv1.TaskSpec) *history.Spec {
	s := &history.Spec{
		Queue: t.GetQueue(), Priority: t.GetPriority(), Payload: content(t.GetPayload(), further(t)),
		OnFailure: policy(t.GetOnDependencyFailure()), MaxAttempts: t.GetRetry().GetMaxAttempts(),
		Key: t.GetKey(), Window: int64(proto.Seconds(t.GetKeyWindowSeconds())),
	}
	if ts := t.GetNotBefore(); ts != nil {
		s.NotBefore = ts.AsTime().UnixNano()
	}
	for _, d := range t.GetDependencies() {
		s.Deps = append(s.Deps, IDOf(d))
	}
	slices.SortFunc(s.Deps, id.ID.Compare)
	return s
}

// content digests the bytes of a task: what a newer client has added to it is to stay with
// its payload.
func content(payload, further []byte) uint64 {
	return history.Digest(slices.Concat(payload, further))
}

// further is what the nodes are to show of a spec in which they do not know everything: a
// TaskSpec with that alone.
func further(t *nornv1.TaskSpec) []byte {
	var policy []byte
	if raw := t.GetRetry().ProtoReflect().GetUnknown(); len(raw) > 0 {
		policy = protowire.AppendBytes(protowire.AppendTag(nil, 8, protowire.BytesType), raw)
	}
	return slices.Concat(policy, t.ProtoReflect().GetUnknown())
}

// Seen is a task as a client was shown it. Of a collected task there is no
// spec.
func Seen(t *nornv1.Task) history.Item {
	i := history.Item{Task: Parse(t.GetId()), State: State(t.GetState()), Attempts: t.GetAttempts(), Text: t.GetError(), Data: history.Digest(t.GetResult())}
	if t.GetQueue() == "" {
		return i
	}
	i.Spec = &history.Spec{
		Queue: t.GetQueue(), Priority: t.GetPriority(), Payload: content(t.GetPayload(), t.GetFurtherSpec()), MaxAttempts: t.GetMaxAttempts(),
		OnFailure: policy(t.GetOnDependencyFailure()), Key: t.GetKey(), Window: int64(proto.Seconds(t.GetKeyWindowSeconds())),
	}
	for _, d := range t.GetDependencies() {
		i.Spec.Deps = append(i.Spec.Deps, Parse(d))
	}
	slices.SortFunc(i.Spec.Deps, id.ID.Compare)
	for _, c := range t.GetClaims() {
		i.Claims = append(i.Claims, history.ClaimSeen{
			Token: c.GetToken(), Worker: c.GetWorker(),
			Outcome: strings.ToLower(strings.TrimPrefix(c.GetOutcome().String(), "CLAIM_OUTCOME_")),
		})
	}
	i.Log = Entries(t.GetUpdates())
	return i
}

// Entries are the updates of a log.
func Entries(updates []*nornv1.Update) (log []history.Entry) {
	for _, u := range updates {
		log = append(log, history.Entry{Token: u.GetToken(), Seq: u.GetSeq(), Data: history.Digest(u.GetData())})
	}
	return log
}

func refs(claims []*nornv1.ClaimRef) (items []history.Item) {
	for _, r := range claims {
		items = append(items, history.Item{Task: IDOf(r.GetId()), Token: r.GetToken()})
	}
	return items
}

func plain(ids [][]byte) (items []history.Item) {
	for _, b := range ids {
		items = append(items, history.Item{Task: IDOf(b)})
	}
	return items
}

// Invocations are the begins of the operations that a request is: of one that ends a task
// and asks for the next ones there are two.
func Invocations(m gproto.Message) []*history.Event {
	w, ok := m.(*nornv1.WorkRequest)
	if !ok {
		return []*history.Event{Invocation(m)}
	}
	return []*history.Event{
		Invocation(&nornv1.CompleteRequest{Completions: w.GetCompletions(), Durability: w.GetDurability()}),
		Invocation(w.GetClaim()),
	}
}

// Invocation is the begin of an operation.
//
// Long because: it is one table, a case per request.
func Invocation(m gproto.Message) *history.Event {
	e := &history.Event{Phase: history.Invoke}
	switch m := m.(type) {
	case *nornv1.EnqueueRequest:
		e.Func = history.Enqueue
		for _, t := range m.GetTasks() {
			e.Items = append(e.Items, history.Item{Task: IDOf(t.GetId()), Spec: specOf(t)})
		}
	case *nornv1.ClaimRequest:
		e.Func, e.Queues, e.Max = history.Claim, m.GetQueues(), int(m.GetMaxTasks())
		e.Wait, e.Lease = int64(proto.Seconds(m.GetWaitSeconds())), int64(proto.Seconds(m.GetLeaseSeconds()))
		e.Session, e.Request = history.Digest(m.GetSession()), m.GetRequestNo()
	case *nornv1.RenewRequest:
		e.Func, e.Items, e.Lease = history.Renew, refs(m.GetClaims()), int64(proto.Seconds(m.GetLeaseSeconds()))
	case *nornv1.UpdateRequest:
		e.Func = history.Update
		e.Items = []history.Item{{Task: IDOf(m.GetId()), Token: m.GetToken(), Seq: m.GetSeq(), Data: history.Digest(m.GetData()), Output: m.GetOutput()}}
		for _, u := range m.GetMore() {
			e.Items = append(e.Items, history.Item{Task: IDOf(m.GetId()), Token: m.GetToken(), Seq: u.GetSeq(), Data: history.Digest(u.GetData()), Output: m.GetOutput()})
		}
	case *nornv1.CompleteRequest:
		e.Func = history.Complete
		for _, d := range m.GetCompletions() {
			e.Items = append(e.Items, history.Item{Task: IDOf(d.GetId()), Token: d.GetToken(), Seq: d.GetSeq(), Auto: d.GetAutoSeq(), Data: history.Digest(d.GetResult())})
		}
	case *nornv1.FailRequest:
		e.Func = history.FailTask
		for _, f := range m.GetFailures() {
			i := history.Item{Task: IDOf(f.GetId()), Token: f.GetToken(), Uncounted: f.GetUncounted(), Discard: f.GetDiscard()}
			if at := f.GetRetryAt(); at != nil {
				i.RetryAt = at.AsTime().UnixNano()
			}
			e.Items = append(e.Items, i)
		}
	case *nornv1.ReleaseRequest:
		e.Func, e.Items = history.Release, refs(m.GetClaims())
	case *nornv1.CancelRequest:
		e.Func, e.Items, e.Only = history.Cancel, plain(m.GetIds()), states(m.GetOnlyStates())
	case *nornv1.RetryRequest:
		e.Func, e.Items, e.Only = history.Retry, plain(m.GetIds()), states(m.GetOnlyStates())
	case *nornv1.GetRequest:
		e.Func, e.Items = history.Get, plain([][]byte{m.GetId()})
		if l := m.GetConsistency(); l.GetAtLeast() {
			e.After = &history.Entry{Token: l.GetAtLeastToken(), Seq: l.GetAtLeastSeq()}
		}
	case *nornv1.ExplainRequest:
		e.Func, e.Items = history.Explain, plain([][]byte{m.GetId()})
	case *nornv1.LogRequest:
		e.Func, e.Items, e.Wait = history.Log, plain([][]byte{m.GetId()}), int64(proto.Seconds(m.GetWaitSeconds()))
		if m.GetAfter() {
			e.After = &history.Entry{Token: m.GetAfterToken(), Seq: m.GetAfterSeq()}
		}
	case *nornv1.ListRequest:
		e.Func, e.Only, e.Max, e.Cursor = history.List, states(m.GetStates()), int(m.GetLimit()), hex.EncodeToString(m.GetCursor())
		e.Queues = some(m.GetQueue())
	case *nornv1.CountRequest:
		e.Func, e.Queues = history.Count, some(m.GetQueue())
	case *nornv1.KeyRequest:
		e.Func = history.Key
		e.Items = []history.Item{{Spec: &history.Spec{Queue: m.GetQueue(), Key: m.GetKey(), Window: int64(proto.Seconds(m.GetWindowSeconds()))}}}
	case *nornv1.QueuesRequest:
		e.Func, e.Queues = history.Queues, m.GetNames()
	case *nornv1.SetQueueRequest:
		e.Func = history.SetQueue
		e.Change = &history.Change{Queue: m.GetName(), Paused: m.GetSettings().GetPaused(), Draining: m.GetSettings().GetDraining(), IfVersion: m.GetIfVersion()}
	case *nornv1.SchedulesRequest:
		e.Func, e.Text = cronCall, fmt.Sprint(m.GetNames())
	case *nornv1.ChangeSchedulesRequest:
		e.Func, e.Text = cronCall, m.GetChanges()[0].GetName()
	}
	return e
}

func some(queue string) []string {
	if queue == "" {
		return nil
	}
	return []string{queue}
}

// Tally is the count of one queue.
func Tally(n *nornv1.Count) history.Tally {
	return history.Tally{Queue: n.GetQueue(), Total: n.GetTotal(), Counts: map[history.State]uint64{
		history.Waiting: n.GetWaiting(), history.Scheduled: n.GetScheduled(), history.Ready: n.GetReady(), history.Claimed: n.GetClaimed(),
		history.Completed: n.GetCompleted(), history.Dead: n.GetDead(), history.Cancelled: n.GetCancelled(),
	}}
}

// cronCall names requests about schedules in histories.
const cronCall history.Func = "schedules"
