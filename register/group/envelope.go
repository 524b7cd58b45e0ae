package group

import (
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

// kind is what an envelope holds.
type kind byte

const (
	kindRaft   kind = 1 + iota // a message of raft
	kindChunk                  // a piece of a snapshot
	kindHave                   // how much of a snapshot has arrived
	kindRefuse                 // why a message was not taken
	kindStart                  // a member has started, and asks what is known of it
	kindKnown                  // what is known
)

// Refusal is why a node did not take a message.
type Refusal byte

// The reasons, as they are on the wire.
const (
	OtherCluster    Refusal = 1 + iota // another cluster's UUID
	OtherGeneration                    // a register from before a restore or forced restart
	OtherNode                          // it is for another incarnation of the name
	RemovedNode                        // the sender was removed from the cluster
	OldLife                            // the sender was started again since, maybe from a copy
	TwinLife                           // two processes are in the same start of one directory
)

// String is the reason as people read it.
func (r Refusal) String() string {
	switch r {
	case OtherCluster:
		return "it belongs to another cluster"
	case OtherGeneration:
		return "its register is from before a restore or a forced restart"
	case OtherNode:
		return "the node was formatted anew and is another member now"
	case RemovedNode:
		return "it was removed from the cluster"
	case OldLife, TwinLife:
		return "a copy of its data directory is in use"
	}
	return "unknown"
}

// life tells the starts of one directory apart: a number that each start counts
// up on the disk, and a random one. Two copies of a directory come to the same
// number sooner or later, and not to the same random one.
type life struct{ boot, tag uint64 }

// envelope is what travels between two nodes: every message carries cluster,
// generation and both incarnations, so that a life before, a twin directory or
// another cluster is never mistaken for a member.
type envelope struct {
	cluster    register.UUID
	generation uint64
	from       register.Member
	life       life
	to         register.Incarnation
	kind       kind
	body       []byte
}

const envelopeVersion = 1

func (e *envelope) encode() []byte {
	var w wire.Writer
	w.Byte(envelopeVersion)
	w.Fixed(e.cluster[:])
	w.Uint(e.generation)
	register.AppendMember(&w, e.from)
	w.Uint(e.life.boot)
	w.Uint(e.life.tag)
	w.Fixed(e.to[:])
	w.Byte(byte(e.kind))
	w.Fixed(e.body)
	return w.B
}

func decodeEnvelope(b []byte) (e envelope, err error) {
	r := wire.NewReader(b)
	if r.Byte() != envelopeVersion {
		r.Fail()
	}
	r.Fixed(e.cluster[:])
	e.generation = r.Uint()
	e.from = register.ReadMember(r)
	e.life = life{r.Uint(), r.Uint()}
	r.Fixed(e.to[:])
	e.kind = kind(r.Byte())
	e.body = r.Rest()
	return e, r.End()
}

// Sender is who a message says it is of; an error when it is none.
func Sender(data []byte) (register.Member, error) {
	e, err := decodeEnvelope(data)
	return e.from, err
}

// refuse is the body of a refusal: why, and the life of the message that was
// not taken.
func (l life) refuse(why Refusal) []byte {
	var w wire.Writer
	w.Byte(byte(why))
	w.Uint(l.boot)
	w.Uint(l.tag)
	return w.B
}

func decodeRefusal(b []byte) (why Refusal, l life, err error) {
	r := wire.NewReader(b)
	why, l = Refusal(r.Byte()), life{r.Uint(), r.Uint()}
	return why, l, r.End()
}

// chunk is a piece of a snapshot. The order of (term, number) is the order in
// which transfers to one node begin.
type chunk struct {
	term, number uint64
	header       []byte // the message of raft, without the data
	total        uint64
	sum          uint64 // xxhash64 of the whole data
	offset       uint64
	data         []byte
}

// Sizes of a transfer in bytes.
const (
	chunkSize   = 128 << 10
	inFlight    = 8 * chunkSize // sent and not acknowledged
	maxSnapshot = 1 << 30       // what a receiver collects
	maxHeader   = 64 << 10
)

func (c *chunk) encode() []byte {
	var w wire.Writer
	w.Uint(c.term)
	w.Uint(c.number)
	w.Bytes(c.header)
	w.Uint(c.total)
	w.Uint(c.sum)
	w.Uint(c.offset)
	w.Fixed(c.data)
	return w.B
}

func decodeChunk(b []byte) (c chunk, err error) {
	r := wire.NewReader(b)
	c.term, c.number = r.Uint(), r.Uint()
	c.header = r.Bytes(maxHeader)
	c.total, c.sum, c.offset = r.Uint(), r.Uint(), r.Uint()
	c.data = r.Rest()
	if c.total > maxSnapshot || c.offset > c.total || uint64(len(c.data)) > c.total-c.offset {
		r.Fail()
	}
	return c, r.End()
}

// have says how many bytes of a transfer have arrived.
type have struct{ term, number, bytes uint64 }

func (h *have) encode() []byte {
	var w wire.Writer
	w.Uint(h.term)
	w.Uint(h.number)
	w.Uint(h.bytes)
	return w.B
}

func decodeHave(b []byte) (h have, err error) {
	r := wire.NewReader(b)
	h.term, h.number, h.bytes = r.Uint(), r.Uint(), r.Uint()
	return h, r.End()
}
