package schedules

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/cron"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy cron.Policy
	// Grace is for how long an ID that is not known may be enqueued, MaxPayload how large the
	// payload of a task may be, bytes.
	Grace      time.Duration
	MaxPayload int
	// Routes are those of the node, and so are Standing and Dependency, which may come later, before
	// anything is due.
	Routes     *router.Machine
	Standing   *standing.Machine
	Dependency *dependency.Machine
	// Node is the rest of it.
	Node Node
}

// Node is what the rest of a node knows and does.
type Node interface {
	// Closed tells that the node stops: another one goes on.
	Closed() bool
	// DiskLow tells that the disk here is nearly full.
	DiskLow() bool
	// Send asks the register for something, then hears what came of it.
	Send(r register.Request, then func(clock.Time, register.Result))
	// Consult does so for a client, who is answered with what comes of it.
	Consult(
		from message.Origin, r register.Request, unavailable func(error, nornv1.Effect) *proto.Error, effect nornv1.Effect,
		then func(clock.Time, *register.Result) (gproto.Message, *proto.Error),
	) (gproto.Message, *proto.Error)
	// Items are those of a request that is a list.
	Items(now clock.Time, body gproto.Message) router.List
}
