package peer

import (
	"fmt"
	"math"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
)

// maxOrdered is up to which size requests that are about running tasks go on the
// control connection: an update of the largest size, so that the completion that
// follows it does not overtake it.
const maxOrdered = proto.MaxUpdateBytes + 64<<10

// rankSize is the length of a place in a queue, bytes.
const rankSize = len(message.QueueHead{}.Rank)

// exchange are the messages of one method of the client port.
type exchange struct{ request, reply gproto.Message }

// exchangeOf gives what a method carries; nil for methods that are not
// forwarded.
func exchangeOf(m nornv1.Method) *exchange {
	write := &nornv1.WriteReply{}
	switch m {
	case nornv1.Method_METHOD_ENQUEUE:
		return &exchange{&nornv1.EnqueueRequest{}, &nornv1.EnqueueReply{}}
	case nornv1.Method_METHOD_LAUNCH:
		return &exchange{&nornv1.LaunchRequest{}, &nornv1.EnqueueReply{}}
	case nornv1.Method_METHOD_CLAIM:
		return &exchange{&nornv1.ClaimRequest{}, &nornv1.ClaimReply{}}
	case nornv1.Method_METHOD_RENEW:
		return &exchange{&nornv1.RenewRequest{}, &nornv1.RenewReply{}}
	case nornv1.Method_METHOD_UPDATE:
		return &exchange{&nornv1.UpdateRequest{}, write}
	case nornv1.Method_METHOD_COMPLETE:
		return &exchange{&nornv1.CompleteRequest{}, write}
	case nornv1.Method_METHOD_FAIL:
		return &exchange{&nornv1.FailRequest{}, write}
	case nornv1.Method_METHOD_RELEASE:
		return &exchange{&nornv1.ReleaseRequest{}, write}
	case nornv1.Method_METHOD_CANCEL:
		return &exchange{&nornv1.CancelRequest{}, write}
	case nornv1.Method_METHOD_RETRY:
		return &exchange{&nornv1.RetryRequest{}, write}
	}
	return readsOf(m)
}

// readsOf gives what a method that changes nothing, or settings, carries.
func readsOf(m nornv1.Method) *exchange {
	switch m {
	case nornv1.Method_METHOD_GET:
		return &exchange{&nornv1.GetRequest{}, &nornv1.GetReply{}}
	case nornv1.Method_METHOD_LIST:
		return &exchange{&nornv1.ListRequest{}, &nornv1.ListReply{}}
	case nornv1.Method_METHOD_COUNT:
		return &exchange{&nornv1.CountRequest{}, &nornv1.CountReply{}}
	case nornv1.Method_METHOD_LOG:
		return &exchange{&nornv1.LogRequest{}, &nornv1.LogReply{}}
	case nornv1.Method_METHOD_STATUS:
		return &exchange{&nornv1.StatusRequest{}, &nornv1.StatusReply{}}
	case nornv1.Method_METHOD_EXPLAIN:
		return &exchange{&nornv1.ExplainRequest{}, &nornv1.ExplainReply{}}
	case nornv1.Method_METHOD_KEY:
		return &exchange{&nornv1.KeyRequest{}, &nornv1.KeyReply{}}
	case nornv1.Method_METHOD_QUEUES:
		return &exchange{&nornv1.QueuesRequest{}, &nornv1.QueuesReply{}}
	case nornv1.Method_METHOD_SET_QUEUE:
		return &exchange{&nornv1.SetQueueRequest{}, &nornv1.QueuesReply{}}
	case nornv1.Method_METHOD_CLUSTER: // a repair at once
		return &exchange{&nornv1.ClusterRequest{}, &nornv1.ClusterReply{}}
	case nornv1.Method_METHOD_WORKERS:
		return &exchange{&nornv1.WorkersRequest{}, &nornv1.WorkersReply{}}
	case nornv1.Method_METHOD_SET_WORKER:
		return &exchange{&nornv1.SetWorkerRequest{}, &nornv1.WorkersReply{}}
	case nornv1.Method_METHOD_LINES:
		return &exchange{&nornv1.LinesRequest{}, &nornv1.LinesReply{}}
	case nornv1.Method_METHOD_VERIFY:
		return &exchange{&nornv1.VerifyRequest{}, &nornv1.VerifyReply{}}
	}
	return nil
}

