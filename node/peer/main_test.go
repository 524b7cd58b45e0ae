package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is some nodes that reach each other in memory. It lives in a bubble of
// synctest.
type world struct {
	t  *testing.T
	mu sync.Mutex // guards at
	at map[string]*transport.MemListener
}

func newWorld(t *testing.T) *world {
	return &world{t: t, at: make(map[string]*transport.MemListener)}
}

func (w *world) dial(ctx context.Context, addr string) (net.Conn, error) {
	w.mu.Lock()
	ln := w.at[addr]
	w.mu.Unlock()
	if ln == nil {
		return nil, errors.New("connection refused")
	}
	return ln.Dial(ctx, addr)
}

// who gives member i; a life is another incarnation of its name.
func who(i, life int) register.Member {
	return register.Member{Node: fmt.Sprintf("n%d", i), Incarnation: register.Incarnation{byte(i), byte(life)}}
}

var testCluster = register.UUID{7}

// testNode is a network with a handler that remembers.
type testNode struct {
	*Network
	w      *world
	addr   string
	served chan error
	log    lockedBuffer

	mu     sync.Mutex // guards the fields below
	got    []message.PeerMessage
	bursts int
	events []string
	hold   chan struct{} // Messages waits for it
	join   func(ctx context.Context, r JoinRequest) (JoinReply, error)
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count is how many lines of the log have the text.
func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func (n *testNode) Messages(from register.Member, all []message.PeerMessage) {
	n.mu.Lock()
	n.got = append(n.got, all...)
	n.bursts++
	hold := n.hold
	n.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

func (n *testNode) Up(m register.Member)   { n.event("up " + m.Node) }
func (n *testNode) Down(m register.Member) { n.event("down " + m.Node) }

func (n *testNode) event(e string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
}

func (n *testNode) Join(ctx context.Context, r JoinRequest) (JoinReply, error) {
	if n.join == nil {
		return JoinReply{}, errors.New("nobody joins")
	}
	return n.join(ctx, r)
}

// taken gives and forgets the messages so far.
func (n *testNode) taken() []message.PeerMessage {
	n.mu.Lock()
	defer n.mu.Unlock()
	got := n.got
	n.got = nil
	return got
}

func (n *testNode) seen() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.events, ", ")
}

// add starts a node at an address named like it.
func (w *world) add(self register.Member, change ...func(*Config)) *testNode {
	w.t.Helper()
	n := &testNode{w: w, addr: self.Node, served: make(chan error, 1)}
	cfg := Config{
		Self: self, Cluster: testCluster, Handler: n, Dial: w.dial,
		Addresses: func(m register.Member) []string { return []string{m.Node} },
		Logger:    slog.New(slog.NewTextHandler(&n.log, nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	n.Network = New(cfg)
	ln := transport.NewMemListener(0)
	w.mu.Lock()
	w.at[n.addr] = ln
	w.mu.Unlock()
	go func() { n.served <- n.Serve(ln) }()
	return n
}

// stop ends a node as its process would.
func (n *testNode) stop() {
	n.w.t.Helper()
	n.w.mu.Lock()
	delete(n.w.at, n.addr)
	n.w.mu.Unlock()
	n.Close()
	if err := <-n.served; !errors.Is(err, ErrClosed) {
		n.w.t.Errorf("Serve: %v", err)
	}
}

// taken is a small message that can be told from others.
func numbered(i int) *message.FactsTaken { return &message.FactsTaken{Write: uint64(i)} }

// numbers are the numbers of such messages.
func numbers(all []message.PeerMessage) (out []uint64) {
	for _, m := range all {
		if t, ok := m.(*message.FactsTaken); ok {
			out = append(out, t.Write)
		}
	}
	return out
}

// settle lets everything happen that happens within d.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) listener() net.Listener { return transport.NewMemListener(0) }
