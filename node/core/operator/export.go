package operator

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"

	gproto "google.golang.org/protobuf/proto"
)

// MaxExport bounds the register in an answer, in bytes: it is encoded at once, and
// has to fit a frame.
const MaxExport = 16 << 20

// export answers with the register as it is by a linearizable read.
func (c *Machine) export(from message.Origin) (gproto.Message, *proto.Error) {
	return c.Node.Consult(from, register.Request{}, refusal.MembershipUnavailable, nornv1.Effect_EFFECT_NONE, func(_ clock.Time, res *register.Result) (gproto.Message, *proto.Error) {
		var w wire.Writer
		if res.State.Schedules.Bytes() <= MaxExport {
			register.AppendState(&w, &res.State)
		}
		if n := max(len(w.B), res.State.Schedules.Bytes()); n > MaxExport {
			return nil, proto.Invalid("the register has %d bytes, over %d of one answer; have the servers write snapshots (snapshot-to)", n, MaxExport)
		}
		return &nornv1.ClusterReply{Register: w.B}, nil
	})
}
