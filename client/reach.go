package client

import (
	"context"
	"slices"
	"time"
)

// apart is how long an address may take to say hello before the next one is tried beside it:
// long enough that nodes that are well see one connection, short against dialTimeout.
const apart = 300 * time.Millisecond

// dialing is one attempt that every caller of a slot waits for.
type dialing struct {
	done   chan struct{}
	conn   *conn
	err    error
	began  time.Time
	cancel context.CancelFunc

	// What follows is guarded by the slot's lock.
	callers int             // that may still want it
	unused  bool            // all have found another address: it is to end
	woken   []chan struct{} // of those who wait for more than this
}

// race is what one call has under way to connect: addresses that are tried side by side, and
// the first that says hello wins. A zero race begins at once.
type race struct {
	at    int // of the address to try next, counted round and round
	step  int // from one address to the next
	left  int // addresses that may still be begun; under 0: any number
	next  time.Time
	woken chan struct{}
	runs  []run
}

type run struct {
	index int
	slot  *slot
	d     *dialing
}

// reach gives a connection, or tells of an address that cannot be reached; index is whose.
// Other addresses may be under way still: the next call goes on with them.
func (c *caller) reach(ctx context.Context, r *race, turn uint64) (cn *conn, index int, err error) {
	for {
		for i, o := range r.runs {
			select {
			case <-o.d.done:
			default:
				continue
			}
			r.runs = slices.Delete(r.runs, i, i+1)
			if o.d.err != nil {
				r.next = time.Time{}
				return nil, o.index, o.d.err
			}
			c.won(r, o.index)
			return o.d.conn, o.index, nil
		}
		more := r.left != 0 && len(r.runs) < len(c.nodes)
		if more && !time.Now().Before(r.next) {
			index := r.at % len(c.nodes)
			r.at += r.step
			if slices.ContainsFunc(r.runs, func(o run) bool { return o.index == index }) {
				continue
			}
			r.left--
			cn, o, err := c.begin(index, turn, r)
			switch {
			case err != nil:
				return nil, index, err
			case cn != nil:
				c.won(r, index)
				return cn, index, nil
			}
			r.runs, r.next = append(r.runs, o), o.d.began.Add(apart)
			continue
		}
		if err := r.wait(ctx, more); err != nil {
			return nil, r.at % len(c.nodes), err
		}
	}
}

// wait blocks until there may be something to do.
func (r *race) wait(ctx context.Context, more bool) error {
	var due <-chan time.Time
	if more {
		t := time.NewTimer(time.Until(r.next))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-r.woken:
	case <-due:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// won ends what is under way beside the winner, unless others wait for it. Calls begin with
// the winner from now on, and not where they would have to wait again.
func (c *caller) won(r *race, index int) {
	for _, o := range r.runs {
		c.preferred.CompareAndSwap(uint32(o.index), uint32(index))
		o.slot.mu.Lock()
		if o.d.callers--; o.d.callers == 0 && o.slot.dialing == o.d {
			o.d.unused, o.slot.dialing = true, nil
			o.d.cancel()
		}
		o.slot.mu.Unlock()
	}
	r.runs = nil
}

// end forgets what is under way; it goes on, for whoever comes next.
func (r *race) end() {
	for _, o := range r.runs {
		o.slot.mu.Lock()
		o.d.callers--
		o.slot.mu.Unlock()
	}
	r.runs = nil
}

// begin gives the connection to an address, or begins to make it. Callers share one attempt,
// which outlives any of them.
func (c *caller) begin(index int, turn uint64, r *race) (*conn, run, error) {
	n := c.nodes[index]
	s := &n.slots[turn%uint64(len(n.slots))]
	if cn := s.live.Load(); cn != nil {
		return cn, run{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cn := s.live.Load(); cn != nil {
		return cn, run{}, nil
	}
	if s.closed {
		return nil, run{}, ErrClosed
	}
	d := s.dialing
	if d == nil {
		ctx, cancel := context.WithTimeout(c.base, dialTimeout)
		d = &dialing{done: make(chan struct{}), began: time.Now(), cancel: cancel}
		s.dialing = d
		c.running.Go(func() { c.dial(ctx, n, s, d) })
	}
	d.callers++
	if r.woken == nil {
		r.woken = make(chan struct{}, 1)
	}
	if !slices.Contains(d.woken, r.woken) {
		d.woken = append(d.woken, r.woken)
	}
	return nil, run{index, s, d}, nil
}

// dial makes the connection of a slot, and keeps it.
func (c *caller) dial(ctx context.Context, n *node, s *slot, d *dialing) {
	defer d.cancel()
	cn, err := c.hello(ctx, n, s)
	if err != nil {
		c.leave(n)
	}
	s.mu.Lock()
	d.conn, d.err = cn, err
	if s.dialing == d {
		s.dialing = nil
	}
	if cn != nil && !d.unused {
		s.live.Store(cn)
	}
	unused, woken := d.unused, d.woken
	s.mu.Unlock()
	close(d.done)
	for _, w := range woken {
		select {
		case w <- struct{}{}:
		default: // it will look
		}
	}
	switch {
	case cn == nil:
	case unused:
		_ = cn.Close()
		<-cn.Done()
	default:
		d.cancel()
		c.keep(n, cn)
	}
}
