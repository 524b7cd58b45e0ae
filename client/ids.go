package client

import (
	crand "crypto/rand"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// sticky is how many IDs in a row go to the same few partitions: what is
	// committed together then costs few writes, and a stream still spreads.
	sticky = 64
	// tries is about how many draws an ID may cost; the more partitions there
	// are, the larger is the group that IDs are drawn for.
	tries = 16
)

// placement is which partitions take enqueues, as a node said last.
type placement struct {
	partitions int
	open       int     // how many take enqueues
	rank       []int32 // by partition: its rank among those, or -1

	copies, replicas int // see [Info]
}

// placed remembers a placement; nil is ignored.
func (c *caller) placed(m *nornv1.Placement) {
	if m.GetPartitions() == 0 || m.GetPartitions() > 1<<16 {
		return
	}
	p := &placement{partitions: int(m.GetPartitions()), copies: int(m.GetCopies()), replicas: int(m.GetReplicas())}
	p.rank = make([]int32, p.partitions)
	for i := range p.rank {
		p.rank[i] = -1
		if bits := m.GetEnqueueable(); i/8 < len(bits) && bits[i/8]&(1<<(i%8)) != 0 {
			p.rank[i] = int32(p.open)
			p.open++
		}
	}
	c.place.Store(p)
}

// partitionOf is the partition of an ID: xxhash64(id) mod partitions, the same
// as ring.Of on the servers (protocol, IDs).
func partitionOf(i id.ID, partitions int) int {
	return int(xxhash.Sum64(i[:]) % uint64(partitions))
}

// sampler draws IDs.
type sampler struct {
	mu    sync.Mutex // guards the fields below
	rng   *rand.ChaCha8
	gen   *id.Generator
	place *placement // what first and group are about
	first int        // rank of the first partition of the present group
	group int        // number of partitions in it
	left  int        // IDs until the next group
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
		s.place, s.left = p, 0
	}
	for i := range out {
		if p == nil || p.open == 0 {
			out[i] = s.gen.Next(now)
			continue
		}
		if s.left <= 0 {
			s.left = run
			s.group = (p.partitions + tries - 1) / tries
			s.first = int(s.rng.Uint64() % uint64(p.open))
		}
		s.left--
		drawn, ok := s.gen.Draw(now, func(c id.ID) bool {
			r := int(p.rank[partitionOf(c, p.partitions)])
			distance := r - s.first
			if distance < 0 {
				distance += p.open
			}
			return r >= 0 && distance < s.group
		})
		if !ok {
			drawn = s.gen.Next(now)
		}
		out[i] = drawn
	}
}

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