// fits says whether a message is of the kind that is expected.
func fits(m, want gproto.Message) bool {
	return m != nil && m.ProtoReflect().Descriptor() == want.ProtoReflect().Descriptor()
}

// forwardPacket is a core.Forward with the size of its request.
type forwardPacket struct {
	m       *message.Forward
	request int
	size    int
}

func newForward(m *message.Forward) (*forwardPacket, error) {
	p := &forwardPacket{m: m}
	x := exchangeOf(nornv1.Method(m.Method))
	if x == nil || !fits(m.Body, x.request) {
		return p, fmt.Errorf("%w: a request %T of method %d", ErrUnknown, m.Body, m.Method)
	}
	p.request = gproto.Size(m.Body)
	p.size = 11 + 4 + 11 + 6 + 3*len(m.Partitions) + 6 + p.request + 2
	return p, nil
}

// lane keeps what is said about one running task in order, as far as it can.
func (p *forwardPacket) lane() Lane {
	switch nornv1.Method(p.m.Method) {
	case nornv1.Method_METHOD_UPDATE, nornv1.Method_METHOD_COMPLETE, nornv1.Method_METHOD_FAIL, nornv1.Method_METHOD_RELEASE:
		if p.size <= maxOrdered {
			return Control
		}
	}
	return laneOf(p.size)
}

func (p *forwardPacket) Size() int { return p.size }

func (p *forwardPacket) AppendTo(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, p.m.Number)
	dst = appendVarint(dst, 2, uint64(p.m.Method))
	wait := uint64(p.m.Wait)
	if p.m.Wait < 0 {
		wait = 1 // no time is left, which is not the same as not said
	}
	dst = appendVarint(dst, 3, wait)
	dst = appendPartitions(dst, 4, p.m.Partitions)
	if p.m.Choosy {
		dst = appendVarint(dst, 6, 1)
	}
	return marshal(dst, 5, p.request, p.m.Body)
}

// marshal appends a message whose size was asked before.
func marshal(dst []byte, number protowire.Number, size int, m gproto.Message) ([]byte, error) {
	dst = appendHead(dst, number, size)
	at := len(dst)
	dst, err := gproto.MarshalOptions{}.MarshalAppend(dst, m)
	if err == nil && len(dst)-at != size {
		err = fmt.Errorf("%w: a %s changed while it waited", ErrMalformed, m.ProtoReflect().Descriptor().Name())
	}
	return dst, err
}

func decodeForward(b []byte) (*message.Forward, error) {
	m := &message.Forward{}
	var request []byte
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			m.Number = f.value
		case 2:
			m.Method = uint16(min(f.value, math.MaxUint16))
		case 3:
			m.Wait = time.Duration(min(f.value, math.MaxInt64))
		case 4:
			m.Partitions, err = f.partitions(m.Partitions)
		case 5:
			request = f.bytes
		case 6:
			m.Choosy = f.value != 0
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	x := exchangeOf(nornv1.Method(m.Method))
	if x == nil {
		return nil, fmt.Errorf("%w: a request of method %d", ErrUnknown, m.Method)
	}
	m.Body = x.request
	return m, unmarshal(request, m.Body)
}

// maxElements bounds the elements of lists in a forwarded message, so that few
// bytes do not become many: no request may have more than a batch of tasks with
// some fields each, no answer more than a page or the counters of all queues
// (config.MostQueues).
const maxElements = 16 * proto.MaxBatchTasks

