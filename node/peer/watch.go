package peer

import (
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"

	"google.golang.org/protobuf/encoding/protowire"
)

// outcomeBytes is what one task takes in a list of outcomes.
const outcomeBytes = id.Size + 1

type watchPacket message.Watch

func (p *watchPacket) Size() int { return 23 + id.Size*(len(p.Tasks)+len(p.Keep)) }

func (p *watchPacket) AppendTo(dst []byte) ([]byte, error) {
	for i, all := range [][]id.ID{p.Tasks, p.Keep} {
		if len(all) == 0 {
			continue
		}
		dst = appendHead(dst, protowire.Number(i+1), id.Size*len(all))
		for j := range all {
			dst = append(dst, all[j][:]...)
		}
	}
	return appendVarint(dst, 3, p.Number), nil
}

func decodeWatch(b []byte) (*message.Watch, error) {
	m := &message.Watch{Number: numberOf(b, 3)}
	for i, all := range []*[]id.ID{&m.Tasks, &m.Keep} {
		list, err := listOf(b, protowire.Number(i+1), id.Size)
		if err != nil {
			return nil, err
		}
		for ; len(list) > 0; list = list[id.Size:] {
			*all = append(*all, id.ID(list[:id.Size]))
		}
	}
	return m, nil
}

type outcomesPacket message.Outcomes

func (p *outcomesPacket) Size() int { return 17 + outcomeBytes*len(p.Outcomes) }

func (p *outcomesPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendHead(dst, 1, outcomeBytes*len(p.Outcomes))
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		dst = append(append(dst, o.Task[:]...), byte(o.State))
	}
	return appendVarint(dst, 2, p.Number), nil
}

func decodeOutcomes(b []byte) (*message.Outcomes, error) {
	m := &message.Outcomes{Number: numberOf(b, 2)}
	list, err := listOf(b, 1, outcomeBytes)
	for ; len(list) > 0; list = list[outcomeBytes:] {
		m.Outcomes = append(m.Outcomes, message.Outcome{Task: id.ID(list[:id.Size]), State: crdt.State(list[id.Size])})
	}
	return m, err
}

// listOf gives one field of a message: elements of so many bytes, one after the
// other.
func listOf(b []byte, number protowire.Number, each int) (list []byte, err error) {
	err = fields(b, func(f field) error {
		if f.number == number {
			list = f.bytes
		}
		return nil
	})
	if err == nil && len(list)%each != 0 {
		err = fmt.Errorf("%w: %d bytes of elements of %d", ErrMalformed, len(list), each)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// numberOf gives one field of a message that is a number; 0 where it is not there, or the
// message cannot be read.
func numberOf(b []byte, number protowire.Number) (v uint64) {
	_ = fields(b, func(f field) error { // whoever reads the list reports it
		if f.number == number {
			v = f.value
		}
		return nil
	})
	return v
}
