package group

import (
	"fmt"
	"math/rand/v2"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
)

// Event is what a machine is told. The kinds are [Received], [Asked], [Tick],
// [Unreachable], [Lost], [Found] and [Campaign].
type Event interface{ event() }

type (
	// Received is a message from a peer, as the peer's Ready gave it.
	Received struct{ Data []byte }
	// Asked is a request of this node.
	Asked struct{ Request register.Request }
	// Tick says that time has passed.
	Tick struct{}
	// Unreachable says that messages to a peer were not delivered.
	Unreachable struct{ Peer register.Member }
	// Lost says that a member has gone as far as connections tell: if it leads, the
	// others need not wait until they miss it. Where that was wrong, those who
	// still hear the leader see to it that nothing happens.
	Lost struct{ Peer register.Member }
	// Found says that there is a connection to a member again: with it, there may be a
	// majority, and who waited longer and longer for one need not any more.
	Found struct{ Peer register.Member }
	// Campaign makes the member stand for election, if it may.
	Campaign struct{}
)

func (Received) event()    {}
func (Asked) event()       {}
func (Tick) event()        {}
func (Lost) event()        {}
func (Found) event()       {}
func (Unreachable) event() {}
func (Campaign) event()    {}

// Message goes to a peer. It may be lost, doubled or overtaken.
type Message struct {
	To   register.Member
	Data []byte
	// Bulk messages are pieces of a snapshot: they should not be in the way of
	// others.
	Bulk bool
}

// Ready is what a machine wants done, in this order.
type Ready struct {
	// Persist is to be committed; nil is nothing.
	Persist *store.Batch
	// Sync: it must be durable before anything below leaves.
	Sync bool
	// Messages are to be sent.
	Messages []Message
	// Results answer requests of this node.
	Results []register.Result
	// Changes are the states that came to be, one after the other. After a
	// snapshot from the leader one of them stands for many.
	Changes []register.State
}

// Machine is one member of the group. It is used from one goroutine.
type Machine struct {
	cfg   Config
	id    uint64
	meta  meta
	life  life
	rand  *rand.Rand
	now   int64 // monotonic
	start start

	disk *disk
	node *raft.RawNode
	rep  replica
	// conf is the configuration at applied.
	conf        *pb.ConfState
	applied     uint64
	appliedTerm uint64

	batch  *store.Batch
	taken  *raft.Ready // handed out and not advanced
	out    Ready       // what comes with the next Ready
	failed error

	peers     map[uint64]register.Member // who has written and is not in the register
	known     map[uint64]*peer           // what each has shown
	heardGen  uint64                     // generation of the last message, before there is a state
	refused   Refusal
	refusedBy register.Member
	removed   bool // enough others say so
	twins     twins
	removers  twins // who says that this member was removed
	newer     newer

	timers   timers
	requests requests
	screen   screen
	sending  map[uint64]*transfer
	numbers  uint64 // of transfers
	arriving *arrival
	leading  *leading // nil: not leading
	roll     roll
}

// Open makes a member of what a store holds. It returns ErrNotFormatted when
// that is nothing, ErrOtherOwner when it is another's, and wire.ErrDamaged when
// it is not what was written. The view is not used afterwards.
func Open(cfg Config, v store.View, now clock.Time) (*Machine, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	meta, d, rep, err := load(v)
	if err != nil {
		return nil, err
	}
	if meta.self != cfg.Self || cfg.Cluster != (register.UUID{}) && cfg.Cluster != meta.cluster {
		return nil, fmt.Errorf("%w: %s in incarnation %v of cluster %v; this is %s in incarnation %v of cluster %v", ErrOtherOwner,
			meta.self.Node, meta.self.Incarnation, meta.cluster, cfg.Self.Node, cfg.Self.Incarnation, cfg.Cluster)
	}
	m := &Machine{
		cfg: cfg, id: cfg.Self.Incarnation.ID(), meta: meta, now: now.Mono,
		rand: rand.New(rand.NewPCG(cfg.Seed, cfg.Self.Incarnation.ID())),
		disk: d, rep: rep, batch: &store.Batch{},
		conf:    pb.EnsureConfState(proto.Clone(d.snap.GetConfState()).(*pb.ConfState)),
		applied: d.snap.GetIndex(), appliedTerm: d.snap.GetTerm(),
		peers: map[uint64]register.Member{}, known: map[uint64]*peer{}, twins: twins{}, removers: twins{}, sending: map[uint64]*transfer{},
	}
	d.latest, d.conf = m.snapshot, func() *pb.ConfState { return m.conf }
	m.life = life{d.boot + 1, m.rand.Uint64()}
	m.requests.init(m, m.rand.Uint64())
	m.guard(func() error { return begin(m) })
	if m.failed != nil {
		return nil, m.failed
	}
	m.timers.init(m)
	m.start.init(m)
	return m, nil
}

