package peer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"
)

// intake takes what a peer says on one connection, whoever has dialled it. Its methods run on
// the goroutine that reads.
type intake struct {
	n     *Network
	from  register.Member
	burst []message.PeerMessage
}

// frame takes one frame after the hello.
func (in *intake) frame(f transport.Frame) {
	switch nornv1.PeerMethod(f.Method) {
	case nornv1.PeerMethod_PEER_METHOD_ALIVE:
	case nornv1.PeerMethod_PEER_METHOD_RAFT:
		in.raft(f)
	case nornv1.PeerMethod_PEER_METHOD_ROUND:
		in.round(f)
	default:
		in.n.counts.unknown.Add(1)
	}
}

// raft takes a message of the register's group, if it is of who has said hello: what a
// member says of itself may cost that member its place, and nobody else.
func (in *intake) raft(f transport.Frame) {
	if sender := in.n.cfg.Sender; sender != nil {
		if from, err := sender(f.Body); err != nil || from != in.from {
			in.n.counts.malformed.Add(1)
			if in.n.journal.once("sender " + in.from.Incarnation.String()) {
				in.n.cfg.Logger.Error("peer.malformed", "peer", in.from.Node, "method", f.Method, "bytes", len(f.Body), "error", fmt.Sprintf("a message of the register's group, of %q", from.Node))
			}
			return
		}
	}
	in.n.raft.deliver(f.Body)
}

// round takes what the other node had for this one at the end of one of its rounds. A
// message that makes no sense costs only itself: its sender sends again, and a connection
// that ends takes more with it.
func (in *intake) round(f transport.Frame) {
	err := decodeRound(slices.Clone(f.Body), func(method nornv1.PeerMethod, body []byte) {
		m, err := Decode(method, body)
		switch {
		case errors.Is(err, ErrUnknown):
			in.n.counts.unknown.Add(1)
		case err != nil:
			in.malformed(uint16(method), len(body), err)
		default:
			in.n.counts.received.Add(1)
			in.burst = append(in.burst, m)
		}
	})
	if err != nil {
		in.malformed(f.Method, len(f.Body), err)
	}
}

// malformed counts and logs what makes no sense.
func (in *intake) malformed(method uint16, bytes int, err error) {
	in.n.counts.malformed.Add(1)
	if in.n.journal.once("malformed " + in.from.Incarnation.String()) {
		in.n.cfg.Logger.Error("peer.malformed", "peer", in.from.Node, "method", method, "bytes", bytes, "error", err)
	}
}

// over hands over what one read has brought.
func (in *intake) over() {
	if len(in.burst) == 0 {
		return
	}
	in.n.cfg.Handler.Messages(in.from, in.burst)
	clear(in.burst)
	in.burst = in.burst[:0]
}

// crowded counts a frame that was passed over.
func (in *intake) crowded(f transport.Frame, err error) {
	in.n.counts.crowded.Add(1)
	if in.n.journal.once("crowded " + in.from.Incarnation.String()) {
		in.n.cfg.Logger.Warn("peer.crowded", "peer", in.from.Node, "method", f.Method, "error", err)
	}
}
