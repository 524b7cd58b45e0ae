package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Bounds of the pauses between attempts to connect anew: a real outage, in which every node
// is cut off, must not become a storm of dials.
const (
	firstAnew = time.Second
	maxAnew   = 30 * time.Second
)

// errCutOff is why a connection ends to a node that could do nothing.
var errCutOff = errors.New("norn: the node reaches the leader of no partition, and another one does")

// anew finds another node behind the address of one that is cut off: a load balancer, a name
// with several records. The goroutine of its connection's keeper has it.
type anew struct {
	c      *caller
	n      *node
	old    *conn
	told   bool
	pause  time.Duration
	at     time.Time  // of the next attempt; zero: none is due
	result chan *conn // of the attempt under way, nil: it was in vain; nil: there is none
}

// look begins an attempt when one is due.
func (w *anew) look(now time.Time) {
	switch {
	case !w.old.cutOff.Load():
		w.told, w.pause, w.at = false, 0, time.Time{}
	case w.result != nil:
	case w.at.IsZero():
		w.later(now)
	case !now.Before(w.at):
		w.result = make(chan *conn, 1)
		result := w.result
		w.c.running.Go(func() {
			ctx, cancel := context.WithTimeout(w.c.base, dialTimeout)
			defer cancel()
			fresh, err := w.c.hello(ctx, w.n, w.old.slot)
			if err == nil && fresh.cutOff.Load() {
				fresh.end()
				fresh = nil
			}
			result <- fresh
		})
		return
	}
	if w.old.cutOff.Load() && !w.told {
		w.told = true
		w.c.leave(w.n)
		w.c.log().Warn("node reaches the leader of no partition, looking for another", "node", w.n.addr)
	}
}

// later puts the next attempt off, each time for longer.
func (w *anew) later(now time.Time) {
	w.pause = min(max(2*w.pause, firstAnew), maxAnew)
	w.at = now.Add(w.pause/2 + rand.N(w.pause/2))
}

// take ends an attempt, and tells whether the old connection is to end: the new one stands.
func (w *anew) take(fresh *conn) bool {
	w.result = nil
	if fresh == nil {
		w.later(time.Now())
		return false
	}
	s := w.old.slot
	s.mu.Lock()
	taken := !s.closed && w.old.cutOff.Load() && s.live.CompareAndSwap(w.old, fresh)
	s.mu.Unlock()
	if !taken {
		fresh.end()
		return false
	}
	w.c.running.Go(func() { w.c.keep(w.n, fresh) })
	return true
}

// stop gives up an attempt under way.
func (w *anew) stop() {
	if result := w.result; result != nil {
		w.c.running.Go(func() {
			if fresh := <-result; fresh != nil {
				fresh.end()
			}
		})
	}
}

// end closes a connection and waits for its end.
func (cn *conn) end() {
	_ = cn.Close()
	<-cn.Done()
}
