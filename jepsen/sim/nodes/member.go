package nodes

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
)

// member is a node's part in the register's group: the loop that package
// raftnode is, over the virtual disk and network.
type member struct {
	n                *Node
	Machine          *group.Machine
	inbox            []group.Event
	turning          bool // a turn is on its way
	syncing          bool // a Ready waits for the disk; no step until it is done
	wake             int64
	asked            map[uint64]asked
	tag              uint64
	leader           register.Member
	leads            bool
	voters, outgoing []register.Member
	Up               []register.Member // who is thought to be there
	sensed           bool              // it has looked
}

// asked is a request to the register under way.
type asked struct {
	tag  uint64
	done func(register.Result)
}

func openMember(n *Node) (*member, error) {
	s, c := n.S, &n.S.Plan.Cluster
	m := &member{n: n, wake: run.Never, asked: map[uint64]asked{}}
	var err error
	m.Machine, err = group.Open(group.Config{
		Self: n.Self, Cluster: ClusterID, Seed: s.Rnd.Uint64(), Heartbeat: c.Heartbeat, Stable: c.Stable, Dead: c.Dead,
	}, n.Cells, n.Clock.Time(s.Now))
	return m, err
}

// begin tells the core the last state on disk, and starts.
func (m *member) begin() {
	m.look()
	m.tell(m.Machine.State())
	m.poke()
}

func (m *member) State() register.State { return m.Machine.State() }

// tell gives the core a state, in the place of one that it has not looked at.
func (m *member) tell(s register.State) {
	m.n.Put(message.Changed{State: s, Leads: m.leads, Majority: m.leader != register.Member{}, Voters: m.voters, Outgoing: m.outgoing}, true)
}

// Do asks the register.
func (m *member) Do(r register.Request, done func(register.Result)) {
	m.tag++
	m.asked[m.tag] = asked{r.Tag, done}
	r.Tag = m.tag
	m.Put(group.Asked{Request: r})
}

func (m *member) Put(e group.Event) {
	m.inbox = append(m.inbox, e)
	m.poke()
}

func (m *member) poke() {
	if m.turning || m.syncing {
		return
	}
	m.turning = true
	m.n.Later(m.n.S.About(m.n.S.Plan.Disk.Loop), m.turn)
}

// turn steps what has come in and does what follows from it.
func (m *member) turn() {
	if !m.n.Clock.Awake(m.n.S.Now) {
		m.n.Later(0, m.turn) // once it is
		return
	}
	m.turning = false
	if m.syncing || m.n.Peers != m { // its process may have ended at what asked for the turn
		return
	}
	now := m.n.Clock.Time(m.n.S.Now)
	events := append(m.inbox, group.Tick{})
	for _, e := range events {
		if err := m.Machine.Step(now, e); err != nil {
			m.n.S.Fleet.fatal(m.n, err)
			return
		}
	}
	clear(events)
	m.inbox = events[:0]
	m.drain()
}

// drain does what the machine wants until it wants nothing more or waits for
// the disk.
func (m *member) drain() {
	n := m.n
	for !m.syncing && m.Machine.HasReady() {
		ready, err := m.Machine.Ready()
		if err != nil {
			n.S.Fleet.fatal(n, err)
			return
		}
		if ready.Persist != nil {
			n.Cells.Write(ready.Persist)
			if n.step() {
				return
			}
		}
		if ready.Persist == nil || !ready.Sync {
			if !m.finish(&ready) {
				return
			}
			continue
		}
		m.syncing = true
		mark := n.Cells.Applied
		n.Later(n.syncTime(), func() {
			n.Cells.Secure(mark)
			m.syncing = false
			if n.step() || !m.finish(&ready) {
				return
			}
			m.drain()
			if len(m.inbox) > 0 {
				m.poke()
			}
		})
	}
	if !m.syncing {
		m.rest()
	}
}

// finish sends and hands out what a Ready holds once it is durable. It is false
// when the process has died at it.
func (m *member) finish(ready *group.Ready) bool {
	n := m.n
	for i := range ready.Messages {
		msg := &ready.Messages[i]
		n.S.Fleet.Post(n, msg.To, true, func(to *Node) {
			n.S.Fleet.Harm.Overhear(n, to, msg.Data)
			to.Peers.Put(group.Received{Data: slices.Clone(msg.Data)})
		})
	}
	for _, r := range ready.Results {
		if a, ok := m.asked[r.Tag]; ok {
			delete(m.asked, r.Tag)
			r.Tag = a.tag
			a.done(r)
		}
	}
	if err := m.Machine.Advance(n.Clock.Time(n.S.Now)); err != nil {
		n.S.Fleet.fatal(n, err)
		return false
	}
	n.S.Fleet.agreed(n)
	changed := m.look()
	if k := len(ready.Changes); k > 0 {
		for i := range ready.Changes {
			n.S.Fleet.learned(n, &ready.Changes[i])
		}
		m.tell(ready.Changes[k-1])
	} else if changed {
		m.tell(m.Machine.State())
	}
	return n.Peers == m && !n.step() // the node may have ended at what it was told
}

// look notes who leads and who votes, and tells whether that has changed.
func (m *member) look() bool {
	leader, voters, outgoing := m.leader, m.voters, m.outgoing
	st := m.Machine.Status()
	m.leader, m.leads, m.voters, m.outgoing = st.Leader, st.Leads, st.Voters, st.Outgoing
	return m.leader != leader || !slices.Equal(m.voters, voters) || !slices.Equal(m.outgoing, outgoing)
}

// rest sleeps until something is due.
func (m *member) rest() {
	n := m.n
	at := n.Clock.WhenMono(m.Machine.Wake())
	if at == m.wake && at > n.S.Now || at == run.Never {
		m.wake = at
		return
	}
	m.wake = at
	life := n.Life
	n.S.At(max(at, n.S.Now)+int64(n.S.About(50*time.Microsecond)), func() {
		if n.Life == life && m.wake <= n.S.Now && !m.turning && !m.syncing {
			m.turning = true
			m.turn()
		}
	})
}

// fatal ends a process that must not go on.
func (f *Fleet) fatal(n *Node, err error) {
	if n.Up && !f.Harm.Expected(n, err) && !f.Harm.Denied(n, err) {
		f.S.Broken("%sthe node stops: %v", n, err)
	}
}
