package network

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// proxied joins nodes on loopback: each tells the others an address of the proxy,
// which makes every link what it is told to be. It needs no privileges.
type proxied struct {
	work   sync.WaitGroup
	closed chan struct{}

	mu      sync.Mutex // guards what follows
	links   map[Way]Link
	changed chan struct{} // closed when links change
	free    map[Way]int64 // when a slow link has room again, ns of mono
	rnd     *rand.Rand
	doors   []*door
	pids    map[int]int // nodes by process
	open    map[closer]bool
	began   time.Time
}

type closer interface{ Close() error }

// door is where the proxy takes what is for one node.
type door struct {
	node         int
	peer, client net.Listener
	packets      *net.UDPConn
	realPeer     *net.UDPAddr
	realClient   string
}

// NewProxied makes a proxy without nodes.
func NewProxied() (Network, error) {
	if err := owners(); err != nil {
		return nil, err
	}
	return &proxied{
		closed: make(chan struct{}), changed: make(chan struct{}), links: map[Way]Link{}, free: map[Way]int64{},
		rnd: rand.New(rand.NewPCG(1, 1)), pids: map[int]int{}, open: map[closer]bool{}, began: time.Now(),
	}, nil
}

func (x *proxied) Kind() string { return "loopback behind a proxy" }

// Place opens the doors of one more node.
func (x *proxied) Place(node int) (*Place, error) {
	peer, client, http, err := drawPorts()
	if err != nil {
		return nil, err
	}
	d := &door{node: node, realClient: client}
	if d.realPeer, err = net.ResolveUDPAddr("udp", peer); err != nil {
		return nil, err
	}
	if err := d.listen(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.doors = append(x.doors, d)
	for _, c := range []closer{d.peer, d.client, d.packets} {
		x.open[c] = true
	}
	x.work.Go(func() { x.accept(d.peer, func(c net.Conn) (int, string) { return x.who(c), peer }, node) })
	x.work.Go(func() { x.accept(d.client, func(net.Conn) (int, string) { return Driver, client }, node) })
	x.work.Go(func() { x.carry(d) })
	return &Place{
		Listen: client, Peer: peer, Http: http, Dial: d.client.Addr().String(), Advertise: d.peer.Addr().String(),
		Started: func(pid int) { x.runs(pid, node) }, Ending: func(pid int) { x.runs(pid, Driver) },
	}, nil
}

// listen opens a door: one port for both TCP and UDP, one for clients.
func (d *door) listen() (err error) {
	for range 100 {
		if d.peer, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		at := d.peer.Addr().(*net.TCPAddr)
		if d.packets, err = net.ListenUDP("udp", &net.UDPAddr{IP: at.IP, Port: at.Port}); err == nil {
			break
		}
		_ = d.peer.Close() // another one is tried
	}
	if err == nil {
		d.client, err = net.Listen("tcp", "127.0.0.1:0")
	}
	return err
}

// runs notes which process is which node; driver for none any more.
func (x *proxied) runs(pid, node int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if node == Driver {
		delete(x.pids, pid)
		return
	}
	x.pids[pid] = node
}

func (x *proxied) Set(links map[Way]Link) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.links = maps.Clone(links)
	close(x.changed)
	x.changed = make(chan struct{})
	return nil
}

// at gives a link, and what is closed when it may be another one.
func (x *proxied) at(w Way) (Link, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.links[w], x.changed
}

// passes waits until TCP goes through on all of some links; false: the proxy is
// closed.
func (x *proxied) passes(ways ...Way) bool {
	for _, w := range ways {
		for l, changed := x.at(w); l.CutTCP; l, changed = x.at(w) {
			select {
			case <-changed:
			case <-x.closed:
				return false
			}
		}
	}
	return true
}

// keep has a connection closed with the proxy; false: it is closed already.
func (x *proxied) keep(c closer) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.closed:
		_ = c.Close()
		return false
	default:
		x.open[c] = true
		return true
	}
}

func (x *proxied) drop(c closer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	_ = c.Close() // either side may have closed it
	delete(x.open, c)
}

// Close ends everything.
func (x *proxied) Close() error {
	x.mu.Lock()
	close(x.closed)
	for c := range x.open { // Any order: all are closed.
		_ = c.Close()
	}
	x.mu.Unlock()
	x.work.Wait()
	return nil
}

// late draws how late so many bytes come over a link, for which a slow link is
// busy until then. Lost TCP packets come later: they are sent again.
func (x *proxied) late(w Way, l Link, bytes int, packet bool) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := l.Delay
	if l.Jitter > 0 {
		d += time.Duration(x.rnd.Int64N(int64(l.Jitter)))
	}
	if packet && x.rnd.Float64() < l.Reorder {
		d += time.Duration(x.rnd.Int64N(int64(100 * time.Millisecond)))
	}
	if !packet && x.rnd.Float64() < l.Loss {
		d += resend
	}
	if l.Rate > 0 {
		now := int64(time.Since(x.began))
		x.free[w] = max(x.free[w], now) + int64(bytes)*int64(time.Second)/int64(l.Rate)
		d += time.Duration(x.free[w] - now)
	}
	return d
}

// resend is what a lost packet costs a TCP connection at least (RFC 6298 says a
// second, Linux takes 200 ms).
const resend = 200 * time.Millisecond

// draws tells whether something of a probability happens.
func (x *proxied) draws(p float64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return p > 0 && x.rnd.Float64() < p
}

// String is for error messages.
func (d *door) String() string { return fmt.Sprintf("the door of n%d", d.node+1) }
