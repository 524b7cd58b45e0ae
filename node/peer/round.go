package peer

import (
	"fmt"
	"math"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxEntries bounds the messages of one round: a frame of tiny ones takes many times its
// size in memory.
const maxEntries = 1024

// round is what a node has for another one at the end of a round of its loop: one frame,
// whatever it has. The facts that it writes, the claims that it grants, its acks for rounds
// of the other node, what is ready here and requests for the other node's leaders share its
// header, its sum and its system call. Messages keep their order.
//
// A round has no number of its own. Each message in it has what its answer needs: a write of
// facts and a round of claims are acknowledged by their numbers, which no other process of
// this node uses. What is lost with a round is asked for again message by message.
type round struct {
	entries []entry
	size    int // bytes of the entries, at most
}

// entry is one message of a round.
type entry struct {
	method nornv1.PeerMethod
	body   packet
}

// add appends a message.
func (r *round) add(e entry, size int) {
	r.entries = append(r.entries, e)
	r.size += entrySize(e.method, size)
}

// entrySize is how many bytes a message of so many takes in a round.
func entrySize(method nornv1.PeerMethod, size int) int {
	return 1 + protowire.SizeBytes(1+protowire.SizeVarint(uint64(method))+1+protowire.SizeBytes(size))
}

// Size is how many bytes the round takes at most.
func (r *round) Size() int { return r.size }

// AppendTo appends the round in the format of PeerRound.
func (r *round) AppendTo(dst []byte) (_ []byte, err error) {
	for i := range r.entries {
		e := &r.entries[i]
		bound := e.body.Size()
		at := len(dst)
		dst = appendEntry(dst, e.method, bound)
		from := len(dst)
		if dst, err = e.body.AppendTo(dst); err != nil {
			return dst, err
		}
		if size := len(dst) - from; size != bound { // the heads say what it takes
			var head [32]byte
			exact := appendEntry(head[:0], e.method, size)
			copy(dst[at+len(exact):], dst[from:])
			copy(dst[at:], exact)
			dst = dst[:at+len(exact)+size]
		}
	}
	return dst, nil
}

// appendEntry appends what precedes a message of so many bytes.
func appendEntry(dst []byte, method nornv1.PeerMethod, size int) []byte {
	dst = appendHead(dst, 1, 1+protowire.SizeVarint(uint64(method))+1+protowire.SizeBytes(size))
	return appendHead(appendVarint(dst, 1, uint64(method)), 2, size)
}

// decodeRound calls visit with each message of a round, in order. Bodies alias b.
func decodeRound(b []byte, visit func(method nornv1.PeerMethod, body []byte)) error {
	entries := 0
	return fields(b, func(f field) error {
		if f.number != 1 {
			return nil
		}
		if entries++; entries > maxEntries {
			return fmt.Errorf("%w: over %d messages in one round", ErrMalformed, maxEntries)
		}
		var method uint64
		var body []byte
		err := fields(f.bytes, func(f field) error {
			switch f.number {
			case 1:
				method = f.value
			case 2:
				body = f.bytes
			}
			return nil
		})
		if err != nil {
			return err
		}
		if method > math.MaxUint16 {
			return fmt.Errorf("%w: method %d", ErrMalformed, method)
		}
		visit(nornv1.PeerMethod(method), body)
		return nil
	})
}

// outgoings are the rounds of one batch of messages, one for each peer and lane.
type outgoings struct{ all []bound }

// bound is a round and where it goes.
type bound struct {
	to    register.Member
	which Lane
	round round
}

// add puts a message into the round of its peer and lane. What is large leaves alone: the
// round after it is not to wait for it, and a lane that is full drops no more than it has to.
func (o *outgoings) add(to register.Member, which Lane, e entry) {
	size := e.body.Size()
	for i := len(o.all) - 1; i >= 0; i-- {
		at := &o.all[i]
		if at.to == to && at.which == which {
			if at.round.size+entrySize(e.method, size) > smallMessage || len(at.round.entries) == maxEntries {
				break
			}
			at.round.add(e, size)
			return
		}
	}
	o.all = append(o.all, bound{to: to, which: which})
	o.all[len(o.all)-1].round.add(e, size)
}
