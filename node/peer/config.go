package peer

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// Versions of the peer protocol that this build speaks.
const (
	MinVersion = 3 // messages share frames, and each connection has signs of life of its own
	MaxVersion = 4
	shares     = 4 // the connections between two nodes are watched together
)

// Lane is what a connection is for. The numbers are sent.
type Lane uint8

// The two connections that a node dials to each other one.
const (
	Control Lane = 1 // small messages: votes, leases, acknowledgements
	Bulk    Lane = 2 // large ones: copies, snapshots
)

// String is the lane as logs say it.
func (l Lane) String() string {
	if l == Bulk {
		return "bulk"
	}
	return "control"
}

// Handler is told what comes in. Calls for one peer and lane come one at a time.
type Handler interface {
	// Messages has what one read of a connection brought, in order. The slice is
	// only valid during the call, the messages are the handler's. While it blocks,
	// nothing more is read from that peer and lane.
	Messages(from register.Member, all []message.PeerMessage)
	// Up and Down say that this node's control connection to a peer is open, and
	// that it is no longer. For one peer they come in turns. They must not block.
	Up(peer register.Member)
	Down(peer register.Member)
	// Join decides whether a node may join. It has a goroutine of its own, of
	// which there are few, and may take its time; ctx ends with the joiner's
	// connection. The joiner is shown the error; a *proto.Error travels as it is.
	Join(ctx context.Context, r JoinRequest) (JoinReply, error)
}

// Config is what a [Network] runs with. Handler, Addresses and Self are needed.
type Config struct {
	// Self is this node.
	Self register.Member
	// Cluster is the cluster this node belongs to; zero: none yet, then only
	// probes are answered until [Network.SetCluster].
	Cluster register.UUID
	// Generation gives the register's generation as this node knows it; nil: 0.
	Generation func() uint64
	// Revision gives the register's revision as this node knows it; nil: 0.
	Revision func() uint64
	// Rebuilt gives the generation that last began from a backup; nil: 0.
	Rebuilt func() uint64
	// Addresses gives where a peer may be reached, HOST:PORT, the best first.
	// They are tried in this order. It is called from any goroutine.
	Addresses func(register.Member) []string
	// Advertise are this node's own addresses, told to those it dials.
	Advertise []string
	// Boot counts the starts of the data directory, this one included: a peer that
	// has seen a later one refuses this. 0: not counted.
	Boot uint64
	// Build is the version of the program, for the logs of others.
	Build string
	// Security is how peers prove that they belong here.
	Security
	// Handler gets what comes in.
	Handler Handler
	// Admit decides about a peer that dials, after all else was found right: the
	// error's text is the refusal. nil: everyone of the cluster.
	Admit func(Hello) error
	// Sender reads from a message of the register's group whose it is: others than those
	// of who has said hello are passed over. nil: it is not looked at.
	Sender func(data []byte) (register.Member, error)
	// Members gives all that the register here names, for those that ask back about one
	// whom they do not know; nil: nobody.
	Members func() []register.Node
	// Standing gives the term and commit index of the register's group here, and whether a
	// leader is heard; nil: nothing. It must not block.
	Standing func() (term, commit uint64, follows bool)
	// Spare is what this node says to one that asks whether it can be spared, from any
	// goroutine; nil: nothing.
	Spare func(who register.Member) message.MayRetire
	// Expect is what [Identity] says of this node while it is no member; 0: nothing.
	Expect int
	// Among goes with Expect: nil without.
	Among []byte
	// Rival hears that a member of another cluster means this node, by its name; nil: nobody does.
	Rival func(h *Hello)
	// Outdated hears that a peer refuses this process because another one runs, or
	// ran later, in the same incarnation (ErrOldLife): with each attempt, from any
	// goroutine. Right after a start it may be its own process before that, whose
	// connection nobody has missed yet. nil: nobody is told.
	Outdated func(by register.Member, err error)
	// Gossip takes over connections that begin with memberlist's label header, as
	// if nothing had been read. nil: they are closed.
	Gossip func(net.Conn)
	// Dial replaces dialling TCP (not TLS); nil: net.Dialer.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Logger gets a line per change of state; nil: nothing.
	Logger *slog.Logger
	// Logins hears who does not know the secret, or shows a bad certificate; nil: nobody.
	Logins *logins.Watch
	// Limits bound what is held.
	Limits Limits
	// Timing are the time-outs.
	Timing Timing
}

