package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"
)

// Where a lane is.
type laneState uint8

const (
	laneIdle       laneState = iota // nothing was sent yet: no goroutine
	laneConnecting                  // messages wait for the connection
	laneUp                          // messages go to the connection
	laneWaiting                     // between two attempts: messages are dropped
	laneEnded                       // forgotten, or the network is closed
)

// maxUpFails is how many attempts count for the pause after one that found the peer,
// however short its connection was.
const maxUpFails = 2

// lane is one of the connections to a peer, with what waits for it. Its
// goroutine connects, and connects again.
type lane struct {
	n      *Network
	to     register.Member
	which  Lane
	ctx    context.Context // ends the lane
	cancel context.CancelFunc
	wake   chan struct{} // ends a pause

	sent    atomic.Uint64 // messages taken
	dropped atomic.Uint64 // messages that were not, or never left
	bytes   atomic.Uint64 // of messages taken, estimated
	last    atomic.Int64  // of the last send, wall ns
	watched watched       // by the watch alone

	mu      sync.Mutex // guards the fields below
	state   laneState
	link    *transport.Link // up: the connection
	version uint32          // that is spoken on it
	address string          // it was dialled at
	pending []*outgoing     // connecting: what waits
	waiting int             // bytes of these
	err     error           // why there is no connection
}

func newLane(n *Network, to register.Member, which Lane) *lane {
	l := &lane{n: n, to: to, which: which, wake: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancel(n.ctx)
	return l
}

// outgoing is a message in a queue.
type outgoing struct {
	packet
	lane   *lane
	method nornv1.PeerMethod
}

// Dropped counts a message that never left.
func (o *outgoing) Dropped() { o.lane.dropped.Add(1) }

// limit is how many bytes may wait.
func (l *lane) limit() int {
	if l.which == Bulk {
		return l.n.cfg.Limits.QueueBulk
	}
	return l.n.cfg.Limits.QueueControl
}

// hold queues a message, or drops it; flush has it leave.
func (l *lane) hold(method nornv1.PeerMethod, p packet) bool {
	now := time.Now().UnixNano()
	quiet := time.Duration(now - l.last.Swap(now))
	size := p.Size()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open()
	if l.state == laneWaiting && quiet > l.n.cfg.Timing.MaxBackoff {
		// Whoever sends after a long pause does not want to wait for another.
		l.state = laneConnecting
		l.rouse()
	}
	if !l.put(&outgoing{p, l, method}, size) {
		l.dropped.Add(1)
		return false
	}
	l.sent.Add(1)
	l.bytes.Add(uint64(size))
	return true
}

// flush has what is queued leave.
func (l *lane) flush() {
	if link := l.up(); link != nil {
		link.Flush()
	}
}

// up is the connection; nil: there is none.
func (l *lane) up() *transport.Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link
}

// put queues a message where the state wants it; mu is held.
func (l *lane) put(o *outgoing, size int) bool {
	switch l.state {
	case laneUp:
		return l.link.Hold(transport.Frame{Method: uint16(o.method)}, o) == nil
	case laneConnecting:
		if len(l.pending) > 0 && l.waiting+size > l.limit() {
			return false
		}
		l.pending = append(l.pending, o)
		l.waiting += size
		return true
	}
	return false
}

// start has the lane connect, if it does not yet.
func (l *lane) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open()
}

// open starts the goroutine once; mu is held.
func (l *lane) open() {
	if l.state == laneIdle && l.n.spawn(l.run) {
		l.state = laneConnecting
	}
}

func (l *lane) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the lane's goroutine.
func (l *lane) run() {
	for fails := 0; ; {
		began := time.Now()
		up, err := l.attempt()
		if l.ctx.Err() != nil {
			l.end()
			return
		}
		if errors.Is(err, errUnused) {
			return // whoever sends next starts another one
		}
		if (errors.Is(err, ErrOldLife) || errors.Is(err, ErrSetBack)) && l.n.cfg.Outdated != nil {
			l.n.cfg.Outdated(l.to, err)
		}
		switch {
		case up && time.Since(began) >= l.n.cfg.Timing.MaxBackoff:
			fails = 0
		case up || errors.Is(err, transport.ErrDamaged): // the peer is there, and what ends its connections may end now
			fails = min(fails, maxUpFails)
		}
		l.lost(err)
		pause := l.n.cfg.Timing.MaxBackoff
		if fails < 16 {
			pause = min(pause, l.n.cfg.Timing.MinBackoff<<fails)
		}
		fails++
		// Jitter: nodes that lost one peer together do not come back together.
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-l.wake:
			fails = 0
		case <-l.ctx.Done():
		}
		timer.Stop()
		l.mu.Lock()
		if l.state == laneWaiting {
			l.state = laneConnecting
		}
		l.mu.Unlock()
	}
}