// guard runs something of raft's, which panics when its rules are violated. It
// reports whether all is well.
func (m *Machine) guard(f func() error) (ok bool) {
	if m.failed != nil {
		return false
	}
	defer func() {
		if r := recover(); r != nil {
			m.failed, ok = fmt.Errorf("%w: %v", ErrBroken, r), false
		}
	}()
	if err := f(); err != nil {
		m.failed = err
		return false
	}
	return true
}

// forgot ends the member: its disk has lost what it had acknowledged.
func forgot(m *Machine, by register.Member, term, commit uint64, format string, args ...any) {
	m.failed = &Accusation{By: by, Term: term, Commit: commit, why: fmt.Sprintf(format, args...)}
}

// Accusation is an [ErrForgot] by the word of one member. The others know whether it can be:
// that there was such a term, and so much decided.
type Accusation struct {
	By           register.Member
	Term, Commit uint64 // that this disk should know of
	why          string
}

// Error says what is missing, and who knows it.
func (a *Accusation) Error() string { return ErrForgot.Error() + ": " + a.why }

// Unwrap is ErrForgot.
func (a *Accusation) Unwrap() error { return ErrForgot }

// step hands raft a message. What raft does not take is dropped: messages may
// be lost anyway.
func (m *Machine) step(msg *pb.Message) {
	if m.failed != nil {
		return
	}
	if !m.guard(func() error {
		_ = m.node.Step(msg)
		return nil
	}) {
		rebuild(m)
	}
}

// Step takes an event. It returns the error that has stopped the machine.
func (m *Machine) Step(now clock.Time, ev Event) error {
	if m.failed != nil {
		return m.failed
	}
	if _, is := ev.(Tick); is {
		m.timers.behind(m, now)
	}
	m.now = max(m.now, now.Mono) // time does not go back
	switch ev := ev.(type) {
	case Received:
		m.receive(ev.Data)
	case Asked:
		m.requests.ask(ev.Request)
	case Unreachable:
		m.guard(func() error {
			m.node.ReportUnreachable(ev.Peer.Incarnation.ID())
			return nil
		})
	case Lost:
		m.timers.lost(m, ev.Peer.Incarnation.ID())
	case Found:
		if known := m.known[ev.Peer.Incarnation.ID()]; known != nil {
			known.anew = true
		}
		m.timers.found(m, ev.Peer.Incarnation.ID())
	case Campaign:
		m.campaign()
	case Tick:
	}
	m.look()
	return m.failed
}

// look does what is due.
func (m *Machine) look() {
	m.start.ask(m)
	m.tick()
	m.requests.retry()
	m.pump()
	m.lead()
	m.requests.askReads()
}

// HasReady reports whether there is something to do. It is false between Ready
// and Advance.
func (m *Machine) HasReady() bool {
	if m.failed != nil || m.taken != nil {
		return false
	}
	return m.disk.boot != m.life.boot || m.node.HasReady() || len(m.out.Messages) > 0 || len(m.out.Results) > 0
}

// Ready gives what is to be done; see the package's contract. Its batch belongs
// to the caller until Advance.
func (m *Machine) Ready() (Ready, error) {
	m.guard(m.ready)
	if m.failed != nil {
		return Ready{}, m.failed
	}
	r := m.out
	m.out = Ready{}
	return r, nil
}

