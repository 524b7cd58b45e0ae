package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is returned when bytes are not the encoding of a plan or of a
// bitmap.
var ErrMalformed = errors.New("ring: malformed bytes")

// planVersion is the first byte of an encoded plan.
const planVersion = 1

// AppendTo appends the stored form of the plan. Equal plans have equal bytes.
// Numbers are big-endian:
//
//	version 1, partitions 2, replicas 1, members 2
//	per member, in order: length of the name 1, name, key 16
//	per partition: for each of its replicas the index of a member, the
//	preferred leader first, the others ascending; 1 byte with up to 256
//	members, otherwise 2
//
// 4,096 partitions of 3 replicas on 200 nodes with names of 8 bytes are
// 6 + 200·25 + 12,288 = 17,294 bytes.
func (p Plan) AppendTo(dst []byte) []byte {
	dst = append(dst, planVersion)
	dst = binary.BigEndian.AppendUint16(dst, uint16(p.Partitions()))
	dst = append(dst, byte(p.replicas))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(p.members)))
	for _, m := range p.members {
		dst = append(dst, byte(len(m.Name)))
		dst = append(dst, m.Name...)
		dst = append(dst, m.Key[:]...)
	}
	for _, m := range p.cohorts {
		if indexSize(len(p.members)) == 2 {
			dst = append(dst, byte(m>>8))
		}
		dst = append(dst, byte(m))
	}
	return dst
}

func indexSize(members int) int {
	if members > 256 {
		return 2
	}
	return 1
}

// DecodePlan is the inverse of [Plan.AppendTo]. It takes nothing that AppendTo
// does not give, and no plan that is not valid. Returns ErrMalformed.
func DecodePlan(b []byte) (Plan, error) {
	const head = 6
	if len(b) < head || b[0] != planVersion {
		return Plan{}, fmt.Errorf("%w: no plan of version %d", ErrMalformed, planVersion)
	}
	partitions, replicas, members := int(binary.BigEndian.Uint16(b[1:])), int(b[3]), int(binary.BigEndian.Uint16(b[4:]))
	b = b[head:]
	switch {
	case partitions > MaxPartitions || replicas > MaxReplicas || members > MaxNodes || replicas > members,
		(partitions == 0) != (replicas == 0), (partitions == 0) != (members == 0):
		return Plan{}, fmt.Errorf("%w: %d partitions of %d replicas on %d members", ErrMalformed, partitions, replicas, members)
	case partitions == 0 && len(b) == 0:
		return Plan{}, nil
	}
	p := Plan{replicas: replicas}
	for i := range members {
		m, rest, ok := cutMember(b)
		if !ok || i > 0 && m.Compare(p.members[i-1]) <= 0 {
			return Plan{}, fmt.Errorf("%w: member %d", ErrMalformed, i)
		}
		p.members, b = append(p.members, m), rest
	}
	size := indexSize(members)
	if len(b) != partitions*replicas*size {
		return Plan{}, fmt.Errorf("%w: %d bytes of cohorts, not %d", ErrMalformed, len(b), partitions*replicas*size)
	}
	p.cohorts = make([]uint16, partitions*replicas)
	for i := range p.cohorts {
		p.cohorts[i] = uint16(b[i*size])
		if size == 2 {
			p.cohorts[i] = binary.BigEndian.Uint16(b[i*size:])
		}
	}
	if err := p.check(); err != nil {
		return Plan{}, err
	}
	return p, nil
}

func cutMember(b []byte) (m Member, rest []byte, ok bool) {
	if len(b) == 0 || b[0] == 0 || len(b) < 1+int(b[0])+len(m.Key) {
		return m, nil, false
	}
	name := int(b[0])
	m.Name, b = string(b[1:1+name]), b[1+name:]
	return Member{Name: m.Name, Key: [16]byte(b[:len(m.Key)])}, b[len(m.Key):], true
}

// check returns ErrMalformed unless the cohorts are in their one form.
func (p Plan) check() error {
	used := make([]bool, len(p.members))
	for q := range p.Partitions() {
		cohort := p.at(Partition(q))
		for r, m := range cohort {
			if int(m) >= len(used) || r > 0 && m == cohort[0] || r > 1 && m <= cohort[r-1] {
				return fmt.Errorf("%w: cohort of partition %d", ErrMalformed, q)
			}
			used[m] = true
		}
	}
	for m, ok := range used {
		if !ok {
			return fmt.Errorf("%w: member %d holds nothing", ErrMalformed, m)
		}
	}
	return nil
}