// attempt tries the peer's addresses in order, and serves the first connection
// that comes about until it ends. Of several errors a refusal says most.
func (l *lane) attempt() (up bool, err error) {
	err = fmt.Errorf("%w of node %q", ErrNoAddress, l.to.Node)
	refused := false
	for i, addr := range l.n.cfg.Addresses(l.to) {
		up, last := l.connect(addr)
		if up || l.ctx.Err() != nil {
			return up, last
		}
		var r *Refusal
		if is := errors.As(last, &r); i == 0 || is || !refused {
			err, refused = last, is
		}
	}
	return false, err
}

// connect dials one address and serves the connection until it ends.
func (l *lane) connect(addr string) (up bool, err error) {
	if l.n.Cluster() == (register.UUID{}) {
		return false, refuse(nornv1.PeerRefusal_PEER_REFUSAL_NOT_READY, "this node is not a member of a cluster yet")
	}
	if r := l.n.quiet(); r != nil {
		return false, r
	}
	nc, err := l.n.dialer().connect(l.ctx, addr)
	if err != nil {
		return false, err
	}
	// Before a byte is said: the hello has the secret.
	if r := l.n.checkNames(shownOn(nc), l.to.Node); r != nil {
		_ = nc.Close()
		return false, r
	}
	o := &outbound{lane: l, nc: nc, addr: addr, link: transport.NewLink(nc, l.n.linkConfig(l.limit()))}
	o.link.SetMaxFrame(maxHello) // nothing large comes this way
	stop := context.AfterFunc(l.ctx, func() { o.link.Close(ErrClosed) })
	defer stop()
	nonce, said := l.n.hellos.begin()
	defer said()
	if err := sendProto(o.link, nornv1.PeerMethod_PEER_METHOD_HELLO, 0, 1, l.n.hello(l, nonce)); err != nil {
		o.link.Close(err)
	}
	err = o.link.Read(o)
	if o.up {
		l.n.down(l)
		return true, err
	}
	return false, unsummed(err)
}

// connected gives the lane its connection, and the connection what waits.
func (l *lane) connected(link *transport.Link, addr string, version uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.n.quiet(); r != nil { // since it was dialled
		link.Close(r)
	}
	l.state, l.link, l.address, l.version, l.err = laneUp, link, addr, version, nil
	for _, o := range l.pending {
		if link.Send(transport.Frame{Method: uint16(o.method)}, o) != nil {
			o.Dropped()
		}
	}
	l.pending, l.waiting = nil, 0
}

// lost drops what waits: there is nobody to give it to.
func (l *lane) lost(err error) {
	l.mu.Lock()
	changed := l.err == nil || stateOf(l.err) != stateOf(err)
	l.state, l.link, l.err = laneWaiting, nil, err
	l.drop()
	select {
	case <-l.wake: // it was for this attempt
	default:
	}
	l.mu.Unlock()
	if changed && !errors.Is(err, ErrNotReady) { // a joiner that is filled right now
		l.n.say(l, err)
	}
}

func (l *lane) drop() {
	l.dropped.Add(uint64(len(l.pending)))
	l.pending, l.waiting = nil, 0
}

// end is the last state.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.link, l.err = laneEnded, nil, ErrClosed
	l.drop()
}

// stateOf is what an error says apart from what changes with every attempt, as
// port numbers do.
func stateOf(err error) string {
	var r *Refusal
	var op *net.OpError
	switch {
	case errors.As(err, &r):
		return r.Message
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// outbound is a connection that this node has dialled.
type outbound struct {
	lane *lane
	link *transport.Link
	nc   net.Conn
	addr string
	up   bool
}

var _ transport.LinkHandler = (*outbound)(nil)

// Frame takes the answer to the hello; afterwards only signs of life come.
func (o *outbound) Frame(f transport.Frame) error {
	if o.up {
		if f.Flags&transport.FlagError != 0 {
			return remoteError(f.Body)
		}
		return nil
	}
	var reply nornv1.PeerHelloReply
	if err := replyOf(f, nornv1.PeerMethod_PEER_METHOD_HELLO, &reply); err != nil {
		return err
	}
	if err := o.lane.n.agree(o.lane.to, &reply); err != nil {
		return err
	}
	o.up = true
	o.lane.n.arrivals.met(o.nc)
	if reply.GetVersion() >= shares {
		o.link.SetIdle(0)
	}
	o.lane.connected(o.link, o.addr, reply.GetVersion())
	o.lane.n.up(o.lane)
	return nil
}

// Burst has nothing to do.
func (o *outbound) Burst() {}

// Damaged counts a frame that did not fit its sums.
func (o *outbound) Damaged(err error) {
	to := o.lane.to
	damaged(o.lane.n, to.Node, to.Incarnation.String(), o.addr, err)
}

// Refused has nothing to do: only small frames come this way.
func (o *outbound) Refused(transport.Frame, error) {}
