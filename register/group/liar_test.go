package group

import (
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/register"
)

// says has a member say something to another one, in its present life.
func (s *sim) says(from, to *simNode, msg *pb.Message) {
	msg.From, msg.To = new(from.machine.id), new(to.machine.id)
	b, err := proto.Marshal(msg)
	if err != nil {
		s.t.Fatal(err)
	}
	e := envelope{cluster: s.cluster.ID, from: from.self, life: from.machine.life, to: to.self.Incarnation, kind: kindRaft, body: b}
	to.feed(Received{e.encode()})
}

// TestOneMessageEndsNobody: a member says numbers that cannot be, of each kind of message.
// The others go on, in terms after which others can come, and decide.
func TestOneMessageEndsNobody(t *testing.T) {
	for _, huge := range []uint64{1 << 40, 1 << 62, 1<<63 - 1, 1 << 63, ^uint64(0) - 1, ^uint64(0)} {
		s := newSim(t, 41)
		s.grow(3)
		l := s.leader()
		for _, liar := range s.nodes {
			for k := range pb.MessageType_name {
				for field := range 16 {
					if field&1 == 0 && pb.MessageType(k) == pb.MsgVoteResp {
						continue // a voter that votes twice has two lead: raft takes votes at their word
					}
					of := func(bit int, here uint64) *uint64 {
						if field&bit != 0 {
							here = huge
						}
						return &here
					}
					msg := &pb.Message{Type: pb.MessageType(k).Enum(), Term: of(1, l.machine.Status().Term), LogTerm: of(2, 1), Index: of(4, 1), Commit: of(8, 1), RejectHint: &huge}
					for _, n := range s.nodes {
						if n != liar {
							s.says(liar, n, proto.Clone(msg).(*pb.Message))
						}
					}
				}
			}
			s.run(time.Second, nil)
		}
		for _, n := range s.nodes {
			if n.err != nil || n.machine.Status().Term > 1<<30 {
				t.Fatalf("%d: %s ends with %v", huge, n.self.Node, n.err)
			}
		}
		s.must(30*time.Second, "led", func() bool { return s.leader() != nil })
		if res := s.do(s.leader(), register.Request{}); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
}
