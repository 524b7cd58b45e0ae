package registertest

import (
	"slices"
	"sync"

	"github.com/norn-dev/norn/register"
)

// Network carries messages between the members of one process, by name, at
// once and whole, but for those that are cut off.
type Network struct {
	mu    sync.Mutex // guards what follows
	ports map[string]*Port
	cut   map[string]bool
}

// NewNetwork makes a network without members.
func NewNetwork() *Network {
	return &Network{ports: map[string]*Port{}, cut: map[string]bool{}}
}

// Port is the end of the network at one member.
type Port struct {
	net  *Network
	name string
	mu   sync.RWMutex // guards fn; held while it runs
	fn   func([]byte)
}

// Port gives the end of a member. A later one of the same name takes its place.
func (n *Network) Port(name string) *Port {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &Port{net: n, name: name}
	n.ports[name] = p
	return p
}

// Cut loses everything to and from a member.
func (n *Network) Cut(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[name] = true
}

// Heal ends all cuts.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
}

// Send delivers a message, or loses it.
func (p *Port) Send(to register.Member, data []byte, _ bool) {
	n := p.net
	n.mu.Lock()
	other, lost := n.ports[to.Node], n.cut[to.Node] || n.cut[p.name]
	n.mu.Unlock()
	if other == nil || lost {
		return
	}
	other.mu.RLock()
	defer other.mu.RUnlock()
	if other.fn != nil {
		other.fn(slices.Clone(data))
	}
}

// Receive sets who gets what comes in; nil for nobody.
func (p *Port) Receive(fn func(data []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fn = fn
}
