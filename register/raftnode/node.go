package raftnode

import (
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/store"
)

// Network carries messages between members. It may lose, double and reorder
// them, and must not change them.
type Network interface {
	// Send hands over a message. It must not block: when it cannot go on, it
	// drops. Bulk messages should not be in the way of others.
	Send(to register.Member, data []byte, bulk bool)
	// Receive has fn called with each message that comes in, from any goroutine;
	// fn does not block and keeps data. A nil fn ends that: no call is under way
	// when Receive returns.
	Receive(fn func(data []byte))
}

// Config is what a member runs with.
type Config struct {
	// Group are the settings of the machine. Seed 0 draws one.
	Group group.Config
	// Store holds the register. It is the caller's to close, after the node.
	Store store.Store
	// Network reaches the others.
	Network Network
	// Now reads the clocks; nil reads the system's.
	Now func() clock.Time
	// Failed is called once, when the machine has stopped for good; nil: nobody
	// is told.
	Failed func(error)
	// Seen is called on the node's goroutine whenever the group's leader or its
	// voters have changed here; it must not block. nil: nobody is told.
	Seen func(group.Status)
	// Log gets one line per change of role and configuration; nil: nothing.
	Log *slog.Logger
}

// maxInbox is how many messages may wait for the goroutine. More are dropped:
// peers send again.
const maxInbox = 4096

// pending is a request under way.
type pending struct {
	tag  uint64
	done func(register.Result)
}

// Node is a running member. It is a [register.Register].
type Node struct {
	cfg     Config
	machine *group.Machine // of the goroutine
	wake    chan struct{}
	ended   chan struct{}
	state   atomic.Pointer[register.State]
	status  atomic.Pointer[group.Status]

	mu      sync.Mutex // guards what follows
	inbox   []group.Event
	pending map[uint64]pending
	tag     uint64
	watch   []func(register.State)
	err     error // why no more requests are taken
}

var _ register.Register = (*Node)(nil)

// Open starts the member that the store was formatted for. Errors are those of
// [group.Open].
func Open(cfg Config) (*Node, error) {
	if cfg.Group.Seed == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:])
		cfg.Group.Seed = binary.LittleEndian.Uint64(b[:])
	}
	if cfg.Now == nil {
		start := time.Now()
		cfg.Now = func() clock.Time {
			now := time.Now()
			return clock.Time{Wall: now.UnixNano(), Mono: int64(now.Sub(start))}
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m, err := group.Open(cfg.Group, cfg.Store, cfg.Now())
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, machine: m, wake: make(chan struct{}, 1), ended: make(chan struct{}), pending: make(map[uint64]pending)}
	n.publish()
	cfg.Network.Receive(func(data []byte) { n.post(group.Received{Data: data}) })
	go n.run()
	return n, nil
}

// post hands an event to the goroutine.
func (n *Node) post(ev group.Event) {
	n.mu.Lock()
	if n.err == nil && len(n.inbox) < maxInbox {
		n.inbox = append(n.inbox, ev)
	}
	n.mu.Unlock()
	n.rouse()
}

func (n *Node) rouse() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Do takes a request and sees to it that done is called once with its result.
func (n *Node) Do(r register.Request, done func(register.Result)) {
	n.mu.Lock()
	err := n.err
	if err == nil && len(n.inbox) >= maxInbox {
		err = group.ErrBusy
	}
	if err != nil {
		n.mu.Unlock()
		done(register.Result{Tag: r.Tag, Err: err})
		return
	}
	n.tag++
	n.pending[n.tag] = pending{r.Tag, done}
	r.Tag = n.tag
	n.inbox = append(n.inbox, group.Asked{Request: r})
	n.mu.Unlock()
	n.rouse()
}

// Subscribe has fn called with the state after each change.
func (n *Node) Subscribe(fn func(register.State)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch = append(n.watch, fn)
}

// Members gives the members as last seen here.
func (n *Node) Members() []register.Member { return slices.Clone(n.state.Load().Members) }

// Cluster is what was fixed when the cluster was made. It is zero on a member
// that no leader has filled yet.
func (n *Node) Cluster() register.Cluster { return n.state.Load().Cluster }

// State is the register as last seen here. It may be behind.
func (n *Node) State() register.State { return *n.state.Load() }

// Status is how this member last saw the group.
func (n *Node) Status() group.Status { return *n.status.Load() }

// Unreachable says that messages to a peer were not delivered.
func (n *Node) Unreachable(peer register.Member) { n.post(group.Unreachable{Peer: peer}) }

// Lost tells the group that the connection to a peer has ended, and that there is
// no other.
func (n *Node) Lost(peer register.Member) { n.post(group.Lost{Peer: peer}) }

// Found tells the group that there is a connection to a peer again.
func (n *Node) Found(peer register.Member) { n.post(group.Found{Peer: peer}) }

// Close ends the member and waits for its goroutine. Requests under way get
// ErrClosed: their outcome is not known.
func (n *Node) Close() error {
	n.stop(register.ErrClosed)
	<-n.ended
	return nil
}

