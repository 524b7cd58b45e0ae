package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

const (
	// dialTimeout bounds connecting and the hello to one address.
	dialTimeout = 5 * time.Second
	// pingEvery is how often a connection is asked whether it lives; the answer
	// brings fresh placement too.
	pingEvery = 3 * time.Second
	// pingSoon is the same while somebody waits for an answer on it.
	pingSoon = time.Second
	// pingTimeout is how long a node may be silent, and nothing move on the connection, before
	// its calls go elsewhere.
	pingTimeout = 2500 * time.Millisecond
	// pingAlone is the same where there is no other address: nothing is gained by
	// giving up the only node for being slow.
	pingAlone = 10 * time.Second
)

// node is one address with its connections.
type node struct {
	addr  string
	slots []slot
}

// slot holds one connection, or the attempt to make it.
type slot struct {
	live atomic.Pointer[conn]

	mu      sync.Mutex // guards the fields below; never held across I/O
	dialing *dialing
	closed  bool
}

// conn is a connection that has said hello.
type conn struct {
	*transport.Client
	slot  *slot
	calls atomic.Int32 // that wait for an answer
	spare bool         // there is always room for a ping
	// cutOff is whether its node said last that it reaches the leader of no partition.
	cutOff atomic.Bool
}

// drop forgets a connection that has ended.
func (cn *conn) drop() { cn.slot.live.CompareAndSwap(cn, nil) }

// close ends the connection of every slot, and keeps new ones from starting.
func (n *node) close() {
	for i := range n.slots {
		s := &n.slots[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		if cn := s.live.Load(); cn != nil {
			_ = cn.Close()
		}
	}
}

// leave has calls begin elsewhere than with a node that was found to be of no use. Those
// that waited for it may all have run out of patience before.
func (c *caller) leave(n *node) {
	at := c.preferred.Load()
	if c.nodes[at] == n {
		c.preferred.CompareAndSwap(at, uint32((int(at)+c.stride())%len(c.nodes)))
	}
}

// credentials are what the next connection shows.
func (c *caller) credentials() (secure *tls.Config, token string, err error) {
	secure = c.opts.tls
	if f := c.opts.tlsFiles; f != nil {
		if secure, err = f.Load(); err != nil {
			return nil, "", fmt.Errorf("TLS: %w", err)
		}
	}
	if c.opts.authToken != nil {
		token, err = c.opts.authToken()
	}
	return secure, token, err
}

// hello connects to a node and introduces itself.
func (c *caller) hello(ctx context.Context, n *node, s *slot) (*conn, error) {
	secure, token, err := c.credentials()
	if err != nil {
		return nil, err
	}
	tc, err := transport.Dial(ctx, n.addr, transport.ClientConfig{
		MaxFrame: proto.MaxFrame, DialTimeout: dialTimeout, TLS: secure, Dialer: c.opts.dialer,
		DecodeError: func(b []byte) error { return remote(b) },
	})
	if err != nil {
		return nil, c.opts.tlsFiles.about(err, secure)
	}
	hello := &nornv1.Hello{
		MinVersion: proto.MinVersion, MaxVersion: proto.MaxVersion, ClusterId: c.clusterID(), Agent: c.opts.agent,
	}
	var reply nornv1.HelloReply
	say := func() error {
		return tc.Call(ctx, uint16(nornv1.Method_METHOD_HELLO), message{m: hello}, func(flags uint16, b []byte) error {
			return decodeInto(flags, b, &reply)
		})
	}
	if c.opts.cluster != "" { // whoever is there is told no token before
		hello.OnlyCluster = true
		err = say()
	}
	asked := time.Now()
	if err == nil {
		hello.OnlyCluster, hello.AuthToken = false, token
		err = say()
	}
	if err == nil && (reply.GetVersion() < proto.MinVersion || reply.GetVersion() > proto.MaxVersion) {
		err = proto.Refused(nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, "node %s speaks version %d of the protocol, this client %d to %d",
			n.addr, reply.GetVersion(), proto.MinVersion, proto.MaxVersion)
	}
	if err == nil {
		err = c.introduced(n, &reply)
	}
	if err != nil {
		_ = tc.Close()
		<-tc.Done()
		return nil, c.opts.tlsFiles.about(fmt.Errorf("hello to %s: %w", n.addr, err), secure)
	}
	most := int(reply.GetLimits().GetMaxInFlight())
	if most > 0 {
		tc.SetMaxInFlight(most - 1) // one is kept back for the ping of a full connection
	}
	tc.Keep(kept(cmp.Or(most, transport.DefaultMaxInFlight) - 1))
	c.heard(asked, reply.GetNow())
	c.placed(reply.GetPlacement())
	cn := &conn{Client: tc, slot: s, spare: most > 1}
	cn.cutOff.Store(reply.GetPlacement().GetCutOff())
	return cn, nil
}

// kept is how many of the places of a connection are kept for calls that must not wait, and
// how many more for those that do not last: as many waits as there are places, or a stream
// of tasks that a node cannot take now, must not keep a worker from renewing its claims.
func kept(places int) (urgent, short int) {
	if places < 3 {
		return 0, places - 1
	}
	return min(max(places/16, 1), 64), min(max(places/8, 1), 256)
}

// introduced remembers what a node says of itself. The error is that it is of another
// cluster: the node has looked itself, unless no other one had answered by then.
func (c *caller) introduced(n *node, reply *nornv1.HelloReply) error {
	info := &Info{
		ClusterID: reply.GetClusterId(), Node: reply.GetNode(), ServerVersion: reply.GetServerVersion(), Limits: reply.GetLimits(),
		Partitions: int(reply.GetPlacement().GetPartitions()), Eta: proto.Seconds(reply.GetEtaSeconds()),
	}
	for {
		before := c.info.Load()
		if want := c.opts.cluster; want != "" && want != info.ClusterID {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, "node %s is of cluster %s, and cluster %s is expected", n.addr, info.ClusterID, want)
		}
		if before != nil && before.ClusterID != "" && before.ClusterID != info.ClusterID {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, "node %s is of cluster %s, and this client of cluster %s", n.addr, info.ClusterID, before.ClusterID)
		}
		if c.info.CompareAndSwap(before, info) {
			return nil
		}
	}
}

