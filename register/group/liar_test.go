package group

import (
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
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

// TestOneMemberKeepsNoNewcomerOut: who joins has no register yet by which to judge a term, and
// one member says one that cannot be. The leader's word brings it back from there, also when
// it has started again with that on its disk.
func TestOneMemberKeepsNoNewcomerOut(t *testing.T) {
	for _, again := range []bool{false, true} {
		for _, kind := range []pb.MessageType{pb.MsgHeartbeat, pb.MsgApp, pb.MsgVote} {
			s := newSim(t, 47)
			s.grow(3)
			n, liar := s.add(s.name(4)).join(), s.nodes[1]
			s.says(liar, n, &pb.Message{Type: kind.Enum(), Term: new(uint64(1 << 40)), LogTerm: new(uint64(0)), Index: new(uint64(0)), Commit: new(uint64(0))})
			s.run(100*time.Millisecond, nil)
			if again {
				n.crash()
				n.start()
			}
			s.invite(s.leader(), n)
			s.must(30*time.Second, "a member", func() bool { return s.settled(4, 3) && n.machine.State().Revision > 0 })
			if term := s.leader().machine.Status().Term; term > 1<<30 {
				t.Errorf("%v: the group is in term %d", kind, term)
			}
		}
	}
}

// tells has a member say something of its own kind to another one, as of now.
func (s *sim) tells(from, to *simNode, k kind, body []byte) {
	e := envelope{cluster: s.cluster.ID, from: from.self, life: from.machine.life, to: to.self.Incarnation, kind: k, body: body}
	to.feed(Received{e.encode()})
}

// TestOneMemberRemovesNobody: it says to another one that that was removed, or that another
// process is it, for as long as it likes. Two have to say so, or the only other one.
func TestOneMemberRemovesNobody(t *testing.T) {
	for _, why := range []Refusal{RemovedNode, TwinLife, OldLife} {
		for size, liars := range map[int][]int{2: {1}, 3: {1, 2}, 5: {1, 2}} {
			for n := 1; n <= liars[len(liars)-1]; n++ {
				s := newSim(t, 43)
				s.grow(size)
				of := s.nodes[0]
				for range 40 {
					for _, liar := range s.nodes[1 : n+1] {
						if of.err == nil {
							s.tells(liar, of, kindRefuse, of.machine.life.refuse(why))
						}
					}
					s.run(100*time.Millisecond, nil)
				}
				enough := n == 2 || size == 2
				if out := of.err != nil || of.machine.Status().Removed; out != enough {
					t.Errorf("%v: %d of %d others say so: it is out: %t (%v)", why, n, size-1, out, of.err)
				}
			}
		}
	}
}

// TestOneMemberSendsNoRegisterThatCannotBe: a snapshot of a term, an index, a generation or a
// revision that cannot be, ends nobody and is not taken, and the others' leader decides as
// before.
func TestOneMemberSendsNoRegisterThatCannotBe(t *testing.T) {
	for _, huge := range []uint64{1 << 40, 1 << 62, 1 << 63, ^uint64(0)} {
		for field := 1; field < 32; field++ {
			s := newSim(t, 45)
			s.grow(3)
			l := s.leader()
			revision := l.machine.State().Revision
			for _, liar := range s.nodes {
				if liar == l {
					continue
				}
				for _, of := range s.nodes {
					if of != liar {
						s.forges(liar, of, huge, field)
					}
				}
			}
			s.run(5*time.Second, nil)
			for _, n := range s.nodes {
				state := n.machine.State()
				if n.err != nil || n.machine.Status().Term > 1<<30 || n.machine.Status().Applied > 1<<30 || state.Generation != 0 || state.Revision > revision+100 {
					t.Fatalf("%d in %b: %s ends with %v: %+v, generation %d, revision %d", huge, field, n.self.Node, n.err, n.machine.Status(), state.Generation, state.Revision)
				}
			}
			s.must(30*time.Second, "led", func() bool { return s.leader() != nil })
			if res := s.do(s.leader(), register.Request{}); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
	}
}

// forges has a member send another one a snapshot of its own with numbers that cannot be.
func (s *sim) forges(liar, of *simNode, huge uint64, field int) {
	at := proto.Clone(liar.machine.snapshot().GetMetadata()).(*pb.SnapshotMetadata)
	term, number := liar.machine.Status().Term+1, uint64(9)
	state := replica{state: liar.machine.State(), sessions: map[uint64]*session{}}
	index := at.GetIndex() + 5
	at.Index = &index
	if field&1 != 0 {
		term = huge
	}
	if field&2 != 0 {
		at.Index = &huge
	}
	if field&4 != 0 {
		at.Term = &huge
	}
	if field&8 != 0 {
		state.state.Generation = huge
	}
	if field&16 != 0 {
		state.state.Revision, number = huge, huge
	}
	header, err := proto.Marshal(&pb.Message{Type: pb.MsgSnap.Enum(), From: new(liar.machine.id), To: new(of.machine.id), Term: &term, Snapshot: &pb.Snapshot{Metadata: at}})
	if err != nil {
		s.t.Fatal(err)
	}
	b := state.encode()
	c := chunk{term: term, number: number, header: header, total: uint64(len(b)), sum: xxhash.Sum64(b), data: b}
	s.tells(liar, of, kindChunk, c.encode())
}
