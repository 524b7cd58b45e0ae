package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed is returned when bytes are not a message between nodes.
var ErrMalformed = errors.New("peer: malformed message")

// ErrUnknown is returned for a message of a kind that this build does not know:
// a newer one has sent it.
var ErrUnknown = errors.New("peer: message of an unknown kind")

// MaxMessage bounds an encoded message in bytes. A write of the core, which
// waits in memory for its copies, is well below.
const MaxMessage = 96 << 20

// smallMessage is what goes on the control connection at most, in bytes: a
// lease or a vote behind a few of them does not wait noticeably.
const smallMessage = 64 << 10

// factBytes is the least that a fact takes: ID, kind, two numbers, length.
const factBytes = id.Size + 4

// packet is a message on its way out.
type packet interface {
	Size() int
	AppendTo(dst []byte) ([]byte, error)
}

// encode gives the method, body and lane of a message. The messages are those
// of [core.PeerMessage]; of another kind is ErrUnknown.
//
// Facts are written by hand, in the format of their proto: at full rate they are
// most of what travels, and a message of Go objects per fact would cost more
// than the facts.
func encode(m core.PeerMessage) (nornv1.PeerMethod, packet, Lane, error) {
	switch m := m.(type) {
	case *core.Facts:
		b := newFacts(m)
		return nornv1.PeerMethod_PEER_METHOD_FACTS, b, laneOf(b.size), nil
	case *core.FactsTaken:
		return nornv1.PeerMethod_PEER_METHOD_FACTS_TAKEN, (*takenPacket)(m), Control, nil
	case *core.Repair:
		// All of an exchange on one lane, so that it stays in order.
		return nornv1.PeerMethod_PEER_METHOD_REPAIR, (*repairPacket)(m), Bulk, nil
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
func Decode(method nornv1.PeerMethod, b []byte) (core.PeerMessage, error) {
	if len(b) > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, over %d", ErrMalformed, len(b), MaxMessage)
	}
	switch method {
	case nornv1.PeerMethod_PEER_METHOD_FACTS:
		return decodeFacts(b)
	case nornv1.PeerMethod_PEER_METHOD_FACTS_TAKEN:
		return decodeTaken(b)
	case nornv1.PeerMethod_PEER_METHOD_REPAIR:
		return decodeRepair(b)
	}
	return nil, fmt.Errorf("%w: method %d", ErrUnknown, method)
}

// factsPacket is a core.Facts with the sizes of what is inside.
type factsPacket struct {
	m     *core.Facts
	parts []int // bytes of the facts of each part
	size  int
}

func newFacts(m *core.Facts) *factsPacket {
	p := &factsPacket{m: m, parts: make([]int, len(m.Parts))}
	p.size = 1 + protowire.SizeVarint(m.Write)
	for i := range m.Parts {
		n := 0
		for j := range m.Parts[i].Facts {
			f := &m.Parts[i].Facts[j]
			n += id.Size + 1 + protowire.SizeVarint(f.Key.A) + protowire.SizeVarint(f.Key.B) + protowire.SizeBytes(len(f.Body))
		}
		p.parts[i] = n
		p.size += 1 + protowire.SizeBytes(partSize(&m.Parts[i], n))
	}
	return p
}

func partSize(part *core.PartFacts, facts int) int {
	return 3 + protowire.SizeVarint(uint64(part.Partition)) + protowire.SizeVarint(uint64(len(part.Facts))) + protowire.SizeBytes(facts)
}

func (p *factsPacket) Size() int { return p.size }

func (p *factsPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, p.m.Write)
	for i := range p.m.Parts {
		part := &p.m.Parts[i]
		dst = protowire.AppendTag(dst, 2, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(partSize(part, p.parts[i])))
		dst = appendVarint(dst, 1, uint64(part.Partition))
		dst = appendVarint(dst, 2, uint64(len(part.Facts)))
		dst = protowire.AppendTag(dst, 3, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(p.parts[i]))
		for j := range part.Facts {
			f := &part.Facts[j]
			dst = append(append(dst, f.Task[:]...), byte(f.Key.Kind))
			dst = protowire.AppendVarint(protowire.AppendVarint(dst, f.Key.A), f.Key.B)
			dst = protowire.AppendBytes(dst, f.Body)
		}
	}
	return dst, nil
}

