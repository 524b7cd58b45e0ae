package group

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

// ofANewerBuild gives commands that this build cannot read: in another form, and about
// something that it does not know.
func ofANewerBuild() map[string][]byte {
	form := (&command{session: 9, seq: 1, floor: 1}).encode()
	form[0] = commandVersion + 1
	var about wire.Writer
	about.Byte(commandVersion)
	about.Uint(9)
	about.Uint(1)
	about.Uint(1)
	about.Byte(99)
	return map[string][]byte{"another form": form, "another subject": about.B}
}

// TestACommandOfANewerBuildStopsTheMember: whoever passes over what others apply has
// another register than they have, other leaders too, and goes on.
func TestACommandOfANewerBuildStopsTheMember(t *testing.T) {
	for name, b := range ofANewerBuild() {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, 5)
			s.grow(3)
			nodes := slices.Clone(s.nodes)
			l := s.leader()
			before := l.machine.State().Revision
			stopped := func() (k int) {
				for _, n := range nodes {
					if n.machine == nil {
						k++
					}
				}
				return k
			}
			if err := l.machine.node.Propose(b); err != nil { // as if it were of the newer build
				t.Fatal(err)
			}
			l.feed(Tick{})
			s.must(10*time.Second, "stopped", func() bool { return stopped() > 1 }) // one alone hears no more of what is committed
			s.run(5*time.Second, nil)
			for _, n := range nodes {
				switch {
				case n.machine == nil && !errors.Is(n.err, wire.ErrNewer):
					t.Errorf("%s ends with %v", n.self.Node, n.err)
				case n.machine != nil && n.machine.State().Revision > before:
					t.Errorf("%s goes on without it, at revision %d", n.self.Node, n.machine.State().Revision)
				}
				if _, err := Export(n.store); !errors.Is(err, wire.ErrNewer) {
					t.Errorf("the register of %s is given without it: %v", n.self.Node, err)
				}
			}
			n := nodes[0]
			n.start() // the same build again
			s.run(10*time.Second, func() bool { return n.machine == nil })
			if n.machine != nil && n.machine.State().Revision > before {
				t.Errorf("it went past the entry, to revision %d", n.machine.State().Revision)
			}
		})
	}
}

// TestNobodyOfANewerBuildStopsTheOthers: a leader puts nothing in the log that the members
// of its own build could not read.
func TestNobodyOfANewerBuildStopsTheOthers(t *testing.T) {
	s := newSim(t, 6)
	s.grow(3)
	l := s.leader()
	f := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	for _, b := range ofANewerBuild() {
		if err := f.machine.node.Propose(b); err != nil {
			t.Fatal(err)
		}
		f.feed(Tick{})
	}
	s.run(5*time.Second, nil)
	if r := s.do(f, value("v", 0, []byte("x"))); r.Err != nil || !r.ValuesWon[0] {
		t.Errorf("the others go on: %+v", r)
	}
	for _, n := range s.nodes {
		if n.machine == nil {
			t.Errorf("%s ended: %v", n.self.Node, n.err)
		}
	}
}

// TestARegisterOfANewerBuild is neither damaged nor waited for.
func TestARegisterOfANewerBuild(t *testing.T) {
	s := newSim(t, 7)
	s.grow(2)
	l := s.leader()
	f := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	b := l.machine.rep.encode()
	b[0] = snapshotVersion + 1
	if _, err := decodeReplica(b); !errors.Is(err, wire.ErrNewer) || errors.Is(err, wire.ErrDamaged) {
		t.Errorf("another form: %v", err)
	}
	var w wire.Writer
	w.Byte(snapshotVersion)
	w.Uint(0)
	w.Byte(200)
	if _, err := decodeReplica(w.B); !errors.Is(err, wire.ErrNewer) || errors.Is(err, wire.ErrDamaged) {
		t.Errorf("another state: %v", err)
	}
	header, err := proto.Marshal(&pb.Message{
		Type: pb.MsgSnap.Enum(), From: new(l.machine.id), To: new(f.machine.id), Term: new(l.machine.timers.term),
		Snapshot: &pb.Snapshot{Metadata: l.machine.snapshot().GetMetadata()},
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &arrival{from: l.machine.id, term: l.machine.timers.term, number: 99, data: b}
	f.machine.arrived(a, &chunk{term: a.term, number: 99, total: uint64(len(b)), sum: xxhash.Sum64(b), header: header}, l.machine.id)
	if f.feed(Tick{}); f.err != nil || f.machine.Status().Newer != l.self {
		t.Errorf("a snapshot from a newer leader: it ends with %v, and names %q", f.err, f.machine.Status().Newer.Node)
	}
	if s.do(l, register.Request{}).Err != nil {
		t.Error("the leader does not answer")
	}
}
