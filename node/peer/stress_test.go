package peer

import (
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// inOrder is a handler that checks the order of what comes from each peer on
// each lane: large messages are facts, small ones are not.
type inOrder struct {
	testNode
	t    *testing.T
	mu   sync.Mutex // guards the fields below
	last map[sessionKey]uint64
	came int
}

func (o *inOrder) Messages(from register.Member, all []message.PeerMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range all {
		key, number := sessionKey{from, Control}, uint64(0)
		switch m := m.(type) {
		case *message.Facts:
			key.lane, number = Bulk, m.Write
		case *message.FactsTaken:
			number = m.Write
		}
		if number <= o.last[key] {
			o.t.Errorf("%d from %v on %v after %d", number, from, key.lane, o.last[key])
		}
		o.last[key] = number
		o.came++
	}
}

// TestOrderThroughRestarts: whoever is restarted, frozen or slow, what comes from
// a peer on one lane comes in order and once.
func TestOrderThroughRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := rand.New(rand.NewPCG(1, 2))
		nodes, handlers := make([]*testNode, 4), make([]*inOrder, 4)
		start := func(i int) {
			if handlers[i] == nil {
				handlers[i] = &inOrder{t: t, last: map[sessionKey]uint64{}}
			}
			nodes[i] = w.add(who(i+1, 0), func(c *Config) { c.Handler = handlers[i] })
		}
		for i := range nodes {
			start(i)
		}
		sent, number := 0, uint64(0)
		for range 3000 {
			from, to := r.IntN(len(nodes)), r.IntN(len(nodes))
			number++
			var m message.PeerMessage = numbered(int(number))
			if r.IntN(10) == 0 {
				m = bulky(number, 70_000+r.IntN(200_000))
			}
			if nodes[from].Send(who(to+1, 0), m) {
				sent++
			}
			switch r.IntN(60) {
			case 0:
				nodes[from].stop()
				start(from)
			case 1: // all its connections end
				nodes[to].arrivals.mu.Lock()
				for c := range nodes[to].arrivals.all {
					_ = c.Close()
				}
				nodes[to].arrivals.mu.Unlock()
			case 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
				settle(time.Duration(r.IntN(100)) * time.Millisecond)
			}
		}
		settle(5 * time.Second)
		came := 0
		for i, n := range nodes {
			came += handlers[i].came
			n.stop()
		}
		if came > sent || came < sent/4 {
			t.Errorf("of %d messages %d came", sent, came)
		}
		t.Logf("of 3000 messages %d were taken and %d came", sent, came)
	})
}

// TestOverTCP: two nodes on real sockets, one of which is started again on its
// port.
func TestOverTCP(t *testing.T) {
	listen := func(addr string) net.Listener {
		for deadline := time.Now().Add(time.Minute); ; {
			ln, err := net.Listen("tcp", addr)
			if err == nil {
				return ln
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			<-time.After(time.Millisecond)
		}
	}
	got := &counter{came: make(chan struct{}, 1), small: make(chan struct{}, 1)}
	start := func(i int, ln net.Listener, to string) (n *Network, stop func()) {
		n = New(Config{Self: who(i, 0), Cluster: testCluster, Handler: got, Addresses: func(register.Member) []string { return []string{to} }})
		served := make(chan error, 1)
		go func() { served <- n.Serve(ln) }()
		return n, func() {
			n.Close()
			if err := <-served; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
	}
	lnA, lnB := listen("127.0.0.1:0"), listen("127.0.0.1:0")
	addrA, addrB := lnA.Addr().String(), lnB.Addr().String()
	a, stopA := start(1, lnA, addrB)
	defer stopA()
	tick := time.Tick(5 * time.Millisecond)
	limit := time.After(2 * time.Minute)
	for round := range 3 {
		b, stopB := start(2, lnB, addrA)
		for before := got.facts.Load(); got.facts.Load() < before+20_000; {
			a.Send(who(2, 0), factsOf(uint64(round+1), 10_000, 100))
			b.Send(who(1, 0), numbered(1))
			select {
			case <-tick:
			case <-limit:
				t.Fatalf("round %d: %d facts came; %+v", round, got.facts.Load(), a.Status())
			}
		}
		select {
		case <-got.small:
		case <-limit:
			t.Fatalf("round %d: nothing came back; %+v", round, b.Status())
		}
		stopB()
		if round < 2 {
			lnB = listen(addrB)
		}
	}
}
