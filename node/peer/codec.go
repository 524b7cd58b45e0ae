package peer

import (
	"errors"
	"fmt"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is returned when bytes are not a message between nodes.
var ErrMalformed = errors.New("peer: malformed message")

// ErrUnknown is returned for a message of a kind that this build does not know:
// a newer one has sent it.
var ErrUnknown = errors.New("peer: message of an unknown kind")

// ErrTooLarge is returned for a message that is larger than any may be.
var ErrTooLarge = errors.New("peer: message too large")

// MaxMessage bounds an encoded message in bytes. A write of the core, which
// waits in memory for its copies, is well below.
const MaxMessage = 96 << 20

// smallMessage is what goes on the control connection at most, in bytes: a
// lease or a vote behind a few of them does not wait noticeably.
const smallMessage = 64 << 10

// packet is a message on its way out.
type packet interface {
	Size() int
	AppendTo(dst []byte) ([]byte, error)
}

// encode gives the method, body and lane of a message. Of a kind that is not
// known here it gives ErrUnknown.
//
// Messages are written by hand, in the format of their protos: they are the hot
// path, and a message of Go objects per fact would cost more than the facts.
func encode(m message.PeerMessage) (nornv1.PeerMethod, packet, Lane, error) {
	switch m := m.(type) {
	case *message.Facts:
		b := newFacts(m)
		return nornv1.PeerMethod_PEER_METHOD_FACTS, b, laneOf(b.size), nil
	case *message.FactsTaken:
		b := newTaken(m)
		return nornv1.PeerMethod_PEER_METHOD_FACTS_TAKEN, b, laneOf(b.Size()), nil
	case *message.Repair:
		if m.Message == nil {
			break
		}
		// All of an exchange on one lane, so that it stays in order.
		return nornv1.PeerMethod_PEER_METHOD_REPAIR, (*repairPacket)(m), Bulk, nil
	case *message.Forward:
		b, err := newForward(m)
		return nornv1.PeerMethod_PEER_METHOD_FORWARD, b, b.lane(), err
	case *message.Forwarded:
		b, err := newForwarded(m)
		return nornv1.PeerMethod_PEER_METHOD_FORWARDED, b, laneOf(b.size), err
	case *message.Withdraw:
		return nornv1.PeerMethod_PEER_METHOD_WITHDRAW, (*withdrawPacket)(m), Control, nil
	case *message.Dropped:
		return nornv1.PeerMethod_PEER_METHOD_DROPPED, (*droppedPacket)(m), Control, nil
	case *message.Fetch:
		return nornv1.PeerMethod_PEER_METHOD_FETCH, (*fetchPacket)(m), Control, nil
	case *message.Fetched:
		b := newFetched(m)
		return nornv1.PeerMethod_PEER_METHOD_FETCHED, b, laneOf(b.Size()), nil
	case *message.QueueHeads:
		b := (*headsPacket)(m)
		return nornv1.PeerMethod_PEER_METHOD_HEADS, b, laneOf(b.Size()), nil
	case *message.Watch:
		b := (*watchPacket)(m)
		return nornv1.PeerMethod_PEER_METHOD_WATCH, b, laneOf(b.Size()), nil
	case *message.Outcomes:
		b := (*outcomesPacket)(m)
		return nornv1.PeerMethod_PEER_METHOD_OUTCOMES, b, laneOf(b.Size()), nil
	case *message.RepairCompleted:
		return nornv1.PeerMethod_PEER_METHOD_COMPARED, (*comparedPacket)(m), Control, nil
	case *message.Purge:
		b := (*purgePacket)(m)
		return nornv1.PeerMethod_PEER_METHOD_PURGE, b, laneOf(b.Size()), nil
	case *message.QuarantineFacts:
		b := (*purgePacket)(m)
		return nornv1.PeerMethod_PEER_METHOD_ASIDE, b, laneOf(b.Size()), nil
	}
	if method, p, ok := encodeElection(m); ok {
		return method, p, laneOf(p.size), nil
	}
	return 0, nil, 0, fmt.Errorf("%w: %T", ErrUnknown, m)
}

func laneOf(size int) Lane {
	if size > smallMessage {
		return Bulk
	}
	return Control
}

// Decode is the inverse of the encoding of a message with the given method. It
// keeps b. Errors are ErrMalformed and ErrUnknown. Bodies of facts are not
// looked into: whoever stores them checks them.
func Decode(method nornv1.PeerMethod, b []byte) (m message.PeerMessage, err error) {
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, over %d", ErrMalformed, len(b), MaxMessage)
	}
	switch method {
	case nornv1.PeerMethod_PEER_METHOD_FACTS:
		m, err = decodeFacts(b)
	case nornv1.PeerMethod_PEER_METHOD_FACTS_TAKEN:
		m, err = decodeTaken(b)
	case nornv1.PeerMethod_PEER_METHOD_REPAIR:
		m, err = decodeRepair(b)
	case nornv1.PeerMethod_PEER_METHOD_FORWARD:
		m, err = decodeForward(b)
	case nornv1.PeerMethod_PEER_METHOD_FORWARDED:
		m, err = decodeForwarded(b)
	case nornv1.PeerMethod_PEER_METHOD_WITHDRAW:
		m, err = decodeWithdraw(b)
	case nornv1.PeerMethod_PEER_METHOD_DROPPED:
		m, err = decodeDropped(b)
	case nornv1.PeerMethod_PEER_METHOD_FETCH:
		m, err = decodeFetch(b)
	case nornv1.PeerMethod_PEER_METHOD_FETCHED:
		m, err = decodeFetched(b)
	case nornv1.PeerMethod_PEER_METHOD_HEADS:
		m, err = decodeHeads(b)
	case nornv1.PeerMethod_PEER_METHOD_WATCH:
		m, err = decodeWatch(b)
	case nornv1.PeerMethod_PEER_METHOD_OUTCOMES:
		m, err = decodeOutcomes(b)
	case nornv1.PeerMethod_PEER_METHOD_COMPARED:
		m, err = decodeCompared(b)
	case nornv1.PeerMethod_PEER_METHOD_PURGE:
		m, err = decodePurge(b)
	case nornv1.PeerMethod_PEER_METHOD_ASIDE:
		var tasks *message.Purge
		tasks, err = decodePurge(b)
		m = (*message.QuarantineFacts)(tasks)
	default:
		m, err = decodeElection(method, b)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

type repairPacket message.Repair

func (p *repairPacket) Size() int {
	n := 1 + protowire.SizeVarint(uint64(p.Partition)) + 1 + protowire.SizeBytes(p.Message.Size())
	if p.Message.Told {
		n += 1 + protowire.SizeVarint(p.Message.Refused)
	}
	return n
}

func (p *repairPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, uint64(p.Partition))
	dst = p.Message.AppendTo(appendHead(dst, 2, p.Message.Size()))
	if p.Message.Told {
		dst = appendVarint(dst, 3, p.Message.Refused)
	}
	return dst, nil
}

func decodeRepair(b []byte) (*message.Repair, error) {
	m := &message.Repair{}
	var message []byte
	var refused uint64
	told := false
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			m.Partition, err = partitionOf(f.value)
		case 2:
			message = f.bytes
		case 3:
			refused, told = f.value, true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(message) > antientropy.MaxMessage {
		return nil, fmt.Errorf("%w: anti-entropy of %d bytes", ErrMalformed, len(message))
	}
	if m.Message, err = antientropy.Decode(message); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if m.Message.Kind == antientropy.KindAnswer {
		m.Message.Refused, m.Message.Told = refused, told
	}
	return m, nil
}
