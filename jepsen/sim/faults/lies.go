package faults

import (
	"errors"
	"slices"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/ring"

	pb "go.etcd.io/raft/v3/raftpb"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

const (
	// lieOften is how many of the messages that can be forged are.
	lieOften = 0.2
	// lieEvery is about how often a liar sends something of the register's group that is not so.
	lieEvery = 300 * time.Millisecond
	// deniedAfter is how long a node stands aside, before it starts again as it is, where the
	// others know nothing of what one says of its register's log (package node, spared.go).
	deniedAfter = 12 * time.Second
)

// Slanderer is what makes a node lie.
type Slanderer struct {
	*nodes.Fleet
	s     *clients.People
	liar  *nodes.Node // nil: everybody tells the truth
	heard overheard
	renew func(*nodes.Node) // has a node come back as another incarnation
}

// Lie has one node lie to all others for as long as the storm lasts. One lying peer may cost
// itself: no other node ends or becomes another incarnation, and no task is lost. What it says
// of facts and claims of others is left as it is: a majority of a cohort is one that tells the truth.
func (f *Slanderer) Lie() {
	f.liar, f.heard = world.Pick(&f.s.World, f.Nodes), overheard{}
	f.s.Note("%slies from now on", f.liar)
	f.slander()
}

// wild draws a number that one member could say.
func (f *Slanderer) wild(near uint64) uint64 {
	return world.Pick(&f.s.World, []uint64{0, 1, near + 1, near + 100, near + 1<<17, 1 << 40, 1 << 55, 1<<63 - 1, 1<<64 - 1})
}

// Forged is what a node sends: the liar's own words, some of them changed.
func (f *Slanderer) Forged(from *nodes.Node, m message.PeerMessage) message.PeerMessage {
	if f.liar != from || f.s.Healing || !f.s.Chance(lieOften) {
		return m
	}
	f.s.Stats[stats.Lies]++
	switch m := m.(type) {
	case *message.Beaten:
		lie := *m
		lie.Seen, lie.Boot = f.wild(m.Seen), f.wild(m.Boot)
		lie.Whole, lie.Sound = f.s.Chance(0.5), f.s.Chance(0.5)
		return &lie
	case *message.Votes:
		lie := *m
		lie.Votes = slices.Clone(m.Votes)
		for i := range lie.Votes {
			lie.Votes[i].Promise, lie.Votes[i].Granted = f.wild(lie.Votes[i].Promise), false
		}
		return &lie
	case *message.PushesTaken:
		lie := *m
		lie.Votes = slices.Clone(m.Votes)
		for i := range lie.Votes {
			lie.Votes[i].Promise, lie.Votes[i].Granted = f.wild(lie.Votes[i].Promise), false
		}
		return &lie
	case *message.Elect:
		lie := *m
		lie.Stand = slices.Clone(m.Stand)
		for i := range lie.Stand {
			lie.Stand[i].Floor = f.wild(lie.Stand[i].Floor)
		}
		return &lie
	}
	return m
}

// slander has the liar say things that it has no reason to say.
func (f *Slanderer) slander() {
	s, liar := f.s, f.liar
	if s.Healing {
		return
	}
	s.After(s.About(lieEvery), f.slander)
	to := world.Pick(&s.World, f.Nodes)
	if to == liar || !liar.Up || !to.Up || liar.Peers == nil {
		return
	}
	s.Stats[stats.Lies]++
	if s.Chance(0.5) {
		if data := f.frame(liar, to); data != nil {
			f.Post(liar, to.Self, false, func(to *nodes.Node) { to.Peers.Put(group.Received{Data: data}) })
		}
		return
	}
	p := ring.Partition(s.Rnd.IntN(s.Plan.Partitions))
	epoch, alone := f.wild(f.Cells[p].Epoch), []register.Member{liar.Self}
	m := world.Pick(&s.World, []message.PeerMessage{
		&message.DurabilityEpoch{Mark: epoch},
		&message.Cells{Cells: []message.KnownCell{{Partition: p, Cell: register.Cell{Epoch: epoch, Nonce: 1, Cohort: alone, Leader: liar.Self}}}},
		&message.Ballots{Ballots: []message.Ballot{{Partition: p, Epoch: epoch, Nonce: s.Rnd.Uint64() | 1, Old: f.Cells[p].Epoch, From: f.Cells[p].Cohort, To: f.Cells[p].Cohort, Transfer: true}}},
		&message.Elect{Stand: []message.Stand{{Partition: p, Epoch: f.Cells[p].Epoch, Nonce: f.Cells[p].Nonce, To: f.Cells[p].Cohort, Floor: epoch}}},
	})
	from := liar.Self
	f.Post(liar, to.Self, false, func(to *nodes.Node) { to.Put(&message.FromPeer{From: from, Message: m}, nodes.First(m)) })
}

// overheard are the last messages of the register's group between the liar and each other
// node, by sender and receiver: what the liar says is of the same form.
type overheard map[[2]int][]byte

// Overhear notes one.
func (f *Slanderer) Overhear(from, to *nodes.Node, data []byte) {
	if f.liar == from || f.liar == to {
		f.heard[[2]int{from.Index, to.Index}] = data
	}
}

// Kinds and reasons of the messages of the register's group (package group, envelope.go).
const (
	kindRaft   = 1
	kindRefuse = 4
	reasons    = 6
)

// frame is a message of the register's group that is not so, of the member that says it; nil:
// it has said nothing yet. It forges no leader: raft takes entries and votes of members at their word.
func (f *Slanderer) frame(liar, to *nodes.Node) []byte {
	said, e := f.heard[[2]int{liar.Index, to.Index}], &f.s.World
	head := headOf(said)
	if head == nil {
		return nil
	}
	if f.s.Chance(0.3) { // that the other one was removed, that another process is it, or that it is of another time
		boot, tag, ok := lifeIn(f.heard[[2]int{to.Index, liar.Index}])
		if !ok {
			return nil
		}
		w := wire.Writer{B: append(slices.Clone(head), kindRefuse, byte(1+e.Rnd.IntN(reasons)))}
		w.Uint(boot)
		w.Uint(tag)
		return w.B
	}
	st := liar.Peers.Machine.Status()
	beyond := world.Pick(e, []uint64{st.Last + 1000, 1 << 40, 1 << 62, 1<<64 - 1})
	msg := &pb.Message{
		From: new(liar.Self.Incarnation.ID()), To: new(to.Self.Incarnation.ID()), Term: new(f.wild(st.Term)), LogTerm: new(st.Term),
		Type: world.Pick(e, []*pb.MessageType{pb.MsgHeartbeat.Enum(), pb.MsgAppResp.Enum(), pb.MsgPreVote.Enum(), pb.MsgReadIndexResp.Enum(), pb.MsgHeartbeatResp.Enum(), pb.MsgSnap.Enum(), pb.MsgTimeoutNow.Enum()}),
	}
	switch msg.GetType() {
	case pb.MsgHeartbeat:
		msg.Commit = new(world.Pick(e, []uint64{0, beyond}))
	case pb.MsgAppResp:
		msg.Index = &beyond
	}
	body, err := gproto.Marshal(msg)
	if err != nil {
		return nil
	}
	return append(append(slices.Clone(head), kindRaft), body...)
}

// headOf is what comes before the kind of a message.
func headOf(data []byte) []byte {
	r := wire.NewReader(data)
	skipLife(r)
	var to register.Incarnation
	r.Fixed(to[:])
	if r.Failed() {
		return nil
	}
	return data[:len(data)-len(r.Rest())]
}

// lifeIn is the start that a message is of.
func lifeIn(data []byte) (boot, tag uint64, ok bool) {
	r := wire.NewReader(data)
	boot, tag = skipLife(r)
	return boot, tag, !r.Failed()
}

// skipLife reads a message up to the start of its sender.
func skipLife(r *wire.Reader) (boot, tag uint64) {
	var cluster register.UUID
	r.Byte()
	r.Fixed(cluster[:])
	r.Uint()
	register.ReadMember(r)
	return r.Uint(), r.Uint()
}

// Denied has a node that was told by the liar that its register's log has lost something start
// again as it is, once the others have been asked (package node, spared.go); and the liar, who
// has said so of itself, as another incarnation. It tells whether that is why a node ends.
func (f *Slanderer) Denied(n *nodes.Node, err error) bool {
	switch {
	case f.liar == nil:
		return false
	case n == f.liar && (errors.Is(err, standing.ErrForgot) || errors.Is(err, group.ErrForgot)):
		f.s.Note("%sis believed what it has said of itself: %v", n, err)
		clear(f.heard)
		f.renew(n)
		return true
	case n == f.liar || !errors.Is(err, group.ErrForgot):
		return false
	}
	f.s.Note("%sstands aside: %v", n, err)
	n.Stop()
	f.s.After(deniedAfter, func() {
		if !n.Up && !n.Away {
			n.Start()
		}
	})
	return true
}