// unmarshal reads a message of the client port. Clients' requests are weighed
// before they are decoded; what a member forwards was, so it is bounded by its
// bytes and the elements of its lists here.
func unmarshal(b []byte, m gproto.Message) error {
	if len(b) > proto.MaxFrame {
		return fmt.Errorf("%w: a forwarded message of %d bytes, over %d", ErrMalformed, len(b), proto.MaxFrame)
	}
	elements := 0
	err := fields(b, func(field) error {
		if elements++; elements > maxElements {
			return fmt.Errorf("%w: over %d elements", ErrMalformed, maxElements)
		}
		return nil
	})
	if err == nil {
		if err = gproto.Unmarshal(b, m); err != nil {
			err = fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return err
}

// forwardedPacket is a core.Forwarded with the sizes of what is inside.
type forwardedPacket struct {
	m     *message.Forwarded
	err   *nornv1.Error
	reply int
	size  int
}

func newForwarded(m *message.Forwarded) (*forwardedPacket, error) {
	p := &forwardedPacket{m: m}
	x := exchangeOf(nornv1.Method(m.Method))
	switch {
	case m.Err != nil:
		p.err = m.Err.Proto()
		p.size = 6 + gproto.Size(p.err)
	case x == nil || !fits(m.Message, x.reply):
		return p, fmt.Errorf("%w: a reply %T of method %d", ErrUnknown, m.Message, m.Method)
	default:
		p.reply = gproto.Size(m.Message)
		p.size = 6 + p.reply
	}
	p.size += 11 + 4 + 2
	for i := range m.Grants {
		p.size += 1 + protowire.SizeBytes(grantSize(&m.Grants[i]))
	}
	return p, nil
}

func (p *forwardedPacket) Size() int { return p.size }

func (p *forwardedPacket) AppendTo(dst []byte) (out []byte, err error) {
	dst = appendVarint(dst, 1, p.m.Number)
	dst = appendVarint(dst, 2, uint64(p.m.Method))
	if p.m.Declined {
		dst = appendVarint(dst, 6, 1)
	}
	if p.err != nil {
		dst, err = marshal(dst, 4, gproto.Size(p.err), p.err)
	} else {
		dst, err = marshal(dst, 3, p.reply, p.m.Message)
	}
	return appendGrants(dst, 5, p.m.Grants), err
}

func decodeForwarded(b []byte) (*message.Forwarded, error) {
	m := &message.Forwarded{}
	var reply []byte
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			m.Number = f.value
		case 2:
			m.Method = uint16(min(f.value, math.MaxUint16))
		case 3:
			reply = f.bytes
		case 4:
			var e nornv1.Error
			if err = unmarshal(f.bytes, &e); err == nil {
				m.Err = proto.FromProto(&e)
			}
		case 5:
			m.Grants, err = decodeGrant(m.Grants, f.bytes)
		case 6:
			m.Declined = f.value != 0
		}
		return err
	})
	if err != nil || m.Err != nil {
		return m, err
	}
	x := exchangeOf(nornv1.Method(m.Method))
	if x == nil {
		return nil, fmt.Errorf("%w: a reply of method %d", ErrUnknown, m.Method)
	}
	m.Message = x.reply
	return m, unmarshal(reply, m.Message)
}

func grantSize(g *message.GrantRef) int {
	return 6 + protowire.SizeVarint(uint64(g.Partition)) + protowire.SizeBytes(id.Size) + protowire.SizeVarint(g.Token) +
		protowire.SizeBytes(len(g.Ask.Session)) + protowire.SizeVarint(g.Ask.Request) + protowire.SizeVarint(g.Answer)
}

func appendGrants(dst []byte, number protowire.Number, all []message.GrantRef) []byte {
	for i := range all {
		g := &all[i]
		dst = appendVarint(appendHead(dst, number, grantSize(g)), 1, uint64(g.Partition))
		dst = append(appendHead(dst, 2, id.Size), g.Task[:]...)
		dst = appendVarint(dst, 3, g.Token)
		dst = append(appendHead(dst, 4, len(g.Ask.Session)), g.Ask.Session[:]...)
		dst = appendVarint(dst, 5, g.Ask.Request)
		dst = appendVarint(dst, 6, g.Answer)
	}
	return dst
}

// decodeGrant appends one grant.
func decodeGrant(to []message.GrantRef, b []byte) ([]message.GrantRef, error) {
	var g message.GrantRef
	var task, session []byte
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case 1:
			g.Partition, err = partitionOf(f.value)
		case 2:
			task = f.bytes
		case 3:
			g.Token = f.value
		case 4:
			session = f.bytes
		case 5:
			g.Ask.Request = f.value
		case 6:
			g.Answer = f.value
		}
		return err
	})
	if err == nil {
		err = fill(g.Task[:], task)
	}
	if err == nil {
		err = fill(g.Ask.Session[:], session)
	}
	return append(to, g), err
}

type withdrawPacket message.Withdraw

func (p *withdrawPacket) Size() int { return 11 }

func (p *withdrawPacket) AppendTo(dst []byte) ([]byte, error) {
	return appendVarint(dst, 1, p.Number), nil
}

func decodeWithdraw(b []byte) (*message.Withdraw, error) {
	m := &message.Withdraw{}
	return m, fields(b, func(f field) error {
		if f.number == 1 {
			m.Number = f.value
		}
		return nil
	})
}

type droppedPacket message.Dropped

