package history

import (
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// Sum joins what several nodes remember.
type Sum struct {
	whole *nornv1.HistoryReply
	err   *proto.Error
	// Most is how many of the busiest queues are wanted.
	Most int
}

// Take adds what a node remembers.
func (h *Sum) Take(_ []int, m gproto.Message) {
	switch part, ok := m.(*nornv1.HistoryReply); {
	case !ok:
	case h.whole == nil:
		h.whole = part
	default:
		Join(h.whole, part)
	}
}

// Fail notes it: a node that is away, or of a build that remembers nothing, is missing in the sums, and
// in the number of nodes.
func (h *Sum) Fail(_ []int, err *proto.Error) { h.err = err }

// Answer gives the sum, or why there is none.
func (h *Sum) Answer() (gproto.Message, *proto.Error) {
	if h.whole == nil {
		return nil, h.err
	}
	h.whole.Busiest = Busiest(h.whole.Busiest, h.Most)
	return h.whole, nil
}
