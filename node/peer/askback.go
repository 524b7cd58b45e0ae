package peer

import (
	"context"
	"math/rand/v2"
	"sync"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// origin is what asking back has shown of a hello: anybody can say that it is a member,
// and only that member answers at the address that is known for it.
type origin uint8

const (
	unproven origin = iota // nobody answers there as this member
	proven                 // it does, and this hello is its own
	foreign                // it does, and knows nothing of this hello
)

// maxJump is by how many starts a directory may be ahead of what was seen of it, on the
// word of a hello alone.
const maxJump = 1 << 16

// maxAsking bounds the hellos that are asked back about at a time.
const maxAsking = 32

// hellos are those of this node that are under way, or were taken.
type hellos struct {
	mu   sync.Mutex // guards said
	said map[uint64]struct{}
}

// begin draws the mark of one, which is said until done is called.
func (o *hellos) begin() (nonce uint64, done func()) {
	nonce = rand.Uint64() | 1 // 0 asks nothing
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said[nonce] = struct{}{}
	return nonce, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.said, nonce)
	}
}

// has tells whether this process has said a hello that is under way, or was taken.
func (o *hellos) has(nonce uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, has := o.said[nonce]
	return has
}

// askBack asks who is where the sender of a hello is known to be, all addresses at once.
// It takes less than the other side waits for its answer.
//
// At most [maxAsking] at a time: each costs a connection, and strangers could have thousands
// made.
func (n *Network) askBack(h *Hello) origin {
	select {
	case n.asking <- struct{}{}:
		defer func() { <-n.asking }()
	case <-n.ctx.Done():
		return unproven
	}
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.Timing.Hello/4)
	defer cancel()
	at := n.cfg.Addresses(h.From)
	answers := make(chan origin, len(at))
	for _, addr := range at {
		go func() {
			var p nornv1.PeerProbeReply
			i, err := n.dialer().probe(ctx, addr, &nornv1.PeerProbe{Nonce: h.nonce}, &p)
			switch {
			case err != nil || i.Member != h.From || i.Cluster != h.Cluster:
				answers <- unproven
			case p.GetYours():
				answers <- proven
			default:
				answers <- foreign
			}
		}()
	}
	is := unproven
	for range at {
		switch answer := <-answers; answer {
		case proven:
			cancel() // the others have nothing to add
			is = proven
		case foreign:
			if is == unproven {
				is = foreign
			}
		}
	}
	return is
}

// Members asks who answers at an address, and whom that one knows as members.
func (d Dialer) Members(ctx context.Context, addr string) (Identity, []register.Node, error) {
	var p nornv1.PeerProbeReply
	i, err := d.probe(ctx, addr, &nornv1.PeerProbe{Members: true}, &p)
	if err != nil {
		return i, nil, err
	}
	nodes, err := membersOf(p.GetMembers())
	return i, nodes, err
}
