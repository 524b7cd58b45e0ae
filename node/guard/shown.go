package guard

import (
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// Tasks are the tasks that a request names, in the order of its items.
func Tasks(m gproto.Message) (ids [][]byte) {
	switch m := m.(type) {
	case *nornv1.GetRequest:
		return [][]byte{m.GetId()}
	case *nornv1.UpdateRequest:
		return [][]byte{m.GetId()}
	case *nornv1.CompleteRequest:
		ids = make([][]byte, 0, len(m.GetCompletions()))
		for _, x := range m.GetCompletions() {
			ids = append(ids, x.GetId())
		}
	case *nornv1.FailRequest:
		for _, x := range m.GetFailures() {
			ids = append(ids, x.GetId())
		}
	case *nornv1.ReleaseRequest:
		for _, x := range m.GetClaims() {
			ids = append(ids, x.GetId())
		}
	case *nornv1.RenewRequest:
		for _, x := range m.GetClaims() {
			ids = append(ids, x.GetId())
		}
	case *nornv1.LogRequest:
		return [][]byte{m.GetId()}
	case *nornv1.ExplainRequest:
		return [][]byte{m.GetId()}
	case *nornv1.CancelRequest:
		return m.GetIds()
	case *nornv1.RetryRequest:
		return m.GetIds()
	}
	return ids
}

// Sign puts who sends a request where it says so itself; nil: nobody has to show that.
func Sign(request gproto.Message, by *Principal) {
	switch m := request.(type) {
	case *nornv1.SetQueueRequest:
		if by != nil && m.GetSettings() != nil {
			m.Settings.PausedBy = by.Name
		}
	case *nornv1.ChangeSchedulesRequest:
		var maker *nornv1.ScheduleMaker // whose rights may end
		if by != nil && by.Proof != ByTokenFile && (by.Proof != ByNothing || by.Scope() != nil) {
			maker = &nornv1.ScheduleMaker{Name: by.Name, Token: by.ID, Prefix: by.scope.Prefix}
			if by.ID == "" {
				maker.Roles = by.Roles
			}
		}
		for _, x := range m.GetChanges() {
			x.Maker = maker
		}
	}
}

// Show takes out of an answer what its reader may not read.
func (s *Scope) Show(reply gproto.Message) {
	if s == nil {
		return
	}
	switch m := reply.(type) {
	case *nornv1.GetReply:
		show(s, m.GetTask())
	case *nornv1.ListReply:
		for _, t := range m.GetTasks() {
			show(s, t)
		}
	case *nornv1.ExplainReply:
		showReasons(s, m)
	}
}

// show takes out of a task what its reader may not read.
func show(s *Scope, t *nornv1.Task) {
	if t == nil || s.May(Read, t.GetQueue()) {
		return
	}
	t.Payload, t.Result, t.Error, t.Headers = nil, nil, "", nil
	// What newer clients have said may be content, too; kind and tags are none, as the queue is.
	t.FurtherSpec, t.FurtherCompletion, t.FurtherFailure, t.FurtherCancel, t.FurtherRetry = nil, nil, nil, nil, nil
	for _, u := range t.GetUpdates() {
		u.Data, u.Further = nil, nil
	}
	for _, a := range t.GetAttemptLog() {
		a.Error, a.Stack = "", ""
	}
}

// showReasons takes out of an explanation what it tells of other tasks and of workers: they may
// be those of queues that its reader knows nothing of.
func showReasons(s *Scope, m *nornv1.ExplainReply) {
	if s.May(See, Everything) {
		return
	}
	for _, r := range m.GetReasons() {
		switch r.GetKind() {
		case nornv1.ReasonKind_REASON_KIND_DEPENDENCY, nornv1.ReasonKind_REASON_KIND_UNKNOWN_DEPENDENCY, nornv1.ReasonKind_REASON_KIND_CYCLE:
			r.Kind, r.Text, r.TaskState = nornv1.ReasonKind_REASON_KIND_DEPENDENCY, "it waits for other tasks", 0
		case nornv1.ReasonKind_REASON_KIND_CLAIM_LIMIT:
			r.Text, r.Count = "as many tasks are under a claim as may be", 0
		case nornv1.ReasonKind_REASON_KIND_WORKER_TROUBLED, nornv1.ReasonKind_REASON_KIND_NO_WORKER, nornv1.ReasonKind_REASON_KIND_NO_HANDLER:
			r.Text = "no worker asks for tasks of this queue, or those that do cannot begin them"
		}
		r.Worker = ""
	}
}
