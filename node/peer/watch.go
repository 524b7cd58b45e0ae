package peer

import (
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core"
)

// outcomeBytes is what one task takes in a list of outcomes.
const outcomeBytes = id.Size + 1

type watchPacket core.Watch

func (p *watchPacket) Size() int { return 6 + id.Size*len(p.Tasks) }

func (p *watchPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendHead(dst, 1, id.Size*len(p.Tasks))
	for i := range p.Tasks {
		dst = append(dst, p.Tasks[i][:]...)
	}
	return dst, nil
}

func decodeWatch(b []byte) (*core.Watch, error) {
	m := &core.Watch{}
	list, err := listOf(b, id.Size)
	for ; len(list) > 0; list = list[id.Size:] {
		m.Tasks = append(m.Tasks, id.ID(list[:id.Size]))
	}
	return m, err
}

type outcomesPacket core.Outcomes

func (p *outcomesPacket) Size() int { return 6 + outcomeBytes*len(p.Outcomes) }

func (p *outcomesPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendHead(dst, 1, outcomeBytes*len(p.Outcomes))
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		dst = append(append(dst, o.Task[:]...), byte(o.State))
	}
	return dst, nil
}

func decodeOutcomes(b []byte) (*core.Outcomes, error) {
	m := &core.Outcomes{}
	list, err := listOf(b, outcomeBytes)
	for ; len(list) > 0; list = list[outcomeBytes:] {
		m.Outcomes = append(m.Outcomes, core.Outcome{Task: id.ID(list[:id.Size]), State: crdt.State(list[id.Size])})
	}
	return m, err
}

// listOf gives the first field of a message: elements of so many bytes, one
// after the other.
func listOf(b []byte, each int) (list []byte, err error) {
	err = fields(b, func(f field) error {
		if f.number == 1 {
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
