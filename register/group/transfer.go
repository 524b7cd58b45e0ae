package group

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

// maxTries is how often a transfer is taken up again without progress before
// it counts as failed.
const maxTries = 10

// transfer is a snapshot on its way to one peer. Its data is shared with
// nothing and held once per peer.
type transfer struct {
	to           register.Member
	term, number uint64
	header       []byte
	data         []byte
	sum          uint64
	have, sent   int
	retryAt      int64
	tries        int
}

// arrival is a snapshot that comes in. There is one at a time: that of the
// newest leader.
type arrival struct {
	from         uint64
	term, number uint64
	done         bool
	data         []byte
}

// transfer begins to send a snapshot in pieces, in place of raft's one message.
func (m *Machine) transfer(to register.Member, msg *pb.Message) error {
	snap := msg.GetSnapshot()
	header := &pb.Message{
		Type: msg.Type, To: msg.To, From: msg.From, Term: msg.Term,
		Snapshot: &pb.Snapshot{Metadata: snap.GetMetadata()},
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(header)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	m.numbers++
	t := &transfer{to: to, term: msg.GetTerm(), number: m.numbers, header: b, data: snap.GetData(), sum: xxhash.Sum64(snap.GetData())}
	m.sending[to.Incarnation.ID()] = t
	m.push(t)
	return nil
}

// push sends what may be in flight.
func (m *Machine) push(t *transfer) {
	t.retryAt = m.now + int64(m.cfg.Retry)
	for t.sent < len(t.data) && t.sent-t.have < inFlight {
		end := min(t.sent+chunkSize, len(t.data))
		c := chunk{
			term: t.term, number: t.number, header: t.header, total: uint64(len(t.data)),
			sum: t.sum, offset: uint64(t.sent), data: t.data[t.sent:end],
		}
		m.sendHome(t.to, kindChunk, c.encode())
		t.sent = end
	}
}

// pump takes up transfers that stand still, and ends those of a lost term.
func (m *Machine) pump() {
	if len(m.sending) == 0 {
		return // as most often
	}
	for _, id := range slices.Sorted(maps.Keys(m.sending)) {
		t := m.sending[id]
		switch {
		case m.timers.role != raft.StateLeader || m.timers.term != t.term:
			delete(m.sending, id)
		case m.now < t.retryAt:
		case t.tries >= maxTries:
			m.end(id, raft.SnapshotFailure)
		default:
			t.tries++
			t.sent = t.have
			m.push(t)
		}
	}
}

func (m *Machine) end(id uint64, how raft.SnapshotStatus) {
	delete(m.sending, id)
	m.guard(func() error {
		m.node.ReportSnapshot(id, how)
		return nil
	})
}

func (m *Machine) receiveHave(e *envelope) {
	h, err := decodeHave(e.body)
	id := e.from.Incarnation.ID()
	t := m.sending[id]
	if err != nil || t == nil || h.term != t.term || h.number != t.number || h.bytes > uint64(len(t.data)) {
		return
	}
	switch n := int(h.bytes); {
	case n == len(t.data):
		m.end(id, raft.SnapshotFinish)
	case n > t.have:
		t.have, t.tries = n, 0
		t.sent = max(t.sent, n)
		m.push(t)
	case n == 0 && t.have > 0: // it was restarted and knows nothing of us
		t.have = 0
		t.retryAt = min(t.retryAt, m.now+int64(m.cfg.Heartbeat))
	}
}

// newerPauses is for how many time-outs of an election nothing is taken of a member that has
// sent a snapshot which this build cannot read: it sends it again and again.
const newerPauses = 10

// newer is who has sent one.
type newer struct {
	by    register.Member
	from  uint64
	until int64
}

// receiveChunk collects a snapshot. Pieces that do not continue what is there
// are dropped: the sender learns what is and goes on from it.
func (m *Machine) receiveChunk(e *envelope) {
	c, err := decodeChunk(e.body)
	if err != nil || c.term < m.timers.term || m.timers.role == raft.StateLeader || !nearTerm(m, c.term) {
		return
	}
	from := e.from.Incarnation.ID()
	if from == m.newer.from && m.now < m.newer.until {
		return // what it sends cannot be read here; it is not asked for the rest of it again
	}
	leads := c.term == m.timers.term && from == m.timers.lead
	if !leads && c.term == m.timers.term && m.timers.lead != raft.None {
		return
	}
	a := m.arriving
	if a == nil || leads && a.from != from || cmp.Or(cmp.Compare(c.term, a.term), cmp.Compare(c.number, a.number)) > 0 {
		a = &arrival{from: from, term: c.term, number: c.number}
		m.arriving = a
	}
	if a.from != from || a.term != c.term || a.number != c.number {
		return
	}
	if !a.done && c.offset == uint64(len(a.data)) {
		a.data = append(a.data, c.data...)
	}
	if !a.done && uint64(len(a.data)) == c.total {
		m.arrived(a, &c, from)
	}
	h := have{c.term, c.number, uint64(len(a.data))}
	if a.done {
		h.bytes = c.total
	}
	m.sendHome(e.from, kindHave, h.encode())
	// A leader that is busy sending is a leader.
	if m.timers.term == c.term && m.timers.lead == from {
		m.timers.draw(m)
	}
}

// arrived hands a whole snapshot to raft, if it is what was sent.
func (m *Machine) arrived(a *arrival, c *chunk, from uint64) {
	msg := &pb.Message{}
	data := a.data
	if xxhash.Sum64(data) != c.sum || proto.Unmarshal(c.header, msg) != nil ||
		msg.GetType() != pb.MsgSnap || msg.GetFrom() != from || msg.GetTo() != m.id || msg.GetSnapshot().GetMetadata().GetConfState() == nil || !saneSnapshot(m, c, msg) {
		a.data = nil // begins again
		return
	}
	p, err := decodeReplica(data)
	if errors.Is(err, wire.ErrNewer) { // one member's word: this one stays behind, and says why
		name, _ := m.name(from)
		m.arriving, m.newer = nil, newer{name, from, m.now + newerPauses*m.cfg.patience()}
		return
	}
	if err != nil || p.state.Cluster.ID != m.meta.cluster || !goesOn(m, &p.state, msg.GetSnapshot().GetMetadata().GetIndex()) {
		a.data = nil
		return
	}
	a.done, a.data = true, nil
	msg.Snapshot.Data = data
	m.step(msg)
	m.timers.followed(m, msg)
}
