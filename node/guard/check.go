package guard

import (
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// need is what a method asks for.
type need struct {
	verb Verbs
	// scoped are the verbs that a request of the method is also judged by where it is carried
	// out; who may do all of them everywhere has no scope there.
	scoped Verbs
	// named judges the names that the request itself has, and gives the first that the scope
	// does not allow; nil: it has none.
	named func(s *Scope, request gproto.Message) (denied string, ok bool)
	known bool
}

// methods has what each method of the wire needs, by its number.
var methods = func() (all [64]need) {
	put := func(m nornv1.Method, verb, scoped Verbs, named func(*Scope, gproto.Message) (string, bool)) {
		all[m] = need{verb, scoped, named, true}
	}
	put(nornv1.Method_METHOD_HELLO, None, None, nil)
	put(nornv1.Method_METHOD_PING, None, None, nil)
	put(nornv1.Method_METHOD_ENQUEUE, Enqueue, Enqueue|See, enqueued)
	put(nornv1.Method_METHOD_KEY, Enqueue, Enqueue, keyed)
	put(nornv1.Method_METHOD_CLAIM, Work, Work, claimed)
	put(nornv1.Method_METHOD_WORK, Work, Work, worked)
	put(nornv1.Method_METHOD_SESSION, Work, Work, served)
	for _, m := range []nornv1.Method{
		nornv1.Method_METHOD_RENEW, nornv1.Method_METHOD_UPDATE, nornv1.Method_METHOD_COMPLETE, nornv1.Method_METHOD_FAIL, nornv1.Method_METHOD_RELEASE,
	} {
		put(m, Work, Work, nil)
	}
	for _, m := range []nornv1.Method{
		nornv1.Method_METHOD_GET, nornv1.Method_METHOD_LOG, nornv1.Method_METHOD_EXPLAIN, nornv1.Method_METHOD_SCHEDULES,
	} {
		put(m, See, See|Read, nil)
	}
	put(nornv1.Method_METHOD_WORKERS, See, See|Read, employed)
	put(nornv1.Method_METHOD_LIST, See, See|Read, listed)
	put(nornv1.Method_METHOD_COUNT, See, See, counted)
	put(nornv1.Method_METHOD_QUEUES, See, See, nil)
	put(nornv1.Method_METHOD_STATUS, See, See, nil)
	put(nornv1.Method_METHOD_HISTORY, See, See, remembered)
	put(nornv1.Method_METHOD_ATTENTION, See, None, nil)   // it asks for each of its parts as who asks for it
	put(nornv1.Method_METHOD_RANK_QUEUES, See, None, nil) // likewise
	put(nornv1.Method_METHOD_LINES, Read, Read, everything)
	put(nornv1.Method_METHOD_CANCEL, Operate, Operate, nil)
	put(nornv1.Method_METHOD_RETRY, Operate, Operate, nil)
	put(nornv1.Method_METHOD_BULK, Operate, Operate|See|Read, bulked)
	put(nornv1.Method_METHOD_SET_QUEUE, Operate, Operate, queueSet)
	put(nornv1.Method_METHOD_CHANGE_SCHEDULES, Schedule, Schedule|Enqueue, scheduled)
	put(nornv1.Method_METHOD_SET_WORKER, Control, Control, workerSet)
	put(nornv1.Method_METHOD_CLUSTER, Cluster, Cluster, nil)
	put(nornv1.Method_METHOD_VERIFY, Cluster, Cluster, nil)
	put(nornv1.Method_METHOD_BACKUP, Cluster, Cluster|Read, wholly(Read, "backups (that takes read on *)"))
	put(nornv1.Method_METHOD_RESTORE, Cluster, Cluster|Enqueue|Operate, wholly(Enqueue|Operate, "restores (that takes enqueue and operate on *)"))
	put(nornv1.Method_METHOD_ACCESS, Access, Access, nil)
	put(nornv1.Method_METHOD_WHO_AM_I, None, None, nil)
	return all
}()

// Verb is what a method needs. false: the method is for nobody outside of the cluster.
func Verb(m nornv1.Method) (Verbs, bool) {
	if m < 0 || int(m) >= len(methods) {
		return None, false
	}
	return methods[m].verb, methods[m].known
}

// Check judges one request. The scope goes along with it; nil: there is no limit.
func Check(p *Principal, m nornv1.Method, request gproto.Message) (*Scope, *proto.Error) {
	if m < 0 || int(m) >= len(methods) || !methods[m].known {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "method %d is not for clients", m)
	}
	n := &methods[m]
	if (n.verb|n.scoped)&^p.whole == 0 {
		return nil, nil
	}
	if n.verb&^p.some != 0 {
		return nil, p.denied(n.verb, "anything")
	}
	if n.named != nil && request != nil {
		if name, ok := n.named(&p.scope, request); !ok {
			return nil, p.denied(n.verb, name)
		}
	}
	if n.verb == None {
		return nil, nil
	}
	return &p.scope, nil
}

// denied is the refusal of what is not allowed.
func (p *Principal) denied(v Verbs, name string) *proto.Error {
	on := " on " + name
	if v&(Cluster|Access) != 0 {
		on = ""
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, "%s may not %s%s; it may: %s", p, v, on, p.Allowed())
	e.Lasting = true
	return e
}

// aQueue begins the name of a queue in a refusal and in the audit.
const aQueue = "queue "