// stop refuses further requests; the first reason stays.
func (n *Node) stop(err error) {
	n.mu.Lock()
	if n.err == nil {
		n.err = err
	}
	n.mu.Unlock()
	n.rouse()
}

// take gives what has come in, and the reason to end.
func (n *Node) take(spare []group.Event) ([]group.Event, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(spare)
	events := n.inbox
	n.inbox = spare[:0]
	return events, n.err
}

func (n *Node) run() {
	defer close(n.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var events []group.Event
	for {
		var err error
		if events, err = n.take(events); err == nil {
			err = n.turn(events)
		}
		if err != nil {
			n.end(err)
			return
		}
		timer.Reset(n.pause())
		select {
		case <-n.wake:
		case <-timer.C:
		}
	}
}

// pause is for how long nothing is due.
func (n *Node) pause() time.Duration {
	at := n.machine.Wake()
	if at == clock.Never {
		return time.Hour
	}
	return max(0, time.Duration(at-n.cfg.Now().Mono))
}

// turn steps through events and does what follows from them.
func (n *Node) turn(events []group.Event) error {
	for _, ev := range events {
		if err := n.machine.Step(n.cfg.Now(), ev); err != nil {
			return err
		}
	}
	if err := n.machine.Step(n.cfg.Now(), group.Tick{}); err != nil {
		return err
	}
	for n.machine.HasReady() {
		ready, err := n.machine.Ready()
		if err != nil {
			return err
		}
		n.perform(&ready)
		if err := n.machine.Advance(n.cfg.Now()); err != nil {
			return err
		}
	}
	n.publish()
	return nil
}

// perform does a Ready: first the disk, then everything that speaks of it.
func (n *Node) perform(ready *group.Ready) {
	var shown func() // waits until what is shown to this node is durable
	switch {
	case ready.Persist == nil:
	case ready.Sync:
		if wait := n.cfg.Store.Commit(ready.Persist); !mutant.RegisterUnsynced.On() {
			wait()
		}
	case len(ready.Changes) > 0:
		// Raft does not ask for it: the others know what was decided. A member that starts again
		// without them would not, and let in whose token was revoked. They do not wait for it.
		shown = n.cfg.Store.Commit(ready.Persist)
	default:
		n.cfg.Store.Apply(ready.Persist)
	}
	for i := range ready.Messages {
		m := &ready.Messages[i]
		n.cfg.Network.Send(m.To, m.Data, m.Bulk)
	}
	if shown != nil {
		shown()
	}
	if len(ready.Changes) > 0 {
		n.state.Store(&ready.Changes[len(ready.Changes)-1])
	}
	for _, r := range ready.Results {
		n.mu.Lock()
		p, ok := n.pending[r.Tag]
		delete(n.pending, r.Tag)
		n.mu.Unlock()
		if ok {
			r.Tag = p.tag
			p.done(r)
		}
	}
	n.mu.Lock()
	watch := n.watch[:len(n.watch):len(n.watch)]
	n.mu.Unlock()
	for _, state := range ready.Changes {
		for _, fn := range watch {
			fn(state)
		}
	}
}

// publish shows the others what this member sees.
func (n *Node) publish() {
	state, status := n.machine.State(), n.machine.Status()
	if old := n.status.Load(); old != nil {
		if old.Leader != status.Leader {
			n.cfg.Log.Info("register.leader", "leader", status.Leader.Node, "term", status.Term)
		}
		if !slices.Equal(old.Voters, status.Voters) {
			n.cfg.Log.Info("register.voters", "voters", names(status.Voters), "learners", names(status.Learners))
		}
		if status.Refused != old.Refused {
			n.cfg.Log.Warn("register.refused", "by", status.RefusedBy.Node, "reason", status.Refused.String())
		}
		if status.Newer != old.Newer {
			n.cfg.Log.Error("register.newer", "by", status.Newer.Node,
				"meaning", "it has sent a register that a newer version of norn has written, which this one cannot read: this node stays behind; start that version")
		}
	}
	n.state.Store(&state)
	old := n.status.Swap(&status)
	if n.cfg.Seen != nil && (old == nil || old.Leader != status.Leader || old.Refused != status.Refused || old.Removed != status.Removed || !slices.Equal(old.Voters, status.Voters) || !slices.Equal(old.Outgoing, status.Outgoing)) {
		n.cfg.Seen(status)
	}
}

func names(members []register.Member) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.Node
	}
	return out
}

// end answers everything with the reason and takes nothing more.
func (n *Node) end(err error) {
	n.cfg.Network.Receive(nil)
	n.stop(err)
	n.mu.Lock()
	err, open := n.err, n.pending
	n.pending, n.inbox = nil, nil
	n.mu.Unlock()
	if broken := n.machine.Err(); broken != nil {
		n.cfg.Log.Error("register.stopped", "error", broken)
		if n.cfg.Failed != nil {
			n.cfg.Failed(broken)
		}
	}
	for _, p := range open {
		p.done(register.Result{Tag: p.tag, Err: err})
	}
}
