package workers

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Buffer is added to a lease before it may lapse.
	Buffer time.Duration
	// Sessions are the rules of sessions.
	Sessions session.DispatcherConfig
	// Routes and Node are the rest of the node.
	Routes Routes
	Node   Node
}

// Routes are the ways to other nodes.
type Routes interface {
	// Leader leads a partition, as far as is known, and Leaders are the other nodes that lead
	// any.
	Leader(p ring.Partition) (register.Member, bool)
	Leaders() []register.Member
	// Crowds is why one more request of a client may not wait for other nodes; nil: it may.
	Crowds(from message.Origin) *proto.Error
	// Pass has another node answer a request, Gather some nodes together.
	Pass(now clock.Time, r *message.Request, to register.Member, body gproto.Message)
	Gather(now clock.Time, r *message.Request, join Joiner, to []register.Member, body gproto.Message)
}

// Joiner makes one answer of several.
type Joiner interface {
	Take(idx []int, m gproto.Message)
	Fail(idx []int, err *proto.Error)
	Answer() (gproto.Message, *proto.Error)
}

// Node carries out what sessions want of the cluster.
//
// Request is not re-entrant in its answers: they come through [Asks.Answered], after the call.
type Node interface {
	// Closed tells that requests are taken no more.
	Closed() bool
	// Request takes a request as that of a client, whose answer has [message.WorkConn].
	Request(now clock.Time, r *message.Request)
	// State is that of a task that is kept here.
	State(task id.ID) nornv1.State
	// AskedFor is how many claim requests wait here for a queue, and when one last came.
	AskedFor(queue string) (waiting uint64, last *timestamppb.Timestamp)
	// ChangeNames asks the register for changes of names, then hears what came of it.
	ChangeNames(changes []register.NameChange, then func(clock.Time, register.Result))
}
