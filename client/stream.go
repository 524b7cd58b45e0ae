package client

import (
	"context"
	"errors"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// Stream is a connection to one node, for whoever has to know which node it is and
// when it ends: the session of a worker. Nothing sent over it is repeated, by this or
// another connection.
type Stream struct {
	cn   *conn
	addr string
}

// Addresses is how many addresses of nodes the client was given.
func (w Workers) Addresses() int { return len(w.c.nodes) }

// Stream connects to the nth of the client's addresses, counted round and round, or to one
// after it that answers while those before it do not. It shares the connection with other
// calls to that node. Without a stream there is an [*Error] for each address.
func (w Workers) Stream(ctx context.Context, nth int) (*Stream, []error) {
	c := w.c
	r := race{at: nth, step: 1, left: len(c.nodes)}
	defer r.end()
	var all []error
	for {
		cn, index, err := c.reach(ctx, &r, 0)
		addr := c.nodes[index].addr
		if err == nil {
			return &Stream{cn: cn, addr: addr}, nil
		}
		all = append(all, &Error{Op: "connect", Addr: addr, Attempts: 1, Err: err, Ended: endOf(ctx)})
		if ctx.Err() != nil || errors.Is(err, ErrClosed) || len(all) == len(c.nodes) {
			return nil, all
		}
	}
}

// Addr is the address of the node.
func (s *Stream) Addr() string { return s.addr }

// Done is closed when the connection has ended.
func (s *Stream) Done() <-chan struct{} { return s.cn.Done() }

// Arriving is how many bytes of a frame have come that is unfinished; 0: there is none.
func (s *Stream) Arriving() int64 {
	have, _ := s.cn.Client.Arriving()
	return have
}

// CutOff tells whether the node said last that it reaches the leader of no partition: it can
// hand out nothing, and another one may.
func (s *Stream) CutOff() bool { return s.cn.cutOff.Load() }

// Session sends messages of a worker and brings back what the node has to say. After
// an error that is ErrUnknown they may have come.
func (s *Stream) Session(ctx context.Context, m *nornv1.SessionRequest) (*nornv1.SessionReply, error) {
	var reply nornv1.SessionReply
	err := s.cn.CallAs(ctx, transport.Urgent, uint16(nornv1.Method_METHOD_SESSION), message{m: m}, func(flags uint16, b []byte) error {
		return decodeInto(flags, b, &reply)
	})
	if err != nil {
		return nil, &Error{Op: "session", Addr: s.addr, Attempts: 1, Unknown: mayHaveCome(err), Err: err, Ended: endOf(ctx)}
	}
	return &reply, nil
}

// mayHaveCome tells whether something may have been done with what ended in an error.
func mayHaveCome(err error) bool {
	var broken *transport.CallError
	var answer *proto.Error
	switch {
	case errors.As(err, &broken):
		return broken.Sent
	case errors.As(err, &answer):
		return answer.Effect != nornv1.Effect_EFFECT_NONE
	}
	return true
}
