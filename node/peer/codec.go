package peer

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
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

const (
	// smallMessage is what goes on the control connection at most, in bytes: a
	// lease or a vote behind a few of them does not wait noticeably.
	smallMessage = 64 << 10
	// maxOrdered is up to which size requests that are about running tasks go there: an update
	// of the largest size, so that the completion that follows it does not overtake it.
	maxOrdered = proto.MaxUpdateBytes + 64<<10
)

// packet is a message on its way out.
type packet interface {
	Size() int
	AppendTo(dst []byte) ([]byte, error)
}

// kind is one kind of message.
type kind struct {
	method nornv1.PeerMethod
	is     reflect.Type
	make   func() message.PeerMessage
	format func(*coder, message.PeerMessage)
}

// of makes a kind of a format.
func of[T any, M interface {
	*T
	message.PeerMessage
}](method nornv1.PeerMethod, format func(*coder, M)) *kind {
	return &kind{
		method: method, is: reflect.TypeFor[M](), make: func() message.PeerMessage { return M(new(T)) },
		format: func(c *coder, m message.PeerMessage) { format(c, m.(M)) },
	}
}

// kinds are those that there are.
var kinds = []*kind{
	of(nornv1.PeerMethod_PEER_METHOD_FACTS, facts),
	of(nornv1.PeerMethod_PEER_METHOD_FACTS_TAKEN, factsTaken),
	of(nornv1.PeerMethod_PEER_METHOD_REPAIR, repair),
	of(nornv1.PeerMethod_PEER_METHOD_FORWARD, forward),
	of(nornv1.PeerMethod_PEER_METHOD_FORWARDED, forwarded),
	of(nornv1.PeerMethod_PEER_METHOD_WITHDRAW, withdraw),
	of(nornv1.PeerMethod_PEER_METHOD_DROPPED, dropped),
	of(nornv1.PeerMethod_PEER_METHOD_FETCH, fetch),
	of(nornv1.PeerMethod_PEER_METHOD_FETCHED, fetched),
	of(nornv1.PeerMethod_PEER_METHOD_HEADS, queueHeads),
	of(nornv1.PeerMethod_PEER_METHOD_WATCH, watch),
	of(nornv1.PeerMethod_PEER_METHOD_OUTCOMES, outcomes),
	of(nornv1.PeerMethod_PEER_METHOD_COMPARED, repairCompleted),
	of(nornv1.PeerMethod_PEER_METHOD_ROOTS, roots),
	of(nornv1.PeerMethod_PEER_METHOD_SAME_ROOTS, sameRoots),
	of(nornv1.PeerMethod_PEER_METHOD_ROOTS_COMPLETED, rootsCompleted),
	of(nornv1.PeerMethod_PEER_METHOD_PURGE, purge),
	of(nornv1.PeerMethod_PEER_METHOD_ASIDE, quarantineFacts),
	of(nornv1.PeerMethod_PEER_METHOD_BALLOTS, ballots),
	of(nornv1.PeerMethod_PEER_METHOD_VOTES, votes),
	of(nornv1.PeerMethod_PEER_METHOD_PUSHES, pushes),
	of(nornv1.PeerMethod_PEER_METHOD_PUSHES_TAKEN, pushesTaken),
	of(nornv1.PeerMethod_PEER_METHOD_ELECT, elect),
	of(nornv1.PeerMethod_PEER_METHOD_CLAIMS, claims),
	of(nornv1.PeerMethod_PEER_METHOD_CLAIMS_TAKEN, claimsTaken),
	of(nornv1.PeerMethod_PEER_METHOD_STUCK, askOrphans),
	of(nornv1.PeerMethod_PEER_METHOD_UNHELD, notHeld),
	of(nornv1.PeerMethod_PEER_METHOD_BEAT, beatFields),
	of(nornv1.PeerMethod_PEER_METHOD_BEATEN, beaten),
	of(nornv1.PeerMethod_PEER_METHOD_WORK, work),
	of(nornv1.PeerMethod_PEER_METHOD_TAKEN_BACK, reclaimLease),
	of(nornv1.PeerMethod_PEER_METHOD_MARKED, durabilityEpoch),
	of(nornv1.PeerMethod_PEER_METHOD_UNANSWERED, abandonClaims),
	of(nornv1.PeerMethod_PEER_METHOD_CELLS, cells),
}

var (
	kindOf = indexed(func(k *kind) nornv1.PeerMethod { return k.method })
	kindAs = indexed(func(k *kind) reflect.Type { return k.is })
)

// indexed finds kinds by one of their properties.
func indexed[K comparable](by func(*kind) K) map[K]*kind {
	m := make(map[K]*kind, len(kinds))
	for _, k := range kinds {
		m[by(k)] = k
	}
	return m
}

// encoding is a message on its way out, with what it takes.
type encoding struct {
	coder
	kind *kind
	m    message.PeerMessage
	few  [16]int // room for most sizes
}

// Size is how many bytes the message takes.
func (e *encoding) Size() int { return e.size }

// AppendTo appends the message.
func (e *encoding) AppendTo(dst []byte) ([]byte, error) {
	e.phase, e.next, e.out = writing, 0, dst
	e.kind.format(&e.coder, e.m)
	out := e.out
	e.out = nil
	return out, e.err
}

// encode gives the method, body and lane of a message. Of a kind that is not
// known here it gives ErrUnknown.
func encode(m message.PeerMessage) (nornv1.PeerMethod, packet, Lane, error) {
	k := kindAs[reflect.TypeOf(m)]
	if k == nil {
		return 0, nil, 0, fmt.Errorf("%w: %T", ErrUnknown, m)
	}
	e := &encoding{kind: k, m: m}
	e.sizes = e.few[:0]
	k.format(&e.coder, m)
	return k.method, e, laneOf(m, e.size), e.err
}

// laneOf is the lane of a message of so many bytes. All of an exchange of anti-entropy is on
// one, so that it stays in order; what is said about one running task is in order as far as it
// can be.
func laneOf(m message.PeerMessage, size int) Lane {
	most := smallMessage
	switch m := m.(type) {
	case *message.Repair:
		return Bulk
	case *message.Forward:
		switch nornv1.Method(m.Method) {
		case nornv1.Method_METHOD_UPDATE, nornv1.Method_METHOD_COMPLETE, nornv1.Method_METHOD_FAIL, nornv1.Method_METHOD_RELEASE:
			most = maxOrdered
		}
	}
	if size > most {
		return Bulk
	}
	return Control
}

// Decode is the inverse of the encoding of a message with the given method. It
// keeps b. Errors are ErrMalformed and ErrUnknown. Bodies of facts are not
// looked into: whoever stores them checks them.
func Decode(method nornv1.PeerMethod, b []byte) (message.PeerMessage, error) {
	if len(b) > MaxMessage {
		return nil, malformed("%d bytes, over %d", len(b), MaxMessage)
	}
	k := kindOf[method]
	if k == nil {
		return nil, fmt.Errorf("%w: method %d", ErrUnknown, method)
	}
	m, c := k.make(), &coder{phase: reading}
	decode(c, b, &m, func(c *coder, m *message.PeerMessage) { k.format(c, *m) })
	if c.err != nil {
		return nil, c.err
	}
	return m, nil
}
