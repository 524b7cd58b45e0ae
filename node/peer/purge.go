package peer

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
)

type comparedPacket message.RepairCompleted

func (p *comparedPacket) Size() int { return 3 * (1 + binary.MaxVarintLen64) }

func (p *comparedPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(appendVarint(dst, 1, uint64(p.Partition)), 2, p.Session)
	return appendVarint(dst, 3, uint64(p.Age)), nil
}

func decodeCompared(b []byte) (*message.RepairCompleted, error) {
	m := &message.RepairCompleted{}
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			m.Partition, err = partitionOf(f.value)
		case 2:
			m.Session = f.value
		case 3:
			m.Age = time.Duration(min(f.value, math.MaxInt64))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

type purgePacket message.Purge

func (p *purgePacket) Size() int { return 2*(1+binary.MaxVarintLen64) + 6 + id.Size*len(p.Tasks) }

func (p *purgePacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(appendVarint(dst, 1, uint64(p.Partition)), 2, p.Epoch)
	dst = appendHead(dst, 3, id.Size*len(p.Tasks))
	for i := range p.Tasks {
		dst = append(dst, p.Tasks[i][:]...)
	}
	return dst, nil
}

func decodePurge(b []byte) (*message.Purge, error) {
	m := &message.Purge{}
	var list []byte
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			m.Partition, err = partitionOf(f.value)
		case 2:
			m.Epoch = f.value
		case 3:
			list = f.bytes
		}
		return err
	})
	if err == nil && len(list)%id.Size != 0 {
		err = fmt.Errorf("%w: %d bytes of task IDs", ErrMalformed, len(list))
	}
	if err != nil {
		return nil, err
	}
	for ; len(list) > 0; list = list[id.Size:] {
		m.Tasks = append(m.Tasks, id.ID(list[:id.Size]))
	}
	return m, nil
}
