package node

import (
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/peer"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/transport"

	pb "go.etcd.io/raft/v3/raftpb"
	gproto "google.golang.org/protobuf/proto"
)

// liar is a bare connection to a node's port for nodes, on which anything can be said.
type liar struct {
	t    testing.TB
	nc   net.Conn
	said *nornv1.PeerHello
	to   *Node
}

// lies dials a node, says a hello that is changed as it should be, and gives the answer.
func lies(t testing.TB, to *Node, from register.Member, change func(*nornv1.PeerHello)) (*liar, *nornv1.PeerHelloReply) {
	t.Helper()
	nc, err := net.DialTimeout("tcp", to.PeerAddr().String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	l := &liar{t, nc, &nornv1.PeerHello{
		MinVersion: peer.MinVersion, MaxVersion: peer.MaxVersion, Cluster: to.cluster.ID[:], Generation: to.members.generation(),
		From: &nornv1.PeerNode{Name: from.Node, Incarnation: from.Incarnation[:]},
		To:   &nornv1.PeerNode{Name: to.self.Node, Incarnation: to.self.Incarnation[:]},
		Boot: 1, Life: rand.Uint64(), Lane: nornv1.PeerLane_PEER_LANE_CONTROL, Nonce: 7,
	}, to}
	change(l.said)
	b, err := gproto.Marshal(l.said)
	if err != nil {
		t.Fatal(err)
	}
	if !l.send(nornv1.PeerMethod_PEER_METHOD_HELLO, b) {
		t.Fatal("the connection ended before the hello")
	}
	if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	reply := &nornv1.PeerHelloReply{}
	for f := readFrameBy(t, nc, transport.ParseSummed); ; f = readFrameBy(t, nc, transport.ParseSummed) {
		if nornv1.PeerMethod(f.Method) == nornv1.PeerMethod_PEER_METHOD_HELLO {
			if err := gproto.Unmarshal(f.Body, reply); err != nil {
				t.Fatal(err)
			}
			return l, reply
		}
	}
}

// send tells whether the connection took a frame.
func (l *liar) send(method nornv1.PeerMethod, body []byte) bool {
	if err := l.nc.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return false
	}
	request := uint64(0)
	if method == nornv1.PeerMethod_PEER_METHOD_HELLO {
		request = 1
	}
	_, err := l.nc.Write(transport.AppendSummed(nil, transport.Frame{Request: request, Method: uint16(method), Body: body}))
	return err == nil
}

// raft sends a message of the register's group.
func (l *liar) raft(from register.Member, msg *pb.Message) bool {
	msg.From, msg.To = new(from.Incarnation.ID()), new(l.to.self.Incarnation.ID())
	body, err := gproto.Marshal(msg)
	if err != nil {
		l.t.Fatal(err)
	}
	var w wire.Writer
	w.Byte(1) // version
	w.Fixed(l.to.cluster.ID[:])
	w.Uint(l.to.members.generation())
	register.AppendMember(&w, from)
	w.Uint(l.said.Boot)
	w.Uint(l.said.Life)
	w.Fixed(l.to.self.Incarnation[:])
	w.Byte(1) // a message of raft
	w.Fixed(body)
	return l.send(nornv1.PeerMethod_PEER_METHOD_RAFT, w.B)
}

// unharmed shows that all nodes run, are what they were, and work together.
func (r *trioOnDisk) unharmed(what string, was []register.Incarnation) {
	r.t.Helper()
	for i, n := range r.nodes {
		if err := n.Alive(); err != nil || n.self.Incarnation != was[i] {
			r.t.Fatalf("after %s %s ends: %v", what, n.self.Node, err)
		}
		full(r.t, n, 3)
	}
	r.enqueue(3)
}

func (r *trioOnDisk) incarnations() (all []register.Incarnation) {
	for _, n := range r.nodes {
		all = append(all, n.self.Incarnation)
	}
	return all
}

// TestAStrangerCostsNothing: who is no member, and says that it knows a newer register or
// that it is a member in a later start, is not let in, and what it says is not heard. The
// real member goes on, also when it is started again.
func TestAStrangerCostsNothing(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	was := r.incarnations()
	huge := func(k pb.MessageType) *pb.Message {
		return &pb.Message{Type: k.Enum(), Term: new(uint64(1 << 40)), Commit: new(uint64(1 << 40)), Index: new(uint64(1 << 40)), LogTerm: new(uint64(1 << 40))}
	}
	stranger := register.Member{Node: "x", Incarnation: register.Incarnation{9}}
	for i, n := range r.nodes {
		l, reply := lies(t, n, stranger, func(h *nornv1.PeerHello) { h.Revision = 1 << 40 })
		if reply.Refusal == 0 {
			t.Errorf("%s lets a stranger in", n.self.Node)
		}
		l.raft(stranger, huge(pb.MsgHeartbeat))
		for boot := range 3 {
			member := r.nodes[(i+1)%3].self
			l, reply := lies(t, n, member, func(h *nornv1.PeerHello) { h.Boot = []uint64{1 << 40, 2, 3}[boot] })
			if reply.Refusal == 0 {
				t.Errorf("%s lets in who says that it is %s", n.self.Node, member.Node)
			}
			l.raft(member, huge(pb.MsgHeartbeat))
			l.raft(member, huge(pb.MsgVote))
		}
	}
	r.unharmed("a stranger", was)
	for i := range r.nodes {
		r.end(i)
		r.begin(i)
		r.unharmed("a stranger and a start", was)
	}
}

// TestOneAccuserIsAskedBackAbout: a member says that another one has lost the end of its log.
// That one stands aside at once, and starts again as what it was when the others deny it.
func TestOneAccuserIsAskedBackAbout(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	was, self, boot := r.incarnations(), r.nodes[2].self, r.nodes[2].dir.boot
	r.end(2)
	l, reply := lies(t, r.nodes[0], self, func(h *nornv1.PeerHello) { h.Boot = boot + 1 })
	if reply.Refusal != 0 {
		t.Fatal(reply)
	}
	status := r.nodes[0].members.group.Load().Status()
	l.raft(self, &pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(status.Term + 1), Commit: new(status.Last + 1000)})
	eventually(t, "it stands aside", func() bool {
		r.nodes[0].members.forgetting.Lock()
		defer r.nodes[0].members.forgetting.Unlock()
		return r.nodes[0].members.awaits
	})
	_ = l.nc.Close()
	r.begin(2)
	eventually(t, "it starts again", func() bool {
		if r.nodes[2].Alive() != nil { // the accused knows a later process of it, so that it starts again, too
			r.end(2)
			r.begin(2)
		}
		return r.nodes[0].Alive() != nil
	})
	if err := r.nodes[0].Failure(); !errors.Is(err, ErrStartAgain) || forgot(err) {
		t.Fatal(err)
	}
	r.end(0)
	r.begin(0)
	r.unharmed("an accusation", was)
}
