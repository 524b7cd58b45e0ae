package web

import (
	"net/http"

	gproto "google.golang.org/protobuf/proto"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// route is one operation: a verb and a path, and the method of the wire that
// carries it out.
type route struct {
	verb, path string
	method     nornv1.Method
	// request and reply are messages of the method: what is set in the request is set in
	// all of them, the reply is empty.
	request, reply gproto.Message
	// field of the request that the variable part of the path sets; "": the path
	// has none.
	field string
	// says is one line for people.
	says string
	// streams: it can also be followed as server-sent events.
	streams bool
}

// variable is the variable part of every path that has one.
const variable = "{name}"

const (
	get  = http.MethodGet
	post = http.MethodPost
)

// routes lists the operations. A request by GET takes the fields of its message as
// parameters of the address, all others as an object in JSON, which one by DELETE may leave
// out.
//
// Long because: it is a table.
func routes() []route {
	return []route{
		{verb: get, path: "/api/v1/hello", method: nornv1.Method_METHOD_HELLO, request: &nornv1.Ping{}, reply: &nornv1.HelloReply{},
			says: "the node: its cluster, version, limits and clock"},
		{verb: get, path: "/api/v1/ping", method: nornv1.Method_METHOD_PING, request: &nornv1.Ping{}, reply: &nornv1.PingReply{},
			says: "which partitions take enqueues now"},

		{verb: post, path: "/api/v1/tasks", method: nornv1.Method_METHOD_ENQUEUE, request: &nornv1.EnqueueRequest{}, reply: &nornv1.EnqueueReply{},
			says: "add tasks; one result per task"},
		{verb: get, path: "/api/v1/tasks", method: nornv1.Method_METHOD_LIST, request: &nornv1.ListRequest{}, reply: &nornv1.ListReply{},
			says: "a page of tasks in the order of their IDs"},
		{verb: get, path: "/api/v1/tasks/" + variable, method: nornv1.Method_METHOD_GET, request: &nornv1.GetRequest{}, reply: &nornv1.GetReply{},
			field: "id", says: "one task with its attempts, claims and updates"},
		{verb: get, path: "/api/v1/tasks/" + variable + "/log", method: nornv1.Method_METHOD_LOG, request: &nornv1.LogRequest{}, reply: &nornv1.LogReply{},
			field: "id", streams: true, says: "a page of a task's updates, or all of them as they come (text/event-stream)"},
		{verb: get, path: "/api/v1/tasks/" + variable + "/explain", method: nornv1.Method_METHOD_EXPLAIN, request: &nornv1.ExplainRequest{}, reply: &nornv1.ExplainReply{},
			field: "id", says: "why a task is not running"},
		{verb: get, path: "/api/v1/tasks/count", method: nornv1.Method_METHOD_COUNT, request: &nornv1.CountRequest{}, reply: &nornv1.CountReply{},
			says: "tasks per queue and state"},
		{verb: get, path: "/api/v1/tasks/key", method: nornv1.Method_METHOD_KEY, request: &nornv1.KeyRequest{}, reply: &nornv1.KeyReply{},
			says: "the ID that a task with a unique key has now"},
		{verb: post, path: "/api/v1/tasks/claim", method: nornv1.Method_METHOD_CLAIM, request: &nornv1.ClaimRequest{}, reply: &nornv1.ClaimReply{},
			says: "claim the best ready tasks; waits up to wait_seconds when there are none"},
		{verb: post, path: "/api/v1/tasks/renew", method: nornv1.Method_METHOD_RENEW, request: &nornv1.RenewRequest{}, reply: &nornv1.RenewReply{},
			says: "extend claims"},
		{verb: post, path: "/api/v1/tasks/update", method: nornv1.Method_METHOD_UPDATE, request: &nornv1.UpdateRequest{}, reply: &nornv1.WriteReply{},
			says: "append to a task's log"},
		{verb: post, path: "/api/v1/tasks/complete", method: nornv1.Method_METHOD_COMPLETE, request: &nornv1.CompleteRequest{}, reply: &nornv1.WriteReply{},
			says: "finish tasks"},
		{verb: post, path: "/api/v1/tasks/fail", method: nornv1.Method_METHOD_FAIL, request: &nornv1.FailRequest{}, reply: &nornv1.WriteReply{},
			says: "end claims with a failure; the retry policy decides what comes next"},
		{verb: post, path: "/api/v1/tasks/release", method: nornv1.Method_METHOD_RELEASE, request: &nornv1.ReleaseRequest{}, reply: &nornv1.WriteReply{},
			says: "give tasks back at once, without using an attempt"},
		{verb: post, path: "/api/v1/tasks/work", method: nornv1.Method_METHOD_WORK, request: &nornv1.WorkRequest{}, reply: &nornv1.WorkReply{},
			says: "end tasks and ask for the next ones in one request"},
		{verb: post, path: "/api/v1/tasks/cancel", method: nornv1.Method_METHOD_CANCEL, request: &nornv1.CancelRequest{}, reply: &nornv1.WriteReply{},
			says: "cancel tasks"},
		{verb: post, path: "/api/v1/tasks/retry", method: nornv1.Method_METHOD_RETRY, request: &nornv1.RetryRequest{}, reply: &nornv1.WriteReply{},
			says: "give tasks a new run of attempts at once"},
		{verb: post, path: "/api/v1/tasks/bulk", method: nornv1.Method_METHOD_BULK, request: &nornv1.BulkRequest{}, reply: &nornv1.BulkReply{},
			says: "cancel or retry the tasks that a filter finds, up to 10,000 of them; go on with next_cursor"},

		{verb: get, path: "/api/v1/queues", method: nornv1.Method_METHOD_QUEUES, request: &nornv1.QueuesRequest{}, reply: &nornv1.QueuesReply{},
			says: "a page of queues with their settings and counters"},
		{verb: get, path: "/api/v1/queues/" + variable, method: nornv1.Method_METHOD_QUEUES, request: &nornv1.QueuesRequest{}, reply: &nornv1.QueuesReply{},
			field: "names", says: "one queue (a / in its name is %2F)"},
		{verb: http.MethodPatch, path: "/api/v1/queues/" + variable, method: nornv1.Method_METHOD_SET_QUEUE, request: &nornv1.SetQueueRequest{}, reply: &nornv1.QueuesReply{},
			field: "name", says: "change settings of a queue: pause, resume, drain, limits, retention"},
		{verb: http.MethodDelete, path: "/api/v1/queues/" + variable, method: nornv1.Method_METHOD_SET_QUEUE, request: &nornv1.SetQueueRequest{Delete: true}, reply: &nornv1.QueuesReply{},
			field: "name", says: "delete a queue that has no unfinished tasks: its settings, its finished tasks and its name"},

		{verb: get, path: "/api/v1/schedules", method: nornv1.Method_METHOD_SCHEDULES, request: &nornv1.SchedulesRequest{}, reply: &nornv1.SchedulesReply{},
			says: "a page of schedules"},
		{verb: get, path: "/api/v1/schedules/" + variable, method: nornv1.Method_METHOD_SCHEDULES, request: &nornv1.SchedulesRequest{}, reply: &nornv1.SchedulesReply{},
			field: "names", says: "one schedule; with history=true what became of its launches, with upcoming=10 when it is due next"},
		{verb: post, path: "/api/v1/schedules", method: nornv1.Method_METHOD_CHANGE_SCHEDULES, request: &nornv1.ChangeSchedulesRequest{}, reply: &nornv1.ChangeSchedulesReply{},
			says: "make, edit, pause, resume and delete schedules; trigger and backfill"},

		{verb: get, path: "/api/v1/workers", method: nornv1.Method_METHOD_WORKERS, request: &nornv1.WorkersRequest{}, reply: &nornv1.WorkersReply{},
			says: "a page of worker sessions and what they run"},
		{verb: get, path: "/api/v1/workers/" + variable, method: nornv1.Method_METHOD_WORKERS, request: &nornv1.WorkersRequest{}, reply: &nornv1.WorkersReply{},
			field: "names", says: "one worker session"},
		{verb: post, path: "/api/v1/workers/" + variable, method: nornv1.Method_METHOD_SET_WORKER, request: &nornv1.SetWorkerRequest{}, reply: &nornv1.WorkersReply{},
			field: "name", says: "drain or kill a worker"},
		{verb: get, path: "/api/v1/workers/" + variable + "/lines", method: nornv1.Method_METHOD_LINES, request: &nornv1.LinesRequest{}, reply: &nornv1.LinesReply{},
			field: "worker", says: "lines of a task that its worker remembers"},

		{verb: get, path: "/api/v1/cluster", method: nornv1.Method_METHOD_STATUS, request: &nornv1.StatusRequest{}, reply: &nornv1.StatusReply{},
			says: "nodes and partitions, as this node sees them"},
		{verb: post, path: "/api/v1/cluster", method: nornv1.Method_METHOD_CLUSTER, request: &nornv1.ClusterRequest{}, reply: &nornv1.ClusterReply{},
			says: "leave, remove, replace, rebalance, repair, accept_loss, destroy, export, set_replicas"},
		{verb: get, path: "/api/v1/cluster/verify", method: nornv1.Method_METHOD_VERIFY, request: &nornv1.VerifyRequest{}, reply: &nornv1.VerifyReply{},
			says: "what each replica of some partitions holds"},

		{verb: get, path: "/api/v1/attention", method: nornv1.Method_METHOD_ATTENTION, request: &nornv1.AttentionRequest{}, reply: &nornv1.AttentionReply{},
			says: "what needs somebody, the worst first, with what to do about it"},
		{verb: get, path: "/api/v1/ranking", method: nornv1.Method_METHOD_RANK_QUEUES, request: &nornv1.RankQueuesRequest{}, reply: &nornv1.RankQueuesReply{},
			says: "some of all queues by part of their names, in the order of a count or an age"},
		{verb: get, path: "/api/v1/history", method: nornv1.Method_METHOD_HISTORY, request: &nornv1.HistoryRequest{}, reply: &nornv1.HistoryReply{},
			says: "how many tasks were enqueued, claimed and finished in the last hours, over all nodes"},

		{verb: get, path: "/api/v1/access/whoami", method: nornv1.Method_METHOD_WHO_AM_I, request: &nornv1.WhoAmIRequest{}, reply: &nornv1.WhoAmIReply{},
			says: "whom the node takes the sender for, and what it may do"},
		{verb: post, path: "/api/v1/access", method: nornv1.Method_METHOD_ACCESS, request: &nornv1.AccessRequest{}, reply: &nornv1.AccessReply{},
			says: "list, check, audit; set and remove roles, maps and tenants; create, renew, revoke and enable tokens"},
	}
}
