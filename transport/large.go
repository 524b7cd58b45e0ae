package transport

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Large frames that are being read share a budget. A connection reads one at a time, which is
// far below a quarter of it; but a client with a few connections could begin one on each, and
// then be slow. So where there is no room, those that come slowly give way.
const (
	// idleFrame is after what time without a byte a large frame gives way to others, slowFrame
	// at what age whether bytes come or not.
	idleFrame = time.Second
	slowFrame = 5 * time.Second
)

// large is what a connection has of the budget for large frames.
type large struct {
	held  atomic.Int64
	began atomic.Int64 // when it had something first, ns
	moved atomic.Int64 // when a byte came last, ns
}

// take notes that it has n bytes more.
func (l *large) take(n int) {
	if l.held.Add(int64(n)) == int64(n) {
		now := time.Now().UnixNano()
		l.began.Store(now)
		l.moved.Store(now)
	}
}

// give notes that it has n bytes less, and says how many of them are still its own.
func (l *large) give(n int) int {
	for {
		held := l.held.Load()
		own := min(held, int64(n))
		if l.held.CompareAndSwap(held, held-own) {
			return int(own)
		}
	}
}

// makeRoom ends connections whose large frames come slowly until n bytes of the budget are
// another one's: their buffers go when the readers have heard of it. It is false, and nobody
// has ended, when there are too few.
func (s *Server) makeRoom(me *Conn, n int) bool {
	type slow struct {
		c     *Conn
		bytes int64
		idle  bool
		began int64
	}
	var all []slow
	now := time.Now().UnixNano()
	var ended []*Conn
	defer func() {
		for _, c := range ended {
			s.sayRefused(c, ErrFrameGaveWay)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		l := &c.in.large
		one := slow{c, l.held.Load(), now-l.moved.Load() >= int64(idleFrame), l.began.Load()}
		if c != me && one.bytes > 0 && (one.idle || now-one.began >= int64(slowFrame)) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b slow) int { // idle ones first, of these those that began first
		if a.idle != b.idle {
			if a.idle {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.began, b.began)
	})
	free := s.budget.limit - s.budget.taken.Load()
	for i := range all {
		if free += all[i].bytes; free < int64(n) {
			continue
		}
		for _, o := range all[:i+1] {
			s.budget.give(int(o.c.in.large.held.Swap(0)))
			o.c.Close(ErrFrameGaveWay)
			ended = append(ended, o.c)
		}
		return s.budget.take(n)
	}
	return false
}
