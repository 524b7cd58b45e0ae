package group

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/norn-dev/norn/register"
)

// slack is by how many entries a member may be behind and still count as one
// that has caught up.
const slack = 64

// atOnce is how many nodes become learners, or members, in one step. Who votes changes by one at a
// time.
const atOnce = 16

// leading is what a leader knows of the others. It begins empty with each term:
// nobody is dead then, and nobody is known to be alive.
type leading struct {
	m       *Machine
	term    uint64
	since   int64
	nextAt  int64
	heard   map[uint64]int64 // when a message came
	known   map[uint64]int64 // since when it is in the register, as far as this leader saw
	keptUp  map[uint64]int64 // since when it keeps up without a break
	follows map[uint64]bool  // a member that learns and keeps up
	beat    map[uint64]int64 // when that had a heartbeat last
	waiting []register.Member
	confAt  int64 // no further change of the configuration before that
	asked   bool  // a change of the members' records is under way
}

// heard notes a sign of life.
func (m *Machine) heard(id uint64) {
	if m.leading != nil {
		m.leading.heard[id] = m.now
	}
}

// lead looks after the members while this one leads: who joined becomes a
// learner, who has caught up a member, and the right ones vote.
func (m *Machine) lead() {
	if m.failed != nil || m.taken != nil {
		return
	}
	if m.timers.role != raft.StateLeader {
		m.leading = nil
		return
	}
	l := m.leading
	if l == nil || l.term != m.timers.term {
		l = &leading{m: m, term: m.timers.term, since: m.now, heard: map[uint64]int64{}, known: map[uint64]int64{}, keptUp: map[uint64]int64{}, follows: map[uint64]bool{}, beat: map[uint64]int64{}}
		m.leading = l
	}
	if m.now < l.nextAt || !m.mayAnswer() {
		return
	}
	l.nextAt = m.now + int64(m.cfg.Heartbeat)
	peers := l.survey()
	l.admit(peers)
	l.configure(peers)
}

// seldom tells whether a heartbeat is left out: it is for a learner that follows and has had one
// lately. Learners decide nothing, and there are many of them in a large cluster.
func (l *leading) seldom(msg *pb.Message) bool {
	id := msg.GetTo()
	if msg.GetType() != pb.MsgHeartbeat || !l.follows[id] || l.m.votes(id) {
		return false
	}
	if at, said := l.beat[id]; said && l.m.now-at < learnerBeat(l.m) {
		return true
	}
	l.beat[id] = l.m.now
	return false
}

// silent is for how long a peer was not heard of. One that has just been let in could
// not say anything before.
func (l *leading) silent(id uint64) int64 {
	return l.m.now - max(l.since, l.known[id], l.heard[id])
}

// survey looks at every node of the register, in its order.
func (l *leading) survey() []Peer {
	m := l.m
	commit := m.node.BasicStatus().GetCommit()
	progress := map[uint64]tracker.Progress{}
	m.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) { progress[id] = p })
	var out []Peer
	for i := range m.rep.state.Nodes {
		n := &m.rep.state.Nodes[i]
		id := n.Incarnation.ID()
		if _, known := l.known[id]; !known {
			l.known[id] = m.now
		}
		p := Peer{ID: id, Zone: n.Zone, Status: n.Status, Voter: slices.Contains(m.conf.Voters, id), Leads: id == m.id}
		// Who has not been heard of yet is neither dead nor alive: no change may count on it.
		at, heard := l.heard[id]
		p.Alive = id == m.id || heard && m.now-at < 2*m.cfg.patience()
		p.Dead = id != m.id && l.silent(id) >= int64(m.cfg.Replace)
		pr, known := progress[id]
		up := known && p.Alive && (id == m.id || pr.State == tracker.StateReplicate && pr.Match+slack >= commit)
		l.follows[id] = up && pr.IsLearner && n.Status == register.Active
		since, was := l.keptUp[id]
		switch {
		case !up:
			delete(l.keptUp, id)
		case !was:
			since = m.now
			l.keptUp[id] = since
		}
		p.Ready = up && m.now-since >= int64(m.cfg.Stable)
		out = append(out, p)
	}
	return out
}

// admit makes members of those that have caught up. One that comes under the
// name or an address of another waits until that one is dead and takes its
// place then, both in one entry of the log, and that of others that came for it
// and died before they got it.
func (l *leading) admit(peers []Peer) {
	m := l.m
	l.waiting = nil
	if l.asked {
		return
	}
	nodes := m.rep.state.Nodes
	var all []register.NodeChange
	var in []*register.Node
	for i, p := range peers {
		if p.Status == register.Joining && l.outlived(peers, i) {
			all = append(all, register.NodeChange{Old: nodes[i].Version, New: withStatus(nodes[i], register.Removed)})
			break
		}
		if p.Status != register.Joining || !p.Ready {
			continue
		}
		if len(in) == atOnce || slices.ContainsFunc(in, func(n *register.Node) bool { return samePlace(n, &nodes[i]) }) {
			continue // in its turn
		}
		var changes []register.NodeChange
		blocked := false
		for j := range nodes {
			old := nodes[j]
			if old.Member == nodes[i].Member || old.Status == register.Removed || !samePlace(&old, &nodes[i]) {
				continue
			}
			lives := peers[j].ID == m.id || l.silent(peers[j].ID) < int64(m.cfg.Dead)
			if old.Status == register.Joining && lives {
				continue // it came for the same place, and will be the one that waits
			}
			blocked = blocked || lives || slices.ContainsFunc(all, func(c register.NodeChange) bool { return c.New.Member == old.Member })
			changes = append(changes, register.NodeChange{Old: old.Version, New: withStatus(old, register.Removed)})
		}
		if blocked {
			l.waiting = append(l.waiting, nodes[i].Member)
			continue
		}
		in = append(in, &nodes[i])
		all = append(append(all, changes...), register.NodeChange{Old: nodes[i].Version, New: withStatus(nodes[i], register.Active)})
	}
	if len(all) > 0 {
		l.propose(all...)
	}
}

