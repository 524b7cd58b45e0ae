package peer

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/ring"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
)

// factBytes is the least that a fact takes: ID, kind, two numbers, length, CRC.
const factBytes = id.Size + 4 + 4

// factsPacket is a message.Facts with the sizes of what is inside.
type factsPacket struct {
	m     *message.Facts
	parts []int // bytes of the facts of each part
	size  int
}

func newFacts(m *message.Facts) *factsPacket {
	p := &factsPacket{m: m, parts: make([]int, len(m.Parts))}
	p.size = 1 + protowire.SizeVarint(m.Write)
	for i := range m.Parts {
		p.parts[i] = sizeFacts(m.Parts[i].Facts)
		p.size += 1 + protowire.SizeBytes(partSize(&m.Parts[i], p.parts[i]))
	}
	if m.Aside {
		p.size += 2
	}
	return p
}

func partSize(part *message.PartFacts, facts int) int {
	return 4 + protowire.SizeVarint(uint64(part.Partition)) + protowire.SizeVarint(uint64(len(part.Facts))) + protowire.SizeBytes(facts) + protowire.SizeVarint(part.Epoch)
}

func (p *factsPacket) Size() int { return p.size }

func (p *factsPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, p.m.Write)
	for i := range p.m.Parts {
		part := &p.m.Parts[i]
		dst = appendHead(dst, 2, partSize(part, p.parts[i]))
		dst = appendVarint(dst, 1, uint64(part.Partition))
		dst = appendVarint(dst, 2, uint64(len(part.Facts)))
		dst = appendHead(dst, 3, p.parts[i])
		dst = appendVarint(appendFacts(dst, part.Facts), 4, part.Epoch)
	}
	if p.m.Aside {
		dst = appendVarint(dst, 3, 1)
	}
	return dst, nil
}

func decodeFacts(b []byte) (*message.Facts, error) {
	m := &message.Facts{}
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
		case 3:
			m.Aside = f.value != 0
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func decodePart(b []byte) (part message.PartFacts, err error) {
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
		case 4:
			part.Epoch = f.value
		}
		return err
	})
	if err != nil {
		return part, err
	}
	part.Facts, err = decodeList(count, facts)
	return part, err
}

// sizeFacts is how many bytes facts take.
func sizeFacts(facts []crdt.Fact) (n int) {
	for i := range facts {
		f := &facts[i]
		n += id.Size + 1 + 4 + protowire.SizeVarint(f.Key.A) + protowire.SizeVarint(f.Key.B) + protowire.SizeBytes(len(f.Body))
	}
	return n
}

func appendFacts(dst []byte, facts []crdt.Fact) []byte {
	for i := range facts {
		f := &facts[i]
		dst = append(append(dst, f.Task[:]...), byte(f.Key.Kind))
		dst = protowire.AppendVarint(protowire.AppendVarint(dst, f.Key.A), f.Key.B)
		dst = binary.BigEndian.AppendUint32(protowire.AppendBytes(dst, f.Body), f.CRC)
	}
	return dst
}

// decodeList reads so many facts. Nothing is made for more facts than there are
// bytes for.
func decodeList(count uint64, b []byte) (facts []crdt.Fact, err error) {
	if count > uint64(len(b)/factBytes) {
		return nil, fmt.Errorf("%w: %d facts in %d bytes", ErrMalformed, count, len(b))
	}
	facts = make([]crdt.Fact, count)
	for i := range facts {
		if b, err = decodeFact(&facts[i], b); err != nil {
			return nil, err
		}
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after the last fact", ErrMalformed, len(b))
	}
	return facts, nil
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
	if size > crdt.MaxBody || size+4 > uint64(len(b)) {
		return nil, fmt.Errorf("%w: a body of %d bytes", ErrMalformed, size)
	}
	f.Body = b[:size:size]
	f.CRC = binary.BigEndian.Uint32(b[size:])
	return b[size+4:], nil
}

// takenPacket is a message.FactsTaken with its fences, which are rare.
type takenPacket struct {
	*message.FactsTaken
	fences [][]byte
}

func newTaken(m *message.FactsTaken) *takenPacket {
	return &takenPacket{m, encodeFences(m.Fences)}
}

func encodeFences(fences []message.Fence) (all [][]byte) {
	for _, f := range wireFences(fences) {
		if b, err := gproto.Marshal(f); err == nil { // names of nodes are text
			all = append(all, b)
		}
	}
	return all
}

func (p *takenPacket) Size() int {
	n := 1 + protowire.SizeVarint(p.Write) + 6 + 3*len(p.Refused) + 1 + protowire.SizeVarint(p.Mark)
	for _, b := range p.fences {
		n += 1 + protowire.SizeBytes(len(b))
	}
	return n
}

func (p *takenPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendPartitions(appendVarint(dst, 1, p.Write), 2, p.Refused)
	for _, b := range p.fences {
		dst = append(appendHead(dst, 3, len(b)), b...)
	}
	return appendVarint(dst, 4, p.Mark), nil
}

func decodeTaken(b []byte) (*message.FactsTaken, error) {
	m := &message.FactsTaken{}
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			m.Write = f.value
		case 2:
			m.Refused, err = f.partitions(m.Refused)
		case 3:
			var fence message.Fence
			if fence, err = decodeFence(f.bytes); err == nil {
				m.Fences = append(m.Fences, fence)
			}
		case 4:
			m.Mark = f.value
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

type fetchPacket message.Fetch

func (p *fetchPacket) Size() int { return 11 + 2 + id.Size + 11 }

func (p *fetchPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = append(appendHead(appendVarint(dst, 1, p.Number), 2, id.Size), p.Task[:]...)
	return appendVarint(dst, 3, p.Epoch), nil
}

func decodeFetch(b []byte) (*message.Fetch, error) {
	m := &message.Fetch{}
	var task []byte
	err := fields(b, func(f field) error {
		switch f.number {
		case 1:
			m.Number = f.value
		case 2:
			task = f.bytes
		case 3:
			m.Epoch = f.value
		}
		return nil
	})
	if err == nil {
		err = fill(m.Task[:], task)
	}
	return m, err
}

// fetchedPacket is a core.Fetched with the size of its facts, and its fence, which
// is rare.
type fetchedPacket struct {
	m     *message.Fetched
	facts int
	fence []byte
}

func newFetched(m *message.Fetched) *fetchedPacket {
	p := &fetchedPacket{m: m, facts: sizeFacts(m.Facts)}
	if len(m.Cohorts) > 0 {
		p.fence = bytes.Join(encodeFences([]message.Fence{{Cohorts: m.Cohorts}}), nil)
	}
	return p
}

func (p *fetchedPacket) Size() int { return 11 + 6 + 6 + p.facts + 6 + len(p.fence) }

func (p *fetchedPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, p.m.Number)
	dst = appendVarint(dst, 2, uint64(len(p.m.Facts)))
	dst = appendFacts(appendHead(dst, 3, p.facts), p.m.Facts)
	if len(p.fence) > 0 {
		dst = append(appendHead(dst, 4, len(p.fence)), p.fence...)
	}
	return dst, nil
}

func decodeFetched(b []byte) (*message.Fetched, error) {
	m := &message.Fetched{}
	var count uint64
	var facts []byte
	err := fields(b, func(f field) error {
		switch f.number {
		case 4:
			fence, err := decodeFence(f.bytes)
			m.Cohorts = fence.Cohorts
			return err
		case 1:
			m.Number = f.value
		case 2:
			count = f.value
		case 3:
			facts = f.bytes
		}
		return nil
	})
	if err == nil {
		m.Facts, err = decodeList(count, facts)
	}
	return m, err
}