// may judges verbs on one queue; it gives the name for the refusal.
func may(s *Scope, v Verbs, queue string) (string, bool) {
	if s.May(v, queue) {
		return "", true
	}
	return aQueue + queue, false
}

// enqueued judges the queues of tasks. A task with dependencies tells its sender how others
// end, which takes See on everything.
func enqueued(s *Scope, request gproto.Message) (string, bool) {
	for _, t := range request.(*nornv1.EnqueueRequest).GetTasks() {
		if !s.May(Enqueue, t.GetQueue()) {
			return aQueue + t.GetQueue(), false
		}
		if len(t.GetDependencies()) > 0 && !s.May(See, Everything) {
			return "tasks that depend on others (that takes see on *)", false
		}
	}
	return "", true
}

// keyed judges the queue of a unique key.
func keyed(s *Scope, request gproto.Message) (string, bool) {
	return may(s, Enqueue, request.(*nornv1.KeyRequest).GetQueue())
}

// claimed judges the queues of a claim request and the worker's name, which others see.
func claimed(s *Scope, request gproto.Message) (string, bool) {
	m := request.(*nornv1.ClaimRequest)
	for _, queue := range m.GetQueues() {
		if !s.May(Work, queue) {
			return aQueue + queue, false
		}
	}
	if m.GetWorker() != "" && !s.Within(m.GetWorker()) {
		return "worker name " + m.GetWorker(), false
	}
	return "", true
}

// worked judges the claim in a request that ends tasks and claims others.
func worked(s *Scope, request gproto.Message) (string, bool) {
	if claim := request.(*nornv1.WorkRequest).GetClaim(); claim != nil {
		return claimed(s, claim)
	}
	return "", true
}

// served judges the queues and the name in the heartbeats of a session.
func served(s *Scope, request gproto.Message) (string, bool) {
	for _, m := range request.(*nornv1.SessionRequest).GetMessages() {
		beat := m.GetHeartbeat()
		if beat == nil {
			continue
		}
		for _, q := range beat.GetQueues() {
			if !s.May(Work, q.GetQueue()) {
				return aQueue + q.GetQueue(), false
			}
		}
		if !s.Within(beat.GetName()) {
			return "worker name " + beat.GetName(), false
		}
	}
	return "", true
}

// seen judges a queue that a question is about; without one it is about all that may be seen.
func seen(s *Scope, v Verbs, queue string) (string, bool) {
	if queue == "" {
		return "", true
	}
	return may(s, v, queue)
}

// listed judges the queue of a list of tasks.
func listed(s *Scope, request gproto.Message) (string, bool) {
	return seen(s, See, request.(*nornv1.ListRequest).GetQueue())
}

// employed judges the queue whose workers are asked for: the answer says who waits for it, too.
func employed(s *Scope, request gproto.Message) (string, bool) {
	return seen(s, See, request.(*nornv1.WorkersRequest).GetQueue())
}

// counted judges the queue of a count.
func counted(s *Scope, request gproto.Message) (string, bool) {
	return seen(s, See, request.(*nornv1.CountRequest).GetQueue())
}

// remembered judges the queue of a curve; the curve of all queues takes See on everything.
func remembered(s *Scope, request gproto.Message) (string, bool) {
	m := request.(*nornv1.HistoryRequest)
	if (m.GetQueue() == "" || m.GetBusiest() > 0) && !s.May(See, Everything) {
		return "all queues (that takes see on *); name one", false
	}
	return seen(s, See, m.GetQueue())
}

// bulked judges the queue of a change by filter. A filter on contents takes Read: by what it
// finds one could read.
func bulked(s *Scope, request gproto.Message) (string, bool) {
	m := request.(*nornv1.BulkRequest)
	switch f := m.GetFilter(); {
	case m.GetQueue() == "":
		return "all queues; name one", false
	case !s.May(Operate|See, m.GetQueue()), Contents(f) && !s.May(Read, m.GetQueue()):
		return aQueue + m.GetQueue(), false
	}
	return "", true
}

// queueSet judges the queue whose settings change.
func queueSet(s *Scope, request gproto.Message) (string, bool) {
	return may(s, Operate, request.(*nornv1.SetQueueRequest).GetName())
}

// scheduled judges the names and queues of schedules.
func scheduled(s *Scope, request gproto.Message) (string, bool) {
	for _, c := range request.(*nornv1.ChangeSchedulesRequest).GetChanges() {
		if !s.Within(c.GetName()) {
			return "schedule " + c.GetName(), false
		}
		if put := c.GetPut(); put != nil {
			if queue := put.GetSpec().GetTask().GetQueue(); !s.May(Schedule, queue) {
				return aQueue + queue, false
			}
		}
	}
	return "", true
}

// everything is for what cannot be held to a scope.
func everything(s *Scope, _ gproto.Message) (string, bool) {
	if s.May(Read, Everything) {
		return "", true
	}
	return "lines of workers (that takes read on *)", false
}

// wholly is for what is about all queues at once.
func wholly(v Verbs, denied string) func(*Scope, gproto.Message) (string, bool) {
	return func(s *Scope, _ gproto.Message) (string, bool) { return denied, s.May(v, Everything) }
}

// workerSet judges the name of a worker that is to be drained or stopped.
func workerSet(s *Scope, request gproto.Message) (string, bool) {
	name := request.(*nornv1.SetWorkerRequest).GetName()
	if s.May(Control, name) {
		return "", true
	}
	return "worker " + name, false
}
