package group

import (
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestPatienceEndsWhenTheNetworkIsWhole: of five voters two have gone for good, and the
// network splits so that terms come to nothing, for a minute: the three are as patient as
// with slow disks. Once they hold connections again somebody leads within some time-outs.
// It took up to sixteen (seed 482,599 of the simulator).
func TestPatienceEndsWhenTheNetworkIsWhole(t *testing.T) {
	for seed := range uint64(30) {
		s := newSim(t, seed+5)
		s.grow(5)
		l := s.leader()
		l.crash()
		left := make([]*simNode, 0, 4)
		for _, n := range s.nodes {
			if n != l {
				left = append(left, n)
			}
		}
		left[3].crash()
		left = left[:3]
		s.eaten = func(m *Message) bool { // what is meant gets lost, what is tried does not
			e, err := decodeEnvelope(m.Data)
			if err != nil || e.kind != kindRaft {
				return false
			}
			var msg pb.Message
			return proto.Unmarshal(e.body, &msg) == nil && msg.GetType() == pb.MsgVoteResp
		}
		s.run(time.Minute, nil)
		for _, n := range left {
			if got := n.machine.timers.doubled(); got != mostDoubled {
				t.Fatalf("seed %d: patience doubled %d times", seed, got)
			}
		}
		s.eaten = nil
		from := s.now
		for _, n := range left {
			for _, o := range left {
				if o != n {
					n.feed(Found{Peer: o.self})
				}
			}
		}
		s.must(time.Minute, "led", func() bool { return s.leader() != nil })
		if took := time.Duration(s.now - from); took > 3*time.Second {
			t.Errorf("seed %d: a leader %v after the network is whole", seed, took)
		}
	}
}
