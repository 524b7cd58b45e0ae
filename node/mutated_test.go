package node

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// tap passes connections on to nodes, and remembers what is said over them.
type tap struct {
	mu   sync.Mutex // guards what follows
	seen map[uint16][][]byte
}

// before gives an address whose connections go on to a node's.
func (p *tap) before(t *testing.T, to string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.pass(nc, to) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		running.Wait()
	})
	return ln.Addr().String()
}

func (p *tap) pass(from net.Conn, at string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", at)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	var back sync.WaitGroup
	back.Go(func() {
		p.copy(from, to)
		_ = from.Close()
	})
	p.copy(to, from)
	_ = to.Close()
	back.Wait()
}

// copy passes on what is said in one direction: either node may have dialled the connection.
func (p *tap) copy(to io.Writer, from io.Reader) {
	var pending []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		pending = append(pending, buf[:n]...)
		for {
			f, size, err := transport.ParseSummed(pending, 100<<20)
			if err != nil || size == 0 {
				break
			}
			p.note(f)
			pending = pending[size:]
		}
	}
}

// note keeps the last few of each kind: of rounds what is in them.
func (p *tap) note(f transport.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := func(method uint16, body []byte) {
		const most = 200
		all := append(p.seen[method], append([]byte{}, body...))
		p.seen[method] = all[max(0, len(all)-most):]
	}
	var round nornv1.PeerRound
	if nornv1.PeerMethod(f.Method) != nornv1.PeerMethod_PEER_METHOD_ROUND {
		keep(f.Method, f.Body)
	} else if gproto.Unmarshal(f.Body, &round) == nil {
		for _, e := range round.GetEntries() {
			keep(uint16(e.GetMethod()), e.GetBody())
		}
	}
}

// said gives the frame for a message that is said again.
func said(t *testing.T, method uint16, body []byte) (nornv1.PeerMethod, []byte) {
	m := nornv1.PeerMethod(method)
	if m <= nornv1.PeerMethod_PEER_METHOD_ROUND {
		return m, body
	}
	b, err := gproto.Marshal(&nornv1.PeerRound{Entries: []*nornv1.PeerEntry{{Method: m, Body: body}}})
	if err != nil {
		t.Fatal(err)
	}
	return nornv1.PeerMethod_PEER_METHOD_ROUND, b
}

// mutated changes a message at one to three places: a bit, a byte, or a number in its
// place that is as large as can be.
func mutated(r *rand.Rand, b []byte) []byte {
	b = append([]byte{}, b...)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			return b
		}
		i := r.IntN(len(b))
		switch r.IntN(5) {
		case 0:
			b[i] ^= 1 << r.IntN(8)
		case 1:
			b[i] = byte(r.Uint32())
		case 2:
			b = append(b[:i], append(binary.AppendUvarint(nil, r.Uint64()>>r.IntN(64)), b[i+1:]...)...)
		case 3:
			b = append(b[:i], append(binary.AppendUvarint(nil, ^uint64(0)>>r.IntN(3)), b[i+1:]...)...)
		case 4:
			b = b[:i]
		}
	}
	return b
}

// unused is an address where nobody listens: a tap has to know that of its node before it
// begins.
func unused(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// tapped is a trio whose nodes are reached through a tap, and that has worked a while.
func tapped(t *testing.T) (*trioOnDisk, *tap) {
	p := &tap{seen: make(map[uint16][][]byte)}
	var listens, advertised []string
	for range 3 { // before the nodes, so that the taps end after them
		at := unused(t)
		listens, advertised = append(listens, at), append(advertised, p.before(t, at))
	}
	r := &trioOnDisk{t: t, nodes: make([]*Node, 3)}
	t.TempDir() // as in newTrioOnDisk
	t.Cleanup(func() {
		for _, n := range r.nodes {
			if n != nil {
				stop(t, n)
			}
		}
	})
	for i, name := range []string{"n1", "n2", "n3"} {
		c := joinConfig(t, name, r.nodes[:min(i, 1)]...)
		c.Partitions = 8 // all of them are copied to a liar that becomes another incarnation
		c.PeerListen, c.PeerAdvertise = listens[i], advertised[i]
		r.configs = append(r.configs, c)
		r.begin(i)
	}
	for _, n := range r.nodes {
		full(t, n, 3)
	}
	for range 5 {
		r.enqueue(20)
		through(t, r.nodes[1], nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 5}, &nornv1.ClaimReply{})
	}
	return r, p
}

