package message

import (
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// Method is what a method of the client port carries, and how a node treats it.
type Method struct {
	// Urgent requests keep or free work: they go before those that add some.
	Urgent bool
	// Forwarded: a node asks another one for its part, with the same messages.
	Forwarded bool
	// Internal: nodes alone may ask for it, no client.
	Internal bool

	request, reply gproto.Message // nil pointers of their types
}

// Request makes an empty request.
func (m *Method) Request() gproto.Message { return m.request.ProtoReflect().New().Interface() }

// Reply makes an empty reply.
func (m *Method) Reply() gproto.Message { return m.reply.ProtoReflect().New().Interface() }

// Asks and Answers tell whether a message is a request, or a reply, of the method.
func (m *Method) Asks(body gproto.Message) bool { return same(body, m.request) }

// Answers is described with [Method.Asks].
func (m *Method) Answers(body gproto.Message) bool { return same(body, m.reply) }

func same(m, want gproto.Message) bool {
	return m != nil && m.ProtoReflect().Descriptor() == want.ProtoReflect().Descriptor()
}

// MethodOf gives what is known of a method; nil where none has that number, or it carries
// no request for a core (hello, ping).
func MethodOf(m nornv1.Method) *Method { return methods[m] }

// methods has all of them. Of those that are not forwarded the register answers each node,
// their parts are requests of their own, or a session is one node's.
var methods = map[nornv1.Method]*Method{
	nornv1.Method_METHOD_ENQUEUE:  {Forwarded: true, request: (*nornv1.EnqueueRequest)(nil), reply: (*nornv1.EnqueueReply)(nil)},
	nornv1.Method_METHOD_LAUNCH:   {Forwarded: true, Internal: true, request: (*nornv1.LaunchRequest)(nil), reply: (*nornv1.EnqueueReply)(nil)},
	nornv1.Method_METHOD_CLAIM:    {Forwarded: true, request: (*nornv1.ClaimRequest)(nil), reply: (*nornv1.ClaimReply)(nil)},
	nornv1.Method_METHOD_RENEW:    {Forwarded: true, Urgent: true, request: (*nornv1.RenewRequest)(nil), reply: (*nornv1.RenewReply)(nil)},
	nornv1.Method_METHOD_UPDATE:   {Forwarded: true, Urgent: true, request: (*nornv1.UpdateRequest)(nil), reply: (*nornv1.WriteReply)(nil)}, // in order with the completion
	nornv1.Method_METHOD_COMPLETE: {Forwarded: true, Urgent: true, request: (*nornv1.CompleteRequest)(nil), reply: (*nornv1.WriteReply)(nil)},
	nornv1.Method_METHOD_FAIL:     {Forwarded: true, Urgent: true, request: (*nornv1.FailRequest)(nil), reply: (*nornv1.WriteReply)(nil)},
	nornv1.Method_METHOD_RELEASE:  {Forwarded: true, Urgent: true, request: (*nornv1.ReleaseRequest)(nil), reply: (*nornv1.WriteReply)(nil)},
	nornv1.Method_METHOD_WORK:     {Urgent: true, request: (*nornv1.WorkRequest)(nil), reply: (*nornv1.WorkReply)(nil)},
	nornv1.Method_METHOD_SESSION:  {Urgent: true, request: (*nornv1.SessionRequest)(nil), reply: (*nornv1.SessionReply)(nil)},
	nornv1.Method_METHOD_CANCEL:   {Forwarded: true, request: (*nornv1.CancelRequest)(nil), reply: (*nornv1.WriteReply)(nil)},
	nornv1.Method_METHOD_RETRY:    {Forwarded: true, request: (*nornv1.RetryRequest)(nil), reply: (*nornv1.WriteReply)(nil)},
	nornv1.Method_METHOD_BULK:     {request: (*nornv1.BulkRequest)(nil), reply: (*nornv1.BulkReply)(nil)},

	nornv1.Method_METHOD_GET:     {Forwarded: true, request: (*nornv1.GetRequest)(nil), reply: (*nornv1.GetReply)(nil)},
	nornv1.Method_METHOD_LIST:    {Forwarded: true, request: (*nornv1.ListRequest)(nil), reply: (*nornv1.ListReply)(nil)},
	nornv1.Method_METHOD_COUNT:   {Forwarded: true, request: (*nornv1.CountRequest)(nil), reply: (*nornv1.CountReply)(nil)},
	nornv1.Method_METHOD_LOG:     {Forwarded: true, request: (*nornv1.LogRequest)(nil), reply: (*nornv1.LogReply)(nil)},
	nornv1.Method_METHOD_STATUS:  {Forwarded: true, request: (*nornv1.StatusRequest)(nil), reply: (*nornv1.StatusReply)(nil)},
	nornv1.Method_METHOD_EXPLAIN: {Forwarded: true, request: (*nornv1.ExplainRequest)(nil), reply: (*nornv1.ExplainReply)(nil)},
	nornv1.Method_METHOD_KEY:     {Forwarded: true, request: (*nornv1.KeyRequest)(nil), reply: (*nornv1.KeyReply)(nil)},
	nornv1.Method_METHOD_HISTORY: {Forwarded: true, request: (*nornv1.HistoryRequest)(nil), reply: (*nornv1.HistoryReply)(nil)},
	nornv1.Method_METHOD_VERIFY:  {Forwarded: true, request: (*nornv1.VerifyRequest)(nil), reply: (*nornv1.VerifyReply)(nil)},
	nornv1.Method_METHOD_BACKUP:  {Forwarded: true, request: (*nornv1.BackupRequest)(nil), reply: (*nornv1.BackupReply)(nil)},
	nornv1.Method_METHOD_RESTORE: {Forwarded: true, request: (*nornv1.RestoreRequest)(nil), reply: (*nornv1.RestoreReply)(nil)},

	nornv1.Method_METHOD_QUEUES:           {Forwarded: true, request: (*nornv1.QueuesRequest)(nil), reply: (*nornv1.QueuesReply)(nil)},
	nornv1.Method_METHOD_SET_QUEUE:        {Forwarded: true, request: (*nornv1.SetQueueRequest)(nil), reply: (*nornv1.QueuesReply)(nil)},
	nornv1.Method_METHOD_SCHEDULES:        {request: (*nornv1.SchedulesRequest)(nil), reply: (*nornv1.SchedulesReply)(nil)},
	nornv1.Method_METHOD_CHANGE_SCHEDULES: {request: (*nornv1.ChangeSchedulesRequest)(nil), reply: (*nornv1.ChangeSchedulesReply)(nil)},
	nornv1.Method_METHOD_CLUSTER:          {Forwarded: true, request: (*nornv1.ClusterRequest)(nil), reply: (*nornv1.ClusterReply)(nil)}, // a repair at once
	nornv1.Method_METHOD_WORKERS:          {Forwarded: true, request: (*nornv1.WorkersRequest)(nil), reply: (*nornv1.WorkersReply)(nil)},
	nornv1.Method_METHOD_SET_WORKER:       {Forwarded: true, request: (*nornv1.SetWorkerRequest)(nil), reply: (*nornv1.WorkersReply)(nil)},
	nornv1.Method_METHOD_LINES:            {Forwarded: true, request: (*nornv1.LinesRequest)(nil), reply: (*nornv1.LinesReply)(nil)},
}