func (m *Machine) ready() error {
	rd := m.node.Ready()
	m.taken = &rd
	m.batch.Reset()
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := m.install(rd.Snapshot); err != nil {
			return err
		}
	}
	first := m.disk.boot != m.life.boot
	if first { // before the first word
		m.disk.setBoot(m.batch, m.life.boot)
	}
	if err := m.disk.append(m.batch, rd.Entries); err != nil {
		return err
	}
	if !raft.IsEmptyHardState(rd.HardState) {
		if err := m.disk.setHard(m.batch, rd.HardState); err != nil {
			return err
		}
	}
	m.out.Sync = first || rd.MustSync && !mutant.TermForgotten.On() || !raft.IsEmptySnap(rd.Snapshot)
	for _, e := range rd.CommittedEntries {
		if err := m.commit(e); err != nil {
			return err
		}
		// Raft does not ask for it, but a member that forgets that a change of
		// voters is over needs the voters from before it to elect a leader, and
		// those may be gone.
		m.out.Sync = m.out.Sync || e.GetType() != pb.EntryNormal
	}
	if err := m.compact(); err != nil {
		return err
	}
	m.requests.readable(rd.ReadStates)
	for _, msg := range rd.Messages {
		if m.leading != nil && m.leading.seldom(msg) {
			continue
		}
		if err := m.post(msg); err != nil {
			return err
		}
	}
	if m.batch.Len() > 0 {
		m.out.Persist = m.batch
	}
	return nil
}

// Advance says that the last Ready was done now.
func (m *Machine) Advance(now clock.Time) error {
	if m.taken == nil {
		return m.failed
	}
	rd := *m.taken
	m.taken = nil
	m.timers.deaf(m, now)
	m.guard(func() error {
		m.node.Advance(rd)
		return nil
	})
	m.timers.changed(m)
	m.lead()
	m.requests.answerable()
	m.requests.askReads()
	return m.failed
}

// commit applies one entry.
func (m *Machine) commit(e *pb.Entry) error {
	m.applied, m.appliedTerm = e.GetIndex(), e.GetTerm()
	switch e.GetType() {
	case pb.EntryNormal:
		if len(e.GetData()) > 0 {
			return m.requests.decided(e.GetIndex(), e.GetData())
		}
		return nil
	case pb.EntryConfChangeV2:
		cc := &pb.ConfChangeV2{}
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return fmt.Errorf("%w: change of voters at %d: %v", ErrBroken, e.GetIndex(), err)
		}
		m.conf = m.node.ApplyConfChange(cc)
		if m.leading != nil {
			m.leading.confAt = 0 // the next one may come
		}
		return nil
	}
	return fmt.Errorf("%w: entry %d of kind %v", ErrBroken, e.GetIndex(), e.GetType())
}

// snapshotPerEntry is how many bytes of a snapshot one entry of the log may
// cost.
const snapshotPerEntry = 4 << 10

// snapshot is what is applied, as raft wants it.
func (m *Machine) snapshot() *pb.Snapshot {
	return &pb.Snapshot{Data: m.rep.encode(), Metadata: &pb.SnapshotMetadata{
		Index: new(m.applied), Term: new(m.appliedTerm), ConfState: proto.Clone(m.conf).(*pb.ConfState),
	}}
}

// compact writes a snapshot when the log behind the last one is long: the
// longer, the larger that one was, so that what is written of snapshots stays in
// proportion to what is written of the log, however many schedules there are.
func (m *Machine) compact() error {
	last := m.disk.pieces * chunkSize
	entries, bytes := max(m.cfg.Entries, last/snapshotPerEntry), max(m.cfg.Bytes, last/2)
	if int(m.applied-m.disk.snap.GetIndex()) < entries && m.disk.size < bytes || m.applied == m.disk.snap.GetIndex() {
		return nil
	}
	snap := m.snapshot()
	m.batch.Grow(len(snap.GetData()) + 64*(len(snap.GetData())/chunkSize+1))
	return m.disk.compact(m.batch, snap, m.cfg.Keep, m.cfg.KeepBytes)
}

// install takes the state of a snapshot from the leader.
func (m *Machine) install(snap *pb.Snapshot) error {
	rep, err := decodeReplica(snap.GetData())
	if err != nil {
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	if err := m.disk.reset(m.batch, snap); err != nil {
		return err
	}
	// A snapshot may be of the same register, with more of the log behind it.
	if m.applied == 0 || rep.state.Revision != m.rep.state.Revision {
		m.out.Changes = append(m.out.Changes, rep.state)
	}
	m.rep = rep
	m.conf = proto.Clone(snap.GetMetadata().GetConfState()).(*pb.ConfState)
	m.applied, m.appliedTerm = snap.GetMetadata().GetIndex(), snap.GetMetadata().GetTerm()
	m.requests.caughtUp()
	return nil
}
