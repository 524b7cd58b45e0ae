package client

import (
	crand "crypto/rand"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// sticky is how many IDs in a row go to the same few partitions: what is
	// committed together then costs few writes, and a stream still spreads.
	sticky = 64
	// few is how many those are, at most, and share the part of all that they are
	// where there are not many.
	few, share = 4, 16
)

// placement is which partitions take enqueues, as a node said last.
type placement struct {
	partitions int
	open       []uint16 // those that take enqueues, in order
	group      int      // how many of them the IDs of one run are in
	window     int      // see [id.Window]; 0: there is none

	copies, replicas int // see [Info]
}

// placed remembers a placement; nil is ignored.
func (c *caller) placed(m *nornv1.Placement) {
	if m.GetPartitions() == 0 || m.GetPartitions() > 1<<16 {
		return
	}
	p := &placement{partitions: int(m.GetPartitions()), copies: int(m.GetCopies()), replicas: int(m.GetReplicas())}
	p.group = min(few, (p.partitions+share-1)/share)
	if w := int(m.GetWindow()); w < p.partitions {
		p.window = w
	}
	for i := range p.partitions {
		if bits := m.GetEnqueueable(); i/8 < len(bits) && bits[i/8]&(1<<(i%8)) != 0 {
			p.open = append(p.open, uint16(i))
		}
	}
	c.place.Store(p)
}

// in are the partitions that take the IDs of the second of now, of those that are open.
func (p *placement) in(now int64) []uint16 {
	var in []uint16
	for i := range p.window {
		at := uint16(id.Window(now, p.partitions, i))
		if _, open := slices.BinarySearch(p.open, at); open {
			in = append(in, at)
		}
	}
	if len(in) == 0 {
		return p.open
	}
	return in
}

// sampler draws IDs.
type sampler struct {
	mu     sync.Mutex // guards the fields below
	rng    *rand.ChaCha8
	gen    *id.Generator
	place  *placement // what the fields below are about
	in     []uint16   // the partitions that take IDs now
	second int64      // in which they do
	first  int        // the first of the present few, in in
	left   int        // IDs until the next few
}

func (s *sampler) seed() {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails
	s.rng = rand.NewChaCha8(seed)
	s.gen = s.generator()
}

func (s *sampler) generator() *id.Generator {
	return id.NewGenerator(uint32(s.rng.Uint64()), s.rng.Uint64)
}

// draw fills out with IDs in partitions of p, in runs of the given length.
func (s *sampler) draw(out []id.ID, p *placement, run int, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixNano()
	if s.gen.Ahead(now) > most {
		// The clock has stepped back by more than nodes tolerate: order within
		// the process is lost, service is not.
		s.gen = s.generator()
	}
	if s.place != p {
		s.place, s.in = p, nil
	}
	for i := range out {
		if p == nil || len(p.open) == 0 {
			out[i] = s.gen.Next(now)
			continue
		}
		if second := now / int64(time.Second); len(s.in) == 0 || p.window > 0 && second != s.second {
			s.in, s.second, s.left = p.in(now), second, 0
		}
		if s.left <= 0 {
			s.left, s.first = run, s.below(len(s.in))
		}
		s.left--
		into := s.in[(s.first+s.below(p.group))%len(s.in)]
		n := uint64(p.partitions)
		out[i] = s.gen.Hashed(now, s.rng.Uint64()/n%(math.MaxUint64/n)*n+uint64(into)) // the last part of all hashes is not whole
	}
}

// below is a random number below n.
func (s *sampler) below(n int) int { return int(s.rng.Uint64() % uint64(n)) }

// NewID makes an ID for a task, in a partition that takes enqueues as far as
// known. IDs of one client increase, and stay in the same few partitions for
// some time.
func (c *Client) NewID() id.ID {
	var one [1]id.ID
	c.ids.draw(one[:], c.place.Load(), sticky, c.maxAhead())
	return one[0]
}

// NewIDs makes n IDs that lie in few partitions, so that a batch of them costs
// few writes. n under 1 gives none.
func (c *Client) NewIDs(n int) []id.ID {
	out := make([]id.ID, max(n, 0))
	c.ids.draw(out, c.place.Load(), max(sticky, n), c.maxAhead())
	return out
}

// maxAhead is how far IDs may run ahead of the clock after it stepped back.
func (c *caller) maxAhead() time.Duration {
	if i := c.info.Load(); i != nil {
		return max(id.MaxAhead, i.Eta/2)
	}
	return id.MaxAhead
}
