package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// Dialer asks other nodes single questions; it needs no [Network].
type Dialer struct {
	Security
	// Dial replaces dialling TCP (not TLS); nil: net.Dialer.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Build is the version of the program, for the logs of others.
	Build string
	// Timing are the time-outs; zero fields are the defaults.
	Timing Timing
}

// dialer is how this node dials.
func (n *Network) dialer() Dialer {
	return Dialer{Security: n.cfg.Security, Dial: n.cfg.Dial, Build: n.cfg.Build, Timing: n.cfg.Timing}
}

// Dialer asks as this node: with its TLS and its secret.
func (n *Network) Dialer() Dialer { return n.dialer() }

// connect opens a connection, with TLS where that is set.
func (d Dialer) connect(ctx context.Context, addr string) (net.Conn, error) {
	return transport.Connect(ctx, addr, transport.ClientConfig{Dialer: d.Dial, DialTimeout: d.Timing.Dial, TLS: d.TLS})
}

// maxReply bounds an answer to a single question, bytes: all members with all
// their addresses.
const maxReply = 8 << 20

// ask sends one request on a connection of its own and waits for the answer.
func (d Dialer) ask(ctx context.Context, addr string, method nornv1.PeerMethod, request gproto.Message, reply answer) error {
	d.Timing = d.Timing.withDefaults()
	nc, err := d.connect(ctx, addr)
	if err != nil {
		return err
	}
	shown := shownOn(nc)
	link := transport.NewLink(nc, transport.LinkConfig{
		MaxFrame: maxReply, HelloTimeout: d.Timing.Hello, FrameTimeout: d.Timing.Frame,
		WriteTimeout: d.Timing.Write, IdleTimeout: d.Timing.Idle,
	})
	stop := context.AfterFunc(ctx, func() { link.Close(ctx.Err()) })
	defer stop()
	err = sendProto(link, method, 0, 1, request)
	if err != nil {
		link.Close(err)
	}
	defer beat(link, d.Timing.Alive)()
	if err = link.Read(&question{method, reply}); !errors.Is(err, errAnswered) {
		return unsummed(err)
	}
	return d.Names.Of(shown, reply.GetFrom().GetName())
}

// answer is what comes instead of messages on a connection for a single question.
type answer interface {
	gproto.Message
	GetFrom() *nornv1.PeerNode
}

// errAnswered ends a connection that has served its purpose.
var errAnswered = errors.New("peer: answered")

// question waits for the answer to a single request.
type question struct {
	method nornv1.PeerMethod
	reply  gproto.Message
}

// Frame takes the answer.
func (q *question) Frame(f transport.Frame) error {
	if nornv1.PeerMethod(f.Method) == nornv1.PeerMethod_PEER_METHOD_ALIVE {
		return nil
	}
	if err := replyOf(f, q.method, q.reply); err != nil {
		return err
	}
	return errAnswered
}

// Burst has nothing to do.
func (q *question) Burst() {}

// Refused has nothing to do: the answer will be missed.
func (q *question) Refused(transport.Frame, error) {}

// Damaged has nothing to do: it is why there is no answer.
func (q *question) Damaged(error) {}

// unsummed says what else it may mean that the first answer does not fit its sums.
func unsummed(err error) error {
	if errors.Is(err, transport.ErrDamaged) {
		return fmt.Errorf("%w; or the node speaks another version of the peer protocol than %d: update the older of the two", err, MaxVersion)
	}
	return err
}

// replyOf reads the answer to a first frame.
func replyOf(f transport.Frame, method nornv1.PeerMethod, reply gproto.Message) error {
	if f.Flags&transport.FlagError != 0 {
		return remoteError(f.Body)
	}
	if f.Flags&transport.FlagResponse == 0 || nornv1.PeerMethod(f.Method) != method {
		return fmt.Errorf("%w: a frame of method %d instead of an answer", ErrMalformed, f.Method)
	}
	if err := gproto.Unmarshal(f.Body, reply); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// remoteError is an error of the other side that concerns the connection.
func remoteError(body []byte) error {
	var e nornv1.Error
	if err := gproto.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return refuse(nornv1.PeerRefusal_PEER_REFUSAL_MALFORMED, "the other side says: %s", text(e.GetMessage()))
}

// sendProto queues a message.
func sendProto(l *transport.Link, method nornv1.PeerMethod, flags uint16, request uint64, m gproto.Message) error {
	b, err := gproto.Marshal(m)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return l.Send(transport.Frame{Request: request, Method: uint16(method), Flags: flags}, transport.Bytes(b))
}

// beat sends a sign of life now and then until the link has ended, or stop is
// called. That both sides do, whatever else they send, tells a silent peer from
// a vanished one in either direction.
func beat(l *transport.Link, every time.Duration) (stop func()) {
	var timer atomic.Pointer[time.Timer]
	t := time.AfterFunc(every, func() {
		alive := transport.Frame{Method: uint16(nornv1.PeerMethod_PEER_METHOD_ALIVE)}
		if err := l.Send(alive, nil); !errors.Is(err, transport.ErrConnClosed) {
			if t := timer.Load(); t != nil {
				t.Reset(every)
			}
		}
	})
	timer.Store(t)
	return func() { timer.Swap(nil).Stop() }
}