// lie sends some nodes for a while each what was said before, changed, in the name of a member
// that is not there.
func (p *tap) lie(t *testing.T, in *rand.Rand, from register.Member, boot uint64, to ...*Node) {
	p.mu.Lock()
	heard := maps.Clone(p.seen)
	p.mu.Unlock()
	var methods []uint16
	for m := range heard {
		if m >= uint16(nornv1.PeerMethod_PEER_METHOD_RAFT) {
			methods = append(methods, m)
		}
	}
	slices.Sort(methods)
	if len(methods) < 8 {
		t.Fatalf("only %d kinds of messages were heard: %d", len(methods), methods)
	}
	life, sent := in.Uint64(), 0
	for _, to := range to {
		l, reply := lies(t, to, from, func(h *nornv1.PeerHello) { h.Boot, h.Life, h.Lane = boot, life, nornv1.PeerLane_PEER_LANE_BULK })
		if reply.Refusal != 0 {
			t.Fatal(reply)
		}
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); sent++ {
			method := methods[in.IntN(len(methods))]
			again, body := said(t, method, mutated(in, heard[method][in.IntN(len(heard[method]))]))
			if !l.send(again, body) {
				break
			}
		}
		_ = l.nc.Close()
	}
	t.Logf("%d messages of %d kinds", sent, len(methods))
}

// goesOn shows that those who did not lie are what they were, and work together with the one
// that did. That one has said things about itself that the others believe, so that it may end
// at any time and become another incarnation; until it is back a task cannot be on all three.
func (r *trioOnDisk) goesOn(what string, was []register.Incarnation) {
	r.t.Helper()
	eventually(r.t, "after "+what+" three nodes take a task", func() bool {
		if n := r.nodes[2]; n.Alive() != nil {
			if !errors.Is(n.Failure(), ErrStartAgain) {
				r.t.Fatalf("after %s the liar ends: %v", what, n.Failure())
			}
			r.t.Logf("after %s: %v", what, n.Failure())
			r.end(2)
			r.begin(2)
		}
		for i, n := range r.nodes[:2] {
			if err := n.Alive(); err != nil || n.self.Incarnation != was[i] {
				r.t.Fatalf("after %s %s ends: %v", what, n.self.Node, err)
			}
		}
		reply := &nornv1.EnqueueReply{}
		err := once(r.t, r.nodes[0], 5*time.Second, nornv1.Method_METHOD_ENQUEUE, onAll(3), reply)
		return err == nil && !slices.ContainsFunc(reply.GetResults(), func(e *nornv1.EnqueueResult) bool { return e.GetReceipt().GetDurableCopies() != 3 })
	})
	for _, n := range r.nodes[:2] {
		full(r.t, n, 3)
	}
}

// TestAMemberThatLies: one of three members says for a while what was said before, changed
// at random, to both others. It may cost itself its incarnation; the others stay what they
// are. Once it is honest again the cluster works by itself, also after all have been started
// again.
func TestAMemberThatLies(t *testing.T) {
	t.Parallel() // it waits most of the time
	r, p := tapped(t)
	was, self, boot := r.incarnations(), r.nodes[2].self, r.nodes[2].dir.boot
	r.end(2)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p.lie(t, rand.New(rand.NewPCG(seed, 1)), self, boot+1, r.nodes[:2]...)
	r.begin(2)
	r.goesOn("lies", was)
	for i := range r.nodes {
		r.end(i)
	}
	for i := range r.nodes {
		r.begin(i)
	}
	r.goesOn("lies, and starts", was)
}