// Security is what both ends of a connection must have in common.
type Security struct {
	// TLS is used for dialling and for answering; mutual when it asks for
	// certificates of clients. nil: plain.
	TLS *tls.Config
	// Secrets: others must say one of them, and this node says the first. Empty: none.
	Secrets secrets.Set
	// Names are what must be in the certificates that others show. None: anything.
	Names Names
}

// Limits bound what a [Network] holds. A zero field is its default.
type Limits struct {
	QueueControl int // bytes that wait for one peer's control connection; default 16 MiB
	QueueBulk    int // likewise bulk; one message always fits; default 64 MiB
	ReadBytes    int // of all large frames that are being read; default 256 MiB
	Conns        int // accepted connections; default 4096
	Greeting     int // of these, ones that have not proved to be of a member: so many strangers, and so many from members' addresses; default 256
	Joins        int // requests to join that are being decided, of nodes that were dialled back; default 8
	Peers        int // peers that are sent to; default 4096
}

// Timing are the time-outs of a [Network]. A zero field is its default.
type Timing struct {
	Alive      time.Duration // after what was said to a peer last, a sign of life; default 1 s
	Idle       time.Duration // without any byte of a peer all connections with it end; default 2.5 s
	Dial       time.Duration // to connect to one address, TLS included; default 3 s
	Hello      time.Duration // for the first frame; default 5 s
	Frame      time.Duration // first to last byte of a frame; default 60 s
	Write      time.Duration // one write of at most 256 KiB; default 15 s
	MinBackoff time.Duration // before the second attempt to connect, doubling; default 50 ms
	MaxBackoff time.Duration // default 2 s
	Forget     time.Duration // a peer that is not kept, after the last send, and a bulk connection without use; default 1 min
	Join       time.Duration // to decide about a request to join; default 1 min
}

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		v *int
		d int
	}{
		{&l.QueueControl, 16 << 20},
		{&l.QueueBulk, 64 << 20},
		{&l.ReadBytes, 256 << 20},
		{&l.Conns, 4096},
		{&l.Greeting, 256},
		{&l.Joins, 8},
		{&l.Peers, 4096},
	} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	return l
}

// withDefaults fills in what is zero.
func (t Timing) withDefaults() Timing {
	for _, f := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&t.Alive, time.Second},
		{&t.Idle, 2500 * time.Millisecond},
		{&t.Dial, 3 * time.Second},
		{&t.Hello, 5 * time.Second},
		{&t.Frame, time.Minute},
		{&t.Write, 15 * time.Second},
		{&t.MinBackoff, 50 * time.Millisecond},
		{&t.MaxBackoff, 2 * time.Second},
		{&t.Forget, time.Minute},
		{&t.Join, time.Minute},
	} {
		if *f.v <= 0 {
			*f.v = f.d
		}
	}
	return t
}

// withDefaults fills in what is zero or nil.
func (c Config) withDefaults() Config {
	c.Limits, c.Timing = c.Limits.withDefaults(), c.Timing.withDefaults()
	if c.Generation == nil {
		c.Generation = func() uint64 { return 0 }
	}
	if c.Revision == nil {
		c.Revision = func() uint64 { return 0 }
	}
	if c.Rebuilt == nil {
		c.Rebuilt = func() uint64 { return 0 }
	}
	if c.Addresses == nil {
		c.Addresses = func(register.Member) []string { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
