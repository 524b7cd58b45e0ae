package peer

import (
	"slices"
	"sync"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/raftnode"
	"github.com/norn-dev/norn/transport"
)

// RaftPort is the network of the register's group: see [raftnode.Network].
type RaftPort struct {
	n  *Network
	mu sync.RWMutex // guards fn; held while it runs
	fn func(data []byte)
}

var _ raftnode.Network = (*RaftPort)(nil)

// Raft gives what carries the messages of the register's group.
func (n *Network) Raft() *RaftPort { return &n.raft }

// Send hands over a message of the group, or drops it; it never blocks. data
// must not change afterwards.
func (p *RaftPort) Send(to register.Member, data []byte, bulk bool) {
	lane := laneOf(nil, len(data))
	if bulk {
		lane = Bulk
	}
	if l := p.n.queue(to, nornv1.PeerMethod_PEER_METHOD_RAFT, transport.Bytes(data), lane); l != nil {
		l.flush()
	}
}

// Receive sets who gets what comes in; nil for nobody. No call is under way when
// it returns, so fn must not call it.
func (p *RaftPort) Receive(fn func(data []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fn = fn
}

func (p *RaftPort) deliver(data []byte) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fn != nil {
		p.fn(slices.Clone(data))
	}
}
