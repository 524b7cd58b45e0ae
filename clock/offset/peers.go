package offset

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
)

// Bounds and defaults of a [Config].
const (
	// DefaultDrift is a thousandth, the same that a lease's margin allows for
	// two clocks that an NTP daemon slews in opposite directions.
	DefaultDrift = 1000
	// MaxDrift is a tenth: a clock that is worse needs a watchmaker.
	MaxDrift = 100_000
	// DefaultMaxAge is some tens of heartbeats, and short enough that a node
	// which nobody answers any more soon counts as unmeasured.
	DefaultMaxAge = 10 * time.Second
	// MaxPeers is well above the hundreds of nodes of the largest cluster
	// planned for; each takes about 400 bytes.
	MaxPeers = 2048
	// Window is how many samples of a peer are kept: enough that one of them
	// met no queue, few enough that a peer's clock that was set is soon seen.
	Window = 8
)

// maxWall and maxMono bound what is taken for a time (years 1970 to 2116; 36
// years of one process), so that no sum below can overflow.
const (
	maxWall = int64(1) << 62
	maxMono = int64(1) << 60
)

// ErrImpossible is returned when the times of an exchange contradict each
// other, or are no times at all: a clock was set meanwhile, or somebody lies.
var ErrImpossible = errors.New("offset: impossible times of an exchange")

// ErrStale is returned when an answer is too old to say anything, or comes
// from a boot of the peer that is over.
var ErrStale = errors.New("offset: the answer is too old")

// ErrFull is returned when [MaxPeers] other peers were heard from lately.
var ErrFull = errors.New("offset: too many peers")

// Config says what is declared of the clocks. Zero values are the defaults.
type Config struct {
	// Self is this node, wherever a cohort names it.
	Self uint64
	// Drift is how much the rates of two clocks may differ, parts per million.
	Drift int
	// MaxAge is for how long a sample says anything.
	MaxAge time.Duration
}

// Exchange is one heartbeat and its answer, as the node that sent it knows it.
type Exchange struct {
	Peer uint64
	// Boot changes whenever the peer starts anew. Only equality counts.
	Boot uint64
	// Sent and Back are this node's clocks when the heartbeat left and when its
	// answer was there.
	Sent, Back clock.Time
	// Received and Answered are the peer's wall clock, ns, when the heartbeat
	// was there and when the answer left.
	Received, Answered int64
}

// Peers is what one node knows of the clocks of the others.
type Peers struct {
	self   uint64
	drift  int64
	maxAge int64
	peers  []peer // by id
	edges  []edge // scratch of a judgement
	turn   uint64 // number of the judgement, to count each member once
}

type peer struct {
	id, boot uint64
	sent     int64 // mono of the latest exchange begun that was taken in
	turn     uint64
	n        int // samples in use, the newest at window[(next-1) mod Window]
	next     int
	window   [Window]sample
}

// New makes the knowledge of a node that has heard of nobody yet. Values out
// of range are brought into it.
func New(c Config) *Peers {
	if c.Drift == 0 {
		c.Drift = DefaultDrift
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	return &Peers{self: c.Self, drift: int64(min(max(c.Drift, 1), MaxDrift)), maxAge: int64(min(max(c.MaxAge, time.Millisecond), time.Hour))}
}

// Answered takes in an exchange. It returns an [ErrImpossible], [ErrStale] or
// [ErrFull] when it is of no use; then nothing has changed.
func (p *Peers) Answered(x Exchange) error {
	s, err := p.sample(x)
	if err != nil {
		return err
	}
	q, err := p.find(x.Peer, x.Back.Mono)
	if err != nil {
		return err
	}
	if q.n > 0 && q.boot != x.Boot && x.Sent.Mono <= q.sent {
		return ErrStale // begun before an exchange with the present boot
	}
	if q.boot != x.Boot || p.contradicts(q, s, x.Back) {
		q.n = 0
	}
	q.boot, q.sent = x.Boot, max(q.sent, x.Sent.Mono)
	q.window[q.next] = s
	q.next, q.n = (q.next+1)%Window, min(q.n+1, Window)
	return nil
}

// Forget drops what is known of a peer that has left.
func (p *Peers) Forget(id uint64) {
	if i, found := p.index(id); found {
		p.peers = slices.Delete(p.peers, i, i+1)
	}
}

func (p *Peers) index(id uint64) (int, bool) {
	return slices.BinarySearchFunc(p.peers, id, func(q peer, id uint64) int { return cmp.Compare(q.id, id) })
}

// find gives the peer's place, a new one if need be: that of a peer that was
// silent for longer than samples last where there is no other.
func (p *Peers) find(id uint64, mono int64) (*peer, error) {
	i, found := p.index(id)
	if found {
		return &p.peers[i], nil
	}
	if len(p.peers) >= MaxPeers {
		old := slices.IndexFunc(p.peers, func(q peer) bool { return mono-q.sent > p.maxAge })
		if old < 0 {
			return nil, ErrFull
		}
		p.peers = slices.Delete(p.peers, old, old+1)
		i, _ = p.index(id)
	}
	p.peers = slices.Insert(p.peers, i, peer{id: id, sent: -maxMono})
	return &p.peers[i], nil
}

// Offset is what is known of one peer's clock.
type Offset struct {
	Peer uint64
	// OffsetNs is the peer's wall clock minus this node's, ns, and ErrorNs by how
	// much it may be wrong either way.
	OffsetNs, ErrorNs int64
	// Age is how long ago the exchange ended that says so.
	Age time.Duration
}

// Offsets lists the peers whose clocks are known now, by id.
func (p *Peers) Offsets(now clock.Time) []Offset {
	var out []Offset
	for i := range p.peers {
		if in, age, ok := p.best(&p.peers[i], now); ok {
			mid := in.Lo + (in.Hi-in.Lo)/2
			out = append(out, Offset{Peer: p.peers[i].id, OffsetNs: mid, ErrorNs: in.Hi - mid, Age: time.Duration(age)})
		}
	}
	return out
}