// outlived tells whether a node that was to join has died, and a member under its name
// or an address of it was heard of when it had been dead: that one was started after it.
// What the member had said before the newcomer came may be late.
func (l *leading) outlived(peers []Peer, i int) bool {
	m, nodes := l.m, l.m.rep.state.Nodes
	since := l.silent(peers[i].ID) - int64(m.cfg.Dead) // it has been dead for so long
	if since < 0 {
		return false
	}
	for j, p := range peers {
		alive := p.ID == m.id || p.Alive && m.now-l.heard[p.ID] <= since
		if j != i && p.Status == register.Active && alive && samePlace(&nodes[i], &nodes[j]) {
			return true
		}
	}
	return false
}

func (l *leading) propose(changes ...register.NodeChange) {
	l.asked = true
	l.m.requests.change(&proposal{request: register.Request{Nodes: changes}, own: true, endAt: l.m.now + int64(l.m.cfg.Timeout)})
}

func withStatus(n register.Node, s register.NodeStatus) register.Node {
	n.Status = s
	return n
}

// samePlace tells whether two nodes have the same name, or an address in common.
func samePlace(a, b *register.Node) bool {
	return a.Node == b.Node || slices.ContainsFunc(a.Addresses, func(addr string) bool { return slices.Contains(b.Addresses, addr) })
}

// configure proposes the next change of who votes and who learns.
func (l *leading) configure(peers []Peer) {
	m := l.m
	if m.now < l.confAt || len(m.conf.VotersOutgoing) > 0 {
		return
	}
	all := slices.Concat(m.conf.Voters, m.conf.Learners, m.conf.LearnersNext)
	var fresh []*pb.ConfChangeSingle
	var in []*register.Node
	for i, p := range peers { // in the order of the register
		n := &m.rep.state.Nodes[i]
		if p.Status == register.Removed || slices.Contains(all, p.ID) || len(fresh) == atOnce || slices.ContainsFunc(in, func(o *register.Node) bool { return samePlace(o, n) }) {
			continue // of those that come for one place each in its turn
		}
		in = append(in, n)
		fresh = append(fresh, single(pb.ConfChangeAddLearnerNode, p.ID))
	}
	if len(fresh) > 0 {
		l.reconfigure(fresh...)
		return
	}
	voters, ok := Voters(peers, m.cfg.Voters)
	if ok && !slices.Contains(voters, m.id) {
		l.handOver(voters)
		return
	}
	var changes []*pb.ConfChangeSingle
	if ok {
		for _, id := range voters {
			if !slices.Contains(m.conf.Voters, id) {
				changes = append(changes, single(pb.ConfChangeAddNode, id))
			}
		}
		for _, id := range sorted(m.conf.Voters) {
			switch {
			case slices.Contains(voters, id):
			case gone(peers, id):
				changes = append(changes, single(pb.ConfChangeRemoveNode, id))
			default:
				changes = append(changes, single(pb.ConfChangeAddLearnerNode, id))
			}
		}
	}
	for _, id := range sorted(m.conf.Learners) {
		if gone(peers, id) {
			changes = append(changes, single(pb.ConfChangeRemoveNode, id))
		}
	}
	l.reconfigure(changes...)
}

// gone says that a node has no part in the group any more.
func gone(peers []Peer, id uint64) bool {
	i := slices.IndexFunc(peers, func(p Peer) bool { return p.ID == id })
	return i < 0 || peers[i].Status == register.Removed
}

func sorted(ids []uint64) []uint64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return ids
}

func single(t pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: t.Enum(), NodeId: new(id)}
}

// reconfigure proposes a change: one alone simply, several jointly.
func (l *leading) reconfigure(changes ...*pb.ConfChangeSingle) {
	if len(changes) == 0 {
		return
	}
	m := l.m
	m.guard(func() error {
		// Raft takes no second one before the first is applied.
		l.confAt = m.now + int64(m.cfg.Retry)
		_ = m.node.ProposeConfChange(&pb.ConfChangeV2{Changes: changes})
		return nil
	})
}

// handOver passes the lead to a voter of the next configuration: this member
// has no vote in it.
func (l *leading) handOver(voters []uint64) {
	m := l.m
	for _, id := range voters {
		if _, up := l.keptUp[id]; up && slices.Contains(m.conf.Voters, id) {
			m.guard(func() error {
				m.node.TransferLeader(id)
				return nil
			})
			return
		}
	}
	// None of them has a vote yet.
	var changes []*pb.ConfChangeSingle
	for _, id := range voters {
		if !slices.Contains(m.conf.Voters, id) {
			changes = append(changes, single(pb.ConfChangeAddNode, id))
		}
	}
	l.reconfigure(changes...)
}
