package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/intake"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/registercall"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/settle"
	"github.com/norn-dev/norn/node/core/sharedconfig"
	"github.com/norn-dev/norn/node/core/workers"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The ports of machines: each is what one of them reaches of the others, and no more.

// handler carries out a request.
type handler func(now clock.Time, r *message.Request)

// Request carries out a request, or sends it on its way.
func (h handler) Request(now clock.Time, r *message.Request) { h(now, r) }

// routing is what a router has the node do.
type routing struct {
	handler
	asks    *workers.Asks
	dropped *[]message.GrantRef // that nobody will hear of
}

// Answered takes the answer to what a worker's session has asked for.
func (p routing) Answered(a *message.Reply) { p.asks.Answered(a) }

// Dropped notes grants of this node that nobody will hear of.
func (p routing) Dropped(grants []message.GrantRef) { *p.dropped = append(*p.dropped, grants...) }

// replicating is what the node does with what replication brings.
type replicating struct {
	handler
	facts *arrivals.Machine
}

// Keep merges facts of a member.
func (p replicating) Keep(now clock.Time, from register.Member, part *message.PartFacts) {
	p.facts.Keep(now, from, part, false)
}

// dispatching is what others know, for who hands out tasks.
type dispatching struct {
	queues   *queues.Machine
	sessions *workers.Machine
	elector  *leadership.Machine
}

// Lease is how long a claim lasts where nobody says.
func (p dispatching) Lease(names []string) time.Duration { return p.queues.LeaseOf(names) }

// Foreign refuses a session that is another principal's.
func (p dispatching) Foreign(session [16]byte, principal string) *proto.Error {
	return p.sessions.Foreign(session, principal)
}

// StepDown has this node lead a partition no more.
func (p dispatching) StepDown(of ring.Partition) { p.elector.StepDown(of) }

// deciding tells unique keys whether this node may decide for a partition.
type deciding struct {
	*replication.Confirmations
	writes *replication.Writes
}

// Alone tells whether nobody else keeps a partition, or is about to.
func (p deciding) Alone(of ring.Partition) bool { return p.writes.Alone(of) }

// comparing tells unique keys whether this node has heard what others know.
type comparing struct {
	*retention.Tombstones
	repairs *repair.Machine
}

// Demand has a partition compared.
func (p comparing) Demand(now clock.Time, of ring.Partition) { p.repairs.Demand(now, of) }

// retaining is what is known of queues, for who collects finished tasks.
type retaining struct {
	queues *queues.Machine
	shared *sharedconfig.Machine
}

// Settings are those that were made of a queue.
func (p retaining) Settings(queue string) *nornv1.QueueSettings { return p.queues.Settings(queue) }

// DeletedAt is when a queue was deleted.
func (p retaining) DeletedAt(queue string) int64 { return p.queues.DeletedAt(queue) }

// Retention is the default.
func (p retaining) Retention(longer bool) retention.Rule { return p.shared.Rule(longer) }

// operating is what the node does for operators.
type operating struct {
	*registercall.Machine
	intake *intake.Machine
	facts  *arrivals.Machine
}

// Full is why nothing is taken in, as the disk is nearly full.
func (p operating) Full() *proto.Error {
	if p.intake.Disk.Low() {
		return p.intake.Full()
	}
	return nil
}

// Merge joins facts of one task with what is here.
func (p operating) Merge(now clock.Time, v *vnode.Vnode, facts []crdt.Fact) bool {
	_, ok := p.facts.Merge(now, v, facts)
	return ok
}

// launching is what the node does for the master of schedules.
type launching struct {
	*registercall.Machine
	disk   *intake.Disk
	closed func() bool
	lists  lists
}

// Closed tells that requests are taken no more.
func (p launching) Closed() bool { return p.closed() }

// DiskLow tells that the disk is nearly full.
func (p launching) DiskLow() bool { return p.disk.Low() }

// Items are those of a request that is a list.
func (p launching) Items(now clock.Time, body gproto.Message) router.List {
	list, _ := p.lists.of(now, body)
	return list
}

// serving is what the node does for the sessions of workers.
type serving struct {
	handler
	closed   func() bool
	routes   *router.Machine
	dispatch *dispatch.Machine
	settle   *settle.Machine
	register *registercall.Machine
}

// Leader leads a partition, as far as is known.
func (p serving) Leader(of ring.Partition) (register.Member, bool) { return p.routes.Leader(of) }

// Leaders are the other nodes that lead any.
func (p serving) Leaders() []register.Member { return p.dispatch.Leaders() }

// Crowds is why one more request of a client may not wait for other nodes.
func (p serving) Crowds(from message.Origin) *proto.Error {
	if p.routes.Crowds(from) {
		return refusal.Crowded(router.MaxWaiting)
	}
	return nil
}

// Pass has another node answer a request.
func (p serving) Pass(now clock.Time, r *message.Request, to register.Member, body gproto.Message) {
	g := p.routes.Gather(now, r, &router.Whole{}, 0)
	p.routes.Forward(now, g, to, nil, body, nil)
	p.routes.Finish(g)
}

// Gather has some nodes answer it together.
func (p serving) Gather(now clock.Time, r *message.Request, join workers.Joiner, to []register.Member, body gproto.Message) {
	g := p.routes.Gather(now, r, join, router.StatusTimeout-router.ForwardTimeout)
	for _, m := range to {
		p.routes.Forward(now, g, m, nil, body, nil)
	}
	p.routes.Finish(g)
}

// Closed tells that requests are taken no more.
func (p serving) Closed() bool { return p.closed() }

// State is that of a task that is kept here.
func (p serving) State(task id.ID) nornv1.State { return p.settle.StateOf(task) }

// AskedFor is how many claim requests wait here for a queue, and when one last came.
func (p serving) AskedFor(queue string) (waiting uint64, last *timestamppb.Timestamp) {
	return uint64(p.dispatch.Index.WaitingFor(queue)), convert.Timestamp(p.dispatch.Index.AskedAt(queue))
}

// ChangeNames asks the register for changes of names.
func (p serving) ChangeNames(changes []register.NameChange, then func(clock.Time, register.Result)) {
	p.register.Send(register.Request{Names: changes}, then)
}