// clusterID is the cluster that is expected, or else was found first, "" before: a fail-over
// must not end in another one.
func (c *caller) clusterID() string {
	if c.opts.cluster != "" {
		return c.opts.cluster
	}
	if i := c.info.Load(); i != nil {
		return i.ClusterID
	}
	return ""
}

// keep watches a connection until it ends. A node that is frozen, or behind a
// network that swallows everything, closes nothing: only silence tells.
func (c *caller) keep(n *node, cn *conn) {
	defer func() {
		cn.drop()
		_ = cn.Close()
		<-cn.Done()
	}()
	tick := time.NewTicker(pingSoon)
	defer tick.Stop()
	other := anew{c: c, n: n, old: cn}
	defer func() { other.stop() }()
	for last := time.Now(); ; {
		select {
		case now := <-tick.C:
			other.look(now)
		case fresh := <-other.result:
			if other.take(fresh) {
				cn.End(errCutOff)
				return
			}
			continue
		case <-cn.Done():
			if c.base.Err() == nil {
				c.log().Warn("connection lost", "node", n.addr, "error", cn.Err())
			}
			return
		case <-c.base.Done():
			return
		}
		if cn.calls.Load() == 0 && time.Since(last) < pingEvery {
			continue
		}
		last = time.Now()
		if err := c.ping(cn); err != nil {
			c.log().Warn("node does not answer, closing the connection", "node", n.addr, "error", err)
			c.leave(n)
			cn.End(err)
			return
		}
	}
}

// ping asks for fresh placement. The error is not nil when the node is silent.
func (c *caller) ping(cn *conn) error {
	patience := pingTimeout
	if len(c.nodes) == 1 {
		patience = pingAlone
	}
	var reply nornv1.PingReply
	asked := time.Now()
	err := cn.Alive(c.base, patience, cn.spare, uint16(nornv1.Method_METHOD_PING), message{m: &nornv1.Ping{}}, func(flags uint16, b []byte) error {
		return decodeInto(flags, b, &reply)
	})
	var broken *transport.CallError
	switch {
	case err == nil:
		c.heard(asked, reply.GetNow())
		c.placed(reply.GetPlacement())
		cn.cutOff.Store(reply.GetPlacement().GetCutOff())
	case errors.As(err, &broken) && errors.Is(err, transport.ErrSilent) && (broken.Sent || cn.spare):
		return broken.Err
	}
	return nil // an error is an answer too, and one that waited for its place says nothing of the node
}