func (p *droppedPacket) Size() (n int) {
	for i := range p.Grants {
		n += 1 + protowire.SizeBytes(grantSize(&p.Grants[i]))
	}
	return n
}

func (p *droppedPacket) AppendTo(dst []byte) ([]byte, error) {
	return appendGrants(dst, 1, p.Grants), nil
}

func decodeDropped(b []byte) (*message.Dropped, error) {
	m := &message.Dropped{}
	return m, fields(b, func(f field) (err error) {
		if f.number == 1 {
			m.Grants, err = decodeGrant(m.Grants, f.bytes)
		}
		return err
	})
}

type headsPacket message.QueueHeads

func headSize(h *message.QueueHead) int {
	n := 1 + protowire.SizeBytes(len(h.Queue))
	if h.Ready {
		n += 1 + protowire.SizeBytes(rankSize)
	}
	if h.Marks.N > 0 {
		n += 1 + protowire.SizeBytes(h.Marks.N*rankSize)
	}
	if h.Marks.Seen > 0 {
		n += 1 + protowire.SizeVarint(uint64(h.Marks.Seen))
	}
	if h.Few > 0 {
		n += 1 + protowire.SizeVarint(uint64(h.Few))
	}
	return n + 2*(bit(h.Full)+bit(h.Wanted)+bit(h.Asks))
}

func (p *headsPacket) Size() (n int) {
	for i := range p.Heads {
		n += 1 + protowire.SizeBytes(headSize(&p.Heads[i]))
	}
	return n
}

func (p *headsPacket) AppendTo(dst []byte) ([]byte, error) {
	for i := range p.Heads {
		h := &p.Heads[i]
		dst = append(appendHead(appendHead(dst, 1, headSize(h)), 1, len(h.Queue)), h.Queue...)
		if h.Ready {
			dst = append(appendHead(dst, 2, rankSize), h.Rank[:]...)
		}
		if h.Marks.N > 0 {
			dst = appendHead(dst, 3, h.Marks.N*rankSize)
			for i := range h.Marks.N {
				dst = append(dst, h.Marks.Ranks[i][:]...)
			}
		}
		if h.Full {
			dst = appendVarint(dst, 4, 1)
		}
		if h.Wanted {
			dst = appendVarint(dst, 5, 1)
		}
		if h.Marks.Seen > 0 {
			dst = appendVarint(dst, 6, uint64(h.Marks.Seen))
		}
		if h.Few > 0 {
			dst = appendVarint(dst, 7, uint64(h.Few))
		}
		if h.Asks {
			dst = appendVarint(dst, 8, 1)
		}
	}
	return dst, nil
}

func decodeHeads(b []byte) (*message.QueueHeads, error) {
	m := &message.QueueHeads{}
	return m, fields(b, func(f field) error {
		if f.number != 1 {
			return nil
		}
		if len(m.Heads) >= register.MaxNamed {
			return fmt.Errorf("%w: heads of over %d queues", ErrMalformed, register.MaxNamed)
		}
		var h message.QueueHead
		var rank []byte
		err := fields(f.bytes, func(f field) error {
			switch f.number {
			case 1:
				if len(f.bytes) > register.MaxName {
					return fmt.Errorf("%w: a queue's name of %d bytes", ErrMalformed, len(f.bytes))
				}
				h.Queue = string(f.bytes)
			case 2:
				rank = f.bytes
			case 3:
				return decodeMarks(&h.Marks, f.bytes)
			case 4:
				h.Full = f.value != 0
			case 5:
				h.Wanted = f.value != 0
			case 6:
				h.Marks.Seen = int(min(f.value, math.MaxInt32))
			case 7:
				h.Few = int(min(f.value, math.MaxInt32))
			case 8:
				h.Asks = f.value != 0
			}
			return nil
		})
		if h.Ready = len(rank) > 0; err == nil && h.Ready {
			err = fill(h.Rank[:], rank)
		}
		m.Heads = append(m.Heads, h)
		return err
	})
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func decodeMarks(m *message.RankSample, b []byte) error {
	if m.N = len(b) / rankSize; len(b)%rankSize != 0 || m.N > len(m.Ranks) {
		m.N = 0
		return fmt.Errorf("%w: marks of %d bytes", ErrMalformed, len(b))
	}
	for i := range m.N {
		copy(m.Ranks[i][:], b[i*rankSize:])
	}
	return nil
}