func decodeFacts(b []byte) (*core.Facts, error) {
	m := &core.Facts{}
	err := fields(b, func(f field) error {
		switch f.number {
		case 1:
			m.Write = f.value
		case 2:
			if len(m.Parts) >= ring.MaxPartitions {
				return fmt.Errorf("%w: over %d parts", ErrMalformed, ring.MaxPartitions)
			}
			part, err := decodePart(f.bytes)
			if err != nil {
				return err
			}
			m.Parts = append(m.Parts, part)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func decodePart(b []byte) (part core.PartFacts, err error) {
	var count uint64
	var facts []byte
	err = fields(b, func(f field) error {
		switch f.number {
		case 1:
			part.Partition, err = partitionOf(f.value)
		case 2:
			count = f.value
		case 3:
			facts = f.bytes
		}
		return err
	})
	if err != nil {
		return part, err
	}
	if count > uint64(len(facts)/factBytes) {
		return part, fmt.Errorf("%w: %d facts in %d bytes", ErrMalformed, count, len(facts))
	}
	part.Facts = make([]crdt.Fact, count)
	for i := range part.Facts {
		if facts, err = decodeFact(&part.Facts[i], facts); err != nil {
			return part, err
		}
	}
	if len(facts) > 0 {
		return part, fmt.Errorf("%w: %d bytes after the last fact", ErrMalformed, len(facts))
	}
	return part, nil
}

// decodeFact reads one fact and gives the bytes after it.
func decodeFact(f *crdt.Fact, b []byte) ([]byte, error) {
	if len(b) < factBytes {
		return nil, fmt.Errorf("%w: a fact cut short", ErrMalformed)
	}
	f.Task = id.ID(b[:id.Size])
	f.Key.Kind = crdt.Kind(b[id.Size])
	b = b[id.Size+1:]
	var size uint64
	for _, v := range []*uint64{&f.Key.A, &f.Key.B, &size} {
		n := 0
		if *v, n = binary.Uvarint(b); n <= 0 {
			return nil, fmt.Errorf("%w: a number of a fact", ErrMalformed)
		}
		b = b[n:]
	}
	if size > crdt.MaxBody || size > uint64(len(b)) {
		return nil, fmt.Errorf("%w: a body of %d bytes", ErrMalformed, size)
	}
	f.Body = b[:size:size]
	return b[size:], nil
}

type takenPacket core.FactsTaken

func (p *takenPacket) Size() int {
	return 1 + protowire.SizeVarint(p.Write) + 6 + 3*len(p.Refused)
}

func (p *takenPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, p.Write)
	return appendPartitions(dst, 2, p.Refused), nil
}

func decodeTaken(b []byte) (*core.FactsTaken, error) {
	m := &core.FactsTaken{}
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			m.Write = f.value
		case 2:
			m.Refused, err = f.partitions(m.Refused)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

type repairPacket core.Repair

// Size is an upper estimate: facts and tags are what counts.
func (p *repairPacket) Size() int {
	m := p.Message
	const head, ask, want, split = 64, 32, 64, 16
	n := head + ask*len(m.Asks) + want*len(m.Wants) + split*len(m.Splits)
	for _, facts := range [][]crdt.Fact{m.Push, m.Facts} {
		for i := range facts {
			n += id.Size + 1 + 1 + 3*binary.MaxVarintLen64 + len(facts[i].Body)
		}
	}
	for i := range m.Asks {
		n += binary.MaxVarintLen32 * len(m.Asks[i].Slices)
	}
	for i := range m.Wants {
		n += 4 * len(m.Wants[i].Tags)
	}
	for i := range m.Splits {
		s := &m.Splits[i]
		n += 4*len(s.Tags) + int(s.Groups)<<s.Bits/8
	}
	return n
}

func (p *repairPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, uint64(p.Partition))
	at := len(dst)
	dst = p.Message.AppendTo(dst)
	var head [1 + binary.MaxVarintLen64]byte
	h := protowire.AppendTag(head[:0], 2, protowire.BytesType)
	h = protowire.AppendVarint(h, uint64(len(dst)-at))
	return slices.Insert(dst, at, h...), nil
}

func decodeRepair(b []byte) (*core.Repair, error) {
	m := &core.Repair{}
	var message []byte
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			m.Partition, err = partitionOf(f.value)
		case 2:
			message = f.bytes
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
	return m, nil
}
